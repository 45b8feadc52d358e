// Reads lists and searches folders.
#include "libtrain/data/input_files.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/owned.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/text.h"
#include "libtrain/data/foreign_content.h"
#include "libtrain/io/input_stream.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fnmatch.h>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

namespace trainyard::data {

namespace {

namespace fs = std::filesystem;

bool is_hidden(const std::string& name) { return name.starts_with('.'); }

std::vector<std::string> paths_of_list(const std::string& path, const std::function<void()>& poll) {
  std::string text;
  io::InputStream list(path, poll);
  std::vector<char> buffer(1 << 16);
  while (const auto n = list.read(buffer.data(), buffer.size())) {
    text.append(buffer.data(), n);
    if (static_cast<std::int64_t>(text.size()) > base::largest_description)
      throw base::InputError(fmt::format("@{}: a list of more than {} MiB", path, base::largest_description >> 20),
                             "a list has one path a line; text itself is given without @");
  }
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  std::vector<std::string> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) out.push_back(line);
  }
  return out;
}

// Adds two places of a path: where its name is, and where a link of that name leads.
void add_places(const std::string& path, std::set<fs::path>& places) {
  std::error_code error;
  const auto whole = base::absolute_path(base::without_slashes(path));
  places.insert(fs::weakly_canonical(whole, error));
  if (whole.has_filename()) places.insert(fs::weakly_canonical(whole.parent_path(), error) / whole.filename());
}

class Search {
 public:
  Search(const FolderRules& rules, const std::function<void()>& poll)
      : rules_(rules), poll_(poll), used_(rules.include.size()) {
    for (const auto& pattern : rules.include)
      if (pattern.find('/') != pattern.npos)
        throw base::UsageError(
            base::text("$include {} has a slash, and is matched with the name of a file alone", base::excerpt(pattern)),
            base::text("name the folder with $input, and files with $include, for example $include '*.txt'"));
  }

  // Appends the files of a folder.
  void of_folder(const std::string& folder, std::vector<std::string>& out) {
    any_ = true;
    start(folder);
    for (std::vector<std::string> open{""}; !open.empty();) {
      const auto at = open.back();
      open.pop_back();
      if (poll_) poll_();
      list(at, open);
    }
    if (files_.empty()) refuse_empty(folder);
    std::sort(files_.begin(), files_.end());
    for (const auto& file : files_) out.push_back(prefix_ + file);
    base::log_info("{}: {} to read{}", base::one_line(base::without_slashes(folder)),
                   base::counted(static_cast<std::int64_t>(files_.size()), "file"),
                   others_ == 0   ? std::string()
                   : others_ == 1 ? std::string(", 1 file of another name left out")
                                  : fmt::format(", {} of other names left out", base::counted(others_, "file")));
  }

  // Call it after the last folder.
  void finish() const {
    if (!any_ && !rules_.include.empty())
      throw base::UsageError(base::text("$include chooses among the files of folders, and no $input is a folder"),
                             "leave it out, or name a folder");
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (!used_[i]) base::log_warning("$include {} fits the name of no file", base::excerpt(rules_.include[i]));
    if (links_ == 0) return;
    base::log_warning("symbolic links to folders and in circles are not followed: {}{} ($input names such a folder)",
                      base::one_line(first_link_), links_ == 1 ? "" : fmt::format(" and {} more", links_ - 1));
  }

 private:
  void start(const std::string& folder) {
    files_.clear();
    others_ = 0;
    first_other_.clear();
    prefix_ = base::without_slashes(folder);
    if (!prefix_.ends_with('/')) prefix_ += '/';
    std::error_code error;
    root_ = fs::canonical(folder, error);
    if (error) base::throw_cannot_read("list", folder, error.value());
    if (root_ == root_.root_path())
      throw base::InputError(fmt::format("{} is the root of the file system, with all that is on this machine", folder),
                             "name the folder that holds the text");
    passed_over_.clear();
    for (const auto& path : rules_.passed_over) add_places(path, passed_over_);
    // A folder that the user names is read in any case. Other code decides what may be replaced.
    std::erase_if(passed_over_, [&](const fs::path& place) { return base::is_within(root_, place); });
  }

  // Lists a folder, given by its path from the root. Files go to files_, folders to `open`.
  void list(const std::string& at, std::vector<std::string>& open) {
    const auto folder = at.empty() ? fs::path(prefix_) : fs::path(prefix_ + at);
    std::error_code error;
    fs::directory_iterator it(folder, error);
    for (; !error && it != fs::directory_iterator(); it.increment(error)) {
      const auto name = it->path().filename().string();
      auto path = at.empty() ? name : at + "/" + name;
      if (passed_over_.contains(root_ / path)) continue;
      std::error_code gone;
      const auto type = it->symlink_status(gone).type();
      if (type == fs::file_type::directory && !is_hidden(name)) open.push_back(std::move(path));
      else if (type == fs::file_type::symlink) of_link(name, std::move(path));
      else if (type == fs::file_type::regular) of_file(name, std::move(path));
    }
    if (error) base::throw_cannot_read("list", base::without_slashes(folder.string()), error.value());
  }

  void of_file(const std::string& name, std::string path) {
    if (is_included(name)) {
      files_.push_back(std::move(path));
    } else if (!is_hidden(name)) {
      ++others_;
      if (first_other_.empty() || path < first_other_) first_other_ = std::move(path);
    }
  }

  void of_link(const std::string& name, std::string path) {
    if (is_hidden(name) && !is_included(name)) return;
    std::error_code error;
    const auto type = fs::status(prefix_ + path, error).type();
    if (type == fs::file_type::regular) return of_file(name, std::move(path));
    if (type == fs::file_type::directory || error == std::errc::too_many_symbolic_link_levels) {
      if (auto link = prefix_ + path; links_++ == 0 || link < first_link_) first_link_ = std::move(link);
      return;
    }
    if (!is_included(name)) return;
    if (type == fs::file_type::not_found)
      throw base::InputError(fmt::format("{}{} is a symbolic link to nothing", prefix_, path),
                             base::text("restore what it led to, or remove it; $include chooses files by their names"));
    if (error) base::throw_cannot_read("look at", prefix_ + path, error.value());
  }

  bool is_included(const std::string& name) {
    if (rules_.include.empty()) return !is_hidden(name);
    bool any = false;
    for (std::size_t i = 0; i < used_.size(); ++i)
      if (::fnmatch(rules_.include[i].c_str(), name.c_str(), FNM_PERIOD) == 0) any = used_[i] = true;
    return any;
  }

  [[noreturn]] void refuse_empty(const std::string& folder) const {
    const auto shown = base::without_slashes(folder);
    if (rules_.include.empty())
      throw base::InputError(
          fmt::format("{} holds no file to read", shown),
          base::text("name another folder; of hidden files, $include '.*' takes those with a dot in front"));
    std::vector<std::string> patterns;
    for (const auto& pattern : rules_.include) patterns.push_back(base::excerpt(pattern));
    throw base::InputError(base::text("{} has no file whose name fits $include {}", shown, fmt::join(patterns, " or ")),
                           others_ == 0 ? "name another folder: it holds no file of another name"
                           : others_ == 1
                               ? fmt::format("a pattern in quotes: it has 1 file of another name, {}", first_other_)
                               : fmt::format("a pattern in quotes: it has {} of other names, {} among them",
                                             base::counted(others_, "file"), first_other_));
  }

  const FolderRules& rules_;
  const std::function<void()>& poll_;
  std::vector<bool> used_;  // for each pattern: it matched a file
  bool any_ = false;
  std::string first_link_;
  std::int64_t links_ = 0;  // links that were not followed

  // State of the search in the current folder.
  std::string prefix_;
  fs::path root_;
  std::set<fs::path> passed_over_;
  std::vector<std::string> files_;
  std::string first_other_;
  std::int64_t others_ = 0;
};

}  // namespace

InputFiles input_files(const std::vector<std::string>& inputs, const FolderRules& rules,
                       const std::function<void()>& poll) {
  InputFiles out;
  Search search(rules, poll);
  const auto add = [&](const std::string& path) {
    const bool folder = path != "-" && base::is_folder(path);
    if (folder) search.of_folder(path, out.paths);
    else out.paths.push_back(path);
    out.found.resize(out.paths.size(), folder);
  };
  for (const auto& input : inputs) {
    if (input.size() < 2 || input[0] != '@') add(input);
    else
      for (const auto& path : paths_of_list(input.substr(1), poll)) add(path);
  }
  search.finish();
  if (out.paths.empty())
    throw base::InputError("there is no input", base::text("give $input FILE, $input - or $input @LIST"));
  return out;
}

}  // namespace trainyard::data
