// Reads what is scaled, and searches for each number.
#include "libtrain/plan/scale.h"

#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/model_file/model_problems.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <optional>
#include <sstream>

namespace trainyard::plan {

namespace {

constexpr std::size_t most_values = 64;
constexpr std::int64_t deepest_scaled = 10000;  // as in a model's file

std::optional<std::int64_t> positive_number(std::string_view text) {
  std::int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 1) return {};
  return n;
}

// "1:128" doubles, "1,2,3" lists. Empty: neither.
std::vector<std::int64_t> numbers_of(const std::string& text) {
  std::vector<std::int64_t> out;
  if (const auto colon = text.find(':'); colon != std::string::npos) {
    const auto first = positive_number(text.substr(0, colon)), last = positive_number(text.substr(colon + 1));
    if (!first || !last) return {};
    for (auto n = *first; n <= *last; n *= 2) {
      out.push_back(n);
      if (n > std::numeric_limits<std::int64_t>::max() / 2) break;
    }
    return out;
  }
  std::istringstream rest(text + ",");
  for (std::string word; std::getline(rest, word, ',');) {
    const auto n = positive_number(word);
    if (!n || (!out.empty() && *n <= out.back())) return {};
    out.push_back(*n);
  }
  return out;
}

}  // namespace

const char* name_of(Scaled what) { return what == Scaled::nodes ? "nodes" : "layers"; }

Scale scale_of_text(const std::string& text, const std::string& spelled, const Machine& machine) {
  const auto asked = fmt::format("{} {}", spelled, base::one_line(text));
  Scale out;
  std::optional<std::vector<std::int64_t>> values;
  for (const auto what : {Scaled::nodes, Scaled::layers})
    if (const auto begin = std::string(name_of(what)) + "="; text.starts_with(begin))
      out.what = what, values = numbers_of(text.substr(begin.size()));
  if (!values)
    throw base::UsageError(fmt::format("{} is neither nodes=... nor layers=...", asked),
                           fmt::format("{} nodes=1:128", spelled));
  if (values->empty())
    throw base::UsageError(
        fmt::format("{}: expected FIRST:LAST, which doubles, or numbers that ascend, with commas", asked),
        fmt::format("{0} {1}=1:128, or {0} {1}=1,2,3,6", spelled, name_of(out.what)));
  if (values->size() > most_values)
    throw base::UsageError(fmt::format("{} has {} numbers: {} at most", asked, values->size(), most_values),
                           "fewer numbers");
  const auto most =
      out.what == Scaled::nodes ? std::int64_t{ranges::ranks.high} / machine.devices_per_node : deepest_scaled;
  if (values->back() > most)
    throw base::UsageError(
        fmt::format("{}: {} is more than {} {}", asked, base::count_text(values->back()), base::count_text(most),
                    out.what == Scaled::nodes ? "nodes, which have as many ranks as there may be" : "layers"),
        "smaller numbers");
  out.values = std::move(*values);
  return out;
}

ScalePoint scaled(const SearchOf& of, Scaled what, std::int64_t value) {
  auto other = of;
  if (what == Scaled::layers) other.plan.model.layers = value;
  else other.plan = on_ranks(of.plan, static_cast<int>(value) * of.machine.devices_per_node);
  ScalePoint out{value, other.plan.topology.world(), {}};
  if (const auto wrong = problems(other.plan.model); !wrong.empty()) out.best.why_none = wrong.front();
  else out.best = best_of(std::move(other));
  return out;
}

double tokens_a_second(const FoundPlan& found) {
  return static_cast<double>(found.plan.global_batch) * static_cast<double>(found.plan.sequence) / found.time.seconds;
}

double efficiency(const FoundPlan& found, const FoundPlan& first) {
  const auto of_rank = [](const FoundPlan& f) { return tokens_a_second(f) / f.plan.topology.world(); };
  return of_rank(found) / of_rank(first);
}

}  // namespace trainyard::plan
