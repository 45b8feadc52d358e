// LossScale: the factor of the loss of a step. Gradients of a dtype with a narrow range (f16) would be too small
// without it (Micikevicius et al. 2018, "Mixed Precision Training", section 3.2).
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/checkpoint/run_state.h"

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::engine {

// How a run chooses its loss scale.
struct LossScaleRule {
  enum class Kind { none, fixed, dynamic } kind = Kind::none;
  double first = 65536;         // a power of two; of a fixed scale, its value
  std::int64_t window = 2000;   // steps without an overflow after which a dynamic scale doubles
  std::int64_t hysteresis = 2;  // overflows since the last doubling before the scale is halved, this one included

  bool scales() const { return kind != Kind::none; }
  bool operator==(const LossScaleRule&) const = default;
};

// Scales are powers of two from 1 to 2^32, so that a gradient loses no bit by them.
inline constexpr double least_loss_scale = 1, most_loss_scale = 4294967296.0;

// From the text of a setting: "none", "static:1024", "dynamic", "dynamic:65536,2000,2", or "auto", which is dynamic for
// a dtype of narrow_range and none for the others. UsageError, beginning with the setting's name, for other texts.
LossScaleRule loss_scale_rule(const std::string& text, base::DType dtype);
// The same as definite text: "dynamic:65536,2000,2".
std::string text_of(const LossScaleRule& rule);

// The scale over the steps of a run. All ranks have the same, because they agree on overflows.
class LossScale {
 public:
  explicit LossScale(const LossScaleRule& rule = {});

  double scale() const { return rule_.scales() ? state_.scale : 1; }
  // The factor for the gradient of a token's loss. A step adds the losses of its tokens and divides by their number
  // at its end. So the factor is the scale divided by the smallest power of two that is not below `tokens`: gradients
  // are in the range of the mean's.
  double token_factor(std::int64_t tokens) const;

  // A step whose gradients are finite.
  void count_step();
  // A step whose loss or gradients are not finite, and that changes nothing. Returns false if no smaller scale is left
  // to try: a dynamic scale is at its least, or a fixed one has overflowed in most_skips_in_a_row steps.
  bool count_overflow();
  static constexpr std::int64_t most_skips_in_a_row = 50;
  std::int64_t skips_in_a_row() const { return state_.skips_in_a_row; }

  // What a checkpoint keeps; nothing without a loss scale.
  std::optional<checkpoint::StoredLossScale> stored() const;
  // Goes on from a checkpoint. A checkpoint without a loss scale, or a fixed scale of this run, begins anew.
  void go_on_from(const std::optional<checkpoint::StoredLossScale>& stored);

 private:
  LossScaleRule rule_;
  checkpoint::StoredLossScale state_;
};

}  // namespace trainyard::engine
