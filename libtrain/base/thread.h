// Threads that the library keeps beside those of its caller.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace trainyard::base {

// Runs `work` on a thread of its own with every signal blocked, so that handlers and whoever waits for a signal see it
// on the caller's threads alone. Tools that list threads see the first 15 characters of the name. Nothing may leave
// `work` by an exception. What it does is traced with what its starter does (base/trace.h). std::system_error where the
// system has no thread left.
std::thread start_thread(const std::string& name, std::function<void()> work);

}  // namespace trainyard::base
