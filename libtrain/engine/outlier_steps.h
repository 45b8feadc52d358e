// OutlierSteps: which steps are outliers, far above the last ones in gradient norm or loss, and are skipped.
#pragma once

#include "libtrain/checkpoint/run_state.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

// How a run chooses its outliers.
struct OutlierRule {
  double norm = 0, loss = 0;  // a step above this factor times the median is an outlier; 0: this number has no limit
  std::int64_t window = 128;  // the steps that a median is of

  bool skips() const { return norm > 0 || loss > 0; }
  bool operator==(const OutlierRule&) const = default;
};

// From the text of a setting: "none", or any of "norm:10", "loss:2" and "window:128" with commas between them, but not
// the window alone. UsageError, beginning with the setting's name, for other texts.
OutlierRule outlier_rule(const std::string& text);
// The same as definite text: "norm:10,loss:2,window:128".
std::string text_of(const OutlierRule& rule);

// Above one of these a step is an outlier; 0: no limit.
struct OutlierLimits {
  double most_norm = 0, most_loss = 0;
};

// Why a step is an outlier.
struct Outlier {
  bool is_loss = false;  // else the gradient norm, which counts first if both are above their limits
  double value = 0, median = 0, factor = 0;
  std::int64_t window = 0;
  double limit() const { return factor * median; }
};

// The window over the steps of a run. It has the steps that changed the weights: no outliers, no steps that were not
// finite, and none without a target that counts. All ranks have the same, because they agree on losses and norms.
class OutlierSteps {
 public:
  explicit OutlierSteps(const OutlierRule& rule = {}) : rule_(rule) {}
  const OutlierRule& rule() const { return rule_; }

  // Of the next step. There are none before the window is full, and none where a median is 0 or below.
  OutlierLimits limits() const;
  // Why a step with these numbers is one; nothing if it is none.
  std::optional<Outlier> look(double gradient_norm, double loss) const;

  void count_step(double gradient_norm, double loss);  // that changed the weights, by targets that count
  // A step that is an outlier. Returns false if as many in a row were as the window is long: then the run has changed,
  // and not a step.
  bool count_outlier();
  std::int64_t skips_in_a_row() const { return state_.skips_in_a_row; }

  // What a checkpoint keeps; nothing without a rule.
  std::optional<checkpoint::StoredOutlierWindow> stored() const;
  // Goes on from a checkpoint. Of a longer window the newest steps count, and a shorter one fills up first. A
  // checkpoint without a window begins anew.
  void go_on_from(const std::optional<checkpoint::StoredOutlierWindow>& stored);

 private:
  bool is_full() const { return std::ssize(state_.losses) >= rule_.window; }
  void keep_newest();

  OutlierRule rule_;
  checkpoint::StoredOutlierWindow state_;
};

}  // namespace trainyard::engine
