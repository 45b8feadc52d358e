// Stages 0, 1 and 2: every rank holds all weights; after an update the pieces are gathered unit by unit, and a lease waits for its own.
#include "libtrain/params/weights.h"

namespace trainyard::params {

namespace {

class WholeWeights : public Weights {
 public:
  explicit WholeWeights(StoreContext& c) : c_(c), arrived_(static_cast<std::size_t>(c.units())) {
    for (int u = 0; u < c.units(); ++u) wholes_.push_back(c.parameters.allocate(c.shape.working, {c.layout(u).padded}));
  }
  void begin_pass(std::span<const plan::Use>) override {}
  void acquire(plan::Use use) override { c_.join(arrived_[static_cast<std::size_t>(use.unit)]); }
  void give_back(plan::Use) override {}
  base::View whole(int unit) override { return wholes_[static_cast<std::size_t>(unit)]; }
  base::View own_piece(int unit) override {
    return flat_range(whole(unit), c_.data.rank() * c_.layout(unit).piece, c_.layout(unit).piece);
  }
  void pieces_changed() override {
    if (c_.data.size() == 1) return;
    c_.exchange.wait(c_.compute.record());
    for (int u = 0; u < c_.units(); ++u) {
      c_.data.all_gather(c_.exchange, own_piece(u), whole(u));
      arrived_[static_cast<std::size_t>(u)] = c_.exchange.record();
    }
  }

 private:
  StoreContext& c_;
  std::vector<base::View> wholes_;
  std::vector<tensor::Event> arrived_;
};

}  // namespace

std::unique_ptr<Weights> make_whole_weights(StoreContext& context) { return std::make_unique<WholeWeights>(context); }

}  // namespace trainyard::params
