// Tracks: one for each thread, written by that thread alone. An atomic count says how many spans other threads may
// read.
#include "libtrain/base/trace.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>

namespace trainyard::base {

namespace detail {

constinit thread_local TraceFamily* trace_family = nullptr;

class TraceTrack {
 public:
  TraceTrack(std::string name, std::size_t room)
      : name_(std::move(name)), room_(room), spans_(std::make_unique_for_overwrite<TraceSpan[]>(room)) {}

  void take(const TraceSpan& span) {
    const auto n = count_.load(std::memory_order_relaxed);
    if (n == room_) {
      left_out_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    spans_[n] = span;
    count_.store(n + 1, std::memory_order_release);
  }
  TraceRecorder::Thread seen() const {
    return {name_, {spans_.get(), count_.load(std::memory_order_acquire)}, left_out_.load()};
  }

 private:
  std::string name_;
  std::size_t room_;
  std::unique_ptr<TraceSpan[]> spans_;
  std::atomic<std::size_t> count_{0};
  std::atomic<std::uint64_t> left_out_{0};
};

namespace {

// The track that this thread wrote to last, the number of that track's recorder, and the name of this thread.
constinit thread_local TraceTrack* own_track = nullptr;
constinit thread_local std::uint64_t own_recorder = 0;
constinit thread_local const char* own_name = nullptr;

std::array<std::int64_t, trace_values> values_of(std::initializer_list<std::int64_t> values) {
  std::array<std::int64_t, trace_values> out;
  out.fill(not_traced);
  TRAINYARD_ASSERT(values.size() <= out.size(), "{} values of a span", values.size());
  std::copy(values.begin(), values.end(), out.begin());
  return out;
}

}  // namespace

std::shared_ptr<TraceFamily> family_of_this_thread() {
  if (trace_family != nullptr) return trace_family->shared_from_this();
  thread_local std::shared_ptr<TraceFamily> first;  // for a thread that this library has not started
  first = std::make_shared<TraceFamily>();
  trace_family = first.get();
  return first;
}

void enter_family(TraceFamily* family, const char* thread_name) { trace_family = family, own_name = thread_name; }
void leave_family() { trace_family = nullptr; }

}  // namespace detail

const char* lasting_text(std::string_view text) {
  static std::mutex mutex;
  static auto& kept = *new std::set<std::string, std::less<>>();  // never destroyed: threads may outlive main
  const std::lock_guard lock(mutex);
  const auto found = kept.find(text);
  return (found == kept.end() ? *kept.emplace(text).first : *found).c_str();
}

void trace(const TraceKind& kind, const char* name, const char* group, double begin, double end,
           std::initializer_list<std::int64_t> values) {
  if (auto* const recorder = trace_recorder())
    recorder->take({&kind, name, group, begin, end, detail::values_of(values)});
}

struct TraceRecorder::Tracks {
  mutable std::mutex mutex;
  std::deque<detail::TraceTrack> all;  // a deque: its elements never move
};

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

TraceRecorder::TraceRecorder(std::size_t spans_of_a_thread, const char* own_name)
    : family_(detail::family_of_this_thread()), tracks_(std::make_unique<Tracks>()), room_(spans_of_a_thread),
      number_(next_number()) {
  add(own_name);
}

TraceRecorder::~TraceRecorder() { pause(); }

void TraceRecorder::resume() { family_->recorder.store(this, std::memory_order_release); }

void TraceRecorder::pause() {
  auto* self = this;
  family_->recorder.compare_exchange_strong(self, nullptr);
}

detail::TraceTrack& TraceRecorder::add(const char* name) {
  const std::lock_guard lock(tracks_->mutex);
  detail::own_track = &tracks_->all.emplace_back(name, room_);
  detail::own_recorder = number_;
  return *detail::own_track;
}

detail::TraceTrack& TraceRecorder::track_of_this_thread() {
  if (detail::own_recorder == number_) return *detail::own_track;
  return add(detail::own_name == nullptr ? "thread" : detail::own_name);
}

void TraceRecorder::take(const TraceSpan& span) { track_of_this_thread().take(span); }

std::vector<TraceRecorder::Thread> TraceRecorder::threads() const {
  const std::lock_guard lock(tracks_->mutex);
  std::vector<Thread> out;
  for (const auto& track : tracks_->all) out.push_back(track.seen());
  return out;
}

void TraceScope::open(std::initializer_list<std::int64_t> values) {
  values_ = detail::values_of(values);
  begin_ = steady_seconds();
}

void TraceScope::close() const {
  if (auto* const recorder = trace_recorder())
    recorder->take({&kind_, name_, nullptr, begin_, steady_seconds(), values_});
}

}  // namespace trainyard::base
