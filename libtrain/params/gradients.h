// GradientReduction: takes the gradients of micro-batches and folds them in the order of decision 1 into the own
// shards.
#pragma once

#include "libtrain/params/context.h"

#include <cstdint>
#include <vector>

namespace trainyard::params {

// One object serves every stage; plan::gradient_plan says which buffers exist. Call order within a step:
// begin_micro, (open, commit) per occurrence, ..., for each micro-batch; idle(occurrence) instead where this rank has
// no group in the round; finish(). Of experts that ranks share (open, commit) is per source, in their order: turns of
// those that hold the same ones follow one another (base::place_of_turn), so what they all have of one source is folded
// before there is anything of the next.
class GradientReduction {
 public:
  explicit GradientReduction(StoreContext& context);

  // `round` counts from 0 within the step; first and last say where in its group the micro-batch stands.
  struct Position {
    std::int64_t round;
    enum class Place { only, first, middle, last } place;
  };
  void begin_micro(Position position) { position_ = position; }  // gradients to come are of that micro-batch

  void open(plan::Occurrence occurrence, int source = 0);         // blocks until the buffer may be overwritten
  base::View whole(plan::Occurrence occurrence, int source = 0);  // buffer of the micro-batch's gradient, [padded]
  // Is there a micro-batch whose gradients these are? Of this rank's own there is.
  bool wanted(plan::Occurrence occurrence, int source) const {
    return sources(occurrence) == 1 || c_.group(occurrence.flat_group).rank() < contributors(occurrence, source);
  }
  bool made_for_others(plan::Occurrence occurrence) const { return sources(occurrence) > 1; }
  void commit(plan::Occurrence occurrence, int source = 0);
  void idle(plan::Occurrence occurrence, std::int64_t round);  // take part in the reduction without contributing

  // After the last round: joins all reductions and adds the later occurrences of tied tables to the first, in
  // declaration order. shard(flat group) then is this rank's folded gradient sum of the flat group.
  void finish();
  base::View shard(int flat_group);
  base::View gathered(int flat_group);  // stage 0: whole folded sums; valid after gather_sums()
  void gather_sums();                   // stage 0, collective

 private:
  int sources(plan::Occurrence occurrence) const {
    return c_.set.contributions[static_cast<std::size_t>(occurrence.flat_group)];
  }
  // Of the ranks of the flat group's group, those that have gradients of the source in this round: so many, the first
  // ones by their turns.
  int contributors(plan::Occurrence occurrence, int source) const;
  const plan::GradientPlan& plan(plan::Occurrence occurrence) const { return plans_[sources(occurrence) > 1 ? 1 : 0]; }
  base::View local(plan::Occurrence occurrence, int source);  // of the source, in what is kept of the occurrence
  bool writes_into_whole(plan::Occurrence occurrence) const;
  Transfers::Ticket& free(plan::Occurrence occurrence, int source);  // when the buffer is
  Transfers::Ticket reduce(plan::Occurrence occurrence, int source, base::View gradient);
  base::View& sum(plan::Occurrence occurrence) { return sums_[index(occurrence)]; }
  std::size_t index(plan::Occurrence occurrence) const {
    return static_cast<std::size_t>(c_.set.occurrence_index(occurrence));
  }
  std::size_t slot_index(plan::Occurrence occurrence, int source) const {
    return static_cast<std::size_t>(slots_.slot_of(occurrence.flat_group, source));
  }

  StoreContext& c_;
  plan::GradientPlan plans_[2];  // of a flat group with one source, with several
  plan::SlotPlan slots_;
  Position position_{0, Position::Place::only};
  std::vector<base::View> wholes_, sums_, buffers_;         // per occurrence, per occurrence, per slot
  std::vector<std::vector<Transfers::Ticket>> whole_free_;  // per occurrence and source
  std::vector<Transfers::Ticket> buffer_free_;
  base::View staging_;
  std::vector<int> turns_;  // of the ranks along data, where these are not their turns
};

// Does the micro-batch end its fold group, so that what was added up is reduced?
inline bool ends_group(GradientReduction::Position::Place place) {
  using Place = GradientReduction::Position::Place;
  return place == Place::only || place == Place::last;
}

}  // namespace trainyard::params
