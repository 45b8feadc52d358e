// Searches, and tables of what they found.
#include "tools/partition-model/search.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/log.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/layout_text.h"
#include "libtrain/plan/measured_machine.h"
#include "tools/common/search_report.h"
#include "tools/common/table.h"
#include "tools/partition-model/machine_step.h"
#include "tools/partition-model/pictures.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace trainyard::tools {

namespace {

std::vector<std::string> row_of(const plan::FoundPlan& found) {
  return {plan::step_seconds_text(found.time.seconds), base::rate_text(model_flops_of(found), "FLOP/s"),
          base::size_text(found.bytes), layout_name(found)};
}

std::string counts_text(const plan::SearchCounts& c) {
  return fmt::format(
      "{} layouts: {} are slower than these, {} do not fit, {} are not supported, {} fit and were timed\n",
      base::count_text(c.layouts), base::count_text(c.slower), base::count_text(c.too_large),
      base::count_text(c.refused), base::count_text(c.timed));
}

[[noreturn]] void refuse_all(const plan::SearchOf& of, const plan::SearchResult& result) {
  plan::why_none(of, result)
      .refuse(of.space.offload ? "more nodes: --fewest-nodes finds how many" : "--offload auto, or --fewest-nodes");
}

// The best layouts as a table, or a JSON object a line.
std::string best_text(const Options& o, const plan::SearchResult& result) {
  if (o.json) {
    std::string out;
    for (const auto& found : result.best) out += json_of(found).dump() + "\n";
    return out;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& found : result.best) rows.push_back(row_of(found));
  return table({">a step", ">a device", ">memory", "layout"}, std::move(rows)) + counts_text(result.counts);
}

std::string prices_text(const plan::SearchOf& of, double seconds) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& price : plan::shadow_prices(of))
    rows.push_back({price.what, plan::step_seconds_text(price.seconds), plan::change_text(price, seconds)});
  return "\n" + table({"a tenth more", ">a step", ">change"}, std::move(rows));
}

constexpr int most_nodes = 512;  // that --fewest-nodes looks at if --nodes does not say

std::string fewest_text(const Options& o, const plan::SearchOf& of, plan::Plan& plan) {
  const int most = o.nodes > 0 ? o.nodes : most_nodes;
  const auto found = plan::fewest_nodes(of, most);
  if (!found)
    throw base::InputError(
        fmt::format("no number of nodes up to {} is enough", base::count_text(most)),
        of.space.offload ? "a smaller model" : "--offload auto, a smaller model, or a higher --nodes");
  plan = found->found.plan;
  if (o.json) {
    auto json = json_of(found->found);
    json["nodes"] = found->nodes;
    return json.dump() + "\n";
  }
  return fmt::format("{} of {}: {} a step with {}, {} a rank\n", base::counted(found->nodes, "node"), of.machine.name,
                     plan::step_seconds_text(found->found.time.seconds), layout_name(found->found),
                     base::size_text(found->found.bytes));
}

std::string largest_text(const Options& o, const plan::SearchOf& of, plan::Plan& plan) {
  const auto found = plan::largest_model(of);
  if (!found) throw base::InputError("not even one layer fits", "--offload auto, or more nodes");
  plan = found->plan;
  const auto parameters = plan::parameter_count(plan.model);
  if (o.json) {
    auto json = json_of(*found);
    json["layers"] = plan.model.layers, json["parameters"] = parameters;
    return json.dump() + "\n";
  }
  return fmt::format("{} layers, {} parameters: {} a step with {}, {} a rank\n", base::count_text(plan.model.layers),
                     base::count_text(parameters), plan::step_seconds_text(found->time.seconds), layout_name(*found),
                     base::size_text(found->bytes));
}

}  // namespace

bool searches(const Options& o) {
  return o.search || !o.why_not.empty() || o.fewest_nodes || o.largest_model || !o.scale.empty() || !o.frontier.empty();
}

plan::SearchSpace space_of(const Options& o, const ConfigFlags& flags) {
  plan::SearchSpace space;
  for (const auto& setting : plan::search_settings())
    if (flags.given(setting.name)) space.*setting.free = false;
  space.recompute |= o.recompute_auto;
  space.offload = o.offload_auto;
  return space;
}

void require_one_question(const Options& o) {
  std::vector<const char*> asked;
  for (const auto& [given, flag] :
       {std::pair{o.show_machine, "--show-machine"}, std::pair{o.search, "--search"},
        std::pair{!o.why_not.empty(), "--why-not"}, std::pair{o.fewest_nodes, "--fewest-nodes"},
        std::pair{o.largest_model, "--largest-model"}, std::pair{!o.scale.empty(), "--scale"},
        std::pair{!o.frontier.empty(), "--frontier"}})
    if (given) asked.push_back(flag);
  if (asked.size() > 1)
    throw base::UsageError(fmt::format("{} and {} are two questions", asked[0], asked[1]), "ask one after the other");
  if (!o.scale.empty() || !o.frontier.empty())
    for (const auto& [given, flag] :
         {std::pair{!o.output.empty(), "--output"}, std::pair{!o.until.empty(), "--until"},
          std::pair{o.shadow_prices, "--shadow-prices"}, std::pair{!o.draw.empty(), "--draw"}})
      if (given)
        throw base::UsageError(fmt::format("{} is about one layout, and {} finds several", flag, asked[0]),
                               "leave one of them out");
  const char* before = asked.empty() ? nullptr : asked[0];
  const auto need = [&](bool given, const char* flag) {
    if (given && !o.search)
      throw base::UsageError(fmt::format("{} needs --search", flag), fmt::format("--search {}", flag));
  };
  need(o.shadow_prices, "--shadow-prices");
  const auto leave_out = [&](bool given, const char* flag) {
    if (given && before != nullptr)
      throw base::UsageError(fmt::format("{} says more about one layout, and {} compares layouts", flag, before),
                             fmt::format("leave {} out here, and give it with the layout that you choose", flag));
  };
  leave_out(!o.profile.empty(), "--profile"), leave_out(!o.offload_dir.empty(), "--offload-dir");
  leave_out(o.bytes, "--bytes");
  const auto only_text = [&](bool given, const char* flag) {
    if (given && o.json && before != nullptr)
      throw base::UsageError(fmt::format("{} prints text, and --json asks for objects", flag), "leave one of them out");
  };
  only_text(!o.why_not.empty(), "--why-not"), only_text(!o.until.empty(), "--until");
  only_text(o.shadow_prices, "--shadow-prices");
  if (!o.until.empty() && before != nullptr && !o.search)
    throw base::UsageError(fmt::format("--until says how long one layout takes, and {} is given", before),
                           "--search --until tokens=1e12");
}

std::string search_text(const Options& o, const plan::SearchOf& of, plan::Plan& plan) {
  if (o.shadow_prices && of.machine.measured)
    throw base::UsageError(
        fmt::format("--shadow-prices changes rates, and {} has passes as they were measured", of.machine.name),
        "a machine with published rates, or leave --shadow-prices out");
  if (!o.scale.empty()) return scale_text(o, of);
  if (!o.frontier.empty()) return frontier_text(o, of);
  if (o.fewest_nodes) return fewest_text(o, of, plan);
  if (o.largest_model) return largest_text(o, of, plan);
  // Wrong words are refused before the search.
  until_of(o.until, of.plan);
  auto asked = of;
  if (!o.why_not.empty()) asked.limits.top = 1;
  if (!o.why_not.empty()) plan::with_layout(of.plan, o.why_not, "--why-not");
  const auto begin = std::chrono::steady_clock::now();
  const auto result = plan::search(asked);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (result.best.empty()) refuse_all(of, result);
  const auto& best = result.best.front();
  base::log_info("{} layouts searched in {}", base::count_text(result.counts.layouts),
                 base::duration_text(took.count()));
  if (!o.why_not.empty()) {
    const auto text = plan::why_not(of, o.why_not, "--why-not", best);
    plan = best.plan;
    return text + "\n";
  }
  plan = best.plan;
  if (const auto note = plan::measured_otherwise(plan, of.machine); !note.empty()) base::log_info("{}", note);
  auto out = best_text(o, result);
  if (o.json) return out;
  if (const auto until = until_of(o.until, plan); until.steps > 0)
    out += until_text(until, best.time.seconds, plan, of.machine, of.execution) + "\n";
  if (o.shadow_prices) out += prices_text(of, best.time.seconds);
  return out;
}

}  // namespace trainyard::tools
