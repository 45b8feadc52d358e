// Owners of memory that a GPU works on outside the arenas: on the device, and on the host where the device reaches it.
#pragma once

#include <cstdint>

namespace trainyard::tensor {

// Memory of one GPU. Work on it must be over when its owner goes.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;  // none
  // EnvironmentError naming `what`, "reserving ...", when the device has no such memory.
  DeviceBuffer(int device, std::int64_t bytes, const char* what);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  explicit operator bool() const { return data_ != nullptr; }
  template <class T = void> T* data() const { return static_cast<T*>(data_); }

 private:
  int device_ = 0;
  void* data_ = nullptr;
};

// Memory of the host that copies to and from any GPU need not wait for.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;                   // none
  explicit PinnedBuffer(std::int64_t bytes);  // EnvironmentError
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  explicit operator bool() const { return data_ != nullptr; }
  template <class T = void> T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

// Memory of the host that somebody else owns, pinned for as long as this lives.
class Pinning {
 public:
  Pinning() = default;  // of nothing
  ~Pinning();
  Pinning(const Pinning&) = delete;
  Pinning& operator=(const Pinning&) = delete;

  // nullptr, or why it cannot be: it works all the same, slower. Once.
  const char* pin(void* memory, std::int64_t bytes);

 private:
  void* memory_ = nullptr;
};

}  // namespace trainyard::tensor
