// What a program may replace or remove: only what it can tell to be its own, never what it reads, never through a
// symbolic link.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::base {

// How a program knows its own folders (or files) of one kind. Before anything is replaced or removed it must pass
// require_own().
struct Owned {
  std::string kind;                                             // "a shard set": for sentences
  std::function<std::string(const std::string& path)> foreign;  // "" when all of it was written by this program, else
                                                                // what was not, as a sentence's end ("holds notes.txt")
  std::vector<std::string> precious = {};  // what the program reads; names that do not exist are passed over
};

// Nothing to do when `path` is not there. UsageError when it is a symbolic link, when it is or holds something precious
// or the working directory, and when it is not the program's own.
void require_own(const std::string& path, const Owned& own);

// The first regular file or folder below `folder` that `known` (path relative to the folder, with '/') does not know;
// anything that is neither, a symbolic link among them, is never known. Names that NFS gives to files which were
// removed while open (.nfs...), and what vanishes meanwhile, are passed over. "" when there is none. InputError when
// the folder cannot be read.
enum class EntryKind { file, folder };
std::string first_unknown(const std::string& folder,
                          const std::function<bool(const std::string& relative, EntryKind kind)>& known);

// The path from the root on; an empty one stays empty. EnvironmentError where a relative one has no working folder to
// begin at any more.
std::filesystem::path absolute_path(const std::string& path);
// Is `inner` the folder or file `outer`, or below it? By their names: both absolute and without dots; an empty path is
// within nothing, and nothing within it.
bool is_within(const std::filesystem::path& inner, const std::filesystem::path& outer);

// Files of JSON whose "format" begins with `format` ("trainyard.plan/"), and empty ones.
Owned own_json_files(std::string kind, std::string format, std::vector<std::string> precious = {});

}  // namespace trainyard::base
