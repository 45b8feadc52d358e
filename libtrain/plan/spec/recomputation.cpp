// The text of a recomputation, and its layers.
#include "libtrain/plan/spec/recomputation.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard::plan {

namespace {

constexpr double rounding = 1e-9;     // of sums and products of shares
constexpr double least_share = 1e-6;  // a layer of a million
constexpr const char* of_rest = "full:0.25 for six of 24 layers; full:0.25,selective for these and the rest";

std::optional<Recompute> form_of(std::string_view name) {
  for (const auto form : recomputations)
    if (name == name_of(form)) return form;
  if (name == "layers") return Recompute::layers;  // as older plans call it
  return {};
}

struct Share {
  Recompute form;
  std::optional<double> share;  // nothing: the rest
};

Share share_in(std::string_view part, bool alone, const std::string& before) {
  const auto colon = part.find(':');
  const auto name = part.substr(0, colon);
  const auto form = form_of(name);
  if (!form) {
    const auto hint = base::value_hint(name, {"none", "selective", "full", "auto"});
    throw base::UsageError(
        alone ? before + " is not known" : fmt::format("{}: {} is not known", before, base::excerpt(name)),
        hint.empty() ? fmt::format("none, selective, full or auto; {}", of_rest) : hint);
  }
  if (*form == Recompute::none && (!alone || colon != std::string_view::npos))
    throw base::UsageError(fmt::format("{}: none stands alone", before), of_rest);
  if (colon == std::string_view::npos) return {*form, {}};
  const auto share = base::parsed_number<double>(part.substr(colon + 1));
  if (!share || !(*share >= least_share && *share <= 1))
    throw base::UsageError(
        fmt::format("{}: {} is no share of the layers", before, base::excerpt(part.substr(colon + 1))),
        "give a number above 0 and at most 1: six of 24 layers are full:0.25");
  return {*form, share};
}

}  // namespace

std::int64_t share_of(double share, std::int64_t all) {
  return static_cast<std::int64_t>(std::ceil(share * static_cast<double>(all) - rounding));
}

Recompute Recomputation::most() const {
  return full > 0 ? Recompute::layers : selective > 0 ? Recompute::selective : Recompute::none;
}

std::int64_t Recomputation::full_layers(std::int64_t layers) const { return share_of(full, layers); }

std::int64_t Recomputation::selective_layers(std::int64_t layers) const {
  return share_of(full + selective, layers) - full_layers(layers);
}

Recompute Recomputation::of_layer(std::int64_t index, std::int64_t layers) const {
  const auto whole = full_layers(layers);
  if (index < whole) return Recompute::layers;
  return index < whole + selective_layers(layers) ? Recompute::selective : Recompute::none;
}

std::vector<Recomputation::Run> Recomputation::runs(std::int64_t before, std::int64_t times,
                                                    std::int64_t layers) const {
  std::vector<Run> out;
  const auto whole = full_layers(layers), recomputed = whole + selective_layers(layers), behind = before + times;
  for (const auto& [form, end] :
       {std::pair{Recompute::layers, whole}, {Recompute::selective, recomputed}, {Recompute::none, layers}})
    if (const auto here = std::min(end, behind) - before; here > 0) out.push_back({form, here}), before += here;
  return out;
}

std::string recomputation_text(const Recomputation& r) {
  const auto part = [](Recompute form, double share, bool rest) {
    return rest ? std::string(name_of(form)) : fmt::format("{}:{}", name_of(form), share);
  };
  std::vector<std::string> parts;
  if (r.full > 0) parts.push_back(part(Recompute::layers, r.full, r.full == 1));
  if (r.selective > 0)
    parts.push_back(part(Recompute::selective, r.selective, std::abs(1 - r.full - r.selective) < rounding));
  return parts.empty() ? name_of(Recompute::none) : fmt::format("{}", fmt::join(parts, ","));
}

Recomputation recomputation_of_text(const std::string& text, const std::string& spelled) {
  constexpr std::size_t longest = 60;  // that is shown as it is
  const auto before = fmt::format("{} {}", spelled, text.size() > longest ? base::excerpt(text) : base::one_line(text));
  std::optional<double> full, selective;
  std::optional<Recompute> rest;
  for (std::string_view left = text;;) {
    const auto comma = left.find(',');
    const auto [form, share] =
        share_in(left.substr(0, comma), left.size() == text.size() && comma == left.npos, before);
    if (form == Recompute::none) return {};
    auto& of_form = form == Recompute::layers ? full : selective;
    if (of_form) throw base::UsageError(fmt::format("{}: {} comes twice", before, name_of(form)), of_rest);
    if (!share && rest)
      throw base::UsageError(fmt::format("{}: each of the two would have all layers", before), of_rest);
    of_form = share.value_or(0);
    if (!share) rest = form;
    if (comma == std::string_view::npos) break;
    left = left.substr(comma + 1);
  }
  Recomputation out(full.value_or(0), selective.value_or(0));
  // Ten digits, so that the rest of 0.7 is 0.3.
  if (rest)
    (*rest == Recompute::layers ? out.full : out.selective) = std::round((1 - out.full - out.selective) * 1e10) / 1e10;
  if (out.full + out.selective > 1 + rounding || (rest && out.full * out.selective == 0 && full && selective))
    throw base::UsageError(fmt::format("{}: together more than all layers", before), of_rest);
  return out;
}

std::string recomputed_text(const Recomputation& r) {
  if (r == Recompute::none) return {};
  if (r == Recompute::layers) return "layers recomputed";
  if (r == Recompute::selective) return "norms and activations recomputed";
  return "recompute " + recomputation_text(r);
}

}  // namespace trainyard::plan
