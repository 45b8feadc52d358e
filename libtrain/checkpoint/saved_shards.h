// SavedShards: which part of which tensor lies where in the rank files that train writes: the one place that knows its
// cut.
#pragma once

#include "libtrain/checkpoint/boxes.h"
#include "libtrain/plan/held.h"
#include "libtrain/plan/inventory.h"
#include "libtrain/plan/ownership.h"
#include "libtrain/plan/stages.h"
#include "libtrain/plan/topology.h"

#include <cstdint>
#include <vector>

namespace trainyard::checkpoint {

// The datasets of a rank file are the rank's shards of the flat groups of its stage back to back, in the order of the
// model, without what another rank saves: of ranks that hold a parameter alike the first does (plan/ownership.h), and
// of a shard of which a rank saves a part there are the ranges that it saves. A flat group is its owner's: a stage that
// borrows a copy of it saves nothing of that. Where ranks share the experts (plan::expert_share), the flat group of a
// layer's experts is another one for each of their parts.
class SavedShards {
 public:
  // Axes divide the dims that they cut and the experts of each layer (divides); along pipe there are as many ranks as
  // stages.
  SavedShards(const plan::ModelConfig& model, plan::Topology topology, const plan::Stages& stages = {});

  // A flat group as some rank has it, and of which tensors of the model (in the order of plan::flat_groups) its
  // parameters are.
  struct Held {
    plan::FlatGroup flat_group;
    plan::FlatLayout layout;
    std::vector<std::int32_t> tensors;
  };

  const plan::Topology& topology() const { return topology_; }
  const std::vector<Held>& flat_groups() const { return flat_groups_; }  // all that any rank has: each tensor is in one
  std::int64_t elements(int rank) const;                                 // of each of its datasets
  RankBoxes boxes(int rank) const;
  int empty_ranks() const;  // those of which boxes(rank) is empty

  // Calls f(tensor, HeldRange, at) for each parameter that the rank saves elements of: those of the range lie from
  // element `at` of its datasets on.
  template <class F> void for_each_saved(int rank, F&& f) const {
    any_saved(rank, [&](std::int32_t tensor, const plan::Parameter&, const plan::HeldRange& held, std::int64_t at) {
      f(tensor, held, at);
      return false;
    });
  }

 private:
  // As for_each_saved, told the parameter too, until f says true; did it?
  template <class F> bool any_saved(int rank, F&& f) const {
    std::int64_t start = 0;  // of a range in the datasets
    const auto part = static_cast<std::size_t>(plan::expert_share(topology_, rank).part);
    for (const auto& variants : variants_of(rank)) {
      const auto& [flat_group, layout, tensors] = flat_groups_[variants.first + part % variants.parts];
      const auto begin = plan::place_in_group(topology_, rank, flat_group.group) * layout.shard;
      for (const auto& range : plan::counted_ranges(flat_group, layout, topology_, rank)) {
        for (const auto& held : plan::held_ranges(layout, begin + range.begin, begin + range.end))
          if (f(tensors[held.parameter], flat_group.parameters[held.parameter], held, start + held.at)) return true;
        start += range.end - range.begin;
      }
    }
    return false;
  }

  // One flat group for all ranks, or one for each part of the experts, neighbours among the flat groups.
  struct Variants {
    std::size_t first = 0, parts = 1;
  };
  const std::vector<Variants>& variants_of(int rank) const {
    return of_stages_[static_cast<std::size_t>(topology_.coordinate(rank, plan::Axis::pipe))];
  }

  plan::Topology topology_;
  std::vector<Held> flat_groups_;
  std::vector<std::vector<Variants>> of_stages_;  // ascending, so that no rank looks at flat groups of other stages
};

// Can the model be cut over these ranks at all: do the axes divide every dim that they cut, and the experts of a layer?
bool divides(const plan::ModelConfig& model, const plan::Topology& topology);
// Are the experts of each layer so many equal parts? Of a model without experts there is one part.
bool divides_experts(const plan::ModelConfig& model, std::int64_t parts);

// Where elements of tensors lie in the files of all ranks.
class Places {
 public:
  explicit Places(const SavedShards& shards);

  // Calls f(rank, at, element, count) for the ranks that save elements [first, first + count) of a tensor: `count` of
  // them from `element` on lie at element `at` of the datasets.
  template <class F> void for_each(std::int32_t tensor, std::int64_t first, std::int64_t count, F&& f) const {
    const auto& t = tensors_[static_cast<std::size_t>(tensor)];
    plan::for_each_holder(t.parameter, t.parts, first, count, [&](int part, const plan::HeldRun& run) {
      for (std::int64_t done = 0; done < run.count;) {
        const auto in_flat_group = t.offset + run.held + done, place = in_flat_group / t.shard,
                   in_shard = in_flat_group % t.shard;
        const auto n = std::min(run.count - done, t.shard - in_shard);
        const auto& saver = t.savers[static_cast<std::size_t>(part * t.shards + place)];
        f(saver.rank, saver.start + in_shard, run.logical + done, n);
        done += n;
      }
    });
  }

 private:
  struct Saver {
    int rank = -1;
    std::int64_t start = 0;  // of the flat group's shard in its datasets, as if they had all of it that comes before
  };
  struct Tensor {
    plan::Parameter parameter;
    std::int64_t shard = 0, offset = 0;  // of the flat group's shards, and of the parameter in the flat group
    int shards = 1, parts = 1;           // of the flat group, and of the parameter's cut
    std::vector<Saver> savers;           // by part and shard
  };
  std::vector<Tensor> tensors_;
};

// As SavedShards says for one rank, for which one that has many asks SavedShards.
RankBoxes boxes_of_shards(const plan::ModelConfig& model, const plan::Topology& topology, int rank,
                          const plan::Stages& stages = {});

// By the number of a parameter (in the order of plan::flat_groups) the item of the model that owns it
// (plan/inventory.h).
std::vector<std::int64_t> items_of_parameters(const plan::ModelConfig& model);

}  // namespace trainyard::checkpoint
