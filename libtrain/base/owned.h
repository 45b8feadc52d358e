// What a program may replace or remove: only its own files and folders, never its inputs, never through a symbolic
// link.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::base {

// How a program recognizes its own folders or files of one kind. A path must pass require_own() before a program
// replaces or removes it.
struct Owned {
  std::string kind;  // "a shard set": for sentences
  // Returns "" when this program wrote all of the path. Otherwise it returns the end of a sentence that says what is
  // foreign ("holds notes.txt").
  std::function<std::string(const std::string& path)> foreign;
  std::vector<std::string> precious = {};  // inputs of the program; names that do not exist are ignored
};

// Throws UsageError when `path` is a symbolic link, is not the program's own, or is or holds a precious path or the
// working directory. Does nothing when `path` does not exist.
void require_own(const std::string& path, const Owned& own);

// The first entry below `folder` that `known` refuses, or "" when there is none. `known` gets the path relative to the
// folder, with '/'. Anything but a regular file or a folder, such as a symbolic link, always counts as unknown. Skipped
// are names that NFS gives to files removed while open (.nfs...), and entries that vanish during the search. InputError
// when the folder cannot be read.
enum class EntryKind { file, folder };
std::string first_unknown(const std::string& folder,
                          const std::function<bool(const std::string& relative, EntryKind kind)>& known);

// The absolute path; an empty path stays empty. EnvironmentError for a relative path when the working folder no longer
// exists.
std::filesystem::path absolute_path(const std::string& path);
// Whether `inner` is the folder or file `outer`, or is below it. Only names are compared: both paths must be absolute
// and without dots. An empty path is within nothing, and nothing is within it.
bool is_within(const std::filesystem::path& inner, const std::filesystem::path& outer);

// JSON files whose "format" begins with `format` ("trainyard.plan/"), and empty files.
Owned own_json_files(std::string kind, std::string format, std::vector<std::string> precious = {});

}  // namespace trainyard::base
