// Trace: records what the threads of a rank did, and when. Each thread writes spans into its own memory, which other
// threads may read at the same time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::base {

inline constexpr std::size_t trace_values = 7;  // of a span, at most

// The name and value keys of spans of one kind. There is one object for each kind, and it lives as long as the program.
struct TraceKind {
  const char* name;
  std::array<const char*, trace_values> keys;  // names of a span's values, in order; null: no more values
};

// Marks a value that a span does not have.
inline constexpr std::int64_t not_traced = std::numeric_limits<std::int64_t>::min();

// One span. Its texts must live as long as the program: literals, or results of lasting_text().
struct TraceSpan {
  const TraceKind* kind;
  const char* name;
  const char* group;  // group of ranks; null without one
  double begin, end;  // steady_seconds()
  std::array<std::int64_t, trace_values> values;
};

// Returns the same pointer for the same text. The text is kept until the program ends, so use it for few names only.
const char* lasting_text(std::string_view text);

class TraceRecorder;

namespace detail {

class TraceTrack;
struct TraceFamily : std::enable_shared_from_this<TraceFamily> {
  std::atomic<TraceRecorder*> recorder{nullptr};
};
// The family of this thread: the threads that share one recorder. Null for a thread that has started no other and
// records nothing.
extern constinit thread_local TraceFamily* trace_family;

std::shared_ptr<TraceFamily> family_of_this_thread();  // creates the family if there is none
// Call at the beginning and the end of a thread's work. The thread joins the family under this name; both must outlive
// the work.
void enter_family(TraceFamily* family, const char* thread_name);
void leave_family();

}  // namespace detail

// The recorder of the calling thread's family. Null: nothing is recorded, and a span costs only this call.
inline TraceRecorder* trace_recorder() {
  auto* const family = detail::trace_family;
  return family == nullptr ? nullptr : family->recorder.load(std::memory_order_acquire);
}

// Records a span that is over; does nothing without a recorder. It neither allocates nor locks, except for a thread's
// first span.
void trace(const TraceKind& kind, const char* name, const char* group, double begin, double end,
           std::initializer_list<std::int64_t> values);

// Records the spans of a rank: of the thread that creates it, and of all threads started from it, directly or
// indirectly (base/thread.h). So several ranks may be threads of one process, each with its own recorder.
class TraceRecorder {
 public:
  // Reserves room for this many spans for each thread; pages are touched as needed. Nothing is recorded before
  // resume().
  explicit TraceRecorder(std::size_t spans_of_a_thread, const char* own_name);
  ~TraceRecorder();  // only after all threads but the calling one have recorded their last span
  TraceRecorder(const TraceRecorder&) = delete;

  // For the thread that created it. A span is recorded if recording is on at its end.
  void resume();
  void pause();

  struct Thread {
    std::string name;
    std::span<const TraceSpan> spans;  // ordered by end; a span that began earlier and ended later contains others
    std::uint64_t left_out = 0;        // later spans that found no room
  };
  // The spans recorded so far; the pointers live as long as the recorder. The first entry is the thread that created
  // it.
  std::vector<Thread> threads() const;
  void take(const TraceSpan& span);  // a span of the calling thread

 private:
  detail::TraceTrack& track_of_this_thread();
  detail::TraceTrack& add(const char* name);
  struct Tracks;
  std::shared_ptr<detail::TraceFamily> family_;
  std::unique_ptr<Tracks> tracks_;
  std::size_t room_;
  std::uint64_t number_;  // unique to each recorder
};

// Records a span from its construction to its destruction.
class TraceScope {
 public:
  TraceScope(const TraceKind& kind, const char* name, std::initializer_list<std::int64_t> values = {})
      : kind_(kind), name_(name) {
    if (trace_recorder() != nullptr) open(values);
  }
  ~TraceScope() {
    if (begin_ >= 0) close();
  }
  TraceScope(const TraceScope&) = delete;

 private:
  void open(std::initializer_list<std::int64_t> values);
  void close() const;
  const TraceKind& kind_;
  const char* name_;
  double begin_ = -1;  // below 0: no recorder at construction
  std::array<std::int64_t, trace_values> values_{};
};

}  // namespace trainyard::base
