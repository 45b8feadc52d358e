// Ground: what a parameter store needs, for one rank of a test: arenas of the planned sizes that are full of NaN,
// Execs, and a communicator that notes every call.
#pragma once

#include "libtrain/comm/delayed.h"
#include "libtrain/comm/threads.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/cost/matrix_updates.h"
#include "libtrain/plan/cost/traffic.h"
#include "libtrain/plan/spec/model_config.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/params/memory_storage.h"

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trainyard::test {

using Reduction = decltype(params::StoreContext::reduction);

// Odd widths, so that parameters have gaps between them and flat groups have padding at their end. Five layers share
// few buffers. GPT-2's token table has two occurrences.
inline plan::ModelConfig tied_model() {
  auto m = plan::preset("gpt2-nano");
  m.lanes = 1, m.layers = 5, m.hidden = 6, m.heads = m.kv_heads = 2, m.ffn = 10, m.vocabulary = 5, m.context = 3;
  return m;
}
inline plan::ModelConfig untied_model() {
  auto m = plan::preset("llama-nano");
  m.lanes = 1, m.layers = 3, m.hidden = 10, m.heads = m.kv_heads = 1, m.ffn = 14, m.vocabulary = 130, m.context = 3;
  return m;
}

// Heads for four tensor-parallel ranks. Vocabularies are so small that slices of tables have few logical rows or none.
inline plan::ModelConfig tied_model_of_heads() {
  auto m = tied_model();
  m.layers = 3, m.hidden = 8, m.heads = m.kv_heads = 4, m.ffn = 12;
  return m;
}
inline plan::ModelConfig untied_model_of_heads() {
  auto m = untied_model();
  m.hidden = 16, m.heads = 8, m.kv_heads = 4, m.ffn = 20;
  return m;
}

struct ParallelLayout {
  int ranks = 1, zero = 0;  // data-parallel ranks; the ZeRO stage
  base::DType working = base::DType::f32;
  std::int64_t micros = 1, local_accumulation = 1;
  int gathered_layers = 2;
  Reduction reduction = Reduction::ordered;
  int tensor = 1;
  std::string optimizer = plan::default_optimizer;
  base::DType states = base::DType::f32;  // of the optimizer
  plan::MasterFormat master = plan::MasterFormat::f32;
  plan::Offload offload = {};
  base::DType sums = base::DType::f32;  // what sums of gradients are rounded to
  int zero_group = 1;                   // data-parallel ranks that shard the weights of ZeRO 3; 1: all
  int reduction_node = 1;               // data-parallel ranks that add gradients before nodes do; 1: there are no nodes
  std::int64_t reduction_piece = plan::StateShape{}.reduction_piece;

  plan::StateShape shape() const {
    return {zero,
            working,
            base::DType::f32,
            {micros, 1, local_accumulation, ranks},
            gathered_layers,
            topology(),
            &plan::optimizer_kind(optimizer, states),
            master,
            offload,
            false,
            base::DeviceKind::cpu,
            sums,
            reduction_piece};
  }
  plan::Topology topology() const {
    return plan::replicas_of(ranks * tensor, tensor).with_zero_groups(zero_group).with_reduction_nodes(reduction_node);
  }
  std::string text() const {
    return fmt::format(
        "ranks {} x {} ZeRO {} in groups of {} and nodes of {} {}{} micros {} fold {} slots {} {} sums in {}", ranks,
        tensor, zero, zero_group, reduction_node, base::name_of(working),
        master == plan::MasterFormat::f32 ? "" : " with remainders", micros, local_accumulation, gathered_layers,
        reduction == Reduction::fast ? "fast" : "ordered", base::name_of(sums));
  }
};

// Forwards every call, and notes it at the moment when the caller issues it.
class Noting : public comm::Communicator {
 public:
  struct Call {
    std::string operation;
    std::int64_t elements;  // of the whole operand
    bool operator==(const Call&) const = default;
  };
  explicit Noting(std::unique_ptr<Communicator> inner)
      : Communicator(inner->group(), inner->rank(), inner->size()), inner_(std::move(inner)) {}

  void all_reduce(tensor::Exec& e, base::View v, comm::Reduction op) override {
    note("all_reduce", v).all_reduce(e, v, op);
  }
  void all_gather(tensor::Exec& e, base::View in, base::View out) override {
    note("all_gather", out).all_gather(e, in, out);
  }
  void reduce_scatter(tensor::Exec& e, base::View in, base::View out) override {
    note("reduce_scatter", in).reduce_scatter(e, in, out);
  }
  void all_to_all(tensor::Exec& e, base::View send, std::span<const std::int64_t> send_counts, base::View receive,
                  std::span<const std::int64_t> receive_counts) override {
    note("all_to_all", receive).all_to_all(e, send, send_counts, receive, receive_counts);
  }
  void broadcast(tensor::Exec& e, base::View v, int root) override { note("broadcast", v).broadcast(e, v, root); }
  void exchange(tensor::Exec& e, std::span<const comm::Transfer> transfers) override {
    note("exchange", {}).exchange(e, transfers);
  }
  void barrier(tensor::Exec& e) override { note("barrier", {}).barrier(e); }
  const comm::Ledger& ledger() const override { return std::as_const(*inner_).ledger(); }
  comm::Ledger& ledger() override { return inner_->ledger(); }

  std::vector<Call> calls;

 private:
  Communicator& note(const char* operation, base::View whole) {
    calls.push_back({operation, whole.count()});
    return *inner_;
  }
  std::unique_ptr<Communicator> inner_;
};

// Memory that an earlier use has filled with NaN. A store that does not write its memory would return NaN.
class UsedArena : public tensor::Arena {
 public:
  UsedArena(tensor::Category category, std::int64_t bytes) : Arena(category, bytes) {
    if (capacity_bytes() > 0)
      std::memset(allocate_bytes(capacity_bytes()), 0xff, static_cast<std::size_t>(capacity_bytes()));
    release(0);
  }
  bool full() const { return used_bytes() == capacity_bytes(); }
};

// The rank's world, which notes its calls. If `before_each` is given, it runs on the Exec before each call.
inline comm::World noted_world(const ParallelLayout& c, int rank, comm::ThreadsWorld& threads,
                               const std::function<void()>& before_each) {
  std::vector<plan::Axes> groups{{plan::Axis::data}, {plan::Axis::tensor}};
  for (const auto axis : {plan::Axis::zero_group, plan::Axis::reduction_outer, plan::Axis::reduction_inner})
    if (c.topology().size(axis) > 1) groups.push_back({axis});
  comm::World world("threads", rank, c.topology(), threads.factory(rank), groups);
  world.replace_groups([&](auto group) {
    return std::make_unique<Noting>(before_each ? comm::delayed(std::move(group), before_each) : std::move(group));
  });
  return world;
}

// The scratch of an update.
inline std::int64_t workspace_bytes(const plan::FlatGroupSet& set, const ParallelLayout& c) {
  const auto& kind = plan::optimizer_kind(c.optimizer);
  if (kind.collective != plan::OptimizerKind::Collective::whole_matrices) return 0;
  return plan::MatrixUpdates(set.table, c.topology()).workspace_bytes(base::DeviceKind::cpu);
}

class Ground {
 public:
  Ground(const plan::ModelConfig& m, const ParallelLayout& c, int rank, comm::ThreadsWorld& threads,
         const std::function<void()>& before_each = {})
      : model(m), layout(c), set(m, c.topology()), bytes(plan::state_bytes(set.table, c.shape())),
        parameters(tensor::Category::parameters, bytes.parameters),
        gathered(tensor::Category::gathered_weights, bytes.gathered_weights),
        gradients(tensor::Category::gradients, bytes.gradients),
        micro_batch_gradients(tensor::Category::micro_batch_gradients, bytes.micro_batch_gradients),
        optimizer(tensor::Category::optimizer, bytes.optimizer),
        staging(tensor::Category::communication_staging, bytes.communication_staging),
        offload_buffers(tensor::Category::offload_buffers, bytes.offload_buffers),
        workspace(tensor::Category::workspace, workspace_bytes(set, c)),
        world(noted_world(c, rank, threads, before_each)), data(static_cast<Noting&>(world.group({plan::Axis::data}))),
        compute(tensor::Exec::caller(&workspace, 1)),
        worker(c.topology().world() > 1 ? tensor::Exec::worker("communication", nullptr) : nullptr),
        context{{world, *compute, worker ? *worker : *compute},
                set,
                c.shape(),
                c.reduction,
                {parameters, gathered, gradients, micro_batch_gradients, optimizer, staging}} {
    if (!c.offload.any()) return;
    const plan::OffloadPlan plan(set.table, c.shape());
    offloaded.emplace(plan, std::make_unique<MemoryStorage>(params::storage_extents(plan, set.flat_groups)),
                      params::OffloadMemory{offload_buffers});
    context.offloaded = &*offloaded;
  }

  int rank() const { return data.rank(); }  // the data-parallel coordinate
  int flat_groups() const { return context.flat_groups(); }
  // The arenas that a part of a store used hold what the plan has for it, to the byte.
  bool full(std::initializer_list<const UsedArena*> arenas) const {
    for (const auto* a : arenas)
      if (!a->full()) return false;
    return true;
  }

  plan::ModelConfig model;
  ParallelLayout layout;
  plan::FlatGroupSet set;
  plan::StateBytes bytes;
  UsedArena parameters, gathered, gradients, micro_batch_gradients, optimizer, staging, offload_buffers, workspace;
  std::optional<params::OffloadedStates> offloaded;
  comm::World world;
  Noting& data;
  std::unique_ptr<tensor::Exec> compute, worker;
  params::StoreContext context;
};

// Calls body(ground) on every rank of the layout. Every collective begins late by `late`, so a use of data that has not
// arrived is found.
template <class Body> void on_ranks(const plan::ModelConfig& model, const ParallelLayout& layout, Body body,
                                    std::chrono::microseconds late = {}) {
  comm::run_ranks(layout.topology().world(), [&](int rank, comm::ThreadsWorld& world) {
    Ground ground(
        model, layout, rank, world,
        late.count() == 0 ? std::function<void()>() : [late] { std::this_thread::sleep_for(late); });
    body(ground);
  });
}

}  // namespace trainyard::test
