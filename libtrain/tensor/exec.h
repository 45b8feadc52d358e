// Exec: where work runs: a device, its stream, and a scratch arena. For overlap, use another Exec and join with an
// event.
#pragma once

#include "libtrain/base/view.h"
#include "libtrain/tensor/arena.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace trainyard::tensor {

// A point in the order of one Exec. It is a copyable handle, and an empty event is already done.
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

// Runs work in order. The CPU has two kinds, a GPU one. `run`, `record` and `wait` must be called by one thread only.
// Work items are closures; a worker copies what they capture to the heap for each call, so they capture views and
// pointers, not data.
// - `gpu`: run() calls the work at once, and the work puts kernels on the Exec's stream. The stream runs them in order
//   while the calling thread continues. wait() for an event of another GPU Exec makes the stream wait. wait() for an
//   event of a CPU Exec makes the caller wait.
// - `caller`: work runs at once on the calling thread.
// - `worker`: a thread of its own runs the work in the order of submission, with all signals masked. This is the CPU's
//   stream; the communication thread is a worker.
class Exec {
 public:
  static std::unique_ptr<Exec> caller(Arena* scratch, int threads);
  static std::unique_ptr<Exec> worker(const std::string& thread_name, Arena* scratch, int threads = 1);
  static std::unique_ptr<Exec> gpu(int device, Arena* scratch);  // EnvironmentError without a GPU
  virtual ~Exec() = default;

  // Calls the work directly where it runs at once, so that a call costs no allocation. Where a thread runs it later,
  // keeps it as a closure.
  template <class Work> void run(Work&& work) {
    if (at_once_) work();
    else submit(std::function<void()>(std::forward<Work>(work)));
  }
  virtual Event record() = 0;                 // done when all work submitted so far is done
  virtual void wait(const Event& event) = 0;  // work submitted from now on starts after the event
  virtual void synchronize() = 0;             // blocks the caller until all work is done; rethrows its exception
  // Whether a thread is blocked in wait() of an event of this Exec, or in synchronize(). Any thread may call it. Only a
  // worker knows; the other kinds return true.
  virtual bool waited_for() const { return true; }
  // worker: seconds spent inside work items so far, without waits for events. gpu: seconds inside spans. caller: 0.
  virtual double busy_seconds() = 0;
  // On a GPU, work and waits submitted between these two calls count as busy; the device measures the time. Spans do
  // not nest. Up to 65,536 spans may wait until busy_seconds() reads them; further spans are not counted.
  virtual void begin_span() {}
  virtual void end_span() {}
  virtual std::int64_t spans() const { return 0; }  // number of spans begun so far
  // Busy seconds in the first N spans, as far as they are over by now.
  virtual double busy_seconds_until(std::int64_t) { return busy_seconds(); }

  base::Device device() const { return device_; }
  bool on_gpu() const { return device_.kind == base::DeviceKind::cuda; }
  virtual void* stream() const { return nullptr; }  // the GPU module's stream; nullptr on the CPU
  // Scratch for kernels. Use it under an ArenaScope inside one work item; a branch's layer holds one (model/branch.h).
  // Throws if this Exec has no scratch.
  Arena& scratch() const;
  int threads() const { return threads_; }  // size of the OpenMP team of kernels on this Exec

 protected:
  enum class Runs { at_once, later };
  Exec(base::Device device, Arena* scratch, int threads, Runs runs = Runs::at_once)
      : device_(device), scratch_(scratch), threads_(threads), at_once_(runs == Runs::at_once) {}
  virtual void submit(std::function<void()>) {}  // NOLINT(performance-unnecessary-value-param): overriders keep it

 private:
  base::Device device_;
  Arena* scratch_;
  int threads_;
  bool at_once_;
};

// A span from its construction to its destruction.
class Span {
 public:
  explicit Span(Exec& exec) : exec_(exec) { exec_.begin_span(); }
  ~Span() { exec_.end_span(); }
  Span(const Span&) = delete;

 private:
  Exec& exec_;
};

// Copies dense views of equal bytes between host and device memory, in the order of `exec`. On a CPU Exec both views
// are in host memory.
void copy(Exec& exec, base::ConstView from, base::View to);
// Zeroes a dense view on the Exec's device.
void clear(Exec& exec, base::View view);

}  // namespace trainyard::tensor
