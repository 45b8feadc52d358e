// GradientFold: takes the gradients of micro-batches and folds them in the order of decision 1 into the own pieces.
#pragma once

#include "libtrain/params/context.h"

#include <cstdint>
#include <vector>

namespace trainyard::params {

// One object serves every stage; plan::gradient_plan says which buffers exist. Call order within a step:
// begin_micro, (open, commit) per use, ..., for each micro-batch; idle(use) instead where this rank has no group in the
// round; finish().
class GradientFold {
 public:
  explicit GradientFold(StoreContext& context);

  // `round` counts from 0 within the step; first and last say where in its group the micro-batch stands.
  struct Position {
    std::int64_t round;
    enum class Place { only, first, middle, last } place;
  };
  void begin_micro(Position position) { position_ = position; }  // gradients to come are of that micro-batch

  void open(plan::Use use);  // blocks until the buffer may be overwritten
  // Buffer of the micro-batch's gradient, [padded]; of all contributions, one behind the other.
  base::View whole(plan::Use use);
  void commit(plan::Use use);
  void idle(plan::Use use, std::int64_t round);  // take part in the reduction without contributing

  // After the last round: joins all reductions and adds the later uses of tied tables to the first, in declaration
  // order. piece(unit) then is this rank's folded gradient sum of the unit.
  void finish();
  base::View piece(int unit);
  base::View gathered(int unit);  // stage 0: whole folded sums; valid after gather_sums()
  void gather_sums();             // stage 0, collective

 private:
  int contributions(plan::Use use) const { return c_.set.contributions[static_cast<std::size_t>(use.unit)]; }
  std::int64_t all_of(plan::Use use) const { return contributions(use) * c_.set.padded_of(use); }
  // Of the contributions that this rank makes of a use, those for which there is a micro-batch in the round.
  std::int64_t made_in_round(plan::Use use) const;
  bool writes_into_whole() const;
  Transfers::Ticket reduce(plan::Use use, base::View source, int contributors);
  base::View& sum(plan::Use use) { return sums_[index(use)]; }
  std::size_t index(plan::Use use) const { return static_cast<std::size_t>(c_.set.use_index(use)); }
  std::size_t slot_index(plan::Use use) const { return static_cast<std::size_t>(slots_.slot_of(use.unit)); }

  StoreContext& c_;
  plan::GradientPlan plan_;
  plan::SlotPlan slots_;
  Position position_{0, Position::Place::only};
  std::vector<base::View> wholes_, sums_, buffers_;          // per use, per use, per slot
  std::vector<Transfers::Ticket> whole_free_, buffer_free_;  // when they are
  base::View staging_;
};

// Does the micro-batch end its fold group, so that what was added up is reduced?
inline bool ends_group(GradientFold::Position::Place place) {
  using Place = GradientFold::Position::Place;
  return place == Place::only || place == Place::last;
}

}  // namespace trainyard::params
