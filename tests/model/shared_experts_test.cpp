// Expert parallelism: each rank has a micro-batch of its own and some of the experts. Losses, gradients and results
// have the bits of one rank with all experts, and memory is as planned.
#include "kernels/cast/cast.h"
#include "libtrain/base/random.h"
#include "libtrain/model/expert_collectives.h"
#include "libtrain/plan/cost/expert_nodes.h"
#include "tests/model/small_model.h"
#include "tests/model/tensor_world.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <utility>

namespace trainyard::test {
namespace shared_experts_test {

using base::DType;

// The store of a rank that has some of the experts. It keeps a gradient of these experts for each rank that sends
// tokens.
class ShareStore : public params::ParameterStore {
 public:
  ShareStore(const plan::ModelPart& part, const plan::Topology& topology, DType dtype, std::uint64_t seed,
             bool crowded = false)
      : flat_groups(plan::flat_groups(part)), dtype_(dtype), wide_(dtype == DType::f64 ? DType::f64 : DType::f32) {
    for (const auto& flat_group : flat_groups) {
      layouts.push_back(plan::layout(flat_group, 1));
      sources.push_back(plan::contributions_of(flat_group, topology));
      next_.push_back(0), open_.push_back(false);
      const auto n = static_cast<std::size_t>(layouts.back().padded);
      weights_.emplace_back(n * 8, 0), gradients_.emplace_back(n * 8 * static_cast<std::size_t>(sources.back()), 0);
      for (std::size_t p = 0; p < flat_group.parameters.size(); ++p) {
        const auto& parameter = flat_group.parameters[p];
        std::vector<float> values(static_cast<std::size_t>(parameter.stored_count()),
                                  parameter.init.kind == plan::Init::Kind::ones ? 1.0f : 0.0f);
        if (parameter.init.kind == plan::Init::Kind::normal)
          base::fill_normal(values.data(), parameter.count(), seed, parameter.name, 0, 20 * parameter.init.stddev);
        // With sigmoid scores, this bias makes all tokens choose the first experts.
        if (crowded && parameter.name.ends_with("gate.bias"))
          for (std::size_t e = 0; e < 3; ++e) values[e] = 4;
        const std::vector<float> copy = values;
        auto view = slot(weights_.back(), layouts.back(), p, dtype);
        const auto exec = tensor::Exec::caller(nullptr, 1);
        kernels::cast(*exec, base::View::of(copy.data(), {parameter.stored_count()}), view.reshaped({view.count()}));
      }
    }
  }
  static base::View slot(std::vector<char>& flat, const plan::FlatLayout& layout, std::size_t p, DType dtype) {
    const auto& shape = layout.shapes[p];
    char* at = flat.data() + layout.offsets[p] * base::size_of(dtype);
    return shape.size() == 1 ? base::View(at, dtype, {shape[0]}) : base::View(at, dtype, {shape[0], shape[1]});
  }
  // The gradient from the tokens of one rank.
  std::vector<char> gradient_of(std::size_t flat_group, std::size_t parameter, int source) {
    const auto view = slot(gradients_[flat_group], layouts[flat_group], parameter, wide_);
    const char* at = static_cast<char*>(view.data) + source * layouts[flat_group].padded * base::size_of(wide_);
    return {at, at + view.bytes()};
  }
  std::vector<plan::FlatGroup> flat_groups;
  std::vector<plan::FlatLayout> layouts;
  std::vector<int> sources;

 protected:
  void acquire(plan::Occurrence) override {}
  void give_back(plan::Occurrence) override {}
  base::View weight(plan::Occurrence occurrence, int index) override {
    const auto u = static_cast<std::size_t>(occurrence.flat_group);
    return slot(weights_[u], layouts[u], static_cast<std::size_t>(index), dtype_);
  }
  char* of_source(plan::Occurrence occurrence, int source) {
    const auto u = static_cast<std::size_t>(occurrence.flat_group);
    return gradients_[u].data() + source * layouts[u].padded * base::size_of(wide_);
  }
  // A flat group has one open gradient at a time, in the order of the sources.
  void open(plan::Occurrence occurrence, int source) override {
    const auto u = static_cast<std::size_t>(occurrence.flat_group);
    EXPECT_EQ(next_[u], source) << flat_groups[u].name;
    EXPECT_FALSE(std::exchange(open_[u], true) != 0) << flat_groups[u].name;
    std::memset(of_source(occurrence, source), 0xff,
                static_cast<std::size_t>(layouts[u].padded * base::size_of(wide_)));
  }
  base::View gradient(plan::Occurrence occurrence, int source, int index) override {
    const auto u = static_cast<std::size_t>(occurrence.flat_group);
    EXPECT_EQ(next_[u], source) << flat_groups[u].name;
    auto view = slot(gradients_[u], layouts[u], static_cast<std::size_t>(index), wide_);
    view.data = static_cast<char*>(view.data) + source * layouts[u].padded * base::size_of(wide_);
    return view;
  }
  void commit(plan::Occurrence occurrence, int source) override {
    const auto u = static_cast<std::size_t>(occurrence.flat_group);
    EXPECT_EQ(next_[u], source) << flat_groups[u].name;
    open_[u] = false;
    next_[u] = (source + 1) % sources[u];
  }

 private:
  DType dtype_, wide_;
  std::vector<std::vector<char>> weights_, gradients_;
  std::vector<int> next_;   // the next source of each flat group
  std::vector<char> open_;  // whether its gradient is open
};

plan::ModelConfig model_of(const plan::ExpertConfig& experts, plan::ModelConfig m) {
  m.tied = false;  // one occurrence of each flat group
  m.experts = experts;
  return m;
}

std::vector<plan::ModelConfig> models() {
  plan::ExpertConfig e;
  e.count = {4}, e.min_capacity = 1, e.ffn = 48, e.z_loss = 0.01;
  auto top1 = e, top2 = e, many = e;
  top1.every = 2, top1.capacity_factor = "1.0";
  top2.top_k = 2, top2.overflow = plan::Overflow::position, top2.residual = true, top2.noise = plan::GateNoise::jitter;
  many.count = {8, 4}, many.top_k = 3, many.shared = 1, many.capacity_factor = "none";
  many.score = plan::GateScore::sigmoid;
  return {model_of(top1, with_dropout(small_gpt2())), model_of(top2, small_gpt2()), model_of(many, small_llama())};
}

struct Made {
  double loss = 0, evaluated = 0;
  std::map<std::string, std::vector<char>> gradients;
};

// What one rank alone computes from a micro-batch.
Made alone(const plan::ModelConfig& m, DType dtype, const Batch& batch, plan::Recompute recompute, bool crowded) {
  ShareStore store(m, plan::Topology(), dtype, 3, crowded);
  Runner runner(m, {2, 16, dtype, 1}, recompute);
  model::Step step{*runner.exec, &store, batch.micro, dtype, 7, plan::Pass::train, 0, 0};
  auto flow = runner.decoder.forward(step, runner.saved);
  runner.decoder.backward(step, flow, runner.saved);
  Made out;
  out.loss = step.loss_sum;
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p)
      out.gradients[store.flat_groups[u].parameters[p].name] = store.gradient_of(u, p, 0);
  model::Step evaluation{*runner.exec, &store, batch.micro, dtype, 7, plan::Pass::evaluate, 0, 0};
  runner.decoder.evaluate(evaluation, runner.saved);
  out.evaluated = evaluation.loss_sum;
  return out;
}

// Rows that a rank sends another in a dispatch round; whether all tokens choose the same experts; the most rounds of a
// layer (0: not checked).
struct Rounds {
  std::int64_t buffer = 0;
  bool crowded = false;
  std::int64_t most = 0;
};
// Overlap chunks of a rank's experts; ranks of a node; the last ranks, whose micro-batches are empty.
struct Ways {
  int chunks = 1, node = 1, empty = 0;
};

void expect_same(const plan::ModelConfig& m, DType dtype, int ranks, plan::Recompute recompute, Rounds rounds = {},
                 Ways ways = {}) {
  const auto where =
      fmt::format("{}, top {}, {}, {} ranks in nodes of {}, {} chunks, {} empty, recompute {}", m.name, m.experts.top_k,
                  base::name_of(dtype), ranks, ways.node, ways.chunks, ways.empty, plan::name_of(recompute));
  std::vector<std::unique_ptr<Batch>> batches;
  std::vector<Made> want;
  for (int r = 0; r < ranks; ++r) {
    batches.push_back(std::make_unique<Batch>(formula_windows(m.vocabulary, r, 2, 16, true), true,
                                              static_cast<std::uint64_t>(2 * r)));
    want.push_back(alone(m, dtype, *batches.back(), recompute, rounds.crowded));
  }
  const auto topology = plan::Topology({{plan::Axis::data, ranks}}).with_experts(ranks, ways.node);
  comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& threads) {
    const auto part = plan::ModelPart(m).with_experts({ranks, rank, 1, ways.chunks, ways.node});
    plan::MicroShape shape{{2, 16}, {dtype, 1}};
    shape.expert_capacity_buffer = rounds.buffer;
    tensor::Arena activations(tensor::Category::activations,
                              plan::activation_bytes(part, shape, plan::Pass::train, recompute)),
        workspace(tensor::Category::workspace, plan::workspace_bytes(part, shape, plan::Pass::train)),
        staging(tensor::Category::communication_staging, plan::expert_staging_bytes(part, shape, plan::Pass::train)),
        none(tensor::Category::parameters, 0);
    const auto exec = tensor::Exec::caller(&workspace, 1);
    const auto communication = tensor::Exec::worker("communication", nullptr);
    const plan::FlatGroupSet set(part, topology);
    comm::World world(
        "threads", rank, topology, threads.factory(rank),
        {{plan::Axis::data}, {plan::Axis::expert}, {plan::Axis::expert_outer}, {plan::Axis::expert_inner}});
    params::RankExecs execs{world, *exec, *communication};
    const model::ExpertCollectives collectives(execs, staging, {1, 1, 1, 1}, part.own_shape(shape),
                                               plan::expert_hop_bytes(part, shape, plan::Pass::train));
    ShareStore store(part, topology, dtype, 3, rounds.crowded);
    model::Decoder decoder(part, recompute);
    model::Saved saved(activations);
    const bool empty = rank >= ranks - ways.empty;
    const auto nothing = model::empty_micro_batch(16, exec->device());
    const auto& micro = empty ? nothing : batches[static_cast<std::size_t>(rank)]->micro;
    const auto& mine = want[static_cast<std::size_t>(rank)];
    model::Step step{*exec, &store, micro, dtype, 7, plan::Pass::train, 0, 0};
    step.experts = &collectives;
    auto flow = decoder.forward(step, saved);
    decoder.backward(step, flow, saved);
    EXPECT_TRUE(saved.empty());
    if (rounds.most > 0) {
      EXPECT_EQ(collectives.most_rounds(), rounds.most) << where;
    }
    if (!empty) {
      EXPECT_EQ(activations.peak_bytes(), activations.capacity_bytes()) << where;
      EXPECT_EQ(workspace.peak_bytes(), workspace.capacity_bytes()) << where;
    }
    EXPECT_EQ(staging.peak_bytes(), staging.capacity_bytes()) << where;
    EXPECT_EQ(staging.capacity_bytes() > 0, ways.node > 1) << where;
    const auto sent_to = [&](plan::Axis axis) {
      std::uint64_t bytes = 0;
      for (const auto& [operation, t] : world.group({axis}).ledger().totals())
        if (operation == "all_to_all") bytes += t.sent_bytes;
      return bytes;
    };
    EXPECT_EQ(sent_to(plan::Axis::expert) > 0, ways.node == 1) << where;
    EXPECT_EQ(sent_to(plan::Axis::expert_inner) > 0, ways.node > 1) << where;
    EXPECT_EQ(sent_to(plan::Axis::expert_outer) > 0, ways.node > 1) << where;
    EXPECT_EQ(step.loss_sum, empty ? 0 : mine.loss) << where;
    EXPECT_EQ(step.target_count > 0, !empty) << where;
    const std::vector<char> zeros(1 << 20);
    std::int64_t shared = 0;
    for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
      for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p)
        for (int source = 0; source < store.sources[u]; ++source) {
          const auto& name = store.flat_groups[u].parameters[p].name;
          const auto& of = store.sources[u] > 1 ? want[static_cast<std::size_t>(source)] : mine;
          const auto found = store.gradient_of(u, p, source);
          if (store.sources[u] > 1 ? source >= ranks - ways.empty : empty) {
            ASSERT_LE(found.size(), zeros.size());
            EXPECT_EQ(std::memcmp(found.data(), zeros.data(), found.size()), 0) << where << ": " << name;
          } else {
            EXPECT_TRUE(found == of.gradients.at(name)) << where << ": " << name << " of the tokens of rank " << source;
          }
          shared += store.sources[u] > 1;
        }
    EXPECT_GT(shared, 0);
    model::Step evaluation{*exec, &store, micro, dtype, 7, plan::Pass::evaluate, 0, 0};
    evaluation.experts = &collectives;
    decoder.evaluate(evaluation, saved);
    EXPECT_EQ(evaluation.loss_sum, empty ? 0 : mine.evaluated) << where;
  });
}

TEST(SharedExperts, HaveTheBitsOfOneRank) {
  for (const auto& m : models())
    for (const int ranks : {2, 4})
      for (const auto dtype : {DType::f32, DType::bf16}) expect_same(m, dtype, ranks, plan::Recompute::none);
}
// A rank without tokens computes the rows of others, and its own gradients are zero.
TEST(SharedExperts, OfEmptyMicroBatches) {
  for (const auto& m : models())
    for (const auto dtype : {DType::f32, DType::bf16})
      for (const auto recompute : plan::recomputations) {
        expect_same(m, dtype, 2, recompute, {}, {.empty = 1});
        expect_same(m, dtype, 4, recompute, {}, {.node = 2, .empty = 3});
      }
  expect_same(models().front(), DType::f32, 2, plan::Recompute::none, {}, {.chunks = 2, .empty = 1});
}
// Every token goes to the experts of one rank. The buffer decides the number of dispatch rounds, in backward too.
TEST(SharedExperts, AllTokensChooseTheSameInRounds) {
  const auto m = models().back();
  for (const auto recompute : plan::recomputations)
    for (const auto dtype : {DType::f32, DType::bf16}) {
      expect_same(m, dtype, 2, recompute, {0, true, 3});   // of eight experts the first rank has the three chosen ones
      expect_same(m, dtype, 2, recompute, {64, true, 2});  // two groups go together
      expect_same(m, dtype, 2, recompute, {96, true, 1});
      expect_same(m, dtype, 4, recompute, {0, true, 2});
    }
}
// Groups of any size: some fit into a round, some wait for the next.
TEST(SharedExperts, RoundsOverBuffersOfAnySize) {
  for (const std::int64_t buffer : {32, 40, 57, 96})
    for (const int ranks : {2, 4}) expect_same(models().back(), DType::f32, ranks, plan::Recompute::none, {buffer});
}
// Hierarchical all-to-all with a capacity, whole and in overlap chunks, and in dispatch rounds. Nodes have two ranks,
// or a number of ranks that differs from the number of nodes.
TEST(SharedExperts, InNodes) {
  for (const auto& m : models())
    for (const auto dtype : {DType::f32, DType::bf16}) expect_same(m, dtype, 4, plan::Recompute::none, {}, {1, 2});
  auto many = models();
  for (auto& m : many) m.experts.count = {12};
  for (const int node : {2, 3})
    for (std::size_t i = 0; i < many.size(); ++i) {
      expect_same(many[i], DType::f32, 6, plan::Recompute::layers, {}, {1, node});
      if (i < 2) expect_same(many[i], DType::f32, 6, plan::Recompute::none, {}, {2, node});
    }
  expect_same(models().back(), DType::bf16, 4, plan::Recompute::none, {40, true}, {1, 2});
}
// Overlap chunks also work with a plain all-to-all of one hop.
TEST(SharedExperts, InChunks) {
  auto m = models().front();
  m.experts.count = {8};
  for (const int chunks : {2, 4}) expect_same(m, DType::f32, 2, plan::Recompute::none, {}, {chunks, 1});
}
TEST(SharedExperts, Recomputed) {
  for (const auto& m : models())
    for (const auto recompute : {plan::Recompute::selective, plan::Recompute::layers})
      expect_same(m, DType::f32, 2, recompute);
}

}  // namespace shared_experts_test
}  // namespace trainyard::test
