// Calls and bytes of a step.
#include "libtrain/plan/cost/traffic.h"

#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/cost/expert_nodes.h"
#include "libtrain/plan/cost/factored_moments.h"
#include "libtrain/plan/cost/parameter_norms.h"
#include "libtrain/plan/cost/reduction_node_calls.h"
#include "libtrain/plan/cost/zero_group_calls.h"
#include "libtrain/plan/grid/reduction_nodes.h"
#include "libtrain/plan/grid/zero_groups.h"
#include "libtrain/plan/schedule/accesses.h"
#include "libtrain/plan/schedule/stage_messages.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

// Calls over a whole flat group, each in `segments` segments. All segments but the last are equal.
struct FlatGroupCalls {
  const char* operation;
  base::DType type;
  std::int64_t calls, sending, segments;
};
// The ranks that have shards of a flat group, and the elements of a shard and of all.
struct ShardedGroup {
  ShardedGroup(const FlatGroupEntry& e)
      : group(e.flat_group.group), shards(e.shards), shard(e.layout.shard), padded(e.layout.padded) {}
  Axes group;
  int shards;
  std::int64_t shard, padded;
};
void add_calls(std::vector<SizedCalls>& out, const ShardedGroup& g, const FlatGroupCalls& c) {
  const auto each = g.shard / c.segments;
  const auto add = [&](std::int64_t shard, std::int64_t n) {
    if (n > 0)
      out.push_back({g.group, g.shards, c.operation, c.type, g.shards * shard * base::size_of(c.type), n * c.calls,
                     n * c.sending});
  };
  add(each, c.segments - 1);
  add(g.shard - (c.segments - 1) * each, 1);
}

// As many segments as the stores divide a transfer into (params/transfers.h).
std::int64_t segments_of_call(const ShardedGroup& g, base::DType type, const Topology& topology, std::int64_t most) {
  return transfer_segments(g.padded * base::size_of(type), g.shards, topology, most);
}

// ZeRO stage 3. times(entry): how often the flat groups of the entry are gathered, together.
template <class Times>
std::vector<SizedCalls> gathers(const FlatGroupTable& table, const StateShape& shape, std::int64_t most, Times times) {
  const ZeroGroups groups(shape.topology);
  std::vector<SizedCalls> out;
  for (const auto& e : table.entries())
    if (const auto n = times(e); n > 0) {
      ShardedGroup sharded = e;  // among the ranks that gather it
      if (groups.any())
        sharded.group = {Axis::zero_group}, sharded.shards = groups.ranks(),
        sharded.shard = groups.copies() * e.layout.shard;
      add_calls(out, sharded,
                {.operation = "all_gather",
                 .type = shape.working,
                 .calls = n,
                 .sending = n,
                 .segments = segments_of_call(sharded, shape.working, shape.topology, most)});
    }
  return out;
}

std::vector<SizedCalls> step_gathers(const ModelPart& part, const FlatGroupTable& table, const StateShape& shape,
                                     std::int64_t most) {
  const auto each = gathers_of_groups(part, table, shape);
  return gathers(table, shape, most, [&](const FlatGroupEntry& e) {
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < e.times; ++i) n += base::at(each, e.index + i * e.stride);
    return n;
  });
}

// What a rank sends in one call: its part to each other rank. It counts twice for all_reduce, which adds parts and then
// distributes the sum.
std::int64_t sent_in(const SizedCalls& c) {
  return c.operation == "all_reduce" ? 2 * (c.ranks - 1) * c.bytes / c.ranks : c.bytes / c.ranks * (c.ranks - 1);
}

// The calls of a part's blocks for `micros` micro-batches among `ranks` ranks. of_block(segment, times) returns the
// calls of one block, multiplied by `times`.
template <class Calls> std::vector<SizedCalls> calls_of_blocks(int ranks, const ModelPart& part,
                                                               const Recomputation& recompute, std::int64_t micros,
                                                               Calls of_block) {
  std::vector<SizedCalls> out;
  if (ranks == 1 || micros == 0) return out;
  for (const auto& segment : segments(part, recompute))
    for (auto& c : of_block(segment, micros * segment.times)) {
      const auto same = std::find_if(out.begin(), out.end(), [&](const SizedCalls& o) {
        return o.group == c.group && o.operation == c.operation && o.type == c.type && o.bytes == c.bytes;
      });
      if (same == out.end()) out.push_back(std::move(c));
      else same->calls += c.calls, same->sending += c.sending;
    }
  return out;
}

}  // namespace

std::vector<std::int64_t> gathers_of_groups(const ModelPart& part, const FlatGroupTable& table,
                                            const StateShape& shape) {
  const auto micros = shape.batch.lockstep_micros();
  if (shape.breadth_first) return breadth_first_gathers(part, SlotPlan(table, shape.gathered_layers), micros);
  std::vector<std::int64_t> out(base::size(table.flat_groups()));
  for (const auto& e : table.entries())
    for (std::int64_t i = 0; i < e.times; ++i) base::at(out, e.index + i * e.stride) = micros * e.training_leases;
  return out;
}

std::vector<SizedCalls> step_calls(const ModelPart& part, const StateShape& shape, Reduction reduction,
                                   int reduction_position, std::int64_t most) {
  const auto& batch = shape.batch;
  const FlatGroupTable table(part, shape.topology);
  const auto sending =
      reduction == Reduction::fast ? batch.accumulation_steps() : batch.accumulation_steps_of(reduction_position);
  // Gradients of distributed experts are reduced source by source, as long as there is a micro-batch. A rank sends the
  // gradients of each source whose tokens it gets, in the accumulation steps in which that source has tokens.
  const auto of_sources = [&](const FlatGroupEntry& e, int rank) {
    std::int64_t n = 0;
    for (int source = 0; source < e.contributions; ++source) n += batch.accumulation_steps_of(source * e.shards + rank);
    return n;
  };
  auto out = reduction_node_calls(table, shape, reduction_position, most);
  for (const auto& e : table.entries()) {
    if (ReductionNodes(shape.topology).any()) break;
    if (e.frozen) continue;
    const auto occurrences = e.times * e.occurrences;
    const bool library = reduction == Reduction::fast && e.shards > 1;
    add_calls(out, e,
              {.operation = library ? "reduce_scatter" : "ordered_reduce_scatter",
               .type = shape.gradient,
               .calls = occurrences * (e.contributions == 1 ? batch.accumulation_steps() : of_sources(e, 0)),
               .sending = occurrences * (e.contributions == 1 ? sending : of_sources(e, reduction_position % e.shards)),
               .segments = library ? 1 : segments_of_call(e, shape.gradient, shape.topology, most)});
  }
  if (shape.zero == 3) {
    for (auto& c : step_gathers(part, table, shape, most)) out.push_back(std::move(c));
    for (auto& c : zero_group_calls(table, shape, reduction_position, most)) out.push_back(std::move(c));
  } else {
    // Gradient sums are gathered at the end of a step, where nothing waits behind them. So each is one call.
    const auto type = shape.zero == 0 ? shape.gradient : shape.working;
    for (const auto& e : table.entries())
      if (e.shards > 1 && !e.frozen)
        add_calls(out, e,
                  {.operation = "all_gather",
                   .type = type,
                   .calls = e.times,
                   .sending = e.times,
                   .segments = shape.zero == 0 ? 1 : segments_of_call(e, type, shape.topology, most)});
  }
  for (auto& c : factored_moment_calls(table, shape)) out.push_back(std::move(c));
  for (auto& c : parameter_norm_calls(table, shape)) out.push_back(std::move(c));
  return out;
}

std::vector<SizedCalls> tensor_calls(const ModelPart& part, const MicroShape& micro, Pass pass,
                                     const Recomputation& recompute, std::int64_t micros) {
  return calls_of_blocks(micro.tensor, part, recompute, micros, [&](const Segment& s, std::int64_t times) {
    std::vector<SizedCalls> out;
    for (const auto& c : s.kind->tensor_calls(s.model, s.shape(part.own_shape(micro)), pass, s.recompute))
      out.push_back({Axis::tensor, micro.tensor, c.operation, c.type, c.bytes, times * c.calls, times * c.calls});
    return out;
  });
}

std::vector<SizedCalls> expert_calls(const ModelPart& part, const MicroShape& micro, Pass pass,
                                     const Recomputation& recompute, std::int64_t micros) {
  return calls_of_blocks(part.experts.across(), part, recompute, micros, [&](const Segment& s, std::int64_t times) {
    std::vector<SizedCalls> out;
    for (const auto& c : s.kind->expert_calls(s.model, s.shape(part.own_shape(micro)), pass, s.recompute))
      for (auto& sized : expert_group_calls(part.experts, c, times)) out.push_back(std::move(sized));
    return out;
  });
}

std::vector<SizedCalls> pipe_calls(const ModelConfig& model, const Stages& stages, int stage, const MicroShape& micro,
                                   Pass pass, std::int64_t micros) {
  std::vector<SizedCalls> out;
  const auto add = [&](const char* operation, const std::vector<StageMessages::Tensor>& tensors, bool sends) {
    for (const auto& [rows, dtype, bytes] : tensors) {
      auto same = std::find_if(out.begin(), out.end(), [&, type = dtype, sent = bytes](const SizedCalls& c) {
        return c.operation == operation && c.type == type && c.bytes == 2 * sent;
      });
      if (same == out.end()) same = out.insert(out.end(), {Axis::pipe, 2, operation, dtype, 2 * bytes, 0, 0});
      same->calls += micros, same->sending += sends ? micros : 0;
    }
  };
  const auto each_chunk = [&](const auto& of) {
    for (int c = 0; c < stages.chunks() && micros > 0; ++c) {
      const int part = stages.part(stage, c);
      of(messages_before(model, stages, part, micro), messages_before(model, stages, part + 1, micro));
    }
  };
  each_chunk([&](const StageMessages& before, const StageMessages& behind) {
    add("activations", behind.activations(), true);
    add("activations", before.activations(), false);
  });
  if (pass == Pass::train)
    each_chunk([&](const StageMessages& before, const StageMessages& behind) {
      add("gradients", before.gradients(), true);
      add("gradients", behind.gradients(), false);
    });
  return out;
}

std::vector<SizedCalls> flat_group_of_stages_calls(const ModelPart& part, const Stages& stages, int stage,
                                                   const StateShape& shape) {
  const auto sharing = sharing_stages(part.model, stages);
  if (std::find(sharing.begin(), sharing.end(), stage) == sharing.end()) return {};
  const FlatGroupTable table(part, shape.topology);
  std::int64_t all = 0, sent = 0;  // elements
  for (const auto& shared : flat_groups_of_stage(part.model, stages, stage))
    for (const auto& e : table.entries())
      if (e.flat_group.name == shared.flat_group) {
        all += static_cast<std::int64_t>(shared.uses.size()) * e.layout.shard;
        sent += (std::ssize(shared.stages) - 1) * shared.uses_in(stage) * e.layout.shard;
      }
  const auto each = base::size_of(shape.gradient);
  return {{CallGroup::stages(), static_cast<int>(sharing.size()), "all_gather", shape.gradient, all * each, 1, 1,
           sent * each}};
}

std::vector<Traffic> added_up(const std::vector<SizedCalls>& calls) {
  std::vector<Traffic> out;
  for (const auto& c : calls) {
    auto sum = std::find_if(out.begin(), out.end(),
                            [&](const Traffic& t) { return t.operation == c.operation && t.group == c.group; });
    if (sum == out.end()) sum = out.insert(out.end(), {c.group, c.operation, 0, 0});
    sum->calls += c.calls;
    sum->bytes += c.sent.value_or(c.sending * sent_in(c));
  }
  return out;
}

std::vector<Traffic> step_traffic(const ModelPart& part, const StateShape& shape, Reduction reduction,
                                  int reduction_position, std::int64_t most) {
  return added_up(step_calls(part, shape, reduction, reduction_position, most));
}

std::int64_t validation_rounds(const BatchPlan& batch, std::int64_t sequences) {
  return (sequences / batch.micro_batch + batch.data_ranks - 1) / batch.data_ranks;
}

std::vector<Traffic> validation_traffic(const ModelPart& part, const StateShape& shape, std::int64_t sequences) {
  const auto d = shape.batch.data_ranks;
  if (shape.zero != 3 || d == 1) return {};
  const auto rounds = validation_rounds(shape.batch, sequences);
  return added_up(gathers(FlatGroupTable(part, shape.topology), shape, segment_bytes,
                          [&](const FlatGroupEntry& e) { return rounds * e.times * e.evaluation_leases; }));
}

}  // namespace trainyard::plan
