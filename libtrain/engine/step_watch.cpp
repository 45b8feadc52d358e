// Steps inside and outside of an interval.
#include "libtrain/engine/step_watch.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/step_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace trainyard::engine {

namespace {

constexpr std::int64_t steps_of_a_warning = 3;

// Seconds of a step, measured and predicted.
struct Compared {
  const char* what;
  double measured, predicted;
};

double predicted_of(const plan::PredictedStep& step, std::initializer_list<double plan::StepTime::*> parts) {
  double sum = 0;
  for (const auto& [key, seconds] : step.parts)
    for (const auto& part : plan::step_time_parts)
      if (part.key == key && std::find(parts.begin(), parts.end(), part.seconds) != parts.end()) sum += seconds;
  return sum;
}

}  // namespace

plan::PredictedStep prediction_for(const std::optional<plan::Plan>& as_read, const plan::Plan& of_run) {
  if (!as_read || as_read->topology.world() != of_run.topology.world() || as_read->device != of_run.device ||
      as_read->model != of_run.model)
    return {};
  auto theirs = *as_read, ours = of_run;
  theirs.threads = ours.threads;
  const auto a = plan::fields_of(static_cast<plan::ParallelLayout&>(theirs)),
             b = plan::fields_of(static_cast<plan::ParallelLayout&>(ours));
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].get() != b[i].get()) return {};
  return as_read->step;
}

std::string StepWatch::look(StepMetrics& m, bool largest) {
  if (!predicted_.known() || !largest) return {};
  m.predicted_step_seconds = predicted_.median;
  if (!std::exchange(began_, true)) return {};
  ++steps_, seconds_ += m.step_seconds;
  if (m.step_seconds >= predicted_.low && m.step_seconds <= predicted_.high) {
    ++inside_, outside_in_a_row_ = 0;
    return {};
  }
  if (++outside_in_a_row_ != steps_of_a_warning) return {};
  using Time = plan::StepTime;
  const double exposed = std::max(0.0, m.communication_seconds - m.hidden_communication_seconds);
  const std::array compared{
      Compared{"computing", m.compute_seconds,
               predicted_of(predicted_, {&Time::products, &Time::attention, &Time::kernels, &Time::update})},
      Compared{"communication that nothing hides, and waiting for slower ranks", exposed,
               predicted_of(predicted_, {&Time::tensor, &Time::experts, &Time::idle, &Time::data})},
      Compared{"waiting for the disk", m.disk_wait_seconds.value_or(0), predicted_of(predicted_, {&Time::moving})}};
  const auto& most = *std::max_element(compared.begin(), compared.end(), [](const Compared& a, const Compared& b) {
    return std::abs(a.measured - a.predicted) < std::abs(b.measured - b.predicted);
  });
  const bool slow = m.step_seconds > predicted_.high;
  return fmt::format(
      "{} steps up to step {} took {} than the plan predicts for {}: the last one {}, predicted {} to "
      "{}; what differs most is {}: {}, predicted {}",
      steps_of_a_warning, m.step, slow ? "longer" : "less time", base::one_line(predicted_.machine),
      plan::step_seconds_text(m.step_seconds), plan::step_seconds_text(predicted_.low),
      plan::step_seconds_text(predicted_.high), most.what, plan::step_seconds_text(most.measured),
      plan::step_seconds_text(most.predicted));
}

std::string StepWatch::text() const {
  if (steps_ == 0) return {};
  return fmt::format("step time: {} in the mean of {}, {} of them within the {} to {} that the plan predicts for {}",
                     plan::step_seconds_text(seconds_ / static_cast<double>(steps_)), base::counted(steps_, "step"),
                     base::count_text(inside_), plan::step_seconds_text(predicted_.low),
                     plan::step_seconds_text(predicted_.high), base::one_line(predicted_.machine));
}

}  // namespace trainyard::engine
