// Tests that the calls of a step equal its traffic, and that their times come from the fits.
#include "libtrain/plan/communication_time.h"
#include "libtrain/base/error.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

namespace trainyard::plan {
namespace {

Plan sample(int ranks, int zero, Reduction reduction, base::DType dtype) {
  Plan p;
  p.model = preset("gpt2-nano");
  p.model.vocabulary = 257, p.model.lanes = 1;
  p.topology = Topology({{Axis::data, ranks}});
  p.zero = zero, p.reduction = reduction, p.dtype = dtype;
  p.global_batch = 2 * ranks, p.micro_batch = 1, p.sequence = 32;
  predict(p);
  return p;
}

// 10 us + bytes / 1 GB/s for reductions, 5 us + bytes / 2 GB/s for gathers.
Profile profile(int ranks, const std::string& type = "f32", const std::string& group = "data") {
  Profile p;
  p.ranks = ranks;
  for (const auto* operation : {"ordered_reduce_scatter", "reduce_scatter", "all_gather"}) {
    CommSeries s{group, operation, type, ranks, 1, {}, {}, 0};
    const bool gather = s.operation == "all_gather";
    for (const std::int64_t bytes : {1024, 65536, 4194304}) {
      CommPoint q;
      q.bytes = bytes,
      q.repeats = {gather ? 5e-6 + static_cast<double>(bytes) / 2e9 : 10e-6 + static_cast<double>(bytes) / 1e9};
      s.points.push_back(q);
    }
    s.fit = fit_link(s.samples());
    p.communication.push_back(s);
  }
  return p;
}

TEST(CommunicationTime, CallsAreThoseOfTheTraffic) {
  for (const int ranks : {2, 3})
    for (const int zero : {0, 1, 2, 3})
      for (const auto reduction : {Reduction::ordered, Reduction::fast})
        for (const auto dtype : {base::DType::f32, base::DType::bf16}) {
          const auto p = sample(ranks, zero, reduction, dtype);
          for (const auto& t : p.traffic.front().operations) {
            std::int64_t calls = 0, sent = 0;
            for (const auto& c : step_calls(p))
              if (c.operation == t.operation) calls += c.calls, sent += c.calls * c.bytes / ranks * (ranks - 1);
            EXPECT_EQ(calls, t.calls) << t.operation << " ZeRO " << zero;
            EXPECT_EQ(sent, t.bytes) << t.operation << " ZeRO " << zero;
          }
        }
  EXPECT_TRUE(step_calls(sample(1, 3, Reduction::ordered, base::DType::f32)).empty());
}

TEST(CommunicationTime, IsThatOfTheFits) {
  const auto p = sample(2, 3, Reduction::ordered, base::DType::bf16);
  const auto times = communication_times(p, profile(2));
  ASSERT_EQ(times.size(), 2u);
  double reductions = 0, gathers = 0;
  for (const auto& c : step_calls(p))
    (c.operation == "all_gather" ? gathers : reductions) +=
        static_cast<double>(c.calls) * (c.operation == "all_gather" ? 5e-6 + static_cast<double>(c.bytes) / 2e9
                                                                    : 10e-6 + static_cast<double>(c.bytes) / 1e9);
  EXPECT_EQ(times[0].operation, "ordered_reduce_scatter");
  EXPECT_NEAR(times[0].seconds, reductions, 1e-9);
  EXPECT_NEAR(times[1].seconds, gathers, 1e-9);
  EXPECT_EQ(times[0].calls, p.traffic[0].operations[0].calls);
}

TEST(CommunicationTime, WhatTheProfileLacksIsNamed) {
  const auto p = sample(2, 1, Reduction::fast, base::DType::f32);
  EXPECT_EQ(communication_times(p, profile(2, "f32", "world")).size(), 2u);  // the world is used
  EXPECT_THROW(communication_times(p, profile(3)), base::InputError);
  EXPECT_THROW(communication_times(p, profile(2, "bf16")), base::InputError);  // sums of another type
  EXPECT_THROW(communication_times(p, profile(2, "f32", "tensor")), base::InputError);
  auto small = profile(2);
  for (auto& s : small.communication) s.points.resize(1);
  EXPECT_TRUE(communication_times(p, small)[0].beyond);
}

// Messages are exchanges of two neighbours with the bytes that one of them sends. Copies of a table use the same links.
TEST(CommunicationTime, StagesTalkToTheirNeighbours) {
  auto p = sample(3, 1, Reduction::ordered, base::DType::f32);
  p.pipeline = 3, p.topology = replicas_of(3, 1, 3), p.partition = "0,1,2";
  predict(p);
  auto links = profile(2, "f32", "pipe");
  links.communication.resize(1);
  links.communication[0].operation = "exchange";  // 10 us + bytes / 1 GB/s
  const auto message = static_cast<double>(p.sequence * p.model.hidden * 4) / 1e9 + 10e-6;
  const auto times = communication_times(p, links, 1);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(name_of(times[0].group) + " " + times[0].operation, "pipe activations");
  EXPECT_EQ(times[0].calls, 12) << "6 micro-batches, each received and sent";
  EXPECT_NEAR(times[0].seconds, 12 * message, 1e-9);
  EXPECT_EQ(times[1].operation, "gradients");
  try {
    communication_times(p, links, 0);
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_EQ(std::string(e.what()), "the profile has no all_gather f32 over a pipe group of 2 ranks");
    EXPECT_NE(e.hint().find("profile-comm --plan"), std::string::npos) << e.hint();
  }
  links = profile(2, "f32", "pipe");
  links.communication[0].operation = "exchange";
  EXPECT_EQ(name_of(communication_times(p, links, 0).back().group), "stages");
}

}  // namespace
}  // namespace trainyard::plan
