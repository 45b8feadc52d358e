// Compares with reference tables: ranks, parameter counts, layout, ordered reduction, memory, traffic and FLOPs.
#include "libtrain/base/reduction_order.h"
#include "libtrain/plan/blocks/block_registry.h"
#include "libtrain/plan/cost/activations.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/cost/memory.h"
#include "libtrain/plan/cost/traffic.h"
#include "libtrain/plan/grid/topology.h"
#include "libtrain/plan/schedule/schedule.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace trainyard::plan {

namespace tables_test {

ModelConfig with_vocabulary(const char* name, std::int64_t vocabulary) {
  auto m = preset(name);
  m.vocabulary = vocabulary, m.lanes = 1;
  return m;
}

Topology over_data(int ranks) { return Topology({{Axis::data, ranks}}); }

std::int64_t bytes_of(const std::vector<Traffic>& all) {
  std::int64_t n = 0;
  for (const auto& t : all) n += t.bytes;
  return n;
}

TEST(Topology, RanksOfTheLiterature) {
  const Topology t({{Axis::pipe, 4}, {Axis::data, 2}, {Axis::tensor, 4}});
  EXPECT_EQ(t.world(), 32);
  for (int p = 0; p < 4; ++p)
    for (int d = 0; d < 2; ++d)
      for (int k = 0; k < 4; ++k)
        EXPECT_EQ(t.rank_of({{Axis::pipe, p}, {Axis::data, d}, {Axis::tensor, k}}), (p * 2 + d) * 4 + k);
  EXPECT_EQ(t.peers(13, {Axis::pipe}), (std::vector<int>{5, 13, 21, 29}));
  const Topology experts({{Axis::expert_data, 2}, {Axis::expert, 4}, {Axis::tensor, 2}});
  EXPECT_EQ(experts.peers(2, {Axis::expert}), (std::vector<int>{0, 2, 4, 6}));
  EXPECT_EQ(experts.peers(15, {Axis::expert}), (std::vector<int>{9, 11, 13, 15}));
  EXPECT_EQ(experts.peers(6, {Axis::expert_data}), (std::vector<int>{6, 14}));
  EXPECT_EQ(t.size(Axis::context), 1);
  EXPECT_EQ(t.size({Axis::pipe, Axis::context, Axis::tensor}), 16);
  EXPECT_EQ(t.peers(13, {Axis::pipe, Axis::data, Axis::tensor}).size(), 32u);
  EXPECT_EQ(t.peers(13, {}), (std::vector<int>{13}));
  EXPECT_THROW(t.coordinate(32, Axis::pipe), std::out_of_range);
  EXPECT_THROW(Topology({{Axis::data, 0}}), std::invalid_argument);
  EXPECT_THROW(Topology({{Axis::data, 2}, {Axis::data, 2}}), std::invalid_argument);
}

// World 16, tensor 2: experts over 4 and over 2 of the data-parallel ranks.
TEST(Topology, ExpertsAreASecondReading) {
  const Topology plain({{Axis::data, 8}, {Axis::tensor, 2}});
  const auto four = plain.with_experts(4), two = plain.with_experts(2);
  using Ranks = std::vector<int>;
  EXPECT_EQ(four.peers(0, {Axis::expert}), (Ranks{0, 2, 4, 6}));
  EXPECT_EQ(four.peers(12, {Axis::expert}), (Ranks{8, 10, 12, 14}));
  EXPECT_EQ(four.peers(1, {Axis::expert}), (Ranks{1, 3, 5, 7}));
  EXPECT_EQ(four.peers(9, {Axis::expert}), (Ranks{9, 11, 13, 15}));
  for (int rank = 0; rank < 8; ++rank) EXPECT_EQ(four.peers(rank, {Axis::expert_data}), (Ranks{rank, rank + 8}));
  EXPECT_EQ(two.peers(0, {Axis::expert}), (Ranks{0, 2}));
  EXPECT_EQ(two.peers(0, {Axis::expert_data}), (Ranks{0, 4, 8, 12}));
  for (const auto& t : {four, two}) {
    EXPECT_EQ(t.size(Axis::data), 8);
    EXPECT_EQ(t.size(Axis::expert) * t.size(Axis::expert_data), 8);
    for (int rank = 0; rank < 16; ++rank) {
      EXPECT_EQ(t.coordinate(rank, Axis::data), plain.coordinate(rank, Axis::data));
      EXPECT_EQ(t.coordinate(rank, Axis::tensor), plain.coordinate(rank, Axis::tensor));
      EXPECT_EQ(t.peers(rank, {Axis::data}), plain.peers(rank, {Axis::data}));
      EXPECT_EQ(plain.reduction_position(rank), plain.coordinate(rank, Axis::data));
      EXPECT_EQ(t.reduction_position(rank),
                t.coordinate(rank, Axis::expert) * t.size(Axis::expert_data) + t.coordinate(rank, Axis::expert_data));
      EXPECT_EQ(base::place_at_reduction_position(t.reduction_position(rank), 8, t.size(Axis::expert)),
                t.coordinate(rank, Axis::data));
      EXPECT_EQ(t.coordinate(rank, Axis::expert_data) * t.size(Axis::expert) + t.coordinate(rank, Axis::expert),
                t.coordinate(rank, Axis::data));
    }
  }
  const auto none = plain.with_experts(1);
  EXPECT_EQ(none.size(Axis::expert), 1);
  EXPECT_EQ(none.size(Axis::expert_data), 1);
  EXPECT_THROW(plain.with_experts(3), std::invalid_argument);
  EXPECT_THROW(plain.with_experts(0), std::invalid_argument);
}

TEST(Topology, AxesHaveNames) {
  for (const auto& a : axis_names) {
    EXPECT_EQ(axis_named(name_of(a.axis), "a plan"), a.axis);
    EXPECT_EQ(name_of(Axes{a.axis}), a.name);
  }
  EXPECT_EQ(name_of(Axes{Axis::context, Axis::data}), "data+context");
  EXPECT_EQ(name_of(Axes{}), "");
}

TEST(Inventory, ParameterCounts) {
  EXPECT_EQ(parameter_count(with_vocabulary("gpt2", 50257)), 124439808);
  EXPECT_EQ(parameter_count(with_vocabulary("gpt2-medium", 50257)), 354823168);
  EXPECT_EQ(parameter_count(with_vocabulary("gpt2-large", 50257)), 774030080);
  EXPECT_EQ(parameter_count(with_vocabulary("gpt2-xl", 50257)), 1557611200);
  // Per layer 12 h^2 + 13 h; tables (V + context) h; final norm 2 h.
  const std::int64_t h = 12288;
  EXPECT_EQ(parameter_count(with_vocabulary("gpt3-175b", 51200)),
            96 * (12 * h * h + 13 * h) + (51200 + 2048) * h + 2 * h);
  EXPECT_EQ(parameter_count(with_vocabulary("llama-8b", 128256)), 8030261248);
  EXPECT_EQ(parameter_count(with_vocabulary("llama-1b", 128256)), 1235814400);  // the head is the token table
}

// Devlin et al. (2019) say 110 M and 340 M. The usual counts, 109482240 and 335141888, include a pooler (a layer of h x
// h with a bias) and leave out the head. Here there is no pooler, and the head's layer, norm and bias are included.
TEST(Inventory, ParameterCountsOfBert) {
  const auto layer = [](std::int64_t h) { return h * h + h; };
  const auto head = [&](std::int64_t h) { return layer(h) + 2 * h + 30522; };
  EXPECT_EQ(parameter_count(with_vocabulary("bert-base", 30522)), 109482240 - layer(768) + head(768));
  EXPECT_EQ(parameter_count(with_vocabulary("bert-large", 30522)), 335141888 - layer(1024) + head(1024));
}

TEST(Inventory, LayoutHasAlignedStartsAndEqualShards) {
  for (const char* name : {"gpt2-nano", "llama-nano", "gpt2-micro"})
    for (int n : {1, 2, 3, 7, 64}) {
      for (const auto& flat_group : flat_groups(with_vocabulary(name, 257))) {
        const auto l = layout(flat_group, n);
        std::int64_t end = 0;
        for (std::size_t i = 0; i < l.offsets.size(); ++i) {
          EXPECT_EQ(l.offsets[i] % 16, 0);
          EXPECT_GE(l.offsets[i], end);
          EXPECT_LT(l.offsets[i], end + 16);
          end = l.offsets[i] + flat_group.parameters[i].stored_count();
        }
        EXPECT_EQ(l.used, end);
        EXPECT_EQ(l.shard * n, l.padded);
        EXPECT_EQ(l.shard % 64, 0);
        EXPECT_LT(l.padded - l.used, 64 * n);
      }
    }
}

TEST(Inventory, TiedTableIsUsedTwice) {
  const auto tied = occurrences(with_vocabulary("gpt2-nano", 257));
  EXPECT_EQ(tied.front(), (Occurrence{0, 0}));
  EXPECT_EQ(tied.back(), (Occurrence{0, 1}));
  EXPECT_EQ(tied.size(), 6u);
  EXPECT_EQ(occurrences(with_vocabulary("llama-nano", 257)).size(), 4u);
}

TEST(Batch, NamesReplicasThatAreIdle) {
  EXPECT_EQ(idle_text(BatchPlan{32, 1, 1, 16}), "");
  EXPECT_EQ(
      idle_text(BatchPlan{64, 2, 1, 31}),  // 32 micro-batches on 31 replicas
      "30 of 31 replicas are idle in the last accumulation step of every step: 16 would take as many accumulation "
      "steps, or choose a --global-batch that is a multiple of 62");
  EXPECT_EQ(idle_text(BatchPlan{29, 1, 1, 10}), "");  // 1 of 30 places
  EXPECT_EQ(idle_text(BatchPlan{24, 1, 2, 8}),
            "4 of 8 replicas are idle in the last accumulation step of every step: 6 would take as many accumulation "
            "steps, or choose a --global-batch that is a multiple of 16");
}

// Compares closed forms (of the planner, and by micro-batch for the loader and the step's numbers) with a walk through
// the groups. The last group may be smaller.
TEST(Batch, ClosedFormsAgreeWithTheGroups) {
  for (std::int64_t micros = 1; micros <= 23; ++micros)
    for (std::int64_t local_accumulation = 1; local_accumulation <= micros; ++local_accumulation)
      for (int ranks = 1; ranks <= (micros + local_accumulation - 1) / local_accumulation; ++ranks) {
        const BatchPlan b{micros, 1, local_accumulation, ranks};
        std::int64_t lockstep = 0;
        for (std::int64_t round = 0; round < b.accumulation_steps(); ++round)
          lockstep += b.end_micro(round * ranks) - b.first_micro(round * ranks);
        EXPECT_EQ(b.lockstep_micros(), lockstep) << micros << " " << local_accumulation << " " << ranks;
        for (int r = 0; r < ranks; ++r) {
          std::vector<std::int64_t> own;
          std::int64_t rounds = 0;
          for (std::int64_t round = 0; round < b.accumulation_steps(); ++round) {
            const auto group = b.accumulation_group_of(r, round);
            rounds += group >= 0;
            for (auto m = b.first_micro(group); group >= 0 && m < b.end_micro(group); ++m) {
              const auto at = b.place_of(m);
              EXPECT_EQ(
                  (std::vector{at.accumulation_group, at.round, at.rank, at.place}),
                  (std::vector<std::int64_t>{group, round, r, round * local_accumulation + m - b.first_micro(group)}));
              EXPECT_LT(at.place, b.places());
              own.push_back(m);
            }
          }
          EXPECT_EQ(b.accumulation_steps_of(r), rounds);
          for (std::size_t i = 0; i < own.size(); ++i) EXPECT_EQ(b.next(own[i]), i + 1 < own.size() ? own[i + 1] : -1);
        }
      }
}

// Equal flat groups are in the table once. Buffers are assigned as a walk through all flat groups assigns them.
TEST(FlatGroups, TheTableSaysWhatTheFlatGroupsSay) {
  for (const char* name : {"gpt2", "llama-nano", "llama-1b"})
    for (const int slots : {1, 2, 3, 40}) {
      const auto m = with_vocabulary(name, 300);
      const FlatGroupSet set(m, Topology({{Axis::data, 3}}));
      const SlotPlan plan(set.table, slots);
      EXPECT_EQ(set.table.flat_groups(), static_cast<std::int64_t>(set.flat_groups.size()));
      EXPECT_EQ(set.table.occurrences(), static_cast<std::int64_t>(set.occurrences.size()));
      EXPECT_EQ(set.table.parameters(), parameter_count(m));
      std::int64_t shards = 0, shards_of_occurrences = 0;
      for (const auto& l : set.layouts) shards += l.shard;
      for (const auto& occurrence : set.occurrences) shards_of_occurrences += set.shard_of(occurrence);
      EXPECT_EQ(set.table.shard_total(), shards);
      EXPECT_EQ(set.table.shard_total_occurrences(), shards_of_occurrences);
      std::vector<int> rotating;
      int layer = 0, next = 0;
      for (std::size_t u = 0; u < set.flat_groups.size(); ++u) {
        const bool rotates = set.flat_groups[u].name.starts_with("layers.");
        int slot = next;
        if (rotates && layer >= slots) slot = rotating[static_cast<std::size_t>(layer % slots)];
        else ++next;
        if (rotates && layer++ < slots) rotating.push_back(slot);
        EXPECT_EQ(plan.slot_of(static_cast<int>(u)), slot) << name << " " << slots << " " << u;
        EXPECT_GE(plan.elements()[static_cast<std::size_t>(slot)], set.layouts[u].padded);
      }
      EXPECT_EQ(plan.elements().size(), static_cast<std::size_t>(next));
    }
}

TEST(Batch, EveryMicroOnceInAscendingOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    BatchPlan b;
    const std::int64_t micros = 1 + static_cast<std::int64_t>(random() % 40);
    b.micro_batch = 1 + static_cast<std::int64_t>(random() % 4);
    b.global_batch = micros * b.micro_batch;
    b.local_accumulation = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(micros));
    b.global_batch *= b.local_accumulation;  // groups are full
    b.data_ranks = 1 + static_cast<int>(random() % static_cast<unsigned>(b.accumulation_groups()));
    std::vector<int> seen(static_cast<std::size_t>(b.micros()), 0);
    for (int r = 0; r < b.data_ranks; ++r) {
      std::int64_t last = -1, round = -1, idle = 0;
      const auto program = step_actions(b, r, {}, 0);
      ASSERT_GE(program.size(), 2u);
      EXPECT_EQ(program[program.size() - 2].kind, Action::Kind::reduce);
      EXPECT_EQ(program.back().kind, Action::Kind::update);
      for (const auto& a : program) {
        round += a.kind == Action::Kind::agree;  // every rank agrees before every accumulation step
        if (a.kind == Action::Kind::ask) {
          EXPECT_EQ(a.round, round + 1);
          const auto& next = *(&a + 1);  // the last backward of the previous accumulation step; the first one has none
          EXPECT_EQ(next.kind, a.round == 0 ? Action::Kind::agree : Action::Kind::backward);
          EXPECT_TRUE(a.round == 0 || next.micro == b.end_micro(b.accumulation_group_of(r, round)) - 1) << next.micro;
        } else if (a.round >= 0) {
          EXPECT_EQ(a.round, round);
        }
        idle += a.kind == Action::Kind::backward && a.micro < 0;
        if (a.kind != Action::Kind::backward || a.micro < 0) continue;
        EXPECT_EQ(a.place, b.place_of(a.micro).place);
        EXPECT_GT(a.micro, last);
        last = a.micro;
        ++seen[static_cast<std::size_t>(a.micro)];
        EXPECT_EQ(a.micro / b.local_accumulation % b.data_ranks, r);
      }
      EXPECT_EQ(round + 1, b.accumulation_steps());
      EXPECT_EQ(idle, b.accumulation_group_of(r, b.accumulation_steps() - 1) < 0 ? b.local_accumulation : 0);
    }
    for (int count : seen) EXPECT_EQ(count, 1);
  }
}

TEST(Memory, ReferenceTable) {
  const auto gb = [](int stage, base::DType gradient) {
    return model_state_bytes(7500000000, 64, stage, base::DType::bf16, gradient) * 1e-9;
  };
  const double half[] = {120, 31.40625, 16.640625, 1.875}, full[] = {135, 46.40625, 16.875, 2.109375};
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_NEAR(gb(stage, base::DType::bf16), half[stage], 1e-9);
    EXPECT_NEAR(gb(stage, base::DType::f32), full[stage], 1e-9);
  }
}

// The bytes that stores allocate equal the textbook's, without padding, second occurrences of tied tables and rotating
// buffers.
TEST(Memory, StatesFollowTheFormulaOnRandomModels) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    auto m =
        with_vocabulary(round % 2 ? "llama-nano" : "gpt2-nano", 128 * (1 + static_cast<std::int64_t>(random() % 8)));
    m.tied = false;
    m.layers = 1 + static_cast<std::int64_t>(random() % 6);
    const int n = 1 + static_cast<int>(random() % 8);
    const auto working = random() % 2 ? base::DType::bf16 : base::DType::f32, gradient = base::DType::f32;
    const auto psi = parameter_count(m);
    for (int stage = 0; stage < 4; ++stage) {
      const FlatGroupTable set(m, over_data(n));
      const auto s = state_bytes(set, {stage, working, gradient, {n, 1, 1, n}, 2, over_data(n)});
      const double padding = static_cast<double>(set.padded_total() - psi) * 20;
      const double states = static_cast<double>(s.parameters + s.gradients + s.optimizer),
                   formula = model_state_bytes(psi, n, stage, working, gradient);
      EXPECT_GE(states, formula);
      EXPECT_LE(states - formula, padding) << "stage " << stage << " n " << n;
    }
  }
}

TEST(Traffic, FactorsOfTheTable) {
  const auto m = with_vocabulary("llama-nano", 256);
  for (int n : {2, 3, 4})
    for (std::int64_t g_micros : {1, 3}) {
      const FlatGroupTable set(m, over_data(n));
      const std::int64_t part = (n - 1) * set.shard_total() * 4;  // (N-1)/N of the padded parameters, f32
      const auto sent = [&](int stage, std::int64_t local_accumulation) {
        return bytes_of(step_traffic(
            m, {stage, base::DType::f32, base::DType::f32, {n * g_micros, 1, local_accumulation, n}, 2, over_data(n)},
            Reduction::ordered, 0));
      };
      EXPECT_EQ(sent(0, g_micros), 2 * part);
      EXPECT_EQ(sent(1, g_micros), 2 * part);
      EXPECT_EQ(sent(2, 1), (g_micros + 1) * part);
      // Stage 3: the embedding's backward needs no weights, so its second gather is saved.
      EXPECT_EQ(sent(3, 1), g_micros * (3 * part - (n - 1) * set.entries()[0].layout.shard * 4));
    }
}

TEST(Traffic, IdleRanksSendNothingInAnOrderedRoundAndTiedTablesCountTwice) {
  const auto m = with_vocabulary("gpt2-nano", 256);
  const StateShape shape{1, base::DType::f32, base::DType::f32, {4, 1, 1, 3}, 2, over_data(3)};
  const FlatGroupTable set(m, over_data(3));
  EXPECT_EQ(set.shard_total_occurrences() - set.shard_total(), set.entries()[0].layout.shard);
  const auto first = step_traffic(m, shape, Reduction::ordered, 0),
             last = step_traffic(m, shape, Reduction::ordered, 2);
  EXPECT_EQ(first[0].bytes, 2 * 2 * set.shard_total_occurrences() * 4);
  EXPECT_EQ(last[0].bytes, 1 * 2 * set.shard_total_occurrences() * 4);
  EXPECT_EQ(first[0].calls, last[0].calls);
}

// Each validation is rounded up by itself to whole accumulation steps of all ranks.
TEST(Traffic, AValidationIsRoundsOfEveryRank) {
  const auto m = with_vocabulary("llama-nano", 256);
  const StateShape shape{3, base::DType::f32, base::DType::f32, {8, 2, 1, 3}, 2, over_data(3)};
  const FlatGroupTable set(m, over_data(3));
  const auto round = 2 * set.shard_total() * 4;
  const auto sent = [&](std::int64_t sequences) { return bytes_of(validation_traffic(m, shape, sequences)); };
  EXPECT_EQ(sent(2), round);
  EXPECT_EQ(sent(6), round);
  EXPECT_EQ(sent(8), 2 * round);
  auto other = shape;
  other.zero = 2;
  EXPECT_EQ(bytes_of(validation_traffic(m, other, 8)), 0);
}

// By hand, for a layer of gpt2 small and 1024 tokens, in rows of 768 numbers, with f32 statistics for each token. Input
// and norm (1 + 1), q, k, v (3), attention's output (1), input and norm (1 + 1), before and after GELU (4 + 4); mean
// and rstd twice, 12 numbers of the softmax. Selective recomputation keeps 10 of these 16 rows, three eighths less.
TEST(Activations, OfALayerSelectiveKeepsFiveEighths) {
  const auto m = with_vocabulary("gpt2", 50257);
  for (const auto& [dtype, element] :
       {std::pair<base::DType, std::int64_t>{base::DType::f32, 4}, {base::DType::bf16, 2}}) {
    const MicroShape s{{1, 1024}, {dtype, 1}};
    const std::int64_t row = 1024 * 768 * element, statistics = 1024 * 4 * (4 + 12);
    const auto& layer = block_kind("layer");
    EXPECT_EQ(layer.saved_bytes(m, s), 16 * row + statistics);
    EXPECT_EQ(layer.selective_bytes(m, s).kept, 10 * row + statistics);
    EXPECT_EQ(layer.selective_bytes(m, s).most, 15 * row + statistics);  // attention's norm is released by then
    // The embedding saves nothing, the head its input, norm and statistics. The last layer runs before the head.
    const auto head = 2 * row + 1024 * 4 * 2, layers = 12 * (10 * row + statistics);
    EXPECT_EQ(activation_bytes(m, s, Pass::train, Recompute::none), row + 12 * (16 * row + statistics) + head);
    EXPECT_EQ(activation_bytes(m, s, Pass::train, Recompute::selective), row + layers + 5 * row);
    EXPECT_EQ(activation_bytes(m, s, Pass::train, Recompute::layers), row + 12 * row + 16 * row + statistics);
    // A single micro-batch in flight has all memory to itself. With several, each has its own kept part, and all share
    // one place for the rest.
    EXPECT_EQ(slot_bytes(m, s, Recompute::layers, {1}).total({1}),
              activation_bytes(m, s, Pass::train, Recompute::layers));
    EXPECT_EQ(slot_bytes(m, s, Recompute::layers, {3}).total({3}), 3 * (row + 12 * row + head) + 16 * row + statistics);
    EXPECT_EQ(slot_bytes(m, s, Recompute::selective, {3}).total({3}), 3 * (row + layers + head) + 5 * row);
    EXPECT_EQ(slot_bytes(m, s, Recompute::none, {3}).total({3}), 3 * activation_bytes(m, s, Pass::train));
    auto on_gpu = s;  // its library fuses GELU
    on_gpu.device = base::DeviceKind::cuda;
    EXPECT_EQ(layer.selective_bytes(m, on_gpu).kept, 14 * row + statistics);
  }
  // Norms after branches keep the same rows and also the input of the first branch. GELU's exact form is recomputed on
  // a GPU, too. The head keeps its input alone.
  auto post = m;
  post.norm_position = NormPosition::post, post.activation = Activation::gelu_erf;
  for (const auto device : {base::DeviceKind::cpu, base::DeviceKind::cuda}) {
    const MicroShape s{{1, 1024}, {base::DType::bf16, 1, device}};
    const std::int64_t row = 1024 * 768 * 2, statistics = 1024 * 4 * (4 + 12);
    EXPECT_EQ(block_kind("layer").saved_bytes(post, s), 16 * row + statistics);
    EXPECT_EQ(block_kind("layer").selective_bytes(post, s).kept, 11 * row + statistics);
    EXPECT_EQ(block_kind("head").saved_bytes(post, s), row);
  }
  // Sandwich: the norms behind branches also keep the outputs of both. Norms behind alone: branches read the hidden
  // states, which stay, and only the activation is recomputed. Side by side, branches keep what they usually keep.
  auto sandwich = m, inside = m, parallel = m;
  sandwich.norm_position = NormPosition::sandwich, inside.norm_position = NormPosition::inside_post;
  parallel.parallel_residual = true;
  {
    const MicroShape s{{1, 1024}, {base::DType::bf16, 1}};
    const std::int64_t row = 1024 * 768 * 2, statistics = 1024 * 4 * (4 + 12), more = 1024 * 4 * 4;
    const auto& layer = block_kind("layer");
    EXPECT_EQ(layer.saved_bytes(sandwich, s), 18 * row + statistics + more);
    EXPECT_EQ(layer.selective_bytes(sandwich, s).kept, 12 * row + statistics + more);
    EXPECT_EQ(layer.saved_bytes(inside, s), 16 * row + statistics);
    EXPECT_EQ(layer.selective_bytes(inside, s).kept, 12 * row + statistics);
    EXPECT_EQ(layer.saved_bytes(parallel, s), 16 * row + statistics);
    EXPECT_EQ(
        layer.forward_workspace_bytes(parallel, s, Pass::train) - layer.forward_workspace_bytes(m, s, Pass::train),
        row);
  }
  // Llama: gate, up and their product have four rows each, 20 in all. The norms and the product are recomputed.
  auto llama = with_vocabulary("gpt2", 50257);
  llama.norm = Norm::rms, llama.activation = Activation::swiglu, llama.biases = Biases::off;
  for (const auto device : {base::DeviceKind::cpu, base::DeviceKind::cuda}) {
    const MicroShape s{{1, 1024}, {base::DType::bf16, 1, device}};
    const std::int64_t row = 1024 * 768 * 2, statistics = 1024 * 4 * (2 + 12);
    EXPECT_EQ(block_kind("layer").saved_bytes(llama, s), 20 * row + statistics);
    EXPECT_EQ(block_kind("layer").selective_bytes(llama, s).kept, 14 * row + statistics);
  }
}

TEST(Flops, EquationOfTheReference) {
  const double B = 8, s = 1024, L = 12, h = 768, V = 50257;
  const auto m = with_vocabulary("gpt2", 50257);
  EXPECT_NEAR(step_flops(m, 8, 1024) / (72 * B * s * L * h * h * (1 + s / (6 * h) + V / (12 * L * h))), 1, 1e-12);
  EXPECT_EQ(step_flops(m, 8, 1024, Recompute::selective), step_flops(m, 8, 1024));
  // The reference's 96 B s L h^2 (...) recomputes all of forward; here it skips the last product, 8 h^2 a layer and
  // token.
  EXPECT_NEAR(step_flops(m, 8, 1024, Recompute::layers) /
                  (96 * B * s * L * h * h * (1 + s / (6 * h) + V / (16 * L * h)) - 8 * B * s * L * h * h),
              1, 1e-12);
}

}  // namespace tables_test
}  // namespace trainyard::plan
