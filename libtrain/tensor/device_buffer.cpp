// Buffers from the runtime of the GPU module, released with their owner.
#include "libtrain/tensor/device_buffer.h"

#include "libtrain/tensor/gpu.h"

#include <utility>

namespace trainyard::tensor {

DeviceBuffer::DeviceBuffer(int device, std::int64_t bytes, const char* what) : device_(device) {
  require_gpu(gpu_module().runtime->allocate(device, bytes, &data_), what);
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) gpu_module().runtime->release(device_, data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  return *this;
}

PinnedBuffer::PinnedBuffer(std::int64_t bytes) {
  require_gpu(gpu_module().runtime->allocate_pinned(bytes, &data_), "reserving pinned memory");
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ != nullptr) gpu_module().runtime->release_pinned(data_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  return *this;
}

Pinning::~Pinning() {
  if (memory_ != nullptr) gpu_module().runtime->unpin(memory_);
}

const char* Pinning::pin(void* memory, std::int64_t bytes) {
  const char* refusal = gpu_module().runtime->pin(memory, bytes);
  if (refusal == nullptr) memory_ = memory;
  return refusal;
}

}  // namespace trainyard::tensor
