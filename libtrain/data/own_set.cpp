// Recognizes shard sets by their index and their file names.
#include "libtrain/data/own_set.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/system_error.h"
#include "libtrain/data/shard_set.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>
#include <string_view>

namespace trainyard::data {

namespace fs = std::filesystem;

namespace {

// train/shard-00000.h5 and the like.
bool is_shard_name(std::string_view name) {
  constexpr std::string_view shard = "/shard-", end = ".h5";
  const auto at = name.find(shard);
  if (at == name.npos || (name.substr(0, at) != "train" && name.substr(0, at) != "validation") || !name.ends_with(end))
    return false;
  const auto first = at + shard.size(), last = name.size() - end.size();
  return last >= first + 5 &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(first),
                     name.begin() + static_cast<std::ptrdiff_t>(last), [](char c) { return c >= '0' && c <= '9'; });
}

// SOURCE TAB NUMBER TAB REASON
bool is_refusal(std::string_view line) {
  const auto first = line.find('\t'), second = first == line.npos ? first : line.find('\t', first + 1);
  if (second == line.npos || first == 0 || second == first + 1 || second + 1 == line.size()) return false;
  return line.substr(first + 1, second - first - 1).find_first_not_of("0123456789") == line.npos;
}

// Names of the copies of tokenizers in sets.
bool is_tokenizer_name(std::string_view name) { return name == "tokenizer.model" || name == "tokenizer.json"; }

bool is_split(const std::string& name) { return name == "train" || name == "validation"; }

// Checks a set whose index is not written yet.
std::string foreign_in_unfinished(const std::string& folder) {
  const auto unknown = base::first_unknown(folder, [](const std::string& name, base::EntryKind kind) {
    if (kind == base::EntryKind::folder) return is_split(name);
    std::string_view whole = name;
    if (whole.ends_with(base::partial_suffix)) whole.remove_suffix(std::string_view(base::partial_suffix).size());
    return name == base::lock_name || name == "index.json.partial" || is_tokenizer_name(whole) || is_shard_name(name);
  });
  return unknown.empty() ? "" : fmt::format("holds {}, which is of no shard set", unknown);
}

// Whether it is the wanted name, or the temporary name of that file while it is written.
bool is_file(std::string_view name, std::string_view wanted) {
  if (name.ends_with(base::partial_suffix)) name.remove_suffix(base::partial_suffix.size());
  return name == wanted;
}

bool is_digits(std::string_view text) {
  return text.size() == 5 && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// part-00003-of-00008, finished or unfinished.
bool is_part_name(std::string_view name) {
  if (name.ends_with(base::partial_suffix)) name.remove_suffix(base::partial_suffix.size());
  return name.size() == 19 && name.starts_with("part-") && is_digits(name.substr(5, 5)) &&
         name.substr(10, 4) == "-of-" && is_digits(name.substr(14));
}

bool is_of_part(const std::string& name, base::EntryKind kind) {
  if (kind == base::EntryKind::folder) return is_split(name);
  return name == base::lock_name || is_file(name, part_file) || is_file(name, refused_file) || is_shard_name(name);
}

std::string foreign_in_part(const std::string& folder) {
  const auto unknown = base::first_unknown(folder, is_of_part);
  return unknown.empty() ? "" : fmt::format("holds {}, which is of no part of a shard set", unknown);
}

std::string foreign_in_parts(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return "is no folder";
  const auto unknown = base::first_unknown(folder, [](const std::string& name, base::EntryKind kind) {
    const auto slash = name.find('/');
    if (slash != name.npos) return is_part_name(name.substr(0, slash)) && is_of_part(name.substr(slash + 1), kind);
    if (kind == base::EntryKind::folder) return is_part_name(name);
    return name == base::lock_name || is_file(name, settings_file) || is_file(name, joined_index_file);
  });
  return unknown.empty() ? "" : fmt::format("holds {}, which is of no parts of a shard set", unknown);
}

std::string foreign_in_set(const std::string& folder) {
  SetIndex index;
  try {
    index = index_from_json(base::parse_json<nlohmann::json>(base::read_file(folder + "/index.json"), "index.json"),
                            "index.json");
  } catch (const base::Unreadable&) {  // nothing is known of its content
    throw;
  } catch (const std::exception& e) {
    return fmt::format("holds an index.json that does not belong to a shard set ({})", e.what());
  }
  std::set<std::string> files{"index.json", base::lock_name};
  if (is_tokenizer_name(index.tokenizer_source)) files.insert(index.tokenizer_source);
  for (const auto* split : {&index.train, &index.validation})
    for (const auto& shard : *split)
      if (is_shard_name(shard.file)) files.insert(shard.file);
  const auto unknown = base::first_unknown(folder, [&](const std::string& name, base::EntryKind kind) {
    return kind == base::EntryKind::folder ? is_split(name) : files.contains(name);
  });
  return unknown.empty() ? "" : fmt::format("holds {}, which its index.json does not name", unknown);
}

std::string foreign_in(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return "is no folder";
  const auto is_empty_split = [](const std::string& name, base::EntryKind kind) {
    return kind == base::EntryKind::folder && is_split(name);
  };
  // Also a removed set of which a file server keeps a part.
  if (base::first_unknown(folder, is_empty_split).empty()) return "";
  if (base::file_size(folder + "/index.json") >= 0) return foreign_in_set(folder);
  if (base::file_size(folder + "/" + base::lock_name) >= 0) return foreign_in_unfinished(folder);
  return "holds files but no index.json of a shard set";
}

}  // namespace

base::Owned own_shard_sets(std::vector<std::string> precious) {
  return {"a shard set", foreign_in, std::move(precious)};
}

base::Owned own_parts(std::vector<std::string> precious) {
  return {"parts of a shard set", foreign_in_parts, std::move(precious)};
}

base::Owned own_part(std::vector<std::string> precious) {
  return {"a part of a shard set", foreign_in_part, std::move(precious)};
}

std::string part_name(int task, int tasks) { return fmt::format("part-{:05}-of-{:05}", task, tasks); }

base::Owned own_reject_lists(std::vector<std::string> precious) {
  const auto foreign = [](const std::string& path) -> std::string {
    std::istringstream lines(base::read_file(path, std::int64_t{1} << 34));
    for (std::string line; std::getline(lines, line);)
      if (!is_refusal(line)) return "is no list of refused documents";
    return "";
  };
  return {"a list of refused documents", foreign, std::move(precious)};
}

}  // namespace trainyard::data
