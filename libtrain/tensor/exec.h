// Exec: where work runs: device, stream, scratch arena. Overlap is passing another Exec and joining by an event.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace trainyard::tensor {

// A point in the order of one Exec. Copyable handle; an empty event is already done.
class Event {
 public:
  Event() = default;
  bool done() const;
  // Blocks the calling thread. Rethrows what the work before the event threw.
  void wait() const;
  struct State;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// The CPU has two kinds, a GPU one. `gpu`: run() calls the work at once, which puts kernels on the Exec's stream; the
// stream is what runs in order, and the calling thread goes on. wait() for an event of another GPU Exec makes the
// stream wait; for an event of a CPU Exec it makes the caller wait. `caller`: work runs at once on the calling thread.
// `worker`: a thread of its own runs the work in order of submission (all signals masked); this is the CPU's stream,
// and the communication thread is one of these. run, record and wait are called by one thread only. Work items are
// small closures (captures below 256 bytes).
class Exec {
 public:
  static std::unique_ptr<Exec> caller(Arena* scratch, int threads);
  static std::unique_ptr<Exec> worker(const std::string& thread_name, Arena* scratch, int threads = 1);
  static std::unique_ptr<Exec> gpu(int device, Arena* scratch);  // EnvironmentError without one
  virtual ~Exec() = default;

  // The work itself where it happens at once, so that a call costs no allocation; a closure to keep where a thread gets
  // to it later.
  template <class Work> void run(Work&& work) {
    if (at_once_) work();
    else submit(std::function<void()>(std::forward<Work>(work)));
  }
  virtual Event record() = 0;                 // done when all work submitted so far is done
  virtual void wait(const Event& event) = 0;  // work submitted from now on starts after the event
  virtual void synchronize() = 0;             // blocks the caller until all work is done; rethrows
  // Is a thread blocked in the wait of an event of this Exec, or in synchronize()? From any thread. Only a worker
  // knows; the others say yes.
  virtual bool waited_for() const { return true; }
  // Time spent so far inside work items, waits for events not counted (worker), or inside spans (gpu); 0 for caller.
  virtual double busy_seconds() = 0;
  // On a GPU: work submitted, and waits, between these count as busy; the device takes the time. One at a time, of up
  // to some thousands that nobody asked for yet.
  virtual void begin_span() {}
  virtual void end_span() {}
  virtual std::int64_t spans() const { return 0; }  // begun so far
  virtual double busy_seconds_until(std::int64_t) {
    return busy_seconds();
  }  // in the first so many of them that are over by now

  base::Device device() const { return device_; }
  bool on_gpu() const { return device_.kind == base::DeviceKind::cuda; }
  virtual void* stream() const { return nullptr; }  // of the GPU module; nullptr on the CPU
  // Scratch for kernels: used under an ArenaScope inside one work item. Throws if this Exec has none.
  Arena& scratch() const;
  int threads() const { return threads_; }  // size of the OpenMP team that kernels use here

 protected:
  enum class Runs { at_once, later };
  Exec(base::Device device, Arena* scratch, int threads, Runs runs = Runs::at_once)
      : device_(device), scratch_(scratch), threads_(threads), at_once_(runs == Runs::at_once) {}
  virtual void submit(std::function<void()>) {}  // NOLINT(performance-unnecessary-value-param): who overrides keeps it

 private:
  base::Device device_;
  Arena* scratch_;
  int threads_;
  bool at_once_;
};

// A span for as long as it lives.
class Span {
 public:
  explicit Span(Exec& exec) : exec_(exec) { exec_.begin_span(); }
  ~Span() { exec_.end_span(); }
  Span(const Span&) = delete;

 private:
  Exec& exec_;
};

// Copies dense views of equal bytes between host and device memory, in the order of `exec`. On a CPU Exec both are host
// memory.
void copy(Exec& exec, base::View from, base::View to);
// Zeroes a dense view on the Exec's device.
void clear(Exec& exec, base::View view);

}  // namespace trainyard::tensor
