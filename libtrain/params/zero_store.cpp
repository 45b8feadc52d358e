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

// Computes initial values of parts of this rank's shards, with all threads of the compute Exec.
class ZeroStore::InitialValues {
 public:
  InitialValues(const StoreContext& c, std::uint64_t seed) : c_(c), seed_(seed) {}

  // `out` gets elements [first, first + count) of the shard when make() is called, gaps between parameters as zeros.
  void add(int u, std::int64_t first, std::int64_t count, float* out) {
    constexpr std::int64_t job_elements = 1 << 16;
    const auto& layout = c_.layout(u);
    const auto begin = c_.group(u).rank() * layout.shard + first;
    std::int64_t end = 0;  // end of the values so far
    for (const auto& held : plan::held_ranges(layout, begin, begin + count)) {
      std::fill(out + end, out + held.at, 0.0f);
      end = held.at + held.count;
      for (std::int64_t done = 0; done < held.count; done += job_elements)
        jobs_.push_back({&c_.flat_group(u).parameters[held.parameter], held.first + done,
                         std::min(job_elements, held.count - done), out + held.at + done});
    }
    std::fill(out + end, out + count, 0.0f);
  }
  void make() {
    const int shares = jobs_.size() > 8 ? std::max(1, c_.compute.threads()) : 1;
    base::run_shares("initial values", shares, [&](int share) {
      for (auto j = base::size(share); j < jobs_.size(); j += base::size(shares))
        make_values(*jobs_[j].parameter, plan::held_part(*jobs_[j].parameter, c_.world.topology, c_.world.rank), seed_,
                    jobs_[j].first, jobs_[j].count, jobs_[j].out);
    });
    jobs_.clear();
  }

 private:
  struct Job {
    const plan::Parameter* parameter;
    std::int64_t first, count;  // in this rank's part of the parameter
    float* out;
  };
  const StoreContext& c_;
  std::uint64_t seed_;
  std::vector<Job> jobs_;
};

ZeroStore::ZeroStore(StoreContext& c)
    : c_(c), weights_(c.shape.zero == 3 ? make_gathered_weights(c) : make_whole_weights(c)),
      gradients_(c, [this](int u, base::ConstView sum) { count_squares(u, sum); }), stage_sums_(c),
      states_(c, *weights_) {
  for (int u = 0; u < c.flat_groups(); ++u)
    counted_.push_back(base::at(c.set.borrowed, u)
                           ? std::vector<plan::ShardRange>{}  // the stage that owns it counts it
                           : plan::normed_ranges(c.flat_group(u), c.layout(u), c.world.topology, c.world.rank));
}

std::span<const base::ConstView> ZeroStore::counted_gradients() {
  counted_views_.clear();
  for (int u = 0; u < c_.flat_groups(); ++u)
    for (const auto& range : base::at(counted_, u))
      if (!c_.is_offloaded(u, plan::Held::gradient))
        counted_views_.push_back(flat_range(gradients_.shard(u), range.begin, range.end - range.begin));
  return counted_views_;
}

void ZeroStore::count_squares(int u, base::ConstView sum) {
  for (const auto& range : base::at(counted_, u))
    kernels::square_sum(c_.compute, sum.elements(range.begin, range.end - range.begin), squares_of_disk_);
}

void ZeroStore::for_gradient(int u, const std::function<void(std::int64_t first, base::View part)>& f) {
  if (c_.is_frozen(u)) return;
  if (!c_.is_offloaded(u, plan::Held::gradient)) return f(0, gradients_.shard(u));
  auto& elsewhere = *c_.offloaded;
  const auto shard = c_.layout(u).shard;
  const auto dtype = c_.shape.sums_elsewhere();
  std::vector<float> part(base::size(std::min(elsewhere.tile_elements(), shard)));
  std::vector<std::byte> there(part.size() * base::size(base::size_of(dtype)));
  const auto read = [&](std::int64_t first, std::int64_t most) {
    const auto view = base::View::of(part.data(), {std::min(most, shard - first)});
    elsewhere.read(u, plan::Held::gradient, 0, first, {there.data(), dtype, {view.count()}});
    base::to_f32(dtype, there.data(), view.count(), part.data());
    return view;
  };
  if (!c_.compute.on_gpu()) {
    for (std::int64_t first = 0; first < shard; first += std::ssize(part)) f(first, read(first, std::ssize(part)));
    return;
  }
  auto& scratch = c_.compute.scratch();
  const auto most = std::min<std::int64_t>(std::ssize(part), (scratch.capacity_bytes() - scratch.used_bytes()) / 8);
  for (std::int64_t first = 0; first < shard; first += most) {
    const tensor::ArenaScope scope(scratch);
    const auto view = read(first, most);
    const auto on_device = scratch.allocate(base::DType::f32, {view.count()});
    tensor::copy(c_.compute, view, on_device);
    f(first, on_device);
    c_.compute.synchronize();
  }
}

void ZeroStore::initialize(std::uint64_t seed) {
  InitialValues values(c_, seed);
  std::vector<float> part;
  for (int u = 0; u < c_.flat_groups(); ++u) add_initial_values(values, part, u);
  values.make();
  c_.compute.synchronize();
  shards_loaded();
}

void ZeroStore::initialize(std::uint64_t seed, int u) {
  InitialValues values(c_, seed);
  std::vector<float> part;
  add_initial_values(values, part, u);
  values.make();
  c_.compute.synchronize();
}

// The host computes the values, by the one code path that defines them. `part` has what is not f32 on the host.
void ZeroStore::add_initial_values(InitialValues& values, std::vector<float>& part, int u) {
  const bool apart = c_.compute.on_gpu() || !states_.masters().are_f32() || states_.masters().is_narrow_and_frozen(u);
  const auto shard = c_.layout(u).shard;
  clear_states(u);
  if (c_.is_offloaded(u, states_.held_of_master())) {
    const auto most = c_.offloaded->tile_elements();
    for (std::int64_t first = 0; first < shard; first += most) {
      part.resize(base::size(std::min(most, shard - first)));
      values.add(u, first, std::ssize(part), part.data());
      values.make();
      c_.offloaded->write(u, states_.held_of_master(), 0, first, base::View::of(part.data(), {std::ssize(part)}));
    }
  } else if (apart) {
    part.resize(base::size(shard));
    values.add(u, 0, shard, part.data());
    values.make();
    states_.masters().write(u, 0, base::View::of(part.data(), {shard}));
    c_.compute.synchronize();
  } else {
    values.add(u, 0, shard, states_.master_shard(u).ptr<float>());
  }
}

void ZeroStore::clear_states(int u) {
  const auto& kind = states_.kind();
  if (c_.is_frozen(u)) return;
  for (std::size_t s = 0; s < kind.element_states(); ++s) {
    if (c_.is_offloaded(u, plan::Held::state, s)) {
      c_.offloaded->clear(u, plan::Held::state, s);
      continue;
    }
    if (const auto view = states_.state_shard(s, u); c_.compute.on_gpu()) tensor::clear(c_.compute, view);
    else tensor::clear_untouched(view);
  }
  for (std::size_t s = kind.element_states(); s < kind.states.size(); ++s)
    for (std::size_t p = 0; p < c_.flat_group(u).parameters.size(); ++p)
      tensor::clear(c_.compute, states_.factored_state(s, u, p));
}

// Leases are open as long as on ranks that compute, because gathering ahead depends on it. So a layer's lease stays
// open while its other flat groups are leased.
void ZeroStore::idle(std::span<const plan::Access> accesses, GradientReduction::Position position) {
  using Kind = plan::Access::Kind;
  const auto inside = [&](std::size_t i) {
    return i < accesses.size() && i > 0 && accesses[i].kind == Kind::lease && accesses[i - 1].kind == Kind::lease &&
           base::at(c_.set.places, accesses[i].occurrence.flat_group) > 0;
  };
  std::vector<plan::Occurrence> open;
  for (std::size_t i = 0; i < accesses.size(); ++i) {
    const auto& a = accesses[i];
    if (a.kind == Kind::lease) {
      weights_->acquire(a.occurrence);
      open.push_back(a.occurrence);
      for (; !inside(i + 1) && !open.empty(); open.pop_back()) weights_->give_back(open.back());
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
