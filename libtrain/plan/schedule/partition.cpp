// Weights of items, and the lists that users write.
#include "libtrain/plan/schedule/partition.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/memo.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/blocks/known_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <memory>
#include <regex>
#include <tuple>
#include <utility>

namespace trainyard::plan {

namespace {

constexpr std::string_view of_type = "type:";

// Parameters of one block of the segment.
double parameters_of(const Segment& segment, const ModelConfig& m) {
  double n = 0;
  const auto add = [&](const FlatGroup& flat_group) {
    for (const auto& p : flat_group.parameters) n += static_cast<double>(p.count());
  };
  for (const auto& flat_group : *shared_flat_groups(segment)) add(flat_group);
  for (const auto& occurrence : segment.kind->occurrences(segment.model))
    if (occurrence.own < 0)
      for (const auto& other : segments(m))
        for (const auto& flat_group : *shared_flat_groups(other))
          if (flat_group.name == occurrence.borrowed) add(flat_group);
  return n;
}

double flops_of(const Segment& segment, const PartitionOf& of) {
  const auto lengths = segment.lengths(of.lengths);
  double flops = segment.kind->training_flops(segment.model, lengths);
  if (segment.part == Part::layers && of.recompute.full > 0)
    flops += of.recompute.full * segment.kind->recompute_flops(segment.model, lengths);
  return flops * segment.rows_per_token(of.lengths);
}

// std::regex compiles patterns recursively, and its usual matcher may take exponential time. So patterns are short, and
// are matched in polynomial time, without back-references.
std::vector<double> matches(const std::string& pattern, const ModelConfig& m) {
  constexpr std::size_t longest = 200;
  if (pattern.empty())
    throw base::UsageError(base::text("$partition type: has no pattern behind it"), "type:layers, for example");
  if (pattern.size() > longest)
    throw base::UsageError(
        base::text("$partition type:{}: a pattern has at most {} characters", base::excerpt(pattern), longest),
        "type:layers, for example");
  const auto shown = base::one_line(pattern);
  auto syntax = std::regex::ECMAScript | std::regex::icase | std::regex::nosubs;
#ifdef __GLIBCXX__
  syntax |= std::regex_constants::__polynomial;
#endif
  std::vector<double> out;
  try {
    const std::regex regex(pattern, syntax);
    for (const auto& name : item_names(m)) out.push_back(std::regex_search(name, regex) ? 1.0 : 0.0);
  } catch (const std::regex_error& e) {
    throw base::UsageError(base::text("$partition type:{}: no regular expression: {}", shown, e.what()),
                           "type:layers, for example");
  }
  if (std::find(out.begin(), out.end(), 1.0) == out.end())
    throw base::UsageError(base::text("$partition type:{} finds none of the model's items", shown),
                           "they are called embedding, layers.00 and so on, head");
  return out;
}

// Of equal weight. A planner asks for the same ones again and again, and the weights and their bisection take long.
Boundaries balanced(const std::string& how, const PartitionOf& of, int parts) {
  constexpr std::size_t most_parts = 1 << 15;
  const bool flops = how == "flops";
  using Key = std::tuple<std::shared_ptr<const KnownModel>, std::string, Lengths, double, int>;
  thread_local base::Memo<Key, Boundaries> known(most_parts);
  Key key{known_model(of.model), how, flops ? of.lengths : Lengths(0), flops ? of.recompute.full : 0, parts};
  if (auto before = known.find(key)) return *std::move(before);
  const auto weights = item_weights(how, of);
  const auto found = std::count_if(weights.begin(), weights.end(), [](double w) { return w > 0; });
  if (how.starts_with(of_type) && found < parts)
    throw base::UsageError(
        base::text("$partition {} finds {} of the model's {}, fewer than the {}: some would have none",
                   base::one_line(how), found, base::counted(item_count(of.model), "item"),
                   base::counted(parts, "part")),
        "type:layers, for example, or fewer stages");
  return known.keep(std::move(key), balanced_boundaries(weights, parts), base::size(parts) + how.size());
}

Boundaries listed(const std::string& text, std::int64_t items, int parts) {
  const auto refuse = [&](const std::string& what) {
    const auto even = uniform_boundaries(items, parts);
    throw base::UsageError(base::text("$partition {}: {}", base::one_line(text), what),
                           fmt::format("the first item of each part, ascending from 0: {}, for example",
                                       fmt::join(even.begin(), even.end() - 1, ",")));
  };
  Boundaries out;
  for (const char *at = text.data(), *end = at + text.size();;) {
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || (next != end && *next != ',')) refuse("not a list of whole numbers");
    out.push_back(value);
    if (next == end) break;
    at = next + 1;
  }
  if (std::ssize(out) != parts)
    refuse(fmt::format("{} for {}", base::counted(static_cast<std::int64_t>(out.size()), "number"),
                       base::counted(parts, "part")));
  if (out.front() != 0) refuse("the first part begins at item 0");
  if (std::adjacent_find(out.begin(), out.end(), std::greater_equal<>()) != out.end())
    refuse("each part begins behind the one before");
  if (out.back() >= items) refuse(fmt::format("the model has items 0 to {}", items - 1));
  out.push_back(items);
  return out;
}

}  // namespace

int listed_parts(const std::string& how) {
  if (how.empty() || how.find_first_not_of("0123456789,") != std::string::npos) return 0;
  return static_cast<int>(std::count(how.begin(), how.end(), ',')) + 1;
}

std::vector<double> item_weights(const std::string& how, const PartitionOf& of) {
  if (how.starts_with(of_type)) return matches(how.substr(of_type.size()), of.model);
  std::vector<double> out;
  for (const auto& segment : segments(of.model))
    out.insert(out.end(), base::size(segment.times),
               how == "flops" ? flops_of(segment, of) : parameters_of(segment, of.model));
  return out;
}

Boundaries partition(const std::string& how, const PartitionOf& of, int parts) {
  const auto items = item_count(of.model);
  if (parts < 1 || items < parts)
    throw base::UsageError(fmt::format("{} parts of a model of {} items: its embedding, {} layers and its head", parts,
                                       items, of.model.layers),
                           fmt::format("1 to {} parts", items));
  if (how == "uniform") return uniform_boundaries(items, parts);
  if (parts == 1 && (how == "parameters" || how == "flops")) return uniform_boundaries(items, parts);
  if (how == "parameters" || how == "flops" || how.starts_with(of_type)) {
    constexpr auto most_cells = std::int64_t{1} << 22;  // some seconds of search
    if (parts > 1 && items > most_cells / parts)
      throw base::UsageError(base::text("$partition {}: {} items in {} parts are too many to be balanced",
                                        base::excerpt(how), items, parts),
                             base::text("$partition uniform, or the first item of each part"));
    return balanced(how, of, parts);
  }
  if (!how.empty() && (std::isdigit(static_cast<unsigned char>(how[0])) || how[0] == '-'))
    return listed(how, items, parts);
  const auto near = base::value_hint(how, {"uniform", "parameters", "flops", "type:PATTERN", "0,3,6,..."});
  throw base::UsageError(
      base::text("$partition {} is not known", base::one_line(how)),
      near.empty() ? "uniform, parameters, flops, type:PATTERN, or the first item of each part, such as 0,3,6" : near);
}

}  // namespace trainyard::plan
