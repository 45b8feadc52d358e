// Stages 0, 1 and 2: every rank holds all weights. After an update the next pass gathers the pieces, unit by unit as it
// will lease them, and a lease waits for its own.
#include "libtrain/params/weights.h"

#include <algorithm>

namespace trainyard::params {

namespace {

class WholeWeights : public Weights {
 public:
  explicit WholeWeights(StoreContext& c)
      : c_(c), issued_(static_cast<std::size_t>(c.units())), arrived_(static_cast<std::size_t>(c.units())) {
    for (int u = 0; u < c.units(); ++u) wholes_.push_back(c.parameters.allocate(c.shape.working, {c.layout(u).padded}));
  }
  // All gathers are issued here, so what the engine agrees on between two passes does not stand in a queue behind them.
  void begin_pass(std::span<const plan::Use> leases) override {
    if (!changed_) return;
    changed_ = false;
    std::fill(issued_.begin(), issued_.end(), false);
    c_.communication.wait(c_.compute.record());
    for (const auto& use : leases) gather(use.unit);
    for (int u = 0; u < c_.units(); ++u) gather(u);
  }
  void acquire(plan::Use use) override { c_.join(arrived_[static_cast<std::size_t>(use.unit)]); }
  void give_back(plan::Use) override {}
  base::View whole(int unit) override { return wholes_[static_cast<std::size_t>(unit)]; }
  base::View own_piece(int unit) override {
    return flat_range(whole(unit), c_.group(unit).rank() * c_.layout(unit).piece, c_.layout(unit).piece);
  }
  void pieces_changed() override { changed_ = c_.shared(); }
  void complete() override {
    begin_pass({});
    for (const auto& arrived : arrived_) c_.join(arrived);
  }

 private:
  void gather(int unit) {
    const auto u = static_cast<std::size_t>(unit);
    if (issued_[u] || c_.group(unit).size() == 1) return;
    issued_[u] = true;
    c_.group(unit).all_gather(c_.communication, own_piece(unit), whole(unit));
    arrived_[u] = c_.communication.record();
  }

  StoreContext& c_;
  bool changed_ = false;
  std::vector<bool> issued_;
  std::vector<base::View> wholes_;
  std::vector<tensor::Event> arrived_;
};

}  // namespace

std::unique_ptr<Weights> make_whole_weights(StoreContext& context) { return std::make_unique<WholeWeights>(context); }

}  // namespace trainyard::params
