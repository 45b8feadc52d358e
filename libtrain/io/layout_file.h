// Layouts of attention in HDF5 files, as other programs write them.
#pragma once

#include "libtrain/base/block_map.h"

#include <string>

namespace trainyard::io {

// Of a file: blocks a side, and elements of the whole array.
inline constexpr std::int64_t most_layout_blocks = 4096, most_layout_elements = std::int64_t{1} << 28;

// The dataset /layout, u8 [heads or 1, n, n] of zeros and ones, stored in any way that lies in the file itself, and its
// attribute `block`, a whole number. InputError, which names file and object, for a file that is not there, damaged or
// cut short, and for another type, shape, size, value or attribute; sizes are judged before anything of that size is
// allocated.
base::BlockMap read_layout_file(const std::string& path);

// Is there a dataset of this name in the HDF5 file? false where the file cannot be read.
bool holds_layout(const std::string& path);

}  // namespace trainyard::io
