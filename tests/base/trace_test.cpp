// Tests spans of threads: their owner, their order, a lack of room, and that nothing is kept without a recorder.
#include "libtrain/base/trace.h"

#include "libtrain/base/thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace trainyard::base {
namespace {

constexpr TraceKind kind{"kind", {"a", "b"}};

TEST(trace, nothing_is_kept_before_and_after_recording_and_nothing_by_strangers) {
  TraceRecorder recorder(10, "own");
  { const TraceScope before(kind, "before"); }
  recorder.resume();
  { const TraceScope during(kind, "during", {7}); }
  std::thread([] { const TraceScope stranger(kind, "stranger"); }).join();
  recorder.pause();
  EXPECT_EQ(trace_recorder(), nullptr);
  { const TraceScope after(kind, "after"); }
  const auto threads = recorder.threads();
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_EQ(threads[0].name, "own");
  ASSERT_EQ(threads[0].spans.size(), 1u);
  const auto& span = threads[0].spans[0];
  EXPECT_STREQ(span.name, "during");
  EXPECT_EQ(span.kind, &kind);
  EXPECT_EQ(span.values[0], 7);
  EXPECT_EQ(span.values[1], not_traced);
  EXPECT_LE(span.begin, span.end);
  EXPECT_EQ(span.group, nullptr);
}

TEST(trace, threads_are_those_that_a_recording_one_has_started_or_starts_then_each_with_its_name) {
  std::atomic<bool> go{false};
  auto early = start_thread("one that was there before", [&] {
    while (!go) std::this_thread::yield();
    const TraceScope span(kind, "early");
  });
  TraceRecorder recorder(10, "own");
  recorder.resume();
  go = true;
  early.join();
  start_thread("late", [] {
    const TraceScope outer(kind, "outer");
    start_thread("inner", [] { const TraceScope span(kind, "inner"); }).join();
  }).join();
  std::set<std::string> found;
  for (const auto& t : recorder.threads())
    for (const auto& s : t.spans) found.insert(t.name + ": " + s.name);
  EXPECT_EQ(found, (std::set<std::string>{"one that was there before: early", "late: outer", "inner: inner"}));
}

TEST(trace, ranks_that_are_threads_of_one_process_do_not_see_one_another) {
  std::vector<std::thread> ranks;
  std::vector<std::string> seen(3);
  for (std::size_t r = 0; r < seen.size(); ++r)
    ranks.emplace_back([&seen, r] {
      TraceRecorder recorder(1000, "compute");
      recorder.resume();
      const auto* name = lasting_text("rank " + std::to_string(r));
      for (int i = 0; i < 100; ++i) start_thread("helper", [name] { const TraceScope span(kind, name); }).join();
      for (const auto& t : recorder.threads())
        for (const auto& s : t.spans) seen[r] += s.name == name ? "." : s.name;
    });
  for (auto& r : ranks) r.join();
  for (const auto& s : seen) EXPECT_EQ(s, std::string(100, '.'));
}

TEST(trace, spans_stand_in_the_order_of_their_ends_and_lie_in_one_another) {
  TraceRecorder recorder(10, "own");
  recorder.resume();
  {
    const TraceScope outer(kind, "outer");
    const TraceScope inner(kind, "inner");
  }
  trace(kind, "by hand", lasting_text("data"), 1, 2, {3, 4});
  const auto spans = recorder.threads()[0].spans;
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_STREQ(spans[0].name, "inner");
  EXPECT_STREQ(spans[1].name, "outer");
  EXPECT_LE(spans[1].begin, spans[0].begin);
  EXPECT_GE(spans[1].end, spans[0].end);
  EXPECT_STREQ(spans[2].group, "data");
  EXPECT_EQ(spans[2].values[1], 4);
}

TEST(trace, what_has_no_room_is_counted_for_each_thread) {
  TraceRecorder recorder(3, "own");
  recorder.resume();
  const auto some = [](int n) {
    for (int i = 0; i < n; ++i) trace(kind, "span", nullptr, i, i, {i});
  };
  some(5);
  start_thread("other", [&] { some(3); }).join();
  const auto threads = recorder.threads();
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0].spans.size(), 3u);
  EXPECT_EQ(threads[0].spans[2].values[0], 2) << "the first are kept";
  EXPECT_EQ(threads[0].left_out, 2u);
  EXPECT_EQ(threads[1].spans.size(), 3u);
  EXPECT_EQ(threads[1].left_out, 0u);
}

TEST(trace, may_be_read_while_others_write) {
  constexpr std::size_t many = 20000;
  TraceRecorder recorder(many, "own");
  recorder.resume();
  auto writer = start_thread("writer", [] {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(many); ++i) trace(kind, "span", nullptr, 0, 0, {i, -i});
  });
  std::size_t seen = 0;
  while (seen < many)
    for (const auto& t : recorder.threads())
      for (seen = 0; seen < t.spans.size(); ++seen) {
        ASSERT_EQ(t.spans[seen].values[0], static_cast<std::int64_t>(seen));
        ASSERT_EQ(t.spans[seen].values[1], -static_cast<std::int64_t>(seen));
      }
  writer.join();
}

TEST(trace, another_recorder_of_the_same_thread_begins_anew) {
  for (int i = 0; i < 3; ++i) {
    TraceRecorder recorder(10, "own");
    recorder.resume();
    { const TraceScope span(kind, "span"); }
    ASSERT_EQ(recorder.threads().size(), 1u);
    EXPECT_EQ(recorder.threads()[0].spans.size(), 1u);
  }
  EXPECT_EQ(trace_recorder(), nullptr);
}

TEST(trace, equal_texts_last_at_one_place) {
  const std::string a = "some group", b = "some group";
  EXPECT_EQ(lasting_text(a), lasting_text(b));
  EXPECT_STREQ(lasting_text(a), "some group");
  EXPECT_NE(lasting_text(a), lasting_text("another"));
}

}  // namespace
}  // namespace trainyard::base
