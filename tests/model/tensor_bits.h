// What tensor-parallel ranks are compared with: one rank with the whole model, and the plan.
#pragma once

#include "libtrain/plan/cost/traffic.h"
#include "tests/model/small_model.h"
#include "tests/model/tensor_world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace trainyard::test {
namespace tensor_bits {

using base::DType;

// Eight heads on four key-value heads, several blocks of tokens, several chunks of the head. The vocabulary leaves one
// of four ranks without a logical row.
inline plan::ModelConfig eight_heads(plan::ModelConfig m, std::int64_t lanes) {
  m.hidden = 64, m.heads = 8, m.kv_heads = 4, m.ffn = 192, m.vocabulary = 257, m.context = 160, m.lanes = lanes;
  return m;
}

struct Whole {
  double loss = 0, evaluated = 0;
  std::int64_t targets = 0;
  std::vector<std::vector<std::vector<double>>> gradients;  // by flat group, slot, element; of both occurrences
};

// Moves biases and norms away from 0 and 1, which would hide that something is added or scaled twice, and adapters away
// from 0.
inline void stir(PlainStore& store, const plan::Topology& topology, int rank) {
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p)
      for (const auto& [held, whole] : PlainStore::places(store.flat_groups[u].parameters[p], topology, rank))
        if (store.flat_groups[u].parameters[p].shape.size() == 1 ||
            store.flat_groups[u].parameters[p].name.ends_with("adapter_b"))
          store.master[u][static_cast<std::size_t>(store.layouts[u].offsets[p] + held)] +=
              0.3 * std::sin(0.7 * static_cast<double>(whole) + static_cast<double>(p));
  store.publish();
}

inline Whole one_rank(const plan::ModelConfig& m, const plan::MicroShape& shape, const Batch& batch) {
  PlainStore store(m, shape.dtype, 1);
  stir(store, plan::Topology(), 0);
  Runner runner(m, shape);
  const auto r = runner.train(store, batch);
  Whole out{r.loss_sum, 0, r.targets, {}};
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u) {
    auto& flat_group = out.gradients.emplace_back();
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p) {
      auto& slot = flat_group.emplace_back();
      for (std::int64_t i = 0; i < store.flat_groups[u].parameters[p].stored_count(); ++i)
        slot.push_back(store.gradient_of(static_cast<int>(u), static_cast<int>(p), i));
    }
  }
  out.evaluated = runner.evaluate(store, batch).loss_sum;
  return out;
}

inline bool same(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

struct Case {
  int ranks;
  bool rows;
  plan::Recompute recompute;
};

// Compares the sent calls and bytes with the plan's, operation by operation.
inline void expect_predicted(const std::map<std::string, comm::Traffic>& sent, const plan::ModelConfig& m,
                             const plan::MicroShape& shape, plan::Recompute recompute, const std::string& where) {
  const auto predicted = plan::added_up(plan::tensor_calls(m, shape, plan::Pass::train, recompute, 1));
  EXPECT_EQ(sent.size(), predicted.size()) << where;
  for (const auto& t : predicted) {
    const auto found = sent.find(t.operation);
    ASSERT_NE(found, sent.end()) << where << ": " << t.operation;
    EXPECT_EQ(static_cast<std::int64_t>(found->second.calls), t.calls) << where << ": " << t.operation;
    EXPECT_EQ(static_cast<std::int64_t>(found->second.sent_bytes), t.bytes) << where << ": " << t.operation;
  }
}

// Expects the bits of `want` on the ranks of `c`, and the memory and traffic of the plan to the byte.
inline void expect_same(const plan::ModelConfig& m, plan::MicroShape shape, const Batch& batch, const Whole& want,
                        const Case& c) {
  shape.tensor = c.ranks, shape.sequence_parallel = c.rows;
  const auto where =
      fmt::format("{} {} {} ranks{}{}", m.name, base::name_of(shape.dtype), c.ranks, c.rows ? ", rows shared" : "",
                  ", recompute " + std::string(plan::name_of(c.recompute)));
  comm::run_ranks(c.ranks, [&](int rank, comm::ThreadsWorld& threads) {
    Runner runner(m, shape, c.recompute);
    const TensorRank ground(rank, c.ranks, threads, m, shape, *runner.exec);
    runner.collectives = &ground.collectives;
    PlainStore store(m, shape.dtype, 1, ground.topology, rank);
    stir(store, ground.topology, rank);
    const auto r = runner.train(store, batch);
    expect_predicted(ground.ledger().totals(), m, shape, c.recompute, where);
    EXPECT_TRUE(same(r.loss_sum, want.loss)) << where << ": " << r.loss_sum << " against " << want.loss;
    EXPECT_EQ(r.targets, want.targets);
    for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
      for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p) {
        std::int64_t others = 0;
        for (const auto& [held, whole] : PlainStore::places(store.flat_groups[u].parameters[p], ground.topology, rank))
          others += !same(store.gradient_of(static_cast<int>(u), static_cast<int>(p), held),
                          want.gradients[u][p][static_cast<std::size_t>(whole)]);
        EXPECT_EQ(others, 0) << where << ": rank " << rank << ", " << store.flat_groups[u].parameters[p].name;
      }
    EXPECT_EQ(runner.activations.peak_bytes(), plan::activation_bytes(m, shape, plan::Pass::train, c.recompute))
        << where;
    EXPECT_EQ(runner.workspace.peak_bytes(), plan::workspace_bytes(m, shape, plan::Pass::train)) << where;
    EXPECT_EQ(ground.staging.peak_bytes(), plan::tensor_staging_bytes(m, shape)) << where;
    EXPECT_TRUE(same(runner.evaluate(store, batch).loss_sum, want.evaluated)) << where;
  });
}

// The same with little to compute, for an emulated device. Lanes make the bits equal on a GPU, too. In bf16 labels are
// smoothed.
inline void small(plan::ModelConfig m) {
  m = with_dropout(eight_heads(m, 2));
  m.layers = 1, m.hidden = 16, m.heads = m.kv_heads = 4, m.ffn = 32, m.vocabulary = 140;
  const Batch batch(formula_windows(m.vocabulary, 0, 2, 64, true), true, 40);
  for (const auto dtype : {DType::f32, DType::bf16}) {
    auto shape = Runner::on_device({{2, 64}, {dtype, 1}});
    shape.label_smoothing = dtype == DType::bf16;
    const auto want = one_rank(m, shape, batch);
    for (const bool rows : {false, true})
      expect_same(m, shape, batch, want,
                  {2, rows, plan::recomputations[static_cast<std::size_t>(rows + (dtype == DType::bf16))]});
  }
}

}  // namespace tensor_bits
}  // namespace trainyard::test
