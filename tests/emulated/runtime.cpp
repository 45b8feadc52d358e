// A GPU runtime on host memory (tests/emulated/stream.h says when work is done). It runs the whole GPU path, also with
// sanitizers, on a machine without a GPU. While a stream is captured it refuses what CUDA refuses: waiting, reserving
// memory, copies from or to memory that is not pinned, and waiting for events from outside the capture.
#include "libtrain/tensor/gpu_runtime.h"
#include "tests/emulated/poisoned.h"
#include "tests/emulated/stream.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <unistd.h>

namespace trainyard::tensor {

namespace {

std::atomic<int> captures{0};
std::atomic<std::uint64_t> next_id{1};

// The memory that a device could reach without the host's help.
class Reachable {
 public:
  void add(void* p, std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    ranges_[static_cast<char*>(p)] = bytes;
  }
  void remove(void* p) {
    std::lock_guard lock(mutex_);
    ranges_.erase(static_cast<char*>(p));
  }
  bool has(const void* p, std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    auto* at = static_cast<char*>(const_cast<void*>(p));
    auto after = ranges_.upper_bound(at);
    if (after == ranges_.begin()) return false;
    --after;
    return at + bytes <= after->first + after->second;
  }

 private:
  std::mutex mutex_;
  std::map<char*, std::int64_t> ranges_;
};
Reachable& reachable() {
  static auto* all = new Reachable;  // outlives whatever frees memory at exit
  return *all;
}

emulator::Stream& of(void* stream) { return *static_cast<emulator::Stream*>(stream); }
emulator::Event& event_of(void* event) { return *static_cast<emulator::Event*>(event); }

std::set<emulator::Stream*>& streams() {  // guarded by emulator::all_streams()
  static auto* all = new std::set<emulator::Stream*>;
  return *all;
}

// The memory of the devices. TRAINYARD_EMULATED_MEMORY: bytes of each, 8 GiB without it.
class DeviceMemory {
 public:
  static std::int64_t bytes() {
    const char* given = std::getenv("TRAINYARD_EMULATED_MEMORY");
    return given != nullptr ? std::atoll(given) : std::int64_t{8} << 30;
  }
  std::int64_t left(int device) {
    const std::lock_guard lock(mutex_);
    return bytes() - used_[device];
  }
  bool take(int device, std::int64_t bytes_taken) {
    const std::lock_guard lock(mutex_);
    if (bytes_taken > bytes() - used_[device]) return false;
    used_[device] += bytes_taken;
    return true;
  }
  void give_back(int device, std::int64_t bytes_taken) {
    const std::lock_guard lock(mutex_);
    used_[device] -= bytes_taken;
  }
  void note(int device, std::int64_t bytes_taken, void* block) {
    const std::lock_guard lock(mutex_);
    blocks_[block] = {device, bytes_taken};
  }
  void forget(void* block) {
    const std::lock_guard lock(mutex_);
    const auto at = blocks_.find(block);
    if (at == blocks_.end()) return;  // pinned memory of the host
    used_[at->second.first] -= at->second.second;
    blocks_.erase(at);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::int64_t> used_;
  std::map<void*, std::pair<int, std::int64_t>> blocks_;
};
DeviceMemory& memory() {
  static auto* all = new DeviceMemory;
  return *all;
}

int device_count() {
  const char* n = std::getenv("TRAINYARD_EMULATED_GPUS");
  return n != nullptr ? std::atoi(n) : 1;
}
// TRAINYARD_EMULATED_FIRST_GPU: which of the machine's GPUs a process sees as its number 0, as with
// CUDA_VISIBLE_DEVICES.
const char* describe(int device, GpuInfo* out) {
  std::snprintf(out->name, sizeof out->name, "emulated on the host");
  const char* first = std::getenv("TRAINYARD_EMULATED_FIRST_GPU");
  const int number = device + (first != nullptr ? std::atoi(first) : 0);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  const std::uint64_t machine = std::hash<std::string_view>()(host);
  std::memcpy(out->uuid, &machine, sizeof machine);
  std::memcpy(out->uuid + sizeof machine, &number, sizeof number);
  out->total_bytes = memory().bytes();
  out->free_bytes = memory().left(device);
  return nullptr;
}
emulator::Poisoned& poisoned() {
  static auto* all = new emulator::Poisoned;
  return *all;
}
const char* reserve(std::int64_t bytes, void** out) {
  if (captures > 0) return "memory is reserved while a stream is captured";
  *out = poisoned().reserve(bytes);
  if (*out == nullptr) return "out of memory";
  reachable().add(*out, bytes);
  return nullptr;
}
const char* allocate(int device, std::int64_t bytes, void** out) {
  if (!memory().take(device, bytes)) return "out of memory";
  if (const char* failure = reserve(bytes, out)) {
    memory().give_back(device, bytes);
    return failure;
  }
  memory().note(device, bytes, *out);
  return nullptr;
}
// Waits for all work under way, as cudaFree does.
void release(int, void* block) {
  {
    std::lock_guard lock(emulator::all_streams());
    for (auto* s : streams()) emulator::catch_up(*s);
  }
  reachable().remove(block);
  memory().forget(block);
  poisoned().release(block);
}
const char* allocate_pinned(std::int64_t bytes, void** out) { return reserve(bytes, out); }
void release_pinned(void* memory) { release(0, memory); }
const char* pin(void* memory, std::int64_t bytes) {
  reachable().add(memory, bytes);
  return nullptr;
}
void unpin(void* memory) { reachable().remove(memory); }
const char* make_stream(int, void** out) {
  auto* s = new emulator::Stream;
  std::lock_guard lock(emulator::all_streams());
  streams().insert(s);
  *out = s;
  return nullptr;
}
void drop_stream(void* stream) {
  emulator::catch_up(of(stream));
  std::lock_guard lock(emulator::all_streams());
  streams().erase(&of(stream));
  delete &of(stream);
}
const char* make_event(int, void** out) {
  *out = new emulator::Event;
  return nullptr;
}
void drop_event(void* event) { delete &event_of(event); }
const char* elapsed(void* begin, void* end, double* seconds) {
  *seconds = std::chrono::duration<double>(event_of(end).mark->at - event_of(begin).mark->at).count();
  return nullptr;
}
const char* record(void* event, void* stream) {
  auto& e = event_of(event);
  std::lock_guard lock(emulator::all_streams());
  e.capture = of(stream).capture;
  e.mark = std::make_shared<emulator::Mark>();
  e.mark->stream = &of(stream);
  if (!e.capture) emulator::enqueue(of(stream), {nullptr, e.mark, nullptr});
  return nullptr;
}
const char* stream_wait(void* stream, void* event) {
  const auto& e = event_of(event);
  std::lock_guard lock(emulator::all_streams());
  if (of(stream).capture && of(stream).capture != e.capture) return "a captured stream waits for an event from outside";
  of(stream).capture = e.capture;
  if (!e.capture && e.mark) emulator::enqueue(of(stream), {nullptr, nullptr, e.mark});
  return nullptr;
}
int event_done(void* event) {
  const std::unique_lock lock(emulator::all_streams(), std::try_to_lock);
  if (!lock) return 0;  // the holder of the lock may wait for a message
  const auto& e = event_of(event);
  return e.capture ? -1 : !e.mark || e.mark->reached;
}
const char* event_wait(void* event) {
  std::lock_guard lock(emulator::all_streams());
  const auto e = event_of(event);
  if (e.capture) return "a captured event is waited for";
  if (e.mark && !e.mark->reached) emulator::catch_up(*e.mark->stream, e.mark.get());
  return nullptr;
}
const char* synchronize(void* stream) {
  if (of(stream).capture) return "a captured stream is waited for";
  emulator::catch_up(of(stream));
  return nullptr;
}

// Copies between device and pinned memory follow the order of the stream. Other host memory is read and written before
// the call returns, as in CUDA.
const char* move(void* to, const void* from, std::int64_t bytes, void* stream, std::function<void()> work) {
  const bool pinned_to = reachable().has(to, bytes), pinned_from = reachable().has(from, bytes);
  if (of(stream).capture && (!pinned_to || !pinned_from))
    return "a copy from or to memory that is not pinned, while the stream is captured";
  if (!pinned_from && emulator::late()) {
    auto seen =
        std::make_shared<std::vector<char>>(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
    work = [=] { std::memmove(to, seen->data(), seen->size()); };
  }
  emulator::submit(stream, std::move(work));
  if (!pinned_to) emulator::catch_up(of(stream));
  return nullptr;
}
const char* copy(void* to, const void* from, std::int64_t bytes, void* stream) {
  return move(to, from, bytes, stream, [=] { std::memmove(to, from, static_cast<std::size_t>(bytes)); });
}
const char* set(void* to, int byte, std::int64_t bytes, void* stream) {
  emulator::submit(stream, [=] { std::memset(to, byte, static_cast<std::size_t>(bytes)); });
  return nullptr;
}

const char* begin_capture(void* stream) {
  if (of(stream).capture) return "the stream is captured already";
  of(stream).capture = std::make_shared<emulator::Graph>();
  of(stream).capture->id = next_id++;
  ++captures;
  return nullptr;
}
const char* end_capture(void* stream, void** graph) {
  if (!of(stream).capture) return "the stream is not captured";
  *graph = new std::shared_ptr<emulator::Graph>(std::move(of(stream).capture));
  of(stream).capture = nullptr;
  --captures;
  return nullptr;
}
const char* launch_graph(void* graph, void* stream) {
  for (const auto& w : (*static_cast<std::shared_ptr<emulator::Graph>*>(graph))->work) emulator::submit(stream, w);
  return nullptr;
}
void drop_graph(void* graph) { delete static_cast<std::shared_ptr<emulator::Graph>*>(graph); }
std::uint64_t capture_of(void* stream) { return of(stream).capture ? of(stream).capture->id : 0; }

}  // namespace

const GpuRuntime& gpu_runtime() {
  static const GpuRuntime table{"emulated",     device_count, describe,  allocate,    release,       allocate_pinned,
                                release_pinned, pin,          unpin,     make_stream, drop_stream,   make_event,
                                make_event,     drop_event,   elapsed,   record,      stream_wait,   event_done,
                                event_wait,     synchronize,  copy,      set,         begin_capture, end_capture,
                                launch_graph,   drop_graph,   capture_of};
  return table;
}

}  // namespace trainyard::tensor
