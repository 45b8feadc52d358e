// Virtual datasets: show ranges of one-dimensional sources as boxes of an n-dimensional tensor.
#include "libtrain/base/error.h"
#include "libtrain/io/hdf5_detail.h"
#include "libtrain/io/hdf5_file.h"

#include <hdf5.h>

#include <algorithm>
#include <limits>
#include <type_traits>

namespace trainyard::io {

using namespace hdf5;

std::vector<Box> boxes_of(const std::vector<std::int64_t>& shape, std::int64_t first, std::int64_t count) {
  // strides[i]: elements from one index of dim i to the next.
  const auto rank = shape.size();
  std::vector<std::int64_t> strides(rank, 1);
  for (std::size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  std::vector<Box> boxes;
  const auto end = first + count;
  while (first < end) {
    // The outermost dim in which whole slices start here and fit.
    std::size_t dim = rank - 1;
    while (dim > 0 && first % strides[dim - 1] == 0 && end - first >= strides[dim - 1]) --dim;
    std::int64_t slices = (end - first) / strides[dim];
    if (dim > 0) slices = std::min(slices, shape[dim] - first / strides[dim] % shape[dim]);
    Box box{std::vector<std::int64_t>(rank, 0), std::vector<std::int64_t>(rank, 1)};
    auto rest = first;
    for (std::size_t i = 0; i < rank; ++i) {
      box.start[i] = rest / strides[i];
      rest %= strides[i];
    }
    box.extent[dim] = slices;
    for (std::size_t i = dim + 1; i < rank; ++i) box.extent[i] = shape[i];
    boxes.push_back(std::move(box));
    first += slices * strides[dim];
  }
  return boxes;
}

namespace {

void add_part(std::int64_t create, const std::vector<std::int64_t>& shape, const VirtualPart& part) {
  const auto target = space_of(shape);
  const std::vector<hsize_t> start(part.box.start.begin(), part.box.start.end()),
      extent(part.box.extent.begin(), part.box.extent.end());
  hsize_t elements = 1;
  for (auto n : extent) elements *= n;
  H5Sselect_hyperslab(target.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr);
  const auto source = space_of({part.source_size});
  const auto from = static_cast<hsize_t>(part.source_first);
  H5Sselect_hyperslab(source.get(), H5S_SELECT_SET, &from, nullptr, &elements, nullptr);
  if (H5Pset_virtual(create, target.get(), part.source_file.c_str(), part.source_dataset.c_str(), source.get()) < 0)
    fail(true, part.source_file, "map " + part.source_dataset);
}

}  // namespace

void Hdf5File::create_virtual(const std::string& name, base::DType dtype, const std::vector<std::int64_t>& shape,
                              std::span<const VirtualPart> parts) {
  be_quiet();
  const auto create = property_list(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(create.get(), false);
  const auto type = type_of(dtype);
  base::with_value_type(dtype, [&]<class T>(T*) {
    if constexpr (!std::is_integral_v<T>) {
      const T nan(std::numeric_limits<float>::quiet_NaN());
      H5Pset_fill_value(create.get(), type.get(), &nan);
    }
  });
  for (const auto& part : parts) add_part(create.get(), shape, part);
  const auto space = space_of(shape);
  make_group(group_of(name));
  const auto dataset =
      dataset_id(H5Dcreate2(id_, name.c_str(), type.get(), space.get(), H5P_DEFAULT, create.get(), H5P_DEFAULT));
  if (!dataset) fail(writing_, path_, "create the virtual dataset " + name);
}

}  // namespace trainyard::io
