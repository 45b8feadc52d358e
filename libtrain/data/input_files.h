// InputFiles: the files that --input names, including files in lists and folders.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

struct FolderRules {
  // Shell patterns of names to read. None: every name that does not begin with a dot.
  std::vector<std::string> include = {};
  // Files and folders that are never read as part of a folder.
  std::vector<std::string> passed_over = {};
};

struct InputFiles {
  std::vector<std::string> paths;
  std::vector<bool> found;  // for each path: it was found in a folder, and no user named it
};

// Resolves inputs to files. `poll` is called for every folder; if it throws, the search ends.
// - "@list" means the paths in that file, one a line, with LF or CRLF as line end.
// - A folder, also one in a list, means its regular files and all files in the folders below it. They come in the byte
//   order of their paths (as LC_ALL=C sort).
// - Symbolic links to files are followed. Links to folders and in circles are not, and a warning names them.
// - A pattern is matched with a file's name alone, as in a shell: `*` matches no leading dot. Folders whose name begins
//   with a dot are not entered.
// - Anything that is no folder is used as it is.
// InputError: no input, a folder without a file to read, the file system's root, a link to nothing, or a path that
// cannot be listed.
// UsageError: a pattern where no input is a folder, or a pattern with a slash.
InputFiles input_files(const std::vector<std::string>& inputs, const FolderRules& rules,
                       const std::function<void()>& poll);

}  // namespace trainyard::data
