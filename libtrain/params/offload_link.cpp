// Streams of a GPU that copy.
#include "libtrain/params/offload_link.h"

#include "kernels/cast/cast.h"

namespace trainyard::params {

OffloadLink::OffloadLink(base::Device device) {
  for (auto& exec : execs_) exec = tensor::Exec::gpu(device.index, nullptr);
}

tensor::Event OffloadLink::copy(Stream stream, base::ConstView from, base::View to, const tensor::Event& after) {
  auto& on = exec(stream);
  if (after.state() != nullptr) on.wait(after);
  tensor::copy(on, from, to);
  const bool is_up = stream == Stream::weights_up || stream == Stream::tiles_up || stream == Stream::inputs_up;
  (is_up ? up_ : down_) += from.bytes();
  return on.record();
}

tensor::Event OffloadLink::copy_rounded(Stream stream, base::ConstView from, base::View through, base::View to) {
  kernels::cast(exec(stream), from, through);
  return copy(stream, through, to, {});
}

}  // namespace trainyard::params
