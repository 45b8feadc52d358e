// Input files that a user names: only regular ones, opened without waiting, read up to a limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard::base {

// Opens a regular file for reading; the caller closes the descriptor. Links to regular files are followed. InputError
// names the path when there is no such file, it may not be read, or its links lead in a circle. It also refuses
// folders, pipes, sockets and devices, because these may wait for a writer or never end.
int open_regular(const std::string& path);

// The same for a file that is read once, front to back. Pipes that a shell made for this program are accepted too
// ("/dev/fd/63" for <(command), "/dev/stdin").
int open_readable(const std::string& path);

// Reads the whole file as text, with open_readable. InputError for more than `largest` bytes, before that much is
// allocated, and for a pointer of Git LFS.
std::string read_file(const std::string& path, std::int64_t largest = std::int64_t{1} << 30);

// InputError for a file that begins so if it is a pointer of Git LFS. A clone has them in place of large files until
// `git lfs pull`.
void require_no_pointer(std::string_view beginning, const std::string& path);
inline constexpr std::string_view pointer_beginning = "version https://git-lfs.github.com/spec/";

// The size limit for settings, model descriptions, plans and other files that a person could have written.
inline constexpr std::int64_t largest_description = std::int64_t{64} << 20;

}  // namespace trainyard::base
