// Tests states on disk: updates that stream through tiles give the plain numbers, whatever lies there; every byte that
// moves is planned; buffers are used only when their transfers are over.
#include "libtrain/params/offloaded_states.h"
#include "kernels/cast/cast.h"
#include "libtrain/params/zero_store.h"
#include "tests/params/adamw_rule.h"
#include "tests/params/ground.h"
#include "tests/params/plain_model.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace trainyard::test {
namespace offloaded_states_test {

constexpr PlainAdamW plain_hyper{0.01f, 0.9f, 0.95f, 1e-6f, 0.1f, 0.25f, 0.1, 0.05};
kernels::AdamW hyper() { return rule_of(plain_hyper); }

plan::Offload offload(const char* text) { return plan::offload_of_text(text, "test"); }

// A layer of more than two tiles, with gaps and a part of a tile and of a block at its end.
plan::ModelConfig wide_model() {
  auto m = tied_model();
  m.layers = 2, m.hidden = 366, m.heads = m.kv_heads = 2, m.ffn = 1102;
  return m;
}

struct Parts {
  explicit Parts(Ground& g)
      : weights(g.layout.zero == 3 ? params::make_gathered_weights(g.context) : params::make_whole_weights(g.context)),
        gradients(g.context,
                  [this](int u, base::ConstView sum) {
                    complete.emplace_back(u, Floats(sum.ptr<float>(), sum.ptr<float>() + sum.count()));
                  }),
        states(g.context, *weights) {}
  std::vector<std::pair<int, Floats>> complete;
  std::unique_ptr<params::Weights> weights;
  params::GradientReduction gradients;
  params::OptimizerStates states;
};

Floats part(const Floats& all, std::int64_t first, std::int64_t count) {
  return {all.begin() + first, all.begin() + first + count};
}

// Writes or compares this rank's shard of one state, wherever it lies.
struct Shard {
  Ground& g;
  int u;
  plan::Held held;
  std::size_t state;
  base::View in_memory;
  std::int64_t first() const { return g.rank() * g.context.layout(u).shard; }
  std::int64_t count() const { return g.context.layout(u).shard; }
  bool on_disk() const { return g.context.is_offloaded(u, held, state); }
  void set(const Floats& values) const {
    if (!on_disk()) return fill(in_memory, values, first());
    auto mine = part(values, first(), count());
    g.offloaded->write(u, held, state, 0, base::View::of(mine.data(), {count()}));
  }
  std::string difference_from(const Floats& want, base::DType dtype = base::DType::f32) const {
    if (!on_disk()) return difference(in_memory, want, first());
    std::vector<std::byte> read(base::size(count() * base::size_of(dtype)));
    const base::View view(read.data(), dtype, {count()});
    // In two pieces that are no whole blocks.
    const auto half = count() / 3;
    g.offloaded->read(u, held, state, 0, view.elements(0, half));
    g.offloaded->read(u, held, state, half, view.elements(half, count() - half));
    return difference(view, want, first());
  }
};

void load(Parts& parts, Ground& g, const PlainModel& plain) {
  for (int u = 0; u < g.flat_groups(); ++u) {
    Shard{g, u, parts.states.held_of_master(), 0, parts.states.master_shard(u)}.set(plain.flat_group(u).weight);
    Shard{g, u, plan::Held::state, 0, parts.states.state_shard(0, u)}.set(plain.flat_group(u).m);
    Shard{g, u, plan::Held::state, 1, parts.states.state_shard(1, u)}.set(plain.flat_group(u).v);
  }
  parts.states.shards_loaded(*parts.weights);
  parts.weights->complete();
}

void expect_states(Parts& parts, Ground& g, const PlainModel& plain, const std::string& where) {
  SCOPED_TRACE(where);
  for (int u = 0; u < g.flat_groups(); ++u) {
    const auto& want = plain.flat_group(u);
    const auto held = parts.states.held_of_master();
    EXPECT_EQ((Shard{g, u, held, 0, parts.states.master_shard(u)}.difference_from(want.weight)), "") << "master " << u;
    EXPECT_EQ((Shard{g, u, plan::Held::state, 0, parts.states.state_shard(0, u)}.difference_from(want.m)), "") << u;
    EXPECT_EQ((Shard{g, u, plan::Held::state, 1, parts.states.state_shard(1, u)}.difference_from(want.v)), "") << u;
    EXPECT_EQ((Shard{g, u, plan::Held::parameter, 0, parts.weights->own_shard(u)}.difference_from(want.weight,
                                                                                                  g.layout.working)),
              "")
        << "working copy " << u;
  }
}

void check_updates(Ground& g) {
  const auto where = fmt::format("{}, {}, rank {}", g.layout.text(), plan::offload_text(g.layout.offload), g.rank());
  PlainModel plain(g.set.flat_groups, g.set.occurrences, g.layout.ranks);
  plain.scatter(5);
  Parts parts(g);
  EXPECT_TRUE(g.full({&g.optimizer, &g.parameters, &g.gathered, &g.gradients, &g.offload_buffers})) << where;
  load(parts, g, plain);
  expect_states(parts, g, plain, where);
  const plan::OffloadPlan planned(g.set.table, g.layout.shape());
  for (std::int64_t step = 1; step <= 3; ++step) {
    g.offloaded->storage()->wait_all();
    const auto before = g.offloaded->storage()->totals();
    parts.gradients.begin();
    parts.complete.clear();
    parts.gradients.begin_micro({0, params::GradientReduction::Position::Place::only});
    // As in backward.
    for (auto o = plain.occurrences.rbegin(); o != plain.occurrences.rend(); ++o) {
      parts.gradients.open(*o);
      fill(parts.gradients.whole(*o), plain.gradient(Values::scattered, step, g.rank(), *o));
      parts.gradients.commit(*o);
    }
    parts.gradients.finish();
    parts.gradients.round_sums();
    if (g.layout.zero == 0) parts.gradients.gather_sums();
    const auto sums = plain.reduced(Values::scattered, step, g.layout.micros, 1, g.layout.sums);
    std::size_t leave = 0;
    for (int u = 0; u < g.flat_groups(); ++u) leave += g.context.is_offloaded(u, plan::Held::gradient);
    EXPECT_EQ(parts.complete.size(), leave) << where;
    for (auto& [u, sum] : parts.complete) {
      const auto view = base::View::of(sum.data(), {std::ssize(sum)});
      EXPECT_EQ(difference(view, base::at(sums, u), g.rank() * std::ssize(sum)), "") << where << " sum " << u;
    }
    parts.states.update(parts.gradients, *parts.weights, hyper(), 0);
    plain.update(sums, plain_hyper);
    g.offloaded->finish_update();
    const auto after = g.offloaded->storage()->totals();
    EXPECT_EQ(after.read - before.read, planned.update_bytes().read) << where;
    EXPECT_EQ(after.written - before.written, planned.update_bytes().written) << where;
    expect_states(parts, g, plain, fmt::format("{}, step {}", where, step));
  }
}

TEST(OffloadedStates, UpdatesAreThePlainOnes) {
  for (const auto& model : {tied_model(), untied_model()})
    for (const auto working : {base::DType::f32, base::DType::bf16})
      for (int ranks = 1; ranks <= 3; ++ranks)
        for (const auto& [zero, text] : {std::pair(1, "optimizer=disk"), std::pair(2, "optimizer=disk,gradients=disk"),
                                         std::pair(2, "gradients=disk:0.4"), std::pair(3, "parameters=disk"),
                                         std::pair(3, "optimizer=disk:0.5,parameters=disk:0.3"),
                                         std::pair(3, "optimizer=disk,parameters=disk,gradients=disk")}) {
          ParallelLayout layout{ranks, zero, working, ranks};
          layout.offload = offload(text);
          layout.sums =
              (ranks + static_cast<int>(base::is_narrow(working))) % 2 == 0 ? base::DType::f32 : base::DType::bf16;
          on_ranks(model, layout, check_updates);
        }
  ParallelLayout alone{1, 0};
  alone.offload = offload("optimizer=disk");
  on_ranks(tied_model(), alone, check_updates);
}

TEST(OffloadedStates, TilesAreParts) {
  for (const auto working : {base::DType::f32, base::DType::bf16})
    for (const int ranks : {1, 2}) {
      ParallelLayout layout{ranks, 3, working, ranks};
      layout.offload = offload("optimizer=disk,parameters=disk,gradients=disk");
      layout.sums = ranks == 2 ? working : base::DType::bf16;
      on_ranks(wide_model(), layout, [&](Ground& g) {
        EXPECT_EQ(g.offloaded->tile_elements(), plan::most_tile_elements);
        EXPECT_GT(g.context.layout(2).shard, plan::most_tile_elements) << "a group of one tile";
        check_updates(g);
      });
    }
}

// Holds up the update that comes.
void hold_up(Ground& g) {
  g.offloaded->updates().run([] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); });
}

// What the update in the background changes is what the next leases see, and it reads the gradients of its own step.
void update_in_background(Ground& g) {
  PlainModel plain(g.set.flat_groups, g.set.occurrences, g.layout.ranks);
  plain.scatter(5);
  Parts parts(g);
  load(parts, g, plain);
  const std::vector<plan::Occurrence> order(g.set.occurrences.begin(), g.set.occurrences.end());
  const auto look = [&](std::int64_t step) {
    parts.weights->begin_passes({{order}, {0, 0}});
    for (int pass = 0; pass < 2; ++pass)
      for (const auto occurrence : order) {
        parts.weights->acquire(occurrence);
        const auto difference_here =
            difference(parts.weights->whole(occurrence.flat_group), plain.flat_group(occurrence.flat_group).weight);
        EXPECT_EQ(difference_here, "") << g.layout.text() << " flat group " << occurrence.flat_group << " step "
                                       << step;
        parts.weights->give_back(occurrence);
      }
  };
  for (std::int64_t step = 1; step <= 4; ++step) {
    if (step != 3) look(step);  // else the gradients of the next step come at once
    parts.gradients.begin();
    parts.gradients.begin_micro({0, params::GradientReduction::Position::Place::only});
    for (const auto occurrence : order) {
      parts.gradients.open(occurrence);
      fill(parts.gradients.whole(occurrence), plain.gradient(Values::scattered, step, g.rank(), occurrence));
      parts.gradients.commit(occurrence);
    }
    parts.gradients.finish();
    parts.gradients.round_sums();
    if (g.layout.zero == 0) parts.gradients.gather_sums();
    hold_up(g);
    parts.states.update(parts.gradients, *parts.weights, hyper(), 0);
    plain.update(plain.reduced(Values::scattered, step, g.layout.micros, 1, g.layout.sums), plain_hyper);
  }
  look(5);
  EXPECT_FALSE(g.offloaded->is_updating(0));
}

TEST(OffloadedStates, UpdatesRunInTheBackground) {
  for (const int ranks : {1, 2, 3})
    for (const auto working : {base::DType::f32, base::DType::bf16})
      for (const auto& [zero, text] :
           {std::pair(1, "optimizer=disk"), std::pair(2, "optimizer=disk:0.5,gradients=disk"),
            std::pair(3, "optimizer=disk"), std::pair(3, "optimizer=disk,parameters=disk:0.7,gradients=disk")}) {
        ParallelLayout layout{ranks, zero, working, ranks};
        layout.offload = offload(text);
        layout.sums = ranks == 2 ? base::DType::f32 : base::DType::bf16;
        on_ranks(tied_model(), layout, update_in_background);
      }
  ParallelLayout alone{1, 0};
  alone.offload = offload("optimizer=disk");
  on_ranks(tied_model(), alone, update_in_background);
}

// bf16 has no finite value above 0x1.fep127, where f32 goes on to 0x1.fffffep127. A sum between them is infinite once
// it is rounded, and no step has a finite norm then, wherever the sum lies.
TEST(OffloadedStates, ASumAboveTheRangeOfBf16IsNotFinite) {
  const auto norm = [](float gradient, const char* text, base::DType sums) {
    ParallelLayout layout{1, 2};
    layout.sums = sums;
    if (text != nullptr) layout.offload = offload(text);
    double out = 0;
    on_ranks(tied_model(), layout, [&](Ground& g) {
      params::ZeroStore store(g.context);
      store.initialize(1);
      store.begin_step({});
      store.begin_backward({0, params::GradientReduction::Position::Place::only});
      for (const auto occurrence : g.set.occurrences) {
        auto gradients = store.grads(occurrence);
        const auto& group = g.context.flat_group(occurrence.flat_group);
        for (std::size_t p = 0; p < group.parameters.size(); ++p)
          kernels::fill(*g.compute, gradients.gradient(static_cast<int>(p)), 0);
        if (occurrence.flat_group == 2) gradients.gradient(0).ptr<float>()[0] = gradient;  // of a layer
        gradients.commit();
      }
      store.finish();
      auto all = store.squares_of_disk();
      for (const auto& view : store.counted_gradients()) kernels::square_sum(*g.compute, view, all);
      out = kernels::value(all);
      float greatest = 0;
      store.for_gradient(2, [&](std::int64_t, base::View part) {
        for (std::int64_t i = 0; i < part.count(); ++i) greatest = std::max(greatest, std::abs(part.ptr<float>()[i]));
      });
      EXPECT_EQ(greatest, std::abs(sums == base::DType::bf16 ? rounded_to_bf16({gradient})[0] : gradient));
    });
    return out;
  };
  constexpr float below = 0x1.fefffep127f, above = 0x1.ffp127f;
  for (const char* text : {static_cast<const char*>(nullptr), "gradients=disk", "optimizer=disk,gradients=disk"}) {
    EXPECT_DOUBLE_EQ(norm(above, text, base::DType::f32), 0x1.ffp127 * 0x1.ffp127);
    EXPECT_TRUE(std::isnan(norm(above, text, base::DType::bf16)));
    EXPECT_DOUBLE_EQ(norm(below, text, base::DType::bf16), 0x1.fep127 * 0x1.fep127);
    EXPECT_TRUE(std::isnan(norm(-above, text, base::DType::bf16)));
  }
}

// Loading a damaged checkpoint fails in the middle, and is no part of a step.
TEST(OffloadedStates, CountsWhatFailsOutsideSteps) {
  ParallelLayout layout{1, 1};
  layout.offload = offload("optimizer=disk");
  on_ranks(tied_model(), layout, [](Ground& g) {
    EXPECT_THROW(g.offloaded->outside_steps([&] {
      g.offloaded->clear(0, plan::Held::state, 0);
      throw std::runtime_error("damaged");
    }),
                 std::runtime_error);
    EXPECT_GT(g.offloaded->storage()->totals().written, 0);
    EXPECT_EQ(g.offloaded->in_steps(), base::StorageTotals());
  });
}

}  // namespace offloaded_states_test
}  // namespace trainyard::test
