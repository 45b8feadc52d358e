// Names of a checkpoint's files.
#include "libtrain/checkpoint/own_files.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/kept_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace trainyard::checkpoint {

namespace fs = std::filesystem;

namespace {

bool is_number(std::string_view text, std::size_t least_digits) {
  return text.size() >= least_digits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool take_end(std::string_view& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  return true;
}

bool is_file_of_checkpoint(std::string_view name) {
  take_end(name, base::partial_suffix);
  if (name == "manifest.json" || name == "checkpoint.h5" || name == joined_index_name || name == history_name ||
      name == base::lock_name || is_kept_tokenizer_name(name))
    return true;
  constexpr std::string_view rank = "rank-";
  return (take_end(name, ".h5") || take_end(name, ".index") || take_end(name, ".json")) && name.starts_with(rank) &&
         is_number(name.substr(rank.size()), 5);
}

}  // namespace

bool is_unfinished_name(std::string_view name) {
  if (!take_end(name, base::partial_suffix)) return false;
  if (name == "latest") return true;
  if (!take_end(name, ".replaced")) {
    constexpr std::string_view removed = ".removed";
    const auto at = name.find(removed);
    const auto number = at == name.npos ? std::string_view() : name.substr(at + removed.size());
    if (number.starts_with('.') && is_number(number.substr(1), number.size() - 1)) name.remove_suffix(number.size());
    take_end(name, removed);
  }
  constexpr std::string_view step = "step-";
  return name.starts_with(step) && is_number(name.substr(step.size()), 8);
}

base::Owned own_checkpoints() {
  const auto foreign = [](const std::string& path) -> std::string {
    std::error_code error;
    if (!fs::is_directory(path, error))
      return fs::path(path).filename() == "latest" + std::string(base::partial_suffix) ? "" : "is no folder";
    const auto unknown = base::first_unknown(path, [](const std::string& name, base::EntryKind kind) {
      return kind == base::EntryKind::file && is_file_of_checkpoint(name);
    });
    return unknown.empty() ? "" : fmt::format("holds {}, which is of no checkpoint", unknown);
  };
  return {"a checkpoint", foreign};
}

}  // namespace trainyard::checkpoint
