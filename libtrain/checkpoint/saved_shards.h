// SavedShards: which part of which tensor lies where in the rank files that train writes. This is the only place that
// knows their parallel layout.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/run_state.h"
#include "libtrain/plan/blocks/held.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/blocks/ownership.h"
#include "libtrain/plan/grid/topology.h"
#include "libtrain/plan/schedule/stages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainyard::checkpoint {

// Calls f(index of the parameter in the flat group) for each parameter whose element 0 lies in the ranges that the rank
// saves of its shard of the flat group, in the order of the rank file. This rank saves, and reads' sums count, the
// whole states of the parameter that have a number for each row or column. Skip flat groups that a stage has borrowed.
template <class F> void for_each_begun(const plan::FlatGroup& flat_group, const plan::FlatLayout& layout,
                                       const plan::Topology& topology, int rank, F&& f) {
  const auto begin = plan::place_in_group(topology, rank, flat_group.group) * layout.shard;
  for (const auto& range : plan::counted_ranges(flat_group, layout, topology, rank))
    for (const auto& held : plan::held_ranges(layout, begin + range.begin, begin + range.end)) {
      const auto start = plan::held_part(flat_group.parameters[held.parameter], topology, rank).start;
      if (held.first == 0 && std::all_of(start.begin(), start.end(), [](auto at) { return at == 0; }))
        f(held.parameter);
    }
}

// The content of rank files. The datasets of a rank file are the rank's shards of the flat groups of its pipeline
// stage, back to back. They are in the order of the model. Elements that another rank saves are left out. Of the ranks
// that hold a parameter alike, the first saves it (plan/blocks/ownership.h). Of a shard that a rank saves partly, only
// the saved ranges are in the file. A flat group is saved by the stage that owns it; a stage that borrows a copy saves
// none of it. Where ranks divide the experts (plan::expert_share), each part of a layer's experts is a flat group of
// its own.
class SavedShards {
 public:
  // Axes must divide the dims that they shard and the experts of each layer (divides). Along pipe there are as many
  // ranks as stages.
  SavedShards(const plan::ModelConfig& model, plan::Topology topology, const plan::Stages& stages = {});

  // A flat group as some rank holds it. `tensors` are the numbers of its parameters among the tensors of the model (in
  // the order of plan::flat_groups).
  struct Held {
    plan::FlatGroup flat_group;
    plan::FlatLayout layout;
    std::vector<std::int32_t> tensors;
  };

  const plan::Topology& topology() const { return topology_; }
  const std::vector<Held>& flat_groups() const { return flat_groups_; }  // of all ranks; each tensor is in one
  // Elements of each dataset of the rank that has the shape of the parameters. The others follow from the boxes
  // (kind_boxes.h).
  std::int64_t elements(int rank) const;
  RankBoxes boxes(int rank) const;
  int empty_ranks() const;  // ranks whose boxes(rank) is empty

  // Calls f(tensor, HeldRange, at) for each range of a parameter that the rank saves. The range begins at element `at`
  // of the rank's datasets.
  template <class F> void for_each_saved(int rank, F&& f) const {
    any_saved(rank, [&](std::int32_t tensor, const plan::Parameter&, const plan::HeldRange& held, std::int64_t at) {
      f(tensor, held, at);
      return false;
    });
  }

  // Calls f(tensor, its parameter) for each tensor whose element 0 the rank saves, in the order of boxes(rank). The
  // rank saves the whole states of these tensors that have a number for each row or column.
  template <class F> void for_each_begun(int rank, F&& f) const {
    const auto part = base::size(plan::expert_share(topology_, rank).part);
    for (const auto& variants : variants_of(rank)) {
      const auto& held = flat_groups_[variants.first + part % variants.parts];
      checkpoint::for_each_begun(held.flat_group, held.layout, topology_, rank,
                                 [&](std::size_t i) { f(held.tensors[i], held.flat_group.parameters[i]); });
    }
  }

 private:
  // As for_each_saved, but f also receives the parameter, and true ends the loop. Returns whether f returned true.
  template <class F> bool any_saved(int rank, F&& f) const {
    std::int64_t start = 0;  // start of a range in the datasets
    const auto part = base::size(plan::expert_share(topology_, rank).part);
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

  // One flat group for all ranks, or one for each part of the experts; these are consecutive in flat_groups_.
  struct Variants {
    std::size_t first = 0, parts = 1;
  };
  const std::vector<Variants>& variants_of(int rank) const {
    return base::at(of_stages_, topology_.coordinate(rank, plan::Axis::pipe));
  }

  plan::Topology topology_;
  std::vector<Held> flat_groups_;
  std::vector<std::vector<Variants>> of_stages_;  // ascending, so that a rank visits only groups of its stage
};

// Returns whether the model can be sharded over these ranks: the axes divide every dim that they shard, and the experts
// of a layer.
bool divides(const plan::ModelConfig& model, const plan::Topology& topology);
// Returns whether the experts of each layer can be divided into so many equal parts. A model without experts has one
// part.
bool divides_experts(const plan::ModelConfig& model, std::int64_t parts);

// Where the elements of tensors lie in the files of all ranks.
class Places {
 public:
  explicit Places(const SavedShards& shards);

  // Calls f(rank, at, element, count) for the ranks that save elements [first, first + count) of a tensor with the
  // shape of its parameter. `count` of these elements, from `element` on, lie at element `at` of that rank's datasets.
  template <class F> void for_each(std::int32_t tensor, std::int64_t first, std::int64_t count, F&& f) const {
    const auto& t = base::at(tensors_, tensor);
    plan::for_each_holder(t.parameter, t.parts, first, count, [&](int part, const plan::HeldRun& run) {
      for (std::int64_t done = 0; done < run.count;) {
        const auto in_flat_group = t.offset + run.held + done, place = in_flat_group / t.shard,
                   in_shard = in_flat_group % t.shard;
        const auto n = std::min(run.count - done, t.shard - in_shard);
        const auto& saver = base::at(t.savers, part * t.shards + place);
        f(saver.rank, saver.start + in_shard, run.logical + done, n);
        done += n;
      }
    });
  }

  // The same for a tensor of any shape: a state of rows or columns is whole in the file of one rank.
  template <class F>
  void for_each(StateShape shape, std::int32_t tensor, std::int64_t first, std::int64_t count, F&& f) const {
    if (shape == StateShape::parameter) return for_each(tensor, first, count, f);
    const auto& whole = base::at(tensors_, tensor).whole;
    f(whole.rank, (shape == StateShape::rows ? whole.rows : whole.columns) + first, first, count);
  }

 private:
  struct Whole {
    int rank = -1;
    std::int64_t rows = 0, columns = 0;  // where the states begin in their datasets of the rank
  };
  struct Saver {
    int rank = -1;
    // Start of the flat group's shard in the rank's datasets, as if the rank saved all elements before it.
    std::int64_t start = 0;
  };
  struct Tensor {
    plan::Parameter parameter;
    std::int64_t shard = 0, offset = 0;  // shard size of the flat group, and offset of the parameter in it
    int shards = 1, parts = 1;           // shards of the flat group, and parts of the parameter's sharded dim
    std::vector<Saver> savers;           // by part and shard
    Whole whole;                         // the states of rows and columns
  };
  std::vector<Tensor> tensors_;
};

// The boxes that SavedShards gives one rank. For many ranks use SavedShards itself.
RankBoxes boxes_of_shards(const plan::ModelConfig& model, const plan::Topology& topology, int rank,
                          const plan::Stages& stages = {});

// For each parameter (in the order of plan::flat_groups), the item of the model that owns it (plan/blocks/inventory.h).
std::vector<std::int64_t> items_of_parameters(const plan::ModelConfig& model);

}  // namespace trainyard::checkpoint
