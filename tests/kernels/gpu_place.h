// Where the buffers of a kernel test are: on the host as they are, or copied to a GPU and back.
#pragma once

#include "libtrain/tensor/device_buffer.h"
#include "libtrain/tensor/gpu.h"
#include "tests/kernels/matrix_buffer.h"

#include <deque>
#include <memory>
#include <vector>

namespace trainyard::test {

class Place {
 public:
  enum class Kind { host, gpu };
  explicit Place(Kind kind) : kind_(kind) {
    arena_ =
        std::make_unique<tensor::Arena>(tensor::Category::workspace, std::int64_t{64} << 20,
                                        kind == Kind::gpu ? base::Device{base::DeviceKind::cuda, 0} : base::Device{});
    exec_ = kind == Kind::gpu ? tensor::Exec::gpu(0, arena_.get()) : tensor::Exec::caller(arena_.get(), 2);
  }
  tensor::Exec& exec() { return *exec_; }

  // Views live as long as the Place. fetch() copies back what kernels wrote.
  base::View operator()(MatrixBuffer& m) {
    auto v = m.view();
    v.data = put(m.bytes.data(), static_cast<std::int64_t>(m.bytes.size()));
    v.device = exec_->device();
    return v;
  }
  template <class T> base::View operator()(std::vector<T>& values, std::initializer_list<std::int64_t> shape) {
    auto v = base::View::of(values.data(), shape);
    v.data = put(values.data(), static_cast<std::int64_t>(values.size() * sizeof(T)));
    v.device = exec_->device();
    return v;
  }
  template <class T> T* raw(std::vector<T>& values) {
    return static_cast<T*>(put(values.data(), static_cast<std::int64_t>(values.size() * sizeof(T))));
  }
  void fetch() {
    for (auto& b : buffers_)
      tensor::require_gpu(tensor::gpu_module().runtime->copy(b.host, b.device.data(), b.bytes, exec_->stream()),
                          "fetching");
    exec_->synchronize();
  }

 private:
  struct Buffer {
    void* host;
    tensor::DeviceBuffer device;
    std::int64_t bytes;
  };
  void* put(void* host, std::int64_t bytes) {
    if (kind_ == Kind::host) return host;
    auto& b = buffers_.emplace_back(Buffer{host, tensor::DeviceBuffer(0, bytes, "allocating"), bytes});
    tensor::require_gpu(tensor::gpu_module().runtime->copy(b.device.data(), host, bytes, exec_->stream()), "uploading");
    return b.device.data();
  }
  Kind kind_;
  std::unique_ptr<tensor::Arena> arena_;
  std::unique_ptr<tensor::Exec> exec_;
  std::deque<Buffer> buffers_;
};

}  // namespace trainyard::test
