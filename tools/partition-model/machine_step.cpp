// Settings and tables of --machine.
#include "tools/partition-model/machine_step.h"

#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/measured_machine.h"
#include "libtrain/plan/scale.h"
#include "libtrain/plan/time_notes.h"
#include "tools/partition-model/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>
#include <vector>

namespace trainyard::tools {

std::optional<plan::Machine> machine_of(Options& o, plan::Plan& p, const ConfigFlags& flags, bool ranks_given) {
  const bool searching = searches(o);
  if (o.machine.empty()) {
    for (const auto& [given, flag] :
         {std::pair{o.nodes > 0, "--nodes"}, std::pair{o.search, "--search"}, std::pair{!o.assume.empty(), "--assume"},
          std::pair{!o.until.empty(), "--until"}, std::pair{!o.why_not.empty(), "--why-not"},
          std::pair{o.fewest_nodes, "--fewest-nodes"}, std::pair{o.largest_model, "--largest-model"},
          std::pair{o.shadow_prices, "--shadow-prices"}, std::pair{!o.scale.empty(), "--scale"},
          std::pair{!o.frontier.empty(), "--frontier"}, std::pair{!o.draw.empty(), "--draw"}}) {
      if (!given) continue;
      if (o.profile.empty())
        throw base::UsageError(fmt::format("{} needs a machine", flag),
                               fmt::format("--machine {}, or --profile PROFILE.json", plan::machine_names().front()));
      o.machine = o.profile;  // the machine that was measured
      if (searching) o.profile.clear();
      break;
    }
    if (o.machine.empty()) return {};
  }
  auto machine = plan::machine_at(o.machine);
  if (!o.scale.empty() && plan::scale_of_text(o.scale, "--scale", machine).what == plan::Scaled::nodes &&
      (o.nodes > 0 || ranks_given))
    throw base::UsageError(
        fmt::format("--scale varies the nodes, and {} sets them", ranks_given ? "--ranks" : "--nodes"),
        "leave one of them out");
  if (o.nodes > 0) {
    const auto ranks = std::int64_t{o.nodes} * machine.devices_per_node;
    if (ranks_given && o.ranks != ranks)
      throw base::UsageError(fmt::format("--ranks {} and --nodes {} contradict one another: {} has {} a node", o.ranks,
                                         o.nodes, machine.name, base::counted(machine.devices_per_node, "device")),
                             "leave one of them out");
    if (ranks > 1 << 20) throw base::UsageError("--nodes has more than 1,048,576 ranks", "fewer nodes");
    o.ranks = static_cast<int>(ranks);
  } else if (!ranks_given && !o.fewest_nodes) o.ranks = machine.devices_per_node;
  if (!flags.given("device")) p.device = machine.device;
  else if (p.device != machine.device)
    throw base::UsageError(fmt::format("--device contradicts the machine {}", machine.name), "leave --device out");
  if (!flags.given("dtype") && machine.device == base::DeviceKind::cuda) {
    p.dtype = machine.dtype;
    base::log_info("--dtype {}, as most runs on GPUs have; --dtype f32 keeps f32", base::name_of(p.dtype));
  }
  if (const auto note = plan::no_bf16(p, machine); !note.empty() && (searching || o.json)) base::log_info("{}", note);
  for (auto* ranks : {&p.zero_group, &p.reduction_ranks_per_node})
    if (*ranks == plan::Plan::of_a_node) *ranks = std::max(1, machine.devices_per_node / p.tensor);
  if (o.device_memory.empty()) o.device_memory = machine.device_memory;
  if (o.host_memory.empty() && machine.device == base::DeviceKind::cuda)
    if (const auto bytes = plan::host_memory_of_device(machine, o.fewest_nodes ? machine.devices_per_node : o.ranks);
        bytes > 0)
      o.host_memory = std::to_string(bytes);
  return machine;
}

namespace {

double tokens_of(const plan::Plan& p) { return static_cast<double>(p.global_batch) * static_cast<double>(p.sequence); }

}  // namespace

std::string step_time_text(const plan::Plan& p, const plan::StepInterval& step, const plan::Machine& machine) {
  const auto& t = step.median;
  const auto row = [&](const std::string& name, double seconds) {
    return fmt::format("  {:<30}{:>14}{:>8.1f} %\n", name, plan::step_seconds_text(seconds), 100 * seconds / t.seconds);
  };
  std::string out = fmt::format(
      "\n  {:<30}{:>14}{:>10}\n",
      p.pipeline > 1 ? fmt::format("a step on {}, stage {}", machine.name, t.stage) : "a step on " + machine.name,
      "time", "share");
  for (const auto& part : plan::step_time_parts)
    if (t.*part.seconds > 0) out += row(part.name, t.*part.seconds);
  out += row("all", t.seconds);
  out += fmt::format("  between {} and {}, {} of all ranks\n", plan::step_seconds_text(step.low),
                     plan::step_seconds_text(step.high), base::count_rate_text(tokens_of(p) / t.seconds, "tokens/s"));
  const double device = plan::device_flops(p, t.seconds), model = plan::device_model_flops(p, t.seconds);
  const double peak = base::is_narrow(p.dtype) && machine.flops_16bit > 0 ? machine.flops_16bit : machine.flops_32bit;
  out += fmt::format("  {} a device, {} without what is recomputed", base::rate_text(device, "FLOP/s"),
                     base::rate_text(model, "FLOP/s"));
  if (peak > 0) out += fmt::format(" ({:.0f} % of its peak)", 100 * model / peak);
  for (const auto& note : {plan::no_bf16(p, machine), plan::measured_otherwise(p, machine)})
    if (!note.empty()) out += "\n  " + note;
  return out + "\n";
}

constexpr double most_until = 1e18;

Until until_of(const std::string& text, const plan::Plan& p) {
  Until out;
  if (text.empty()) return out;
  const auto refuse = [&](const std::string& what) {
    throw base::UsageError(fmt::format("--until {}: {}", base::one_line(text), what),
                           "--until tokens=1e12, or steps=1000,validate-every=100,save-every=500");
  };
  double tokens = 0;
  const std::vector<std::pair<std::string, double*>> keys{{"tokens", &tokens},
                                                          {"steps", &out.steps},
                                                          {"validate-every", &out.validate_every},
                                                          {"validation-sequences", &out.validation_sequences},
                                                          {"save-every", &out.save_every}};
  std::vector<std::string> given;
  std::istringstream rest(text);
  for (std::string word; std::getline(rest, word, ',');) {
    const auto equals = word.find('=');
    const auto key =
        std::find_if(keys.begin(), keys.end(), [&](const auto& k) { return k.first == word.substr(0, equals); });
    if (equals == std::string::npos || key == keys.end())
      refuse(
          fmt::format("{} is none of tokens, steps, validate-every, validation-sequences and save-every with a number",
                      base::one_line(word)));
    const auto number = word.substr(equals + 1);
    double n = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
    const bool whole = key->first == "tokens" || n == std::floor(n);
    if (error != std::errc() || end != number.data() + number.size() || !(n >= 1) || !(n <= most_until) || !whole)
      refuse(fmt::format("{} is no {} from 1 to 1e18", base::one_line(word),
                         key->first == "tokens" ? "number" : "whole number"));
    if (std::find(given.begin(), given.end(), key->first) != given.end())
      refuse(fmt::format("{} is given twice", key->first));
    given.push_back(key->first);
    *key->second = n;
  }
  if (text.ends_with(',')) refuse("it ends with a comma");
  if (out.validate_every == 0 && std::find(given.begin(), given.end(), "validation-sequences") != given.end())
    refuse("validation-sequences need validate-every");
  if ((tokens > 0) == (out.steps > 0)) refuse("give either tokens or steps");
  if (tokens > 0) out.steps = std::ceil(tokens / tokens_of(p));
  return out;
}

std::string until_text(const Until& until, double step_seconds, const plan::Plan& p, const plan::Machine& machine,
                       const plan::Execution& execution) {
  const auto times = [&](double every) { return every > 0 ? std::floor(until.steps / every) : 0; };
  const double validations =
      until.validate_every > 0
          ? times(until.validate_every) *
                plan::StepTimer(p.model, machine, execution).validation(p, std::llround(until.validation_sequences))
          : 0;
  const double saves = until.save_every > 0
                           ? times(until.save_every) * plan::save_seconds(p, machine, until.save_every * step_seconds)
                           : 0;
  const double seconds = until.steps * step_seconds + validations + saves;
  const double hours = seconds / 3600, ranks = p.topology.world(), nodes = std::ceil(ranks / machine.devices_per_node);
  const auto text = [](double number) {
    return number < 1000 ? base::number_text(number) : base::count_text(std::llround(number));
  };
  auto out = fmt::format("{}: {} h, {} node-hours", base::counted(std::llround(until.steps), "step"), text(hours),
                         text(hours * nodes));
  if (machine.device_power > 0)
    out += fmt::format(", {} of the devices", base::rate_text(seconds * machine.device_power * ranks, "J"));
  if (validations > 0) out += fmt::format("; validations take {:.2g} % of it", 100 * validations / seconds);
  if (saves > 0) out += fmt::format("; saves delay it by {:.2g} %", 100 * saves / seconds);
  return out;
}

}  // namespace trainyard::tools
