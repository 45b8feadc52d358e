// Adds up rows of kernels, and prints them.
#include "libtrain/engine/step_profile.h"

#include "libtrain/base/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard::engine {

namespace {

using Row = kernels::KernelClock::Row;

constexpr const char *products = "products", *attention = "attention", *rows = "norms, activations, rows",
                     *cross_entropy = "cross entropy", *optimizer = "optimizer", *others = "other kernels";

// The parts of kernels, by how their names begin.
constexpr std::array<std::pair<std::string_view, const char*>, 26> parts_of_names{{
    {"gemm", products},
    {"grouped_", products},
    {"attention_", attention},
    {"relative_positions_", attention},
    {"norm_", rows},
    {"head_norm_", rows},
    {"activation", rows},
    {"dropout", rows},
    {"rotary", rows},
    {"embedding_", rows},
    {"column_sum", rows},
    {"cast", rows},
    {"ordered_sum", rows},
    {"lane_sum", rows},
    {"gate_", rows},
    {"expert_", rows},
    {"slot_", rows},
    {"even_load", rows},
    {"cross_entropy", cross_entropy},
    {"adafactor_", optimizer},
    {"muon", optimizer},
    {"newton_schulz", optimizer},
    {"update_", optimizer},
    {"square_sum", optimizer},
    {"finite", optimizer},
    {"step_numbers", optimizer},
}};

std::string name_of(const Row& r) {
  if (r.kernel == nullptr) return "beyond the room of the table";
  if (r.work.m > 0)
    return fmt::format("{} x {} over {}{}", r.work.m, r.work.n, r.work.k, r.work.of_bf16 ? ", bf16" : "");
  std::string name = r.kernel;
  if (name.ends_with("_cpu")) name.resize(name.size() - 4);
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string count_text(double n) { return n == std::floor(n) ? fmt::format("{:.0f}", n) : fmt::format("{:.1f}", n); }

}  // namespace

namespace {
const char* part_of_row(const Row& r) { return StepProfile::part_of(r.kernel == nullptr ? "" : r.kernel); }
}  // namespace

struct StepProfile::Sum {
  std::string name;
  double seconds = 0, calls = 0, operations = 0, packing = 0, computing = 0, team = 0;
  double of_peak = 0;  // seconds that the operations would take at their peak
  void add(const Row& r, const Peaks& peaks) {
    seconds += r.seconds, calls += static_cast<double>(r.calls), operations += r.work.operations;
    of_peak += r.work.operations / (r.work.of_bf16 ? peaks.bf16 : peaks.f32);
    packing += r.packing, computing += r.computing, team += r.team;
  }
};

const char* StepProfile::part_of(const std::string& kernel) {
  for (const auto& [begins, part] : parts_of_names)
    if (kernel.starts_with(begins)) return part;
  return others;
}

StepProfile::StepProfile(int threads) : clock_(threads), threads_(threads) {}

void StepProfile::begin_step(std::int64_t step) {
  before_ = now_;
  clock_.keep();
  if (now_.first != 0 && now_.last == now_.first && now_.first_seconds == 0) {
    now_ = {step, step, 0, 0, now_.seconds, 0, now_.faults};
    clock_.clear();
  }
  if (now_.first == 0) now_.first = step;
  now_.last = step;
}

void StepProfile::abandon_step() {
  now_ = before_;
  clock_.go_back();
}

StepProfile::Sum StepProfile::sum_of(const char* part, const Peaks& peaks) const {
  Sum sum;
  sum.name = part;
  for (const auto& r : clock_.rows())
    if (part_of_row(r) == std::string_view(part)) sum.add(r, peaks);
  return sum;
}

std::string StepProfile::text(int rank, int ranks, const std::string& instructions, const Peaks& peaks) const {
  const auto first = now_.first, last = now_.last;
  const double seconds = now_.seconds, waited = now_.waited, first_seconds = now_.first_seconds;
  if (first == 0 || seconds == 0) return {};
  const auto steps = static_cast<double>(last - first + 1);
  const auto line = [&](const Sum& s, bool with_calls = true) {
    const double share = s.seconds / seconds, rate = s.seconds > 0 ? s.operations / s.seconds : 0;
    auto text = fmt::format("{:<30}{:>10.2f}{:>7.1f} %{:>7}", s.name, s.seconds / steps * 1e3, share * 100,
                            with_calls ? count_text(s.calls / steps) : "");
    text += s.operations > 0 ? fmt::format("{:>9.1f}{:>6.0f} %", rate * 1e-9, s.of_peak / s.seconds * 100)
                             : fmt::format("{:17}", "");
    text.append(1, ' ').append(base::size(std::lround(share * 6)), '#');
    while (text.back() == ' ') text.pop_back();
    return text + "\n";
  };
  const auto head = [](const std::string& title) {
    return fmt::format("{:<30}{:>10}{:>9}{:>7}{:>9}{:>8} share\n", title, "ms a step", "share", "calls", "GFLOP/s",
                       "of peak");
  };
  const auto steps_text = first == last ? fmt::format("step {}", first) : fmt::format("steps {} to {}", first, last);
  auto out =
      fmt::format("where {} went{}: {} thread{}, {}\n", steps_text, ranks > 1 ? fmt::format(" on rank {}", rank) : "",
                  threads_, threads_ > 1 ? "s" : "", instructions);
  out += fmt::format("peak, multiply-adds in registers: {:.1f} GFLOP/s", peaks.f32 * 1e-9);
  if (peaks.bf16 != peaks.f32) out += fmt::format(", in products of bf16 {:.1f}", peaks.bf16 * 1e-9);
  out += "\n";
  const auto& rows_there = clock_.rows();
  if (std::any_of(rows_there.begin(), rows_there.end(), [&](const auto& r) {
        Sum sum;
        sum.add(r, peaks);
        return sum.of_peak > sum.seconds;
      }))
    out += "something was faster than that: other work was in the way while the peak was measured\n";
  if (first_seconds > 0)
    out += fmt::format("left out: the first step, which touches most memory first, {:.2f} ms, {} pages\n",
                       first_seconds * 1e3, now_.first_faults);
  out += fmt::format("page faults, where memory is touched first: {} a step\n",
                     count_text(static_cast<double>(now_.faults) / steps));
  out += fmt::format("\n{}", head("part"));
  Sum between, step;
  between.name = "between kernels", step.name = "step";
  double known = waited;
  for (const auto* part : {products, attention, rows, cross_entropy, optimizer, others}) {
    const auto sum = sum_of(part, peaks);
    known += sum.seconds;
    step.operations += sum.operations, step.of_peak += sum.of_peak;
    if (sum.calls > 0) out += line(sum);
  }
  if (ranks > 1) {
    Sum waits;
    waits.name = "waiting for other ranks", waits.seconds = waited;
    out += line(waits, false);
  }
  between.seconds = std::max(0.0, seconds - known);
  step.seconds = seconds;
  out += line(between, false) + line(step, false);
  std::string teams;
  for (const auto* part : {products, attention}) {
    const auto sum = sum_of(part, peaks);
    if (sum.team == 0) continue;
    teams +=
        fmt::format("{:<30}{:>7.1f} %{:>10.1f} %{:>9.1f} %\n", part, sum.packing / sum.team * 100,
                    sum.computing / sum.team * 100, std::max(0.0, 1 - (sum.packing + sum.computing) / sum.team) * 100);
  }
  if (!teams.empty())
    out += fmt::format("\n{:<30}{:>9}{:>12}{:>11}\n", "of all threads", "packing", "computing", "waiting") + teams;
  const auto table = [&](const std::string& title, bool shapes) {
    std::vector<Sum> sums;
    for (const auto& r : clock_.rows()) {
      if ((r.work.m > 0) != shapes) continue;
      Sum sum;
      sum.name = name_of(r);
      sum.add(r, peaks);
      sums.push_back(std::move(sum));
    }
    std::stable_sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) { return a.seconds > b.seconds; });
    if (!sums.empty()) out += fmt::format("\n{}", head(title));
    for (const auto& sum : sums) out += line(sum);
  };
  table("product, rows x columns", true);
  table("other kernel", false);
  return out;
}

}  // namespace trainyard::engine
