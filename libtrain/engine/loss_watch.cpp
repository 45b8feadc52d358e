// Compares losses with the first and with the best one.
#include "libtrain/engine/loss_watch.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/engine/metrics_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <numeric>

namespace trainyard::engine {

std::string LossWatch::look(double loss) {
  if (reported_) return {};
  if (last_.empty()) first_ = loss;
  last_.push_back(loss);
  if (last_.size() > steps) last_.pop_front();
  const double mean = std::accumulate(last_.begin(), last_.end(), 0.0) / static_cast<double>(last_.size());
  if (last_.size() < steps || !(mean > 1.2 * first_ && mean > first_ + 0.5)) return {};
  reported_ = true;
  return base::text(
      "the loss rose from {}, the first of this start, to {}, the mean of the last {}: the run has diverged; "
      "what helps: a lower $learning-rate, more $warmup-steps, a lower $clip",
      base::number_text(first_), base::number_text(mean), steps);
}

std::string explosion_sentence(const std::string& metrics_path) {
  double best = INFINITY, last = 0;
  std::int64_t best_step = 0, calm_step = 0, last_step = 0;
  try {
    each_metrics_line(metrics_path, [&](const MetricsLine& line) {
      if (!line.damage.empty() || !line.values.contains("loss") || !line.values["loss"].is_number()) return true;
      if (line.values.contains("outlier")) return true;  // a loss that changed nothing
      last = line.values["loss"].get<double>(), last_step = line.step;
      if (last < best) best = last, best_step = line.step;
      if (last <= 2 * best + 1) calm_step = line.step;
      return true;
    });
  } catch (const std::exception&) {  // the sentence is left out
    return {};
  }
  if (!(last > 2 * best + 1)) return {};
  return fmt::format(
      "the loss had risen before, from {:.4g} at step {} to {:.4g} at step {}: go back to step {} or before", best,
      best_step, last, last_step, calm_step);
}

}  // namespace trainyard::engine
