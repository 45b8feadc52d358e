// The loss scale of an f16 run against torch.autocast and torch.amp.GradScaler (tests/golden/grad_scaler.py): which
// steps are skipped, the scale of each step, losses and norms.
#include "libtrain/comm/threads.h"
#include "libtrain/data/shard_writer.h"
#include "libtrain/data/window_dataset.h"
#include "libtrain/engine/trainer.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace trainyard {
namespace grad_scaler_test {

using engine::LossScale;
using nlohmann::json;

json golden_page() {
  std::ifstream in(std::string(TRAINYARD_GOLDEN_FOLDER) + "/grad-scaler.json");
  return json::parse(in);
}

engine::LossScaleRule rule_of(const json& run) {
  return engine::loss_scale_rule(
      fmt::format("dynamic:{},{},1", run["init_scale"].get<std::int64_t>(), run["growth_interval"].get<std::int64_t>()),
      base::DType::f16);
}

plan::Plan plan_of(const json& page, int zero, int ranks) {
  const auto &m = page["model"], &r = page["run"];
  plan::Plan p;
  p.model.layers = m["layers"], p.model.hidden = m["hidden"], p.model.heads = m["heads"],
  p.model.kv_heads = m["kv_heads"], p.model.ffn = m["ffn"];
  p.model.vocabulary = m["vocabulary"], p.model.context = m["context"],
  p.model.biases = m["biases"] == true ? plan::Biases::on : plan::Biases::off, p.model.tied = m["tied"],
  p.model.norm_epsilon = m["norm_epsilon"];
  p.model.norm = plan::Norm::layer, p.model.positions = plan::Positions::learned,
  p.model.activation = plan::Activation::gelu_tanh;
  p.zero = zero, p.dtype = base::DType::f16, p.topology = plan::Topology({{plan::Axis::data, ranks}});
  p.global_batch = r["global_batch"], p.micro_batch = r["micro_batch"].get<std::int64_t>() / ranks,
  p.sequence = r["sequence"];
  plan::predict(p);
  return p;
}

engine::StepSettings settings_of(const json& r) {
  engine::StepSettings s;
  s.learning_rate = {"constant", r["learning_rate"], 0, 0, 0, r["steps"]};
  s.loss_scale = rule_of(r), s.non_finite = engine::NonFinitePolicy::skip;
  s.beta1 = r["beta1"], s.beta2 = r["beta2"], s.epsilon = r["epsilon"];
  s.weight_decay = r["weight_decay"], s.clip = r["clip"], s.seed = r["seed"];
  return s;
}

// The same text as in the script, as one shard.
data::SetIndex write_text(const std::string& folder) {
  const auto bytes = data::make_tokenizer("bytes");
  data::SetIndex index;
  index.vocabulary = bytes->vocabulary(), index.end_of_document = bytes->end_of_document();
  data::ShardWriter writer(folder, "train", *bytes, 1 << 20);
  for (int d = 0; d < 40; ++d) {
    std::vector<std::int32_t> document;
    for (int i = 0; i < 150; ++i) document.push_back(32 + (d * 5 + 7 * i) % 101);
    document.push_back(bytes->end_of_document());
    writer.add(document);
  }
  index.train = writer.finish();
  return index;
}

struct Seen {
  std::vector<engine::StepOutcome> outcomes;
  double last_scale = 0;
};

Seen train(const json& page, int zero, int ranks) {
  const testing::Scratch scratch;
  const auto index = write_text(scratch.path);
  const auto plan = plan_of(page, zero, ranks);
  Seen seen;
  comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
    auto world = ranks == 1 ? engine::solo_world() : engine::make_world("threads", rank, ranks, threads.factory(rank));
    data::WindowDataset text(
        scratch.path, index, index.train,
        {.sequence = plan.sequence, .mask = data::DocumentMask::off, .order = data::Order::as_stored, .seed = 1});
    engine::Batches batches(text, nullptr, plan.batch(), rank);
    engine::Trainer trainer(plan, settings_of(page["run"]), world, batches);
    trainer.store().initialize(page["run"]["seed"]);
    for (int step = 0; step < page["run"]["steps"].get<int>(); ++step) {
      ASSERT_TRUE(trainer.begin_step(step, [] { return false; }));
      const auto outcome = trainer.finish_step();
      if (rank == 0) seen.outcomes.push_back(outcome), seen.last_scale = trainer.loss_scale().scale();
    }
  });
  return seen;
}

TEST(GradScaler, AnF16RunSkipsTheStepsThatPyTorchSkips) {
  const auto page = golden_page();
  for (const auto& [zero, ranks] : {std::pair(0, 1), {2, 2}}) {
    const auto seen = train(page, zero, ranks);
    ASSERT_EQ(seen.outcomes.size(), page["steps"].size());
    for (std::size_t s = 0; s < seen.outcomes.size(); ++s) {
      SCOPED_TRACE(fmt::format("step {}, ZeRO {}", s + 1, zero));
      const auto& want = page["steps"][s];
      const auto& got = seen.outcomes[s];
      EXPECT_EQ(got.loss_scale, want[2].get<double>());
      EXPECT_EQ(got.fate == engine::StepFate::skipped, want[3].get<bool>());
      EXPECT_EQ(got.targets, 64);
      EXPECT_NEAR(got.loss, want[0].get<double>(), 1e-3 * got.loss);
      if (got.fate == engine::StepFate::skipped) continue;
      EXPECT_NEAR(got.gradient_norm, want[1].get<double>(), 2e-2 * got.gradient_norm);
    }
    EXPECT_EQ(seen.last_scale, page["last_scale"].get<double>());
  }
}

// The rule alone, with the overflows that PyTorch had.
TEST(GradScaler, TheRuleHasTheScalesOfPyTorch) {
  const auto page = golden_page();
  LossScale scale(rule_of(page["run"]));
  int skips = 0, doublings = 0;
  for (const auto& step : page["steps"]) {
    EXPECT_EQ(scale.scale(), step[2].get<double>());
    const auto before = scale.scale();
    if (step[3].get<bool>()) skips += scale.count_overflow() ? 1 : 0;
    else scale.count_step(), doublings += scale.scale() > before ? 1 : 0;
  }
  EXPECT_EQ(scale.scale(), page["last_scale"].get<double>());
  EXPECT_GE(skips, 6) << "the golden run is to overflow";
  EXPECT_GE(doublings, 2) << "and to double its scale";
}

}  // namespace grad_scaler_test
}  // namespace trainyard
