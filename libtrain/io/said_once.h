// Sentences for the log that a process says once.
#pragma once

#include <string>

namespace trainyard::io {

// base::log_info, but not for a sentence that was said before.
void say_once(const std::string& sentence);

}  // namespace trainyard::io
