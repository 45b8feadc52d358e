// Attention layouts in HDF5 files that other programs write.
#pragma once

#include "libtrain/base/block_map.h"

#include <string>

namespace trainyard::io {

// Limits of a file: blocks in a side, and elements in the whole array.
inline constexpr std::int64_t most_layout_blocks = 4096, most_layout_elements = std::int64_t{1} << 28;

// Reads the dataset /layout, u8 [heads or 1, n, n] of zeros and ones, and its attribute `block`, a whole number. The
// dataset may be stored in any way inside the file itself. InputError names file and object. It is thrown for a file
// that is missing, damaged or cut short, and for a wrong type, shape, size, value or attribute. Sizes are checked
// before anything of that size is allocated.
base::BlockMap read_layout_file(const std::string& path);

// Whether the HDF5 file has a dataset of this name; false where the file cannot be read.
bool holds_layout(const std::string& path);

}  // namespace trainyard::io
