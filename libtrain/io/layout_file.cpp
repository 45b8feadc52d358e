// Checks and reads /layout.
#include "libtrain/io/layout_file.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/io/hdf5_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace trainyard::io {

namespace {

constexpr const char* name = "/layout";
constexpr const char* what_it_is =
    "a layout is a dataset 'layout' of uint8, [heads or 1, n, n], with the attribute 'block': 16, 32, 64 or 128";

[[noreturn]] void refuse_layout(const std::string& path, const std::string& what) {
  throw base::InputError(fmt::format("{}: {}", path, what), what_it_is);
}

void require_shape(const std::string& path, const std::vector<std::int64_t>& shape) {
  if (shape.size() != 3 || shape[1] != shape[2])
    refuse_layout(path, fmt::format("layout has the shape [{}], which is not [heads, n, n]", fmt::join(shape, ", ")));
  if (shape[0] < 1 || shape[1] < 1)
    refuse_layout(path, fmt::format("layout has the shape [{}]: it has no blocks", fmt::join(shape, ", ")));
  if (shape[1] > most_layout_blocks)
    refuse_layout(path, fmt::format("layout has {} blocks a side, more than {}", shape[1], most_layout_blocks));
  if (shape[0] > most_layout_elements / (shape[1] * shape[1]))
    refuse_layout(path, fmt::format("layout has {} heads of {} x {} blocks: more than {} in all", shape[0], shape[1],
                                    shape[2], most_layout_elements));
}

std::int64_t block_of(const std::string& path, const Hdf5File& file) {
  if (!file.has_attribute(name, "block")) refuse_layout(path, "layout has no attribute 'block'");
  const auto block = file.integer(name, "block");
  if (block != 16 && block != 32 && block != 64 && block != 128)
    refuse_layout(path, fmt::format("the attribute 'block' of layout is {}, none of 16, 32, 64, 128", block));
  return block;
}

}  // namespace

base::BlockMap read_layout_file(const std::string& path) {
  const auto file = Hdf5File::open(path);
  if (!file.exists(name)) refuse_layout(path, "there is no 'layout' in it");
  const auto info = file.info(name);
  if (info.is_virtual) refuse_layout(path, "layout shows what lies in other files");
  if (info.dtype != base::DType::u8)
    refuse_layout(path, fmt::format("layout holds {}, not u8", base::name_of(info.dtype)));
  require_shape(path, info.shape);
  base::BlockMap map;
  map.heads = info.shape[0], map.n = info.shape[1];
  map.block = block_of(path, file);
  map.present.resize(base::size(info.count()));
  file.read_dataset(name, base::DType::u8, 0, info.count(), map.present.data());
  const auto wrong = std::find_if(map.present.begin(), map.present.end(), [](std::uint8_t v) { return v > 1; });
  if (wrong != map.present.end()) {
    const auto at = wrong - map.present.begin(), row = at / map.n;
    refuse_layout(
        path, fmt::format("layout[{}, {}, {}] is {}, neither 0 nor 1", row / map.n, row % map.n, at % map.n, *wrong));
  }
  return map;
}

bool holds_layout(const std::string& path) {
  try {
    return Hdf5File::open(path).exists(name);
  } catch (const base::InputError&) {
    return false;
  }
}

}  // namespace trainyard::io
