// The ranks of a new checkpoint: which layouts are refused before anything is written, and which cause a warning.
#include "tests/checkpoint/sample.h"

#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/checkpoint/new_layout.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

using namespace sample;

namespace new_layout_test {

checkpoint::Manifest manifest_of(const plan::ModelConfig& model) {
  checkpoint::Manifest m;
  m.state = state(model, base::DType::f32, 5);
  m.axes = {{"data", 1}};
  m.parameters = checkpoint::parameters_of(model);
  return m;
}

std::int64_t weights_of(const checkpoint::Manifest& m) {
  std::int64_t weights = 0;
  for (const auto& p : m.parameters) weights += p.count;
  return weights;
}

// Message and hint of the refusal, or "" if the layout is allowed.
std::pair<std::string, std::string> refusal(const checkpoint::Manifest& m, int data, int tensor) {
  try {
    EXPECT_EQ(checkpoint::ranks_of_layout(m, {data, {}, {}, {}, {}, tensor}).topology.world(), data * tensor);
    return {};
  } catch (const base::UsageError& e) {
    return {e.what(), e.hint()};
  }
}

std::vector<std::string> doubts(const plan::ModelConfig& model, int data, int tensor,
                                const std::function<void(checkpoint::RunState&)>& edit = {}) {
  auto s = state(model, base::DType::f32, 5);
  if (edit) edit(s);
  return checkpoint::doubts_of_layout(s, {plan::replicas_of(data * tensor, tensor)});
}

plan::ModelConfig of_lanes(std::int64_t lanes) {
  auto m = gpt_of_heads();
  m.lanes = lanes;
  return m;
}

TEST(NewLayout, NoMoreRanksThanTheModelHasWeights) {
  const auto m = manifest_of(gpt_of_heads());
  const auto weights = static_cast<int>(weights_of(m));
  ASSERT_GT(weights, 4000);
  for (const int tensor : {1, 2, 4}) {
    EXPECT_EQ(refusal(m, weights / tensor, tensor).first, "");
    const auto [message, hint] = refusal(m, weights / tensor + 1, tensor);
    EXPECT_EQ(message, fmt::format("{} ranks are more than the {} weights of the model: most would hold nothing",
                                   base::count_text((weights / tensor + 1) * tensor), base::count_text(weights)));
    EXPECT_EQ(hint, fmt::format("--data-parallel {} at most", weights / tensor));
  }
  EXPECT_NE(refusal(m, 1 << 20, 2).first.find("are more than 1048576"), std::string::npos) << "whatever the model";
  EXPECT_NE(refusal(m, weights, 3).first.find("--tensor-parallel 3 does not divide"), std::string::npos);
}

// Counted element by element: what each of the ranks would save.
TEST(NewLayout, RanksThatHoldNothingAreCounted) {
  const auto model = gpt_of_heads();
  const auto flat_groups = plan::flat_groups(model);
  const auto s = state(model, base::DType::f32, 5);
  for (const auto& [data, tensor] : {std::pair{1, 1}, std::pair{3, 2}, std::pair{40, 1}, std::pair{25, 4}}) {
    const auto ranks = plan::replicas_of(data * tensor, tensor);
    int empty = 0;
    for (int r = 0; r < ranks.world(); ++r) {
      bool holds = false;
      for (const auto& flat_group : flat_groups)
        for (const auto x :
             saved_of(held_flat_group(s, checkpoint::Kind::m, flat_group, ranks, r), flat_group, ranks, r))
          holds = holds || x != 0;  // padding is zero, and no saved value is
      empty += holds ? 0 : 1;
    }
    auto found = doubts(model, data, tensor);
    std::erase_if(found, [](const std::string& text) { return text.find("lane") != std::string::npos; });
    EXPECT_EQ(empty > 0, data * tensor >= 40);
    EXPECT_EQ(found, empty == 0
                         ? std::vector<std::string>{}
                         : std::vector{fmt::format("{} of {} ranks hold nothing: the model is too small for so many",
                                                   empty, data * tensor)});
  }
}

// Listing as many boxes as such ranks of such a model have would take minutes.
TEST(NewLayout, RanksOfALargeModelAreCountedWithoutAllThatTheyHold) {
  auto model = gpt_of_heads();
  model.layers = 1000, model.hidden = 8192;
  EXPECT_EQ(doubts(model, 1 << 17, 1).size(), 1u) << "pieces are padded, so that the last ranks have none";
}

TEST(NewLayout, LanesThatTensorRanksDoNotDivideAreNamedWithAWayOut) {
  using Doubts = std::vector<std::string>;
  EXPECT_EQ(doubts(of_lanes(4), 1, 4), Doubts{});
  EXPECT_EQ(doubts(of_lanes(4), 3, 2), Doubts{});
  EXPECT_EQ(doubts(of_lanes(1), 3, 1), Doubts{});
  EXPECT_EQ(doubts(of_lanes(2), 1, 4),
            Doubts{"4 tensor ranks do not divide the 2 lanes of the checkpoint's model: train goes on from it with "
                   "--tensor-parallel 2, or as another run with --lanes 4 --change model"});
  EXPECT_EQ(doubts(of_lanes(1), 1, 2),
            Doubts{"2 tensor ranks do not divide the 1 lane of the checkpoint's model: train goes on from it with "
                   "--tensor-parallel 1, on GPUs as it is, or as another run with --lanes 2 --change model"});
  auto thirds = of_lanes(3);  // more lanes than ranks, and no multiple of them
  thirds.heads = thirds.kv_heads = 6, thirds.ffn = 48, thirds.vocabulary = 300;
  EXPECT_EQ(doubts(thirds, 1, 2),
            Doubts{"2 tensor ranks do not divide the 3 lanes of the checkpoint's model: train goes on from it with "
                   "--tensor-parallel 1 or --tensor-parallel 3, or as another run with --lanes 2 --change model"});
  EXPECT_EQ(doubts(of_lanes(2), 1, 4, [](auto& s) { s.contents = checkpoint::Contents::model; }),
            Doubts{"4 tensor ranks do not divide the 2 lanes of the checkpoint's model: train --init-from takes it "
                   "with --tensor-parallel 2, or with --lanes 4"});
  const auto on_gpu = [](auto& s) { s.device_kind = "cuda"; };
  EXPECT_EQ(doubts(of_lanes(1), 1, 4, on_gpu), Doubts{}) << "a GPU's products may be whole for every layout";
  EXPECT_EQ(doubts(of_lanes(2), 1, 4, on_gpu).size(), 1u);
}

}  // namespace new_layout_test
