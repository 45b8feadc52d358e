// The background writer of checkpoints.
#include "libtrain/engine/saver.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/thread.h"
#include "libtrain/base/trace_kinds.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/saved_shards.h"
#include "libtrain/engine/run_folder.h"

#include <cstring>
#include <map>

namespace trainyard::engine {

Saver::Saver(std::string folder, tensor::Arena& arena, params::StoreContext& context, params::ZeroStore& store,
             int keep, checkpoint::WriteOptions options, std::function<void()> require_alone, plan::Stages stages)
    : folder_(std::move(folder)), context_(context), store_(store), keep_(keep), options_(std::move(options)),
      require_alone_(std::move(require_alone)), stages_(std::move(stages)) {
  shards_.rank = context.world.rank;
  shards_.ranks = context.world.size;
  using checkpoint::Kind;
  const auto optimizer = checkpoint::StoredOptimizer::of(*context.shape.optimizer);
  const auto kinds = checkpoint::kinds_of(context.shape.working, checkpoint::Contents::all, optimizer);
  bool some_are_frozen = false;
  for (int u = 0; u < context.flat_groups(); ++u) some_are_frozen = some_are_frozen || context.is_frozen(u);
  auto* const begin = static_cast<char*>(arena.allocate_bytes(0));
  for (int u = 0; u < context.flat_groups(); ++u) {
    const auto shard = context.layout(u).shard;
    std::map<Kind, base::View> copies;
    for (const auto& kind : kinds) {
      if (checkpoint::shape_of(kind, optimizer) != plan::OptimizerState::Shape::parameter) continue;
      const auto dtype = checkpoint::dtype_of(kind, context.shape.working, context.shape.optimizer->state_dtype());
      if (kind != Kind::model && context.is_frozen(u)) continue;
      const auto [held, state] = place_of(kind);
      copies[kind] =
          context.is_offloaded(u, held, state) ? base::View(nullptr, dtype, {shard}) : arena.allocate(dtype, {shard});
    }
    if (base::at(context.set.borrowed, u)) continue;  // its owner saves it
    const auto ranges =
        plan::counted_ranges(context.flat_group(u), context.layout(u), context.world.topology, context.world.rank);
    for (const auto& [kind, copy] : copies)
      for (const auto& range : some_are_frozen&& kind != Kind::model ? without_gaps(u, ranges) : ranges) {
        ranges_[kind].push_back({u, range});
        shards_.views[kind].push_back(copy ? params::flat_range(copy, range.begin, range.end - range.begin)
                                           : base::View(nullptr, copy.dtype, {range.end - range.begin}));
      }
  }
  place_factored_states(arena);
  snapshot_ = {begin, base::size(arena.used_bytes())};
  shards_.read = [this](const Kind& kind, std::size_t view, std::int64_t first, base::View to) {
    const auto& saved = ranges_.at(kind).at(view);
    const auto [held, state] = place_of(kind);
    context_.offloaded->read(saved.flat_group, held, state, saved.range.begin + first, to);
  };
  thread_ = base::start_thread("checkpoint", [this] { work(); });
}

// The elements of parameters in ranges of this rank's shard. Where parameters are frozen, the states of the others lie
// back to back in the file (checkpoint/kind_boxes.h).
std::vector<plan::ShardRange> Saver::without_gaps(int u, const std::vector<plan::ShardRange>& ranges) const {
  const auto& layout = context_.layout(u);
  const auto& topology = context_.world.topology;
  const auto rank = context_.world.rank;
  const auto shard = plan::place_in_group(topology, rank, context_.flat_group(u).group) * layout.shard;
  std::vector<plan::ShardRange> out;
  for (const auto& range : ranges)
    for (const auto& held : plan::held_ranges(layout, shard + range.begin, shard + range.end)) {
      const auto& p = context_.flat_group(u).parameters[held.parameter];
      std::int64_t count = 0;  // without stored rows beyond the logical ones
      for (const auto& box : checkpoint::boxes_of_held(p, plan::held_part(p, topology, rank), held.first, held.count))
        count += box.elements();
      if (count > 0) out.push_back({range.begin + held.at, range.begin + held.at + count});
    }
  return out;
}

// Every rank has memory for all of them, as the plan says, although each is saved by one rank.
void Saver::place_factored_states(tensor::Arena& arena) {
  const auto& states = context_.shape.optimizer->states;
  for (std::size_t s = context_.shape.optimizer->element_states(); s < states.size(); ++s) {
    const auto elements = [&](const plan::Parameter& p) {
      return plan::dims_of_state(states[s].shape, p.shape).front();
    };
    auto& views = shards_.views[checkpoint::Kind::state(states[s].name)];
    for (int u = 0; u < context_.flat_groups(); ++u) {
      const auto& flat_group = context_.flat_group(u);
      std::vector<std::int64_t> begins{0};
      for (const auto& p : flat_group.parameters) begins.push_back(begins.back() + elements(p));
      const auto all = arena.allocate(states[s].dtype, {begins.back()});
      if (base::at(context_.set.borrowed, u)) continue;
      checkpoint::for_each_begun(flat_group, context_.layout(u), context_.world.topology, context_.world.rank,
                                 [&](std::size_t p) {
                                   views.push_back(params::flat_range(all, begins[p], begins[p + 1] - begins[p]));
                                   factored_.push_back({s, u, p, views.back()});
                                 });
    }
  }
}

void Saver::touch() {
  enqueue([this] {
    if (snapshot_.empty()) return;
    std::memset(snapshot_.data(), 0, snapshot_.size());
    if (!context_.compute.on_gpu()) return;
    const char* refusal = pinned_.pin(snapshot_.data(), static_cast<std::int64_t>(snapshot_.size()));
    if (refusal != nullptr)
      base::log_warning("the {} bytes of the snapshot cannot be pinned ({}): saving will stop the GPU for longer",
                        snapshot_.size(), refusal);
  });
}

Saver::~Saver() {
  {
    std::lock_guard lock(mutex_);
    leave_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Saver::take(const checkpoint::RunState& state) {
  wait();
  rethrow_failure();
  const base::TraceScope traced(base::traced::save, "snapshot", {state.step});
  if (context_.offloaded != nullptr) context_.offloaded->finish_update();
  auto& states = store_.states();
  for (const auto& [kind, ranges] : ranges_)
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const auto& [u, range] = ranges[i];
      const auto to = shards_.views.at(kind)[i];
      if (!to) continue;
      if (kind == checkpoint::Kind::master) {
        states.masters().read(u, range.begin, to);
        continue;
      }
      const auto shard = kind == checkpoint::Kind::model ? store_.weights().own_shard(u)
                                                         : states.state_shard(place_of(kind).second, u);
      tensor::copy(context_.compute, params::flat_range(shard, range.begin, to.count()), to);
    }
  for (const auto& [s, u, p, copy] : factored_)
    tensor::copy(context_.compute, store_.states().factored_state(s, u, p), copy);
  context_.compute.synchronize();
  state_ = state;
  taken_step_ = state.step;
  // The writer reads from disk what the next update changes.
  if (context_.offloaded != nullptr) context_.offloaded->outside_steps([this] { enqueue_write(), wait(); });
  else enqueue_write();
}

void Saver::enqueue_write() {
  enqueue([this] {
    const base::TraceScope traced(base::traced::save, "write", {state_.step});
    if (shards_.boxes.empty())
      shards_.boxes = checkpoint::boxes_of_shards(state_.model, context_.world.topology, shards_.rank, stages_);
    checkpoint::write_rank(folder_, state_, shards_, options_);
    std::lock_guard lock(mutex_);
    written_step_ = state_.step;
  });
}

// Where the store has what a kind is made of.
std::pair<plan::Held, std::size_t> Saver::place_of(const checkpoint::Kind& kind) const {
  if (kind == checkpoint::Kind::model) return {plan::Held::parameter, 0};
  if (kind == checkpoint::Kind::master) return {plan::Held::master, 0};
  const auto& states = context_.shape.optimizer->states;
  for (std::size_t s = 0; s < states.size(); ++s)
    if (kind == checkpoint::Kind::state(states[s].name)) return {plan::Held::state, s};
  TRAINYARD_ASSERT(false, "{} of another optimizer", kind.name());
  return {};
}

void Saver::publish() {
  enqueue([this] {
    const base::TraceScope traced(base::traced::save, "publish", {state_.step});
    require_alone_();
    checkpoint::publish(folder_, state_, context_.world.topology, keep_);
    try {
      note_published(base::parent_of(folder_), state_.step);
    } catch (const base::Error& e) {  // the checkpoint is whole without it
      base::log_warning("{} is published, but last-checkpoint does not say so: {}", checkpoint::step_name(state_.step),
                        e.what());
    }
    std::lock_guard lock(mutex_);
    published_step_ = state_.step;
  });
}

void Saver::enqueue(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

void Saver::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty() && !busy_; });
}

std::int64_t Saver::written_step() const {
  std::lock_guard lock(mutex_);
  return written_step_;
}

std::int64_t Saver::published_step() const {
  std::lock_guard lock(mutex_);
  return published_step_;
}

bool Saver::failed() const {
  std::lock_guard lock(mutex_);
  return failure_ != nullptr;
}

void Saver::rethrow_failure() const {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Saver::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return leave_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    const bool skip = failure_ != nullptr;
    lock.unlock();
    std::exception_ptr failure;
    try {
      if (!skip) job();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace trainyard::engine
