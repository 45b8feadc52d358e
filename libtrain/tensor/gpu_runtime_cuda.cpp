// The CUDA runtime behind the function table of tensor/gpu.h; part of the GPU module only.
#include "libtrain/tensor/gpu_runtime.h"

#include <cuda_runtime.h>

#include <atomic>
#include <cstdio>
#include <cstring>

namespace trainyard::tensor {

namespace {

const char* text(cudaError_t e) { return e == cudaSuccess ? nullptr : cudaGetErrorString(e); }

// Keeps the first failure of a sequence of calls.
struct Try {
  cudaError_t first = cudaSuccess;
  void operator()(cudaError_t e) {
    if (first == cudaSuccess) first = e;
  }
};

cudaStream_t of(void* stream) { return static_cast<cudaStream_t>(stream); }

// A new thread starts on GPU 0. A call without a device number would create a context there, next to the rank that owns
// GPU 0. So a thread that has chosen no device takes the device that this process chose last.
std::atomic<int> device_of_process{-1};
thread_local int device_of_thread = -1;

cudaError_t choose(int device) {
  const auto result = cudaSetDevice(device);
  if (result == cudaSuccess) device_of_process = device_of_thread = device;
  return result;
}
void inherit_device() {
  const int device = device_of_process;
  if (device_of_thread < 0 && device >= 0) choose(device);
}

int device_count() {
  int n = 0;
  return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

const char* describe(int device, GpuInfo* out) {
  cudaDeviceProp p{};
  std::size_t free_bytes = 0, total = 0;
  Try attempt;
  attempt(cudaGetDeviceProperties(&p, device));
  attempt(choose(device));
  attempt(cudaMemGetInfo(&free_bytes, &total));
  std::snprintf(out->name, sizeof out->name, "%s", p.name);
  out->total_bytes = static_cast<std::int64_t>(total);
  out->free_bytes = static_cast<std::int64_t>(free_bytes);
  out->major = p.major, out->minor = p.minor;
  static_assert(sizeof out->uuid == sizeof p.uuid.bytes);
  std::memcpy(out->uuid, p.uuid.bytes, sizeof out->uuid);
  return text(attempt.first);
}

const char* allocate(int device, std::int64_t bytes, void** out) {
  Try attempt;
  attempt(choose(device));
  attempt(cudaMalloc(out, static_cast<std::size_t>(bytes)));
  return text(attempt.first);
}
void release(int device, void* memory) {
  choose(device);
  cudaFree(memory);
}
const char* allocate_pinned(std::int64_t bytes, void** out) {
  inherit_device();
  return text(cudaHostAlloc(out, static_cast<std::size_t>(bytes), cudaHostAllocPortable));
}
void release_pinned(void* memory) {
  inherit_device();
  cudaFreeHost(memory);
}
const char* pin(void* memory, std::int64_t bytes) {
  inherit_device();
  const auto result = cudaHostRegister(memory, static_cast<std::size_t>(bytes), cudaHostRegisterPortable);
  if (result != cudaSuccess) cudaGetLastError();  // no error: copies are only slower
  return text(result);
}
void unpin(void* memory) {
  inherit_device();
  cudaHostUnregister(memory);
}

const char* make_stream(int device, void** out) {
  cudaStream_t stream = nullptr;
  Try attempt;
  attempt(choose(device));
  attempt(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  *out = stream;
  return text(attempt.first);
}
void drop_stream(void* stream) { cudaStreamDestroy(of(stream)); }

const char* make_event_with(int device, unsigned flags, void** out) {
  cudaEvent_t event = nullptr;
  Try attempt;
  attempt(choose(device));
  attempt(cudaEventCreateWithFlags(&event, flags));
  *out = event;
  return text(attempt.first);
}
const char* make_event(int device, void** out) { return make_event_with(device, cudaEventDisableTiming, out); }
const char* make_timed_event(int device, void** out) { return make_event_with(device, cudaEventDefault, out); }
const char* elapsed(void* begin, void* end, double* seconds) {
  inherit_device();
  float milliseconds = 0;
  const auto result =
      cudaEventElapsedTime(&milliseconds, static_cast<cudaEvent_t>(begin), static_cast<cudaEvent_t>(end));
  *seconds = 1e-3 * static_cast<double>(milliseconds);
  return text(result);
}
void drop_event(void* event) { cudaEventDestroy(static_cast<cudaEvent_t>(event)); }

const char* record(void* event, void* stream) {
  inherit_device();
  return text(cudaEventRecord(static_cast<cudaEvent_t>(event), of(stream)));
}
const char* stream_wait(void* stream, void* event) {
  inherit_device();
  return text(cudaStreamWaitEvent(of(stream), static_cast<cudaEvent_t>(event), 0));
}
int event_done(void* event) {
  inherit_device();
  const auto e = cudaEventQuery(static_cast<cudaEvent_t>(event));
  if (e == cudaErrorNotReady) cudaGetLastError();  // clears the error, because "not ready" is no failure
  return e == cudaSuccess ? 1 : e == cudaErrorNotReady ? 0 : -1;
}
// Works also while another stream of this thread is captured, because the event itself never is.
const char* event_wait(void* event) {
  inherit_device();
  auto mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
  const auto result = cudaEventSynchronize(static_cast<cudaEvent_t>(event));
  cudaThreadExchangeStreamCaptureMode(&mode);
  return text(result);
}

const char* synchronize(void* stream) {
  inherit_device();
  Try attempt;
  attempt(cudaStreamSynchronize(of(stream)));
  attempt(cudaGetLastError());
  return text(attempt.first);
}

const char* copy(void* to, const void* from, std::int64_t bytes, void* stream) {
  inherit_device();
  return text(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, of(stream)));
}
const char* set(void* to, int byte, std::int64_t bytes, void* stream) {
  inherit_device();
  return text(cudaMemsetAsync(to, byte, static_cast<std::size_t>(bytes), of(stream)));
}

const char* begin_capture(void* stream) {
  return text(cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeThreadLocal));
}
const char* end_capture(void* stream, void** graph) {
  cudaGraph_t written = nullptr;
  cudaGraphExec_t made = nullptr;
  Try attempt;
  attempt(cudaStreamEndCapture(of(stream), &written));
  if (attempt.first == cudaSuccess) attempt(cudaGraphInstantiate(&made, written, 0));
  if (written != nullptr) cudaGraphDestroy(written);
  *graph = made;
  return text(attempt.first);
}
const char* launch_graph(void* graph, void* stream) {
  return text(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), of(stream)));
}
void drop_graph(void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }
std::uint64_t capture_of(void* stream) {
  auto status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  if (cudaStreamGetCaptureInfo(of(stream), &status, &id) != cudaSuccess || status == cudaStreamCaptureStatusNone)
    return 0;
  return id;
}

}  // namespace

const GpuRuntime& gpu_runtime() {
  static const GpuRuntime table{"cuda",           device_count, describe,  allocate,    release,       allocate_pinned,
                                release_pinned,   pin,          unpin,     make_stream, drop_stream,   make_event,
                                make_timed_event, drop_event,   elapsed,   record,      stream_wait,   event_done,
                                event_wait,       synchronize,  copy,      set,         begin_capture, end_capture,
                                launch_graph,     drop_graph,   capture_of};
  return table;
}

}  // namespace trainyard::tensor
