// Input files that somebody names: regular ones only, opened without waiting, read up to a limit.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::base {

// A descriptor of the file for reading; the caller closes it. InputError that names the path when there is none, it may
// not be read, its links lead in a circle, or it is a folder, a pipe, a socket or a device: what waits for a writer or
// never ends is no input. Links to regular files are followed.
int open_regular(const std::string& path);

// The same for what is read once, front to back: a pipe that a shell made for this program ("/dev/fd/63" for
// <(command), "/dev/stdin") is as good.
int open_readable(const std::string& path);

// The whole file as text, by open_readable; InputError above `largest` bytes, before anything of that size is
// allocated.
std::string read_file(const std::string& path, std::int64_t largest = std::int64_t{1} << 30);

// Settings, model descriptions, plans and other files that a person could have written are refused above this.
inline constexpr std::int64_t largest_description = std::int64_t{64} << 20;

}  // namespace trainyard::base
