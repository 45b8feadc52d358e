// A global batch that grows: its text, its sizes against tables made by hand, and what plans accept.
#include "libtrain/base/error.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/plan_json.h"
#include "tests/plan/small_plan.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard::plan {
namespace batch_ramp_test {

using Unit = BatchRamp::Unit;

GlobalBatch ramp(std::int64_t start, std::int64_t end, std::int64_t increment, std::int64_t samples) {
  return {end, {start, increment, samples, Unit::samples}};
}

std::vector<std::int64_t> sizes_of(const BatchSizes& sizes, std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> out;
  for (auto step = first; step < first + count; ++step) out.push_back(sizes.size_after(step));
  return out;
}

std::string refusal_of(const std::string& text) {
  try {
    ramp_of_text(text, "the batch");
  } catch (const base::UsageError& e) {
    EXPECT_FALSE(e.hint().empty()) << text;
    return e.what();
  }
  return "";
}

TEST(BatchRamp, Text) {
  const auto tokens = ramp_of_text("16:512/10e6tokens", "");
  EXPECT_EQ(tokens, (GlobalBatch{512, {16, 16, 10'000'000, Unit::tokens}}));
  EXPECT_EQ(global_batch_text(tokens), "16:512/10000000tokens");
  const auto samples = ramp_of_text("16:512:32/3e5", "");
  EXPECT_EQ(samples, ramp_of_text("16:512:32/300000samples", ""));
  EXPECT_EQ(global_batch_text(samples), "16:512:32/300000samples");
  EXPECT_EQ(ramp_of_text(global_batch_text(samples), ""), samples);
  EXPECT_EQ(ramp_of_text("16:512:16/10e6tokens", ""), tokens) << "the start is the increment that is left out";
  EXPECT_EQ(global_batch_text({512, {}}), "512");
}

TEST(BatchRamp, RefusesWhatIsNoRamp) {
  const std::vector<std::pair<const char*, const char*>> wrong{{"16:", "is missing"},
                                                               {"16:8", "is missing"},
                                                               {"16:512", "is missing"},
                                                               {"16/1", "grows to is missing"},
                                                               {"16:512/", "what follows /"},
                                                               {"16:512/tokens", "what follows /"},
                                                               {"16:512/0", "what follows /"},
                                                               {"16:512/-5", "what follows /"},
                                                               {"16:512/1.5", "what follows /"},
                                                               {"16:512/nan", "what follows /"},
                                                               {"16:512/inftokens", "what follows /"},
                                                               {"16:512/1e15", "what follows /"},
                                                               {"16:512/1e400", "what follows /"},
                                                               {"16:512/10 tokens", "what follows /"},
                                                               {"16:512/10epochs", "what follows /"},
                                                               {":512/10", "before /"},
                                                               {"16:/10", "before /"},
                                                               {"0:8/1", "before /"},
                                                               {"-4:8/1", "before /"},
                                                               {"1.5:8/1", "before /"},
                                                               {"4:8:0/1", "before /"},
                                                               {"4:8:4:4/1", "before /"},
                                                               {"1:5000000000/1", "before /"},
                                                               {"1:99999999999999999999/1", "before /"},
                                                               {"16:8/1", "does not grow from 16 to 8"},
                                                               {"8:8/1", "does not grow"},
                                                               {"1:4294967296/1", "increments are more than 65536"}};
  for (const auto& [text, why] : wrong) EXPECT_NE(refusal_of(text).find(why), std::string::npos) << refusal_of(text);
  EXPECT_EQ(refusal_of("1:65537/1e14"), "");
}

// Increments come with 10, 20 and 30 consumed samples. 8 and 10 are reached, 20 and 30 are passed.
TEST(BatchRamp, SizesOfATableMadeByHand) {
  const BatchSizes sizes(ramp(2, 8, 2, 30));
  EXPECT_EQ(sizes_of(sizes, 0, 13), (std::vector<std::int64_t>{2, 2, 2, 2, 2, 4, 4, 4, 6, 6, 8, 8, 8}));
  const std::vector<std::int64_t> before{0, 2, 4, 6, 8, 10, 14, 18, 22, 28, 34, 42, 50};
  for (std::size_t step = 0; step < before.size(); ++step)
    EXPECT_EQ(sizes.samples_after(static_cast<std::int64_t>(step)), before[step]) << step;
  EXPECT_EQ(sizes.steps_before_end(), 10);
  // A step that passes two thresholds makes two increments at once.
  EXPECT_EQ(sizes_of(BatchSizes(ramp(1, 5, 1, 4)), 0, 5), (std::vector<std::int64_t>{1, 2, 4, 5, 5}));
  // The last increment is smaller: 8 to 10. The increments come with 9, 17 and 25 samples.
  EXPECT_EQ(sizes_of(BatchSizes(ramp(2, 10, 3, 25)), 0, 10),
            (std::vector<std::int64_t>{2, 2, 2, 2, 2, 5, 5, 8, 10, 10}));
  EXPECT_EQ(sizes_of(BatchSizes(ramp(2, 3, 100, 4)), 0, 4), (std::vector<std::int64_t>{2, 2, 3, 3}));
  EXPECT_EQ(sizes_of(BatchSizes({7, {}}), 0, 3), (std::vector<std::int64_t>{7, 7, 7}));
}

// The rule of Megatron-LM's --rampup-batch-size, in whole numbers: an increment for every n-th part of the samples that
// is consumed. Counted one by one.
TEST(BatchRamp, TheRuleCountedOneByOne) {
  for (std::int64_t start : {1, 3, 16})
    for (std::int64_t increment : {1, 2, 7})
      for (std::int64_t n : {1, 2, 5, 31})
        for (std::int64_t samples : {1, 30, 97, 1000}) {
          const auto batch = ramp(start, start + n * increment, increment, samples);
          const BatchSizes sizes(batch);
          std::int64_t seen = 0;
          for (std::int64_t step = 0; step < 120; ++step) {
            std::int64_t made = 0;
            for (std::int64_t k = 1; k <= n; ++k) made += k * samples <= seen * n ? 1 : 0;
            ASSERT_EQ(sizes.size_after(step), start + made * increment)
                << global_batch_text(batch) << ", step " << step;
            ASSERT_EQ(sizes.samples_after(step), seen) << global_batch_text(batch) << ", step " << step;
            seen += start + made * increment;
          }
        }
}

TEST(BatchRamp, GoesOnAnywhere) {
  const auto batch = ramp(2, 8, 2, 30);
  const BatchSizes whole(batch);
  for (std::int64_t step = 0; step < 14; ++step) {
    const BatchSizes rest(batch, step, whole.samples_after(step));
    EXPECT_EQ(sizes_of(rest, step, 20), sizes_of(whole, step, 20)) << step;
    EXPECT_EQ(rest.samples_after(step + 9), whole.samples_after(step + 9)) << step;
  }
  // A run whose batch was 100 goes on with a ramp that is over.
  EXPECT_EQ(BatchSizes(batch, 3, 300).size_after(3), 8);
  EXPECT_EQ(BatchSizes(batch, 3, 300).samples_after(5), 316);
  const auto largest = ramp(1, 65537, 1, ranges::ramp_length.high);
  const BatchSizes late(largest, 10, ranges::ramp_length.high - 1);
  EXPECT_EQ(sizes_of(late, 10, 3), (std::vector<std::int64_t>{65536, 65537, 65537}));
}

TEST(BatchRamp, StepsOfEachSize) {
  const BatchSizes sizes(ramp(2, 8, 2, 30));
  std::string text;
  for (const auto& [size, count] : sizes.steps_of_sizes(3, 12)) text += fmt::format("{}x{} ", count, size);
  EXPECT_EQ(text, "2x2 3x4 2x6 2x8 ");
  EXPECT_TRUE(sizes.steps_of_sizes(3, 3).empty());
  const auto later = BatchSizes({8, {}}, 5, 77).steps_of_sizes(5, 9);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(later[0].count, 4);
  EXPECT_TRUE(sizes.within(12, 50));
  EXPECT_FALSE(sizes.within(12, 49));
  EXPECT_FALSE(sizes.within(1, 1));
}

TEST(BatchRamp, TokensAreWholeSequences) {
  const BatchRamp tokens{2, 2, 97, Unit::tokens};
  EXPECT_EQ(tokens.in_samples(32), (BatchRamp{2, 2, 4, Unit::samples}));
  EXPECT_EQ(tokens.in_samples(97).length, 1);
  EXPECT_EQ(tokens.in_samples(1000).length, 1);
  EXPECT_THROW(BatchSizes({8, tokens}), std::logic_error);
}

Plan ramped(const std::string& text) {
  auto p = small_plan();
  auto fields = fields_of(p);
  base::field_named(fields, "global-batch", "").set(text, "global-batch");
  return p;
}

TEST(BatchRamp, LayoutsThatCannotDivideASizeAreRefused) {
  EXPECT_EQ(first_problem(ramped("2:8/30")), "");
  const auto says = [](const std::string& text, const auto& change) {
    auto p = ramped(text);
    p.topology = Topology({{Axis::data, 1}});
    change(p);
    return first_problem(p);
  };
  const auto micro_4 = [](Plan& p) { p.micro_batch = 4; };
  EXPECT_EQ(says("2:8/30", micro_4),
            "--global-batch 2:8/30samples has steps of 2: --global-batch 2 is not a multiple of --micro-batch 4");
  EXPECT_EQ(says("4:8:2/30", micro_4),
            "--global-batch 4:8:2/30samples has steps of 6: --global-batch 6 is not a multiple of --micro-batch 4");
  EXPECT_EQ(says("4:6:2/30", micro_4), "--global-batch 6 is not a multiple of --micro-batch 4");
  EXPECT_EQ(says("4:8:5/30", micro_4), "") << "4 and 8";
  EXPECT_EQ(says("4:8:1/30", [](Plan& p) { p.local_accumulation = 2; }),
            "--global-batch 4:8:1/30samples has steps of 5: --local-accumulation 2 does not divide 5 micro-batches");
  const auto idle = says("2:8/30", [](Plan& p) { p.topology = Topology({{Axis::data, 4}}); });
  EXPECT_NE(idle.find("has steps of 2: 4 ranks, but a step has only 2 groups"), std::string::npos) << idle;
  // One that no text makes.
  const auto made = says("2:8/30", [](Plan& p) { p.global_batch = 1; });
  EXPECT_NE(made.find("does not grow from 2 to 1"), std::string::npos) << made;
}

TEST(BatchRamp, PlansWriteARampAsTextAndAnotherBatchAsBefore) {
  auto plain = small_plan();
  predict(plain);
  EXPECT_NE(to_json(plain).find("\"global_batch\": 8,"), std::string::npos);
  auto p = ramped("2:8/90tokens");
  predict(p);
  const auto json = to_json(p);
  EXPECT_NE(json.find("\"global_batch\": \"2:8/90tokens\""), std::string::npos) << json;
  const auto read = plan_from_json(json, "p");
  EXPECT_EQ(read.global_batch, 8);
  EXPECT_EQ(read.batch_ramp, p.batch_ramp);
  EXPECT_EQ(to_json(read), json);
  EXPECT_EQ(read.memory.total(), plain.memory.total()) << "the largest step decides";
  const auto with = [&](const std::string& value) {
    auto text = json;
    text.replace(text.find("\"2:8/90tokens\""), 14, value);
    return text;
  };
  EXPECT_EQ(plan_from_json(with("8"), "p").batch_ramp, BatchRamp());
  for (const char* wrong : {"\"8\"", "\"\"", "\"8:2/1\"", "\"2:8\"", "2.5", "[2, 8]"})
    EXPECT_THROW(plan_from_json(with(wrong), "p"), base::InputError) << wrong;
}

// The largest step reserves the memory of every step.
TEST(BatchRamp, SmallerStepsNeedNoMoreSlots) {
  for (const auto& [name, schedule] : schedule_names())
    for (int stages : {1, 2, 3, 4})
      for (int chunks : {1, 2, 3}) {
        if (chunks > 1 && schedule != PipelineSchedule::interleaved) continue;
        for (int stage = 0; stage < stages; ++stage) {
          std::vector<int> before(static_cast<std::size_t>(chunks), 0);
          for (std::int64_t micros = 1; micros <= 20; ++micros) {
            const auto slots =
                slots_of(step_actions(BatchPlan{micros, 1, 1, 1}, 0, {schedule, stages, chunks}, stage), chunks);
            for (std::size_t c = 0; c < slots.size(); ++c)
              EXPECT_GE(slots[c], before[c]) << name << ", " << stages << " stages, " << micros;
            before = slots;
          }
        }
      }
}

TEST(BatchRamp, UnevenStepsOfAnySize) {
  const auto plan = [](std::int64_t end, int ranks, const BatchRamp& ramp) {
    return BatchPlan{end, 1, 1, ranks, ramp};
  };
  EXPECT_FALSE(plan(8, 2, {2, 2, 30}).ever_uneven());
  EXPECT_TRUE(plan(8, 2, {2, 3, 30}).ever_uneven()) << "5 on 2 ranks";
  EXPECT_TRUE(plan(8, 2, {3, 5, 30}).ever_uneven());
  EXPECT_TRUE(plan(7, 2, {}).ever_uneven());
  EXPECT_FALSE(plan(6, 3, {}).ever_uneven());
}

}  // namespace batch_ramp_test
}  // namespace trainyard::plan
