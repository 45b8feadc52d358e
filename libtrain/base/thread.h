// Threads that the library starts beside the threads of its caller.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace trainyard::base {

// Runs `work` on a new thread. It blocks every signal except SIGSEGV and other signals of errors, so that the caller's
// threads alone receive signals. Tools that list threads show the first 15 characters of the name. No exception may
// leave `work`. Its trace spans go to the recorder of the thread that started it (base/trace.h). std::system_error
// where the system has no thread left.
std::thread start_thread(const std::string& name, std::function<void()> work);

// Throws EnvironmentError unless the system allows `count` more threads at once. Call it before a library that ends the
// process when it gets too few threads.
void require_threads(int count);

// Runs work(0) on the calling thread, and work(1) to work(shares - 1) on a thread each. Where the system has no thread
// or no memory left, the caller's thread runs the rest. All shares are done when it returns. If shares throw, it throws
// the exception of the lowest share.
void run_shares(const std::string& name, int shares, const std::function<void(int)>& work);

}  // namespace trainyard::base
