// Where the model tests compute: the CPU, or with TRAINYARD_TEST_DEVICE=cuda the GPU of the module in use. What tests
// read and write lies on the host in both cases.
#pragma once

#include "libtrain/tensor/device_buffer.h"
#include "libtrain/tensor/exec.h"
#include "libtrain/tensor/gpu.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace trainyard::test {

inline base::Device test_device() {
  static const bool gpu = [] {
    const char* wish = std::getenv("TRAINYARD_TEST_DEVICE");
    if (wish == nullptr || std::string(wish) != "cuda") return false;
    if (tensor::gpu_available()) return true;
    std::puts("skipped: no GPU module with a device");
    std::exit(77);
  }();
  return {gpu ? base::DeviceKind::cuda : base::DeviceKind::cpu, 0};
}
inline bool on_gpu() { return test_device().kind == base::DeviceKind::cuda; }

inline bool emulated() {
  return on_gpu() && std::string(tensor::gpu_module().runtime->name) == "emulated";
}  // slow, so tests run a sample of their cases

inline std::unique_ptr<tensor::Exec> test_exec(tensor::Arena* scratch, int threads) {
  return on_gpu() ? tensor::Exec::gpu(0, scratch) : tensor::Exec::caller(scratch, threads);
}

// Bytes on the host with a copy on the device; on the CPU both are the same bytes. push and pull wait.
class Twin {
 public:
  explicit Twin(std::size_t bytes) : host(bytes) {
    if (on_gpu()) device_ = tensor::DeviceBuffer(0, static_cast<std::int64_t>(bytes), "allocating");
  }

  char* there() { return device_ ? device_.data<char>() : host.data(); }
  void push() { move(device_.data(), host.data()); }
  void pull() const { move(const_cast<char*>(host.data()), device_.data()); }

  std::vector<char> host;

 private:
  void move(void* to, const void* from) const {
    if (!device_ || host.empty()) return;
    static const auto exec = tensor::Exec::gpu(0, nullptr);
    tensor::require_gpu(
        tensor::gpu_module().runtime->copy(to, from, static_cast<std::int64_t>(host.size()), exec->stream()),
        "copying");
    exec->synchronize();
  }
  tensor::DeviceBuffer device_;
};

}  // namespace trainyard::test
