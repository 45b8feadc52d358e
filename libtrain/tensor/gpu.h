// The GPU module: a shared library with the device's runtime and kernels, loaded when a program first asks for a GPU.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::tensor {

// Version of the structs below and of kernels::GpuKernels. A module of another version is refused.
inline constexpr int gpu_abi = 27;

struct GpuInfo {
  char name[256] = {};
  std::int64_t total_bytes = 0, free_bytes = 0;
  int major = 0, minor = 0;     // compute capability
  unsigned char uuid[16] = {};  // of the device: two processes that see one device see the same uuid, whatever its
                                // number
};

// The functions of a module's runtime. Functions that return text return nullptr on success, else the failure. Streams
// and events are opaque. Work on one stream runs in order. `copy` takes any combination of host and device memory; the
// call may wait unless host memory is pinned.
struct GpuRuntime {
  const char* name;  // "cuda", or "emulated": kernels run on the host, block after block
  int (*device_count)();
  const char* (*describe)(int device, GpuInfo* out);
  const char* (*allocate)(int device, std::int64_t bytes, void** out);
  void (*release)(int device, void* memory);
  const char* (*allocate_pinned)(std::int64_t bytes, void** out);
  void (*release_pinned)(void* memory);
  const char* (*pin)(void* memory, std::int64_t bytes);  // pins host memory until unpin
  void (*unpin)(void* memory);
  const char* (*make_stream)(int device, void** out);
  void (*drop_stream)(void* stream);
  const char* (*make_event)(int device, void** out);
  const char* (*make_timed_event)(int device, void** out);
  void (*drop_event)(void* event);
  const char* (*elapsed)(void* begin, void* end, double* seconds);  // between two timed events that are done
  const char* (*record)(void* event, void* stream);
  const char* (*stream_wait)(void* stream, void* event);
  int (*event_done)(void* event);  // 1: done; 0: not yet; -1: failure
  const char* (*event_wait)(void* event);
  const char* (*synchronize)(void* stream);  // also reports failures of earlier kernels
  const char* (*copy)(void* to, const void* from, std::int64_t bytes, void* stream);
  const char* (*set)(void* to, int byte, std::int64_t bytes, void* stream);
  // Between begin_capture and end_capture, work on the stream, and on streams that wait for its events, is not done but
  // recorded as a graph. Calls that wait or reserve memory are refused during a capture.
  const char* (*begin_capture)(void* stream);
  const char* (*end_capture)(void* stream, void** graph);
  const char* (*launch_graph)(void* graph, void* stream);
  void (*drop_graph)(void* graph);
  std::uint64_t (*capture_of)(void* stream);  // number of the capture that the stream takes part in; 0: none
};

// The one symbol of a module: extern "C" const GpuModule* trainyard_gpu_module().
struct GpuModule {
  int abi;
  const GpuRuntime* runtime;
  const void* kernels;        // kernels::GpuKernels
  const char* architectures;  // compute capabilities that it is compiled for: "80,90"; empty: any device
};

// The module, loaded by the first call. Its path is TRAINYARD_GPU_MODULE, else libtrainyard_cuda.so beside the program
// or in ../lib/trainyard relative to the program's folder. EnvironmentError (exit 4) names what is missing: the module,
// CUDA's libraries, a driver, or a device.
const GpuModule& gpu_module();
bool gpu_available();  // whether there is a module with a device; never throws
// EnvironmentError when there is no such device, and when the module has no code for it.
GpuInfo gpu_info(int device);
// Whether code for `architectures` ("80,90-real") runs on a device of this compute capability. Machine code runs on
// later devices of the same major number, and every entry but a "-real" one has PTX, which runs on all later ones.
bool runs_on(const std::string& architectures, int major, int minor);

// Throws EnvironmentError "what: failure" unless `failure` is nullptr.
void require_gpu(const char* failure, const char* what);

}  // namespace trainyard::tensor
