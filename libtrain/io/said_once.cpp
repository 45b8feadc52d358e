// Remembers which sentences were said.
#include "libtrain/io/said_once.h"

#include "libtrain/base/log.h"

#include <mutex>
#include <set>

namespace trainyard::io {

void say_once(const std::string& sentence) {
  static std::mutex mutex;
  static std::set<std::string> said;
  {
    const std::lock_guard lock(mutex);
    if (!said.insert(sentence).second) return;
  }
  base::log_info("{}", sentence);
}

}  // namespace trainyard::io
