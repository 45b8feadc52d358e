// Threads that the library keeps beside those of its caller.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace trainyard::base {

// Runs `work` on a thread of its own with every signal blocked but those of mistakes (SIGSEGV and the like), so that
// handlers and whoever waits for a signal see it on the caller's threads alone. Tools that list threads see the first
// 15 characters of the name. Nothing may leave `work` by an exception. What it does is traced with what its starter
// does (base/trace.h). std::system_error where the system has no thread left.
std::thread start_thread(const std::string& name, std::function<void()> work);

// EnvironmentError unless the system lets `count` threads live at once beside those there are: for a library that ends
// the process where it has not the threads that it wants.
void require_threads(int count);

// work(0) here and each other share of `shares` on a thread of its own, or here where the system has none left, nor
// memory for it. All are done when it returns; an exception that left one of them leaves this, of several that of the
// lowest share.
void run_shares(const std::string& name, int shares, const std::function<void(int)>& work);

}  // namespace trainyard::base
