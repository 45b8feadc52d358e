// Puts the parts of a store together, and makes initial values.
#include "libtrain/params/zero_store.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/random.h"
#include "libtrain/base/thread.h"
#include "libtrain/plan/blocks/held.h"

#include <algorithm>

namespace trainyard::params {

namespace {

// Computes elements [first, first + count) of a rank's part of one parameter. A value depends on the logical index,
// whatever the layout. Stored rows beyond the logical ones stay zero.
void make_values(const plan::Parameter& p, const plan::HeldPart& part, std::uint64_t seed, std::int64_t first,
                 std::int64_t count, float* out) {
  std::fill(out, out + count, 0.0f);
  plan::for_each_held_run(p, part, first, count, [&](const plan::HeldRun& run) {
    float* values = out + (run.held - first);
    switch (p.init.kind) {
      case plan::Init::Kind::zeros: break;
      case plan::Init::Kind::ones: std::fill(values, values + run.count, 1.0f); break;
      case plan::Init::Kind::normal:
        base::fill_normal(values, run.count, seed, p.name, static_cast<std::uint64_t>(run.logical), p.init.stddev);
        break;
    }
  });
}

}  // namespace

ZeroStore::ZeroStore(StoreContext& c)
    : c_(c), weights_(c.shape.zero == 3 ? make_gathered_weights(c) : make_whole_weights(c)), gradients_(c),
      stage_sums_(c), states_(c, *weights_) {
  for (int u = 0; u < c.flat_groups(); ++u)
    counted_.push_back(base::at(c.set.borrowed, u)
                           ? std::vector<plan::ShardRange>{}  // the stage that owns it counts it
                           : plan::normed_ranges(c.flat_group(u), c.layout(u), c.world.topology, c.world.rank));
}

std::span<const base::ConstView> ZeroStore::counted_gradients() {
  counted_views_.clear();
  for (int u = 0; u < c_.flat_groups(); ++u)
    for (const auto& range : base::at(counted_, u))
      counted_views_.push_back(flat_range(gradients_.shard(u), range.begin, range.end - range.begin));
  return counted_views_;
}

void ZeroStore::initialize(std::uint64_t seed) {
  struct Job {
    const plan::Parameter* parameter;
    std::int64_t first, count;  // in this rank's part of the parameter
    float* out;
  };
  std::vector<Job> jobs;
  std::vector<float> made;  // one shard, if masters are not f32 on the host
  constexpr std::int64_t job_elements = 1 << 16;
  const bool on_gpu = c_.compute.on_gpu(), apart = on_gpu || !states_.masters().are_f32();
  const auto make = [&] {
    const int shares = jobs.size() > 8 ? std::max(1, c_.compute.threads()) : 1;
    base::run_shares("initial values", shares, [&](int share) {
      for (auto j = base::size(share); j < jobs.size(); j += base::size(shares))
        make_values(*jobs[j].parameter, plan::held_part(*jobs[j].parameter, c_.world.topology, c_.world.rank), seed,
                    jobs[j].first, jobs[j].count, jobs[j].out);
    });
    jobs.clear();
  };
  for (int u = 0; u < c_.flat_groups(); ++u) {
    const auto& layout = c_.layout(u);
    const auto begin = c_.group(u).rank() * layout.shard;
    // The host computes the values, by the one code path that defines them.
    if (apart) made.resize(base::size(layout.shard));
    auto* master = apart ? made.data() : states_.master_shard(u).ptr<float>();
    for (std::size_t s = 0; s < states_.kind().element_states(); ++s)
      if (const auto view = states_.state_shard(s, u); on_gpu) tensor::clear(c_.compute, view);
      else tensor::clear_untouched(view);
    for (std::size_t s = states_.kind().element_states(); s < states_.kind().states.size(); ++s)
      for (std::size_t p = 0; p < c_.flat_group(u).parameters.size(); ++p)
        tensor::clear(c_.compute, states_.factored_state(s, u, p));
    std::int64_t end = 0;  // end of the values so far; gaps between them are zero
    for (const auto& held : plan::held_ranges(layout, begin, begin + layout.shard)) {
      std::fill(master + end, master + held.at, 0.0f);
      end = held.at + held.count;
      for (std::int64_t done = 0; done < held.count; done += job_elements)
        jobs.push_back({&c_.flat_group(u).parameters[held.parameter], held.first + done,
                        std::min(job_elements, held.count - done), master + held.at + done});
    }
    std::fill(master + end, master + layout.shard, 0.0f);
    if (!apart) continue;
    make();
    states_.masters().write(u, 0, base::View::of(master, {layout.shard}));
    c_.compute.synchronize();
  }
  make();
  c_.compute.synchronize();
  shards_loaded();
}

// Leases are open as long as on ranks that compute, because gathering ahead depends on it. So a layer's lease stays
// open while a branch's own flat group is leased.
void ZeroStore::idle(std::span<const plan::Access> accesses, GradientReduction::Position position) {
  using Kind = plan::Access::Kind;
  const auto inside = [&](std::size_t i) {
    return i < accesses.size() && i > 0 && accesses[i].kind == Kind::lease && accesses[i - 1].kind == Kind::lease &&
           base::at(c_.set.places, accesses[i].occurrence.flat_group) > 0;
  };
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const auto& a = accesses[i];
    if (a.kind == Kind::lease) {
      weights_->acquire(a.occurrence);
      if (!inside(i + 1)) weights_->give_back(a.occurrence);
      if (inside(i)) weights_->give_back(accesses[i - 1].occurrence);
    } else if (ends_group(position.place)) {
      gradients_.idle(a.occurrence, position.round);
    }
  }
}

// Zeroes the gaps between parameters and the padding at the end of a flat group, because norms and shards include them.
void ZeroStore::clear_gaps(plan::Occurrence occurrence, int source) {
  const auto& layout = c_.layout(occurrence.flat_group);
  const auto all = gradients_.whole(occurrence, source);
  const auto clear = [&](std::int64_t from, std::int64_t to) {
    if (from < to) tensor::clear(c_.compute, flat_range(all, from, to - from));
  };
  std::int64_t end = 0;
  for (std::size_t p = 0; p < layout.offsets.size(); ++p) {
    clear(end, layout.offsets[p]);
    end = layout.end(p);
  }
  clear(end, layout.padded);
}

void ZeroStore::commit(plan::Occurrence occurrence, int source) {
  if (gradients_.wanted(occurrence, source)) clear_gaps(occurrence, source);
  gradients_.commit(occurrence, source);
}

void ZeroStore::update(const UpdateRules& rules, std::int64_t tokens) {
  states_.prepare(gradients_, rules);
  if (c_.shape.zero == 0) gradients_.gather_sums();
  states_.update(gradients_, *weights_, rules, tokens);
}

}  // namespace trainyard::params
