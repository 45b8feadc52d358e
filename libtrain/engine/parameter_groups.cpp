// Texts of groups, and which parameters they match.
#include "libtrain/engine/parameter_groups.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/base/range.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/blocks/inventory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fnmatch.h>

namespace trainyard::engine {

namespace {

constexpr base::Range<double> scales{0, 1000}, decays{0, 1000};
constexpr std::size_t most_groups = 64;

[[noreturn]] void refuse_group(const std::string& text, const std::string& why) {
  throw base::UsageError(base::text("$group {}: {}", base::one_line(text), why),
                         base::text("$group 'layers.*.attention.*:learning-rate-scale=0.1:weight-decay=0', or "
                                    "'embedding.*:frozen'"));
}

double group_number(const std::string& text, const std::string& key, const std::string& digits,
                    base::Range<double> range) {
  const auto value = base::parsed_number<double>(digits);
  if (!value || !(*value >= range.low && *value <= range.high))
    refuse_group(text, fmt::format("{} is {}, expected a number from {} to {}", key, base::one_line(digits), range.low,
                                   range.high));
  return *value;
}

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0;;) {
    const auto end = text.find(':', at);
    parts.push_back(text.substr(at, end - at));
    if (end == std::string::npos) return parts;
    at = end + 1;
  }
}

ParameterGroup group_of(const std::string& text) {
  const auto parts = parts_of(text);
  ParameterGroup group;
  group.match = parts[0];
  if (group.match.empty()) refuse_group(text, "a group begins with a pattern of names");
  if (!std::ranges::all_of(group.match, [](char c) { return c > ' ' && c < '\x7f'; }))
    refuse_group(text, "names of parameters are letters, digits, dots and underscores");
  if (parts.size() == 1) refuse_group(text, "it sets nothing");
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const auto equals = parts[i].find('=');
    auto key = parts[i].substr(0, equals);
    std::replace(key.begin(), key.end(), '_', '-');
    const auto value = equals == std::string::npos ? std::string() : parts[i].substr(equals + 1);
    const auto once = [&](bool is_set) {
      if (is_set) refuse_group(text, fmt::format("{} is set twice", key));
    };
    if (key == "learning-rate-scale") {
      once(group.rate_scale.has_value());
      group.rate_scale = group_number(text, key, value, scales);
    } else if (key == "weight-decay") {
      once(group.weight_decay.has_value());
      group.weight_decay = group_number(text, key, value, decays);
    } else if ((key == "frozen" || key == "trained") && equals == std::string::npos) {
      once(group.frozen.has_value());
      group.frozen = key == "frozen";
    } else {
      refuse_group(text, fmt::format("'{}' is not known; a group has learning-rate-scale=X, weight-decay=X, frozen and "
                                     "trained",
                                     base::one_line(parts[i])));
    }
  }
  if (group.frozen == true && (group.rate_scale || group.weight_decay))
    refuse_group(text, "a frozen parameter has neither a learning rate nor weight decay");
  return group;
}

// With adapters, a group is for what is trained.
bool matches(const ParameterGroup& group, const plan::Parameter& parameter) {
  if (parameter.update.kind == plan::Update::Kind::frozen) return false;
  return ::fnmatch(group.match.c_str(), parameter.name.c_str(), 0) == 0;
}

}  // namespace

std::vector<ParameterGroup> parameter_groups(const std::string& text) {
  std::vector<ParameterGroup> groups;
  if (text.empty()) return groups;
  for (const auto& each : base::comma_separated(text)) groups.push_back(group_of(each));
  if (groups.size() > most_groups)
    throw base::UsageError(base::text("$group has {} groups", groups.size()), fmt::format("at most {}", most_groups));
  return groups;
}

std::string text_of(const std::vector<ParameterGroup>& groups) {
  std::vector<std::string> texts;
  for (const auto& g : groups) {
    auto text = g.match;
    if (g.rate_scale) text += fmt::format(":learning-rate-scale={}", *g.rate_scale);
    if (g.weight_decay) text += fmt::format(":weight-decay={}", *g.weight_decay);
    if (g.frozen) text += *g.frozen ? ":frozen" : ":trained";
    texts.push_back(text);
  }
  return fmt::format("{}", fmt::join(texts, ","));
}

std::string joined_groups(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, ",")); }

std::string group_of_tables(const std::vector<base::Field::Table>& tables) {
  std::vector<std::string> texts;
  for (const auto& table : tables) {
    std::string match, rest;
    for (const auto& [key, value] : table) {
      if (key == "match") {
        match = value;
        if (match.find_first_of(":,") != std::string::npos)
          refuse_group(match, "names of parameters have neither commas nor colons");
      } else if (key == "frozen" && (value == "on" || value == "off")) {
        rest += value == "on" ? ":frozen" : ":trained";
      } else {
        rest += fmt::format(":{}={}", key, value);
      }
    }
    if (match.empty())
      throw base::UsageError(fmt::format("a table {} has no key match", base::setting_name("group")),
                             "match = \"layers.*\" names the parameters of the group");
    texts.push_back(match + rest);
  }
  return joined_groups(texts);
}

double rate_scale_of_layer(const plan::FlatGroup& flat_group, double layer_decay, const plan::ModelConfig& model) {
  if (layer_decay == 1 || flat_group.part == plan::Part::output) return 1;
  const auto behind = [&](std::int64_t layers) { return std::pow(layer_decay, static_cast<double>(layers)); };
  if (flat_group.part == plan::Part::input) return behind(model.layers + 1);
  if (flat_group.part == plan::Part::bridge) return behind(model.layers - model.encoder_layers + 1);
  // "layers.07", "layers.07.experts"; "encoder.layers.07" and "decoder.layers.07"
  constexpr std::string_view layers = "layers.";
  const auto name = std::string_view(flat_group.name);
  const auto at = name.find(layers);
  const auto begin = at + layers.size();
  const auto index = base::parsed_number<std::int64_t>(name.substr(begin, name.find('.', begin) - begin));
  TRAINYARD_ASSERT(at != std::string_view::npos && index, "a flat group of layers is called {}", flat_group.name);
  const auto before = name.starts_with("decoder.") ? model.encoder_layers : 0;
  return behind(model.layers - before - *index);
}

void ParameterRules::apply(plan::FlatGroup& flat_group, const plan::ModelConfig& model) const {
  const auto of_layer = rate_scale_of_layer(flat_group, layer_decay, model);
  for (auto& parameter : flat_group.parameters) {
    parameter.rate_scale *= of_layer;
    const auto trained = parameter.update;
    for (const auto& group : groups) {
      if (!matches(group, parameter)) continue;
      if (group.rate_scale) parameter.rate_scale = of_layer * *group.rate_scale;
      if (group.weight_decay) parameter.weight_decay = group.weight_decay;
      if (group.frozen == false || group.rate_scale) parameter.update = trained;
      if (group.frozen == true) parameter.update = {plan::Update::Kind::kept};
    }
  }
}

std::vector<MatchedParameters> matched_parameters(const ParameterRules& rules, const plan::ModelConfig& model) {
  std::vector<MatchedParameters> out;
  for (const auto& group : rules.groups) out.push_back({group});
  for (const auto& flat_group : plan::flat_groups(model))
    for (const auto& parameter : flat_group.parameters)
      for (auto& matched : out)
        if (matches(matched.group, parameter)) ++matched.parameters, matched.elements += parameter.count();
  return out;
}

std::string text_of(const MatchedParameters& m) {
  std::vector<std::string> set;
  if (m.group.rate_scale) set.push_back(fmt::format("learning-rate-scale {}", *m.group.rate_scale));
  if (m.group.weight_decay) set.push_back(fmt::format("weight-decay {}", *m.group.weight_decay));
  if (m.group.frozen) set.emplace_back(*m.group.frozen ? "frozen" : "trained");
  return fmt::format("{}: {}; {}, {} elements", m.group.match, fmt::join(set, ", "),
                     base::counted(m.parameters, "parameter"), base::count_text(m.elements));
}

void require_matches(const ParameterRules& rules, const plan::ModelConfig& model) {
  if (rules.groups.empty()) return;
  const auto all = plan::flat_groups(model);
  for (const auto& matched : matched_parameters(rules, model)) {
    if (matched.parameters > 0) continue;
    std::vector<std::string> names;
    for (const auto& flat_group : all)
      for (const auto& parameter : flat_group.parameters)
        if (parameter.update.kind != plan::Update::Kind::frozen) names.push_back(parameter.name);
    const auto close = base::resembling(matched.group.match, names);
    throw base::UsageError(
        base::text("$group {} matches no parameter that is trained", base::one_line(matched.group.match)),
        fmt::format("names are such as {}: inspect shows those of a checkpoint",
                    close.empty() ? fmt::format("{} and {}", names.front(), names[names.size() / 2]) : close));
  }
  const bool some = std::any_of(all.begin(), all.end(), [&](plan::FlatGroup flat_group) {
    rules.apply(flat_group, model);
    return std::any_of(flat_group.parameters.begin(), flat_group.parameters.end(), [](const plan::Parameter& p) {
      return p.update.kind == plan::Update::Kind::optimizer && p.rate_scale > 0;
    });
  });
  if (!some) throw base::UsageError(base::text("$group freezes every parameter"), "leave some of them to be trained");
}

}  // namespace trainyard::engine
