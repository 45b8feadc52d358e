// Updates of a whole parameter store on any parallel layout, with gradients that a test knows: the weights of logical
// parameters after many steps.
#pragma once

#include "libtrain/params/zero_store.h"
#include "libtrain/plan/blocks/held.h"
#include "tests/params/plain_updates.h"

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace trainyard::test {

inline float number(std::int64_t what, std::int64_t step, const std::string& name, std::int64_t i) {
  return value(Values::scattered, what, step, static_cast<std::int64_t>(std::hash<std::string>()(name) % 1000), 0, i);
}

// Small, so that rounding of a weight is small beside its way.
inline float initial(const std::string& name, std::int64_t i) { return 0x1p-9f * number(1, 0, name, i); }

// Values of logical parameters by name.
using Whole = std::map<std::string, Floats>;

// The weights of all ranks after `steps` updates. `after` is called on each rank at the end.
inline Whole updated(const plan::ModelConfig& model, const ParallelLayout& layout, std::int64_t steps,
                     const std::function<void(params::ZeroStore&, std::int64_t step)>& update,
                     const std::function<void(Ground&, params::ZeroStore&)>& after = {}) {
  Whole out;
  std::mutex mutex;
  on_ranks(model, layout, [&](Ground& g) {
    const auto& topology = g.world.topology;
    const auto part_of = [&](const plan::Parameter& p) { return plan::held_part(p, topology, g.world.rank); };
    params::ZeroStore store(g.context);
    auto& states = store.states();
    // f(shard index, parameter, run of it) for what lies in this rank's shard of a flat group
    const auto each_of_shard = [&](int u, const auto& f) {
      const auto& l = g.set.layouts[static_cast<std::size_t>(u)];
      for (const auto& held : plan::held_ranges(l, g.rank() * l.shard, (g.rank() + 1) * l.shard)) {
        const auto& p = g.context.flat_group(u).parameters[held.parameter];
        plan::for_each_held_run(p, part_of(p), held.first, held.count,
                                [&](const plan::HeldRun& run) { f(held.at + run.held - held.first, p, run); });
      }
    };
    for (int u = 0; u < g.flat_groups(); ++u) {
      const auto clear = [](base::View view) { std::memset(view.data, 0, static_cast<std::size_t>(view.bytes())); };
      Floats weights(static_cast<std::size_t>(g.context.layout(u).shard));
      for (std::size_t s = 0; s < states.kind().element_states(); ++s) clear(states.state_shard(s, u));
      for (std::size_t s = states.kind().element_states(); s < states.kind().states.size(); ++s)
        for (std::size_t p = 0; p < g.context.flat_group(u).parameters.size(); ++p)
          clear(states.factored_state(s, u, p));
      each_of_shard(u, [&](std::int64_t at, const plan::Parameter& p, const plan::HeldRun& run) {
        for (std::int64_t i = 0; i < run.count; ++i)
          weights[static_cast<std::size_t>(at + i)] = initial(p.name, run.logical + i);
      });
      write_masters(states, u, weights, 0, g.context.layout(u).shard);
    }
    store.shards_loaded();
    for (std::int64_t step = 1; step <= steps; ++step) {
      store.begin_step({});
      store.begin_backward({0, params::GradientReduction::Position::Place::only});
      for (const auto occurrence : g.set.occurrences) {
        auto gradients = store.grads(occurrence);
        const auto& group = g.context.flat_group(occurrence.flat_group);
        for (std::size_t s = 0; s < group.parameters.size(); ++s) {
          const auto& p = group.parameters[s];
          auto* to = gradients.gradient(static_cast<int>(s)).ptr<float>();
          std::fill_n(to, g.context.layout(occurrence.flat_group).count(s), 0.0f);
          if (g.rank() != 0 || occurrence.index > 0) continue;  // one micro-batch has it all
          plan::for_each_held_run(p, part_of(p), 0, g.context.layout(occurrence.flat_group).count(s),
                                  [&](const plan::HeldRun& run) {
                                    for (std::int64_t i = 0; i < run.count; ++i)
                                      to[run.held + i] = number(2, step, p.name, run.logical + i);
                                  });
        }
        gradients.commit();
      }
      store.finish();
      update(store, step);
    }
    store.complete_weights();
    if (after) after(g, store);
    const std::lock_guard lock(mutex);
    for (int u = 0; u < g.flat_groups(); ++u) {
      const auto weights = masters_of(states, u, g.context.layout(u).shard);
      each_of_shard(u, [&](std::int64_t at, const plan::Parameter& p, const plan::HeldRun& run) {
        auto& to = out[p.name];
        to.resize(static_cast<std::size_t>(p.count()));
        for (std::int64_t i = 0; i < run.count; ++i) {
          const float w = weights[static_cast<std::size_t>(at + i)];
          to[static_cast<std::size_t>(run.logical + i)] = w;
          if (layout.working == base::DType::f32) continue;
          std::uint16_t bits = 0;
          std::memcpy(&bits, static_cast<const char*>(store.weights().own_shard(u).data) + 2 * (at + i), 2);
          ASSERT_EQ(bits, bf16_bits(w)) << p.name;
        }
      });
    }
  });
  return out;
}

// What update_on(layout) returns has the same bits on every layout of data-parallel ranks, ZeRO stages and
// tensor-parallel ranks, and with masters in bf16 and a remainder, where an optimizer has them.
inline void expect_same_bits(const std::string& optimizer, base::DType working, base::DType states,
                             const std::function<Whole(const ParallelLayout&)>& update_on) {
  Whole first;
  struct Case {
    int ranks, zero, tensor;
  };
  for (const auto& [ranks, zero, tensor] :
       {Case{1, 0, 1}, Case{1, 2, 1}, Case{2, 0, 1}, Case{3, 0, 1}, Case{3, 1, 1}, Case{2, 2, 1}, Case{3, 3, 1},
        Case{1, 0, 2}, Case{2, 0, 2}, Case{3, 1, 2}, Case{2, 2, 4}, Case{3, 3, 2}, Case{1, 1, 4}}) {
    ParallelLayout layout{ranks, zero, working, ranks};
    layout.tensor = tensor, layout.optimizer = optimizer, layout.states = states;
    const bool norms = plan::optimizer_kind(optimizer).has_parameter_norms();
    for (const auto master : {plan::MasterFormat::f32, plan::MasterFormat::remainder}) {
      if (master == plan::MasterFormat::remainder && (working != base::DType::bf16 || norms)) continue;
      layout.master = master;
      const auto got = update_on(layout);
      if (first.empty()) first = got;
      ASSERT_FALSE(first.empty());
      for (const auto& [name, values] : first)
        ASSERT_EQ(std::memcmp(got.at(name).data(), values.data(), 4 * values.size()), 0)
            << name << ", " << layout.text() << ", states in " << base::name_of(states);
    }
  }
}

}  // namespace trainyard::test
