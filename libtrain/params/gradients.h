// GradientReduction: adds the gradients of micro-batches in the order of decision 1 into this rank's shards.
#pragma once

#include "libtrain/params/context.h"

#include "libtrain/base/index.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace trainyard::params {

// One object serves every ZeRO stage; plan::gradient_plan says which buffers exist. Calls within a step: for each
// micro-batch begin_micro, then (open, commit) for each occurrence; at the end finish(). In an accumulation step
// without a local accumulation group of this rank, idle(occurrence) may replace them. If the micro-batches of such a
// step are empty instead, their gradients are not read.
//
// Distributed experts, which expert-parallel ranks divide, get gradients from several sources. A source is a rank whose
// tokens came here (plan::contributions_of). (open, commit) is then called for one source after the other. Ranks with
// the same experts have consecutive positions in the reduction order (base::place_at_reduction_position). So the
// gradients that they have of one source are added before any gradient of the next source.
class GradientReduction {
 public:
  // `complete` gets the whole sum of a flat group's shard, rounded, before it leaves for the disk.
  using Complete = std::function<void(int flat_group, base::ConstView sum)>;
  explicit GradientReduction(StoreContext& context, Complete complete = {});

  // The micro-batch under way. `round`: its accumulation step, counted from 0 within the optimizer step. `place`: where
  // it is in its local accumulation group.
  struct Position {
    std::int64_t round;
    enum class Place { only, first, middle, last } place;
  };
  void begin();                                                  // a step
  void begin_micro(Position position) { position_ = position; }  // the next gradients belong to this micro-batch

  void open(plan::Occurrence occurrence, int source = 0);         // blocks until the buffer may be overwritten
  base::View whole(plan::Occurrence occurrence, int source = 0);  // buffer of the micro-batch's gradient, [padded]
  // False if the source has an empty micro-batch in this accumulation step, so that there is no gradient to compute.
  // Always true for this rank's own tokens.
  bool wanted(plan::Occurrence occurrence, int source) const {
    return sources(occurrence) == 1 || c_.group(occurrence.flat_group).rank() < contributors(occurrence, source);
  }
  void commit(plan::Occurrence occurrence, int source = 0);
  void idle(plan::Occurrence occurrence, std::int64_t round);  // takes part in the reduction without contributing

  // After the last accumulation step: waits for all reductions, then adds the sums of later occurrences of tied tables
  // to the first, in declaration order. shard(flat_group) is then this rank's shard of the flat group's gradient sum.
  // The sums of flat groups that several pipeline stages hold stay apart (params/stage_sums.h).
  void finish();
  // This rank's shard of the sum of one occurrence, after finish().
  base::View sum_of(plan::Occurrence occurrence) { return sum(occurrence); }
  // Rounds these sums, if the context's shape says so (decision 34). What leaves for the disk was rounded before it
  // left. Call it once, after all that is added to them, and before anything reads them.
  void round_sums();
  // Empty if the flat group is frozen.
  base::View shard(int flat_group);     // std::logic_error for a gradient on disk
  base::View gathered(int flat_group);  // ZeRO 0: the whole gradient sum; valid after gather_sums()
  void gather_sums();                   // ZeRO 0, collective

 private:
  int sources(plan::Occurrence occurrence) const { return base::at(c_.set.contributions, occurrence.flat_group); }
  // How many ranks of the flat group's communicator compute each micro-batch, a part each.
  int parts(int flat_group) const;
  // How many ranks of the flat group's communicator have gradients of the source in this accumulation step. They are
  // the first ones in the reduction order.
  int contributors(plan::Occurrence occurrence, int source) const;
  const plan::GradientPlan& plan(plan::Occurrence occurrence) const { return plans_[sources(occurrence) > 1 ? 1 : 0]; }
  base::View local(plan::Occurrence occurrence, int source);  // the source's gradient, in wholes_
  bool writes_into_whole(plan::Occurrence occurrence) const;
  Transfers::Ticket& free(plan::Occurrence occurrence, int source);  // after this transfer the buffer is free
  Transfers::Ticket reduce(plan::Occurrence occurrence, int source, base::View gradient);
  Transfers::Ticket issue(plan::Occurrence occurrence, int source, base::View gradient, base::View total,
                          base::ReductionRound round);
  base::View& sum(plan::Occurrence occurrence) { return sums_[index(occurrence)]; }
  // A rotating sum, and what still has to happen with the gradient in it.
  struct DiskSum {
    int flat_group = -1;
    bool left = true;       // for the disk
    bool complete = false;  // no reduction of the step will be added
    Transfers::Ticket reduced = 0;
    OffloadedStates::Transfer written = {};
  };
  void finish_update();
  bool leaves(int flat_group) const { return c_.is_offloaded(flat_group, plan::Held::gradient); }
  // Before the first reduction of a step into the sum of the flat group: sends on what other flat groups left.
  void claim_sum(int flat_group);
  enum class Sums { complete, all };
  void send_sums(Sums which);
  std::size_t index(plan::Occurrence occurrence) const { return base::size(c_.set.occurrence_index(occurrence)); }
  // Breadth first, the accumulation steps of a layer follow one another: they take turns, so that none waits for the
  // reduction of the one before.
  std::size_t slot_index(plan::Occurrence occurrence, int source) const {
    const auto turns_before = c_.shape.breadth_first ? position_.round * sources(occurrence) : 0;
    return base::size(slots_.slot_of(occurrence.flat_group, turns_before + source));
  }

  StoreContext& c_;
  plan::GradientPlan plans_[2];  // for flat groups with one source, with several
  plan::SlotPlan slots_;
  Position position_{0, Position::Place::only};
  std::vector<base::View> wholes_, sums_, buffers_;         // per occurrence, per occurrence, per slot
  std::vector<std::vector<Transfers::Ticket>> whole_free_;  // per occurrence and source
  std::vector<Transfers::Ticket> buffer_free_;
  base::View staging_;
  Complete complete_;
  std::vector<DiskSum> disk_sums_;                  // for each slot of OffloadPlan::sum_slot
  std::vector<std::vector<int>> reduction_orders_;  // of the ranks of each flat group (plan::Topology)
};

// True for the last micro-batch of a local accumulation group, whose sum is then reduced.
inline bool ends_group(GradientReduction::Position::Place place) {
  using Place = GradientReduction::Position::Place;
  return place == Place::only || place == Place::last;
}

}  // namespace trainyard::params
