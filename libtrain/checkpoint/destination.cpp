// Judges places.
#include "libtrain/checkpoint/destination.h"

#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"

#include <algorithm>
#include <filesystem>

namespace trainyard::checkpoint {

namespace fs = std::filesystem;

namespace {

std::int64_t bytes_left_at(const std::string& folder) {
  std::error_code error;
  const auto space = fs::space(folder, error);
  return error ? std::int64_t{-1} : static_cast<std::int64_t>(space.available);  // -1: the system does not say
}

// Is `path` the folder `other` or somewhere in it?
bool is_in(const std::string& path, const std::string& other) {
  std::error_code error;
  const auto inner = fs::weakly_canonical(path, error), outer = fs::weakly_canonical(other, error);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

void require_outside(const std::string& path, const std::vector<std::string>& sources) {
  for (const auto& source : sources)
    if (is_in(path, source))
      throw base::UsageError(fmt::format("{} is or lies in {}, which is read", path, source), "give another place");
}

void require_room(const std::string& folder, const std::string& path, std::int64_t bytes,
                  const std::function<std::int64_t(const std::string&)>& free_bytes) {
  const auto left = free_bytes ? free_bytes(folder) : bytes_left_at(folder);
  if (left < 0 || left >= bytes) return;
  throw base::EnvironmentError(
      fmt::format("{} needs {}, and there is room for {}: {} are missing", path, base::size_text(bytes),
                  base::size_text(left), base::size_text(bytes - left)),
      "make room, or give a place on another disk; nothing was written");
}

}  // namespace trainyard::checkpoint
