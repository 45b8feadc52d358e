// Checks paths against the rule of owned.h.
#include "libtrain/base/owned.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/system_error.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace trainyard::base {

namespace fs = std::filesystem;

namespace {

// The target of an absolute path after following links; empty where the system cannot tell.
fs::path followed(const fs::path& path) {
  std::error_code error;
  auto real = fs::weakly_canonical(path, error);
  return error ? fs::path() : real;
}

// Whether `outer` is or holds `inner`, both by name and by the targets of links. An input may be a link inside the
// folder, or be reached through a link.
bool holds(const fs::path& outer, const fs::path& inner) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(inner, error))) return false;
  const auto of_inner = absolute_path(inner.string()), real_outer = followed(absolute_path(outer.string()));
  if (const auto real_inner = followed(of_inner); is_within(real_inner, real_outer)) return true;
  const auto place = followed(of_inner.parent_path());  // the folder of the name itself
  if (!place.empty() && is_within(place / inner.filename(), real_outer)) return true;
  return fs::equivalent(outer, inner, error);  // a hard link
}

}  // namespace

fs::path absolute_path(const std::string& path) {
  if (path.empty()) return {};
  std::error_code error;
  auto whole = fs::absolute(path, error);
  if (error) throw_cannot_write("find the working folder, which is where", fmt::format("{} lies", path), error.value());
  return whole;
}

bool is_within(const fs::path& inner, const fs::path& outer) {
  if (outer.empty() || inner.empty()) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

void require_own(const std::string& path, const Owned& own) {
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) return;
  if (is_unreadable(error.value())) throw_cannot_read("look at", path, error.value());
  const auto refuse = [&](const std::string& why) {
    throw UsageError(
        fmt::format("{} is not replaced: it {}", path, why),
        fmt::format("give another place, or remove it yourself; only {} that this program wrote is replaced",
                    own.kind));
  };
  if (fs::is_symlink(status)) refuse("is a symbolic link");
  for (const auto& precious : own.precious)
    if (holds(path, precious))
      refuse(fs::equivalent(path, precious, error) ? "is an input" : fmt::format("holds the input {}", precious));
  const auto here = fs::current_path(error);
  if (!error && holds(path, here)) refuse("holds the folder that this program was started in");
  if (const auto foreign = own.foreign(path); !foreign.empty()) refuse(foreign);
}

std::string first_unknown(const std::string& folder, const std::function<bool(const std::string&, EntryKind)>& known) {
  std::error_code error;
  std::vector<std::string> unknown;
  fs::recursive_directory_iterator it(folder, error), end;
  for (; !error && it != end; it.increment(error)) {
    const auto relative = it->path().lexically_relative(folder).generic_string();
    const auto type = it->symlink_status(error).type();
    if (type == fs::file_type::not_found) {  // another process removed it just now
      error.clear();
      continue;
    }
    const bool file = type == fs::file_type::regular;
    if (file && it->path().filename().string().starts_with(".nfs")) continue;
    if ((!file && type != fs::file_type::directory) || !known(relative, file ? EntryKind::file : EntryKind::folder)) {
      unknown.push_back(relative);
      it.disable_recursion_pending();
    }
  }
  if (error) throw_cannot_read("list", folder, error.value());
  return unknown.empty() ? "" : *std::min_element(unknown.begin(), unknown.end());
}

Owned own_json_files(std::string kind, std::string format, std::vector<std::string> precious) {
  auto foreign = [kind, format = std::move(format)](const std::string& path) -> std::string {
    const auto no = fmt::format("is not {}", kind);
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return no;
    try {
      const auto text = read_file(path, largest_description);
      if (text.empty()) return "";
      const auto json = parse_json(text, path);
      const auto found = json.is_object() ? json.find("format") : json.end();
      return found != json.end() && found->is_string() && found->get<std::string>().starts_with(format) ? "" : no;
    } catch (const Unreadable&) {  // nothing is known of its content
      throw;
    } catch (const InputError&) {
      return no;
    }
  };
  return {std::move(kind), std::move(foreign), std::move(precious)};
}

}  // namespace trainyard::base
