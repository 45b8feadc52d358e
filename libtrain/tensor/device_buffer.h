// Owners of memory that a GPU uses outside the arenas: on the device, and on the host where the device can reach it.
#pragma once

#include <cstdint>

namespace trainyard::tensor {

// Memory of one GPU. All work on it must be done when its owner is destroyed.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;  // empty
  // EnvironmentError when the device has not that much memory; it begins with `what`, "reserving ...".
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

// Host memory with which copies to and from any GPU are asynchronous.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;                   // empty
  explicit PinnedBuffer(std::int64_t bytes);  // throws EnvironmentError
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  explicit operator bool() const { return data_ != nullptr; }
  template <class T = void> T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

// Pins host memory that another object owns, until the Pinning is destroyed.
class Pinning {
 public:
  Pinning() = default;  // pins nothing
  ~Pinning();
  Pinning(const Pinning&) = delete;
  Pinning& operator=(const Pinning&) = delete;

  // Returns nullptr, or why the memory cannot be pinned. Copies then still work, but are slower. Call it once.
  const char* pin(void* memory, std::int64_t bytes);

 private:
  void* memory_ = nullptr;
};

}  // namespace trainyard::tensor
