// Trace: what the threads of a rank did, and when. Each thread writes spans into memory of its own, which anybody may
// read meanwhile.
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

// What spans of one kind say beside their name. There is one object for each kind, which lives as long as the program.
struct TraceKind {
  const char* name;
  std::array<const char*, 6> keys;  // of the values of a span, in order; null: no more of them
};

inline constexpr std::int64_t not_traced =
    std::numeric_limits<std::int64_t>::min();  // a value that a span does not have

// Its texts live as long as the program: literals, and what lasting_text() gave.
struct TraceSpan {
  const TraceKind* kind;
  const char* name;
  const char* group;  // of ranks, null without one
  double begin, end;  // steady_seconds()
  std::array<std::int64_t, 6> values;
};

// The same text always at the same place, kept until the program ends. For names, of which there are few.
const char* lasting_text(std::string_view text);

class TraceRecorder;

namespace detail {

class TraceTrack;
struct TraceFamily : std::enable_shared_from_this<TraceFamily> {
  std::atomic<TraceRecorder*> recorder{nullptr};
};
// Of this thread; null while it has started none and records nothing.
extern constinit thread_local TraceFamily* trace_family;

std::shared_ptr<TraceFamily> family_of_this_thread();  // made where there is none
// Beginning and end of a thread's work, as a member of a family under a name that lives as long.
void enter_family(TraceFamily* family, const char* thread_name);
void leave_family();

}  // namespace detail

// Who records now, for the calling thread; null: nobody, and spans cost no more than this.
inline TraceRecorder* trace_recorder() {
  auto* const family = detail::trace_family;
  return family == nullptr ? nullptr : family->recorder.load(std::memory_order_acquire);
}

// A span that is over. Nothing where nobody records. Neither allocates nor locks, but for the first of a thread.
void trace(const TraceKind& kind, const char* name, const char* group, double begin, double end,
           std::initializer_list<std::int64_t> values);

// The spans of a rank: of the thread that makes it and of all that it, or they, have started or will start
// (base/thread.h), so that several ranks may be threads of one process, each with a recorder of its own.
class TraceRecorder {
 public:
  // Room for so many spans of each thread; memory is touched as it is needed. Nobody records before resume().
  explicit TraceRecorder(std::size_t spans_of_a_thread, const char* own_name);
  ~TraceRecorder();  // when all threads but the calling one have left their spans for good
  TraceRecorder(const TraceRecorder&) = delete;

  // By the thread that made it. A span counts when somebody records at its end.
  void resume();
  void pause();

  struct Thread {
    std::string name;
    std::span<const TraceSpan> spans;  // by their end; those that began earlier and ended later hold others
    std::uint64_t left_out = 0;        // for want of room, after those
  };
  // As far as they are; what it points to lives as long as the recorder. The first is the thread that made it.
  std::vector<Thread> threads() const;
  void take(const TraceSpan& span);  // of the calling thread

 private:
  detail::TraceTrack& track_of_this_thread();
  detail::TraceTrack& add(const char* name);
  struct Tracks;
  std::shared_ptr<detail::TraceFamily> family_;
  std::unique_ptr<Tracks> tracks_;
  std::size_t room_;
  std::uint64_t number_;  // no two have the same
};

// A span for as long as it lives.
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
  double begin_ = -1;  // below 0: nobody recorded then
  std::array<std::int64_t, 6> values_{};
};

}  // namespace trainyard::base
