// The Exec of a GPU: a stream of the module, and events from a pool so that a step creates none.
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/tensor/event_state.h"
#include "libtrain/tensor/gpu.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <vector>

namespace trainyard::tensor {

namespace {

// Events without references, for reuse. The Exec and its events share the pool, because either may live longer.
struct Pool {
  explicit Pool(const GpuRuntime& r, int d) : runtime(r), device(d) {}
  ~Pool() {
    for (auto* e : free) runtime.drop_event(e);
  }
  void* take() {
    std::lock_guard lock(mutex);
    if (free.empty()) {
      void* e = nullptr;
      require_gpu(runtime.make_event(device, &e), "making an event");
      return e;
    }
    auto* e = free.back();
    free.pop_back();
    return e;
  }
  void give(void* e) {
    std::lock_guard lock(mutex);
    free.push_back(e);
  }
  const GpuRuntime& runtime;
  int device;
  std::mutex mutex;
  std::vector<void*> free;
};

struct GpuState : Event::State {
  GpuState(std::shared_ptr<Pool> p, void* s, std::uint64_t c)
      : pool(std::move(p)), event(pool->take()), stream(s), capture(c) {}
  ~GpuState() override { pool->give(event); }
  // Only the code that launches a captured graph knows when an event inside the graph is done.
  bool done() override {
    if (capture != 0) return true;
    const int state = pool->runtime.event_done(event);
    if (state < 0) wait();
    return state > 0;
  }
  void wait() override {
    if (capture == 0) require_gpu(pool->runtime.event_wait(event), "work on the GPU");
  }
  std::shared_ptr<Pool> pool;
  void *event, *stream;
  std::uint64_t capture;  // the graph that the event belongs to; 0: none
};

class GpuExec : public Exec {
 public:
  GpuExec(int device, Arena* scratch)
      : Exec({base::DeviceKind::cuda, device}, scratch, 1), runtime_(*gpu_module().runtime),
        pool_(std::make_shared<Pool>(runtime_, device)) {
    gpu_info(device);
    require_gpu(runtime_.make_stream(device, &stream_), "making a stream");
  }
  ~GpuExec() override {
    for (auto& s : spans_) free_spans_.push_back(s);
    for (auto& s : free_spans_) runtime_.drop_event(s.begin), runtime_.drop_event(s.end);
    runtime_.drop_stream(stream_);
  }
  Event record() override {
    auto state = std::make_shared<GpuState>(pool_, stream_, runtime_.capture_of(stream_));
    require_gpu(runtime_.record(state->event, stream_), "recording an event");
    return Event(std::move(state));
  }
  void wait(const Event& event) override {
    const auto* state = dynamic_cast<GpuState*>(event.state().get());
    if (state == nullptr) return event.wait();  // an event of a CPU Exec
    if (state->stream == stream_) return;       // the stream's own order suffices
    // An event from before a capture cannot become part of the graph.
    if (state->capture == 0 && runtime_.capture_of(stream_) != 0) return event.wait();
    require_gpu(runtime_.stream_wait(stream_, state->event), "waiting for an event");
  }
  void synchronize() override { require_gpu(runtime_.synchronize(stream_), "work on the GPU"); }
  double busy_seconds() override { return busy_seconds_until(begun_); }
  std::int64_t spans() const override { return begun_; }
  double busy_seconds_until(std::int64_t count) override {
    const auto left = begun_ - count;
    while (static_cast<std::int64_t>(spans_.size()) > left && runtime_.event_done(spans_.front().end) > 0) {
      double seconds = 0;
      require_gpu(runtime_.elapsed(spans_.front().begin, spans_.front().end, &seconds), "timing work on the GPU");
      busy_ += seconds;
      free_spans_.push_back(spans_.front());
      spans_.pop_front();
    }
    return busy_;
  }
  void begin_span() override {
    open_ = runtime_.capture_of(stream_) == 0 && spans_.size() < most_spans;
    if (!open_) return;
    TimedSpan span;
    if (free_spans_.empty()) {
      require_gpu(runtime_.make_timed_event(device().index, &span.begin), "making an event");
      require_gpu(runtime_.make_timed_event(device().index, &span.end), "making an event");
    } else {
      span = free_spans_.back();
      free_spans_.pop_back();
    }
    runtime_.record(span.begin, stream_);
    spans_.push_back(span);
    ++begun_;
  }
  void end_span() override {
    if (open_) runtime_.record(spans_.back().end, stream_);
    open_ = false;
  }
  void* stream() const override { return stream_; }

 private:
  struct TimedSpan {
    void *begin = nullptr, *end = nullptr;
  };
  static constexpr std::size_t most_spans = 1 << 16;  // further spans are not measured
  const GpuRuntime& runtime_;
  std::shared_ptr<Pool> pool_;
  void* stream_ = nullptr;
  std::deque<TimedSpan> spans_;
  std::vector<TimedSpan> free_spans_;
  double busy_ = 0;
  std::int64_t begun_ = 0;
  bool open_ = false;
};

}  // namespace

std::unique_ptr<Exec> Exec::gpu(int device, Arena* scratch) { return std::make_unique<GpuExec>(device, scratch); }

void copy(Exec& exec, base::ConstView from, base::View to) {
  TRAINYARD_ASSERT(from.dense() && to.dense() && from.bytes() == to.bytes(), "copy of {} to {} bytes", from.bytes(),
                   to.bytes());
  if (from.bytes() == 0) return;
  if (exec.on_gpu())
    return require_gpu(gpu_module().runtime->copy(to.data, from.data, from.bytes(), exec.stream()), "copying");
  exec.run([from, to] { std::memcpy(to.data, from.data, base::size(from.bytes())); });
}

void clear(Exec& exec, base::View view) {
  TRAINYARD_ASSERT(view.dense(), "{} rows of {} with pitch {}", view.rows(), view.cols(), view.pitch);
  if (view.bytes() == 0) return;
  if (exec.on_gpu())
    return require_gpu(gpu_module().runtime->set(view.data, 0, view.bytes(), exec.stream()), "clearing");
  exec.run([view] { std::memset(view.data, 0, base::size(view.bytes())); });
}

}  // namespace trainyard::tensor
