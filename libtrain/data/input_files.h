// InputFiles: the files that --input names, those of lists and of folders among them.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

struct FolderRules {
  std::vector<std::string> include = {};  // shell patterns of names to read; none: every name without a dot in front
  std::vector<std::string> passed_over = {};  // files and folders that are never read as part of a folder
};

struct InputFiles {
  std::vector<std::string> paths;
  std::vector<bool> found;  // for each path: in a folder, so that nobody named it
};

// "@list" stands for the paths in that file, one a line, its end LF or CRLF. A folder, also one in a list, stands for
// the regular files in it and in the folders below it, in the byte order of their paths (as LC_ALL=C sort has it).
// Symbolic links to files are followed; those to folders and in circles are not, which a warning says. A pattern is
// matched with the name of a file alone, as in a shell: `*` stands for no dot in front, and folders whose name begins
// with a dot are not entered. What is no folder is taken as it is.
// InputError: no input at all, a folder without a file to read, the root of the file system, a link to nothing, what
// cannot be listed. UsageError: a pattern where no input is a folder, or with a slash. `poll` is called for every
// folder; what it throws ends the search.
InputFiles input_files(const std::vector<std::string>& inputs, const FolderRules& rules,
                       const std::function<void()>& poll);

}  // namespace trainyard::data
