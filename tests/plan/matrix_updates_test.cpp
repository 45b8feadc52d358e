// Tests which matrices Muon updates, how they are dealt to owners, and what a plan says of it.
#include "libtrain/plan/cost/matrix_updates.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace trainyard::plan {
namespace matrix_updates_test {

ModelConfig model_of(const std::string& name) {
  auto m = preset(name);
  m.vocabulary = 257, m.lanes = 4, m.layers = 3;
  return m;
}

TEST(MatrixUpdates, AreOfTheWeightsOfBranches) {
  std::set<std::string> names;
  for (const auto& group : flat_groups(model_of("gpt2-nano")))
    for (const auto& p : group.parameters) {
      if (!is_hidden_matrix(group, p)) continue;
      EXPECT_TRUE(p.name.starts_with("layers.")) << p.name;
      if (p.name.starts_with("layers.01.")) names.insert(p.name.substr(10));
    }
  EXPECT_EQ(names, (std::set<std::string>{"attention.k.weight", "attention.output.weight", "attention.q.weight",
                                          "attention.v.weight", "ffn.down.weight", "ffn.up.weight"}));
}

// Every rank sends what leaves it, and what leaves all ranks is every element that is not with its owner, twice.
TEST(MatrixUpdates, MoveEachElementToItsOwnerAndBack) {
  for (const char* name : {"gpt2-nano", "llama-nano"})
    for (const int data : {1, 2, 3, 5})
      for (const int tensor : {1, 2}) {
        const auto model = model_of(name);
        const auto topology = replicas_of(data * tensor, tensor);
        const FlatGroupTable table(model, topology);
        const MatrixUpdates updates(table, topology);
        std::int64_t elements = 0, crosses_parts = 0, crosses_shards = 0;
        std::vector<double> loads(static_cast<std::size_t>(data * tensor), 0.0);
        double largest = 0;
        for (const auto& m : updates.matrices()) {
          ASSERT_TRUE(m.owner >= 0 && m.owner < data && m.owner_part >= 0 && m.owner_part < m.parts);
          EXPECT_EQ(m.parts, tensor);
          std::int64_t held = 0;
          for (int shard = 0; shard < data; ++shard) {
            const auto piece = m.piece(shard);
            EXPECT_EQ(piece.count == 0 ? held : piece.first, held);
            held += piece.count;
            crosses_parts += (tensor - 1) * piece.count;
            if (shard != m.owner) crosses_shards += tensor * piece.count;
          }
          EXPECT_EQ(held * tensor, m.rows() * m.cols());
          elements += m.rows() * m.cols();
          const double side = static_cast<double>(std::min(m.rows(), m.cols())),
                       length = static_cast<double>(std::max(m.rows(), m.cols())),
                       work = 4 * side * side * length + 2 * side * side * side;
          loads[static_cast<std::size_t>(m.owner * tensor + m.owner_part)] += work;
          largest = std::max(largest, work);
        }
        std::map<std::string, std::int64_t> sent;
        for (int rank = 0; rank < topology.world(); ++rank)
          for (const auto& c : updates.calls(rank)) sent[name_of(c.group)] += *c.sent;
        EXPECT_EQ(sent["tensor"], 2 * 4 * crosses_parts);
        EXPECT_EQ(sent["data"], 2 * 4 * crosses_shards);
        std::int64_t of_layers = 0;
        for (const auto& group : flat_groups(model))
          for (const auto& p : group.parameters)
            of_layers += p.name.starts_with("layers.") && p.shape.size() == 2 ? p.shape[0] * p.shape[1] : 0;
        EXPECT_EQ(elements, of_layers) << name;
        // Graham 1969: no owner has more than 4/3 of the best dealing, which is at least the mean and the largest.
        const double mean = std::accumulate(loads.begin(), loads.end(), 0.0) / static_cast<double>(loads.size());
        EXPECT_LE(*std::max_element(loads.begin(), loads.end()), 4.0 / 3 * std::max(mean, 2 * largest));
        EXPECT_GT(*std::min_element(loads.begin(), loads.end()), 0);
      }
}

Plan plan_of(const std::string& optimizer, int data, int tensor, int zero) {
  Plan p;
  p.model = model_of("gpt2-nano");
  p.model.hidden = 256, p.model.ffn = 1024;
  p.topology = replicas_of(data * tensor, tensor);
  p.tensor = tensor, p.zero = zero, p.optimizer = optimizer;
  p.global_batch = 6, p.micro_batch = 1, p.sequence = 8;
  predict(p);
  return p;
}

TEST(MatrixUpdates, AreInPlansOfMuonAlone) {
  for (const int tensor : {1, 2}) {
    const auto muon = plan_of("muon", 3, tensor, 1), adamw = plan_of("adamw", 3, tensor, 1);
    using Category = base::MemoryCategory;
    EXPECT_EQ(muon.memory.categories[Category::optimizer], adamw.memory.categories[Category::optimizer]);
    EXPECT_GT(muon.memory.categories[Category::workspace], adamw.memory.categories[Category::workspace])
        << "a sequence is so short that the update needs more than the passes";
    const FlatGroupTable table(muon.model, muon.topology);
    const MatrixUpdates updates(table, muon.topology);
    for (int rank = 0; rank < muon.topology.world(); ++rank) {
      const auto all = [&](const Plan& p) {
        std::int64_t bytes = 0;
        int entries = 0;
        for (const auto& t : p.traffic)
          if (t.has(rank)) {
            ++entries;
            for (const auto& o : t.operations) bytes += o.bytes;
          }
        EXPECT_EQ(entries, 1) << "rank " << rank;
        return bytes;
      };
      std::int64_t moved = 0;
      for (const auto& c : updates.calls(rank)) moved += *c.sent;
      EXPECT_GT(moved, 0);
      EXPECT_EQ(all(muon), all(adamw) + moved) << "rank " << rank;
    }
  }
  const auto alone = plan_of("muon", 1, 1, 0);
  ASSERT_EQ(alone.traffic.size(), 1u);
  for (const auto& o : alone.traffic.front().operations) EXPECT_EQ(o.bytes, 0) << o.operation;
}

}  // namespace matrix_updates_test
}  // namespace trainyard::plan
