// The text of an offload.
#include "libtrain/plan/spec/offload.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <vector>

namespace trainyard::plan {

namespace {

struct NamedPlacement {
  const char* name;
  Placement Offload::*placement;
};
constexpr std::array placements = {
    NamedPlacement{"optimizer", &Offload::optimizer}, NamedPlacement{"parameters", &Offload::parameters},
    NamedPlacement{"gradients", &Offload::gradients}, NamedPlacement{"activations", &Offload::activations}};
struct NamedPlace {
  const char* name;
  Place place;
};
constexpr std::array places = {NamedPlace{"device", Place::device}, NamedPlace{"host", Place::host},
                               NamedPlace{"disk", Place::disk}};
constexpr const char* nothing = "none";

// Words of DeepSpeed, FSDP and Megatron-LM.
struct ForeignPlacement {
  const char *theirs, *ours;
};
constexpr std::array foreign_placements = {
    ForeignPlacement{"cpu", "host"},           ForeignPlacement{"ram", "host"},
    ForeignPlacement{"memory", "host"},        ForeignPlacement{"pinned", "host"},
    ForeignPlacement{"nvme", "disk"},          ForeignPlacement{"ssd", "disk"},
    ForeignPlacement{"file", "disk"},          ForeignPlacement{"gpu", "device"},
    ForeignPlacement{"cuda", "device"},        ForeignPlacement{"none", "device"},
    ForeignPlacement{"optim", "optimizer"},    ForeignPlacement{"states", "optimizer"},
    ForeignPlacement{"param", "parameters"},   ForeignPlacement{"params", "parameters"},
    ForeignPlacement{"weights", "parameters"}, ForeignPlacement{"grad", "gradients"},
    ForeignPlacement{"grads", "gradients"},    ForeignPlacement{"inputs", "activations"}};

// The one of `legal` that another program calls `name`; empty if there is none.
std::string word_for(std::string_view name, const std::vector<std::string>& legal) {
  for (const auto& [theirs, ours] : foreign_placements)
    if (name == theirs && std::find(legal.begin(), legal.end(), ours) != legal.end()) return ours;
  return {};
}

std::string hint_of_word(std::string_view name, const std::vector<std::string>& legal) {
  const auto ours = word_for(name, legal);
  if (ours.empty()) return base::value_hint(name, legal);
  return ours == "host" ? "did you mean 'host'? That is of a GPU; where ranks compute on the CPU, 'disk' is left"
                        : fmt::format("did you mean '{}'?", ours);
}

template <class Named> std::vector<std::string> names_in(const Named& all) {
  std::vector<std::string> out;
  for (const auto& each : all) out.emplace_back(each.name);
  return out;
}

template <class Named> const auto& found_in(const Named& all, std::string_view name, const std::string& before) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& each) { return name == each.name; });
  if (found != all.end()) return *found;
  const auto names = names_in(all);
  const auto hint = hint_of_word(name, names);
  throw base::UsageError(fmt::format("{}: {} is none of {}", before, base::excerpt(name), base::listed(names, "and")),
                         hint.empty() ? "for example optimizer=disk,parameters=disk" : hint);
}

std::string without_spaces(const std::string& text) { return base::comma_separated(text).front(); }

// For "optimizer", and for "cpu", which names a place and not what lies there. Plans do not know "auto".
[[noreturn]] void throw_no_place(const std::string& before, const std::string& text, std::string_view part) {
  const auto known = names_in(places);
  const auto place =
      std::find(known.begin(), known.end(), part) == known.end() ? word_for(part, known) : std::string(part);
  std::string word;
  for (const char c : part) word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if ((word == nothing || word == "auto") && word != text)
    throw base::UsageError(fmt::format("{}: {} says neither what nor where", before, base::excerpt(part)),
                           fmt::format("write '{}', and nothing else", word));
  if (place.empty() || place == "device")
    throw base::UsageError(fmt::format("{}: {} has no place", before, base::excerpt(part)),
                           "name what and where, such as optimizer=disk,parameters=disk; or none");
  throw base::UsageError(fmt::format("{}: {} says where, and not what", before, base::excerpt(part)),
                         place == "host" ? "name what and where: optimizer=host,parameters=host on a GPU; where ranks "
                                           "compute on the CPU, optimizer=disk,parameters=disk"
                                         : "name what and where: optimizer=disk,parameters=disk");
}

}  // namespace

bool Offload::uses(Place place) const {
  return std::any_of(placements.begin(), placements.end(),
                     [&](const auto& each) { return (this->*each.placement).place == place; });
}

bool Offload::of_states() const {
  auto states = *this;
  states.activations = {};
  return states.any();
}

std::string offload_text(const Offload& offload) {
  std::string out;
  for (const auto& each : placements) {
    const auto& placement = offload.*each.placement;
    const auto place = placement.place;
    const auto share = placement.share;
    if (place == Place::device) continue;
    const auto name = std::find_if(places.begin(), places.end(), [&](const auto& p) { return p.place == place; })->name;
    out += fmt::format("{}{}={}", out.empty() ? "" : ",", each.name, name);
    if (share < 1) out += fmt::format(":{}", share);
  }
  return out.empty() ? nothing : out;
}

Offload offload_of_text(const std::string& text, const std::string& spelled) {
  Offload out;
  if (text == nothing) return out;
  const auto before = fmt::format("{} {}", spelled, base::excerpt(text));
  std::set<std::string_view> seen;
  const auto parts = base::comma_separated(text);
  for (const auto& part : parts) {
    if (part.empty() && &part == &parts.back() && parts.size() > 1)
      throw base::UsageError(fmt::format("{}: nothing follows the last comma", before), "leave the comma out");
    const auto equals = part.find('=');
    if (equals == std::string::npos) throw_no_place(before, text, part);
    const auto& of = found_in(placements, without_spaces(part.substr(0, equals)), before);
    if (!seen.insert(of.name).second)
      throw base::UsageError(fmt::format("{}: {} comes twice", before, of.name), "give each of them one place");
    auto where = without_spaces(part.substr(equals + 1));
    auto& placement = out.*of.placement;
    if (const auto colon = where.find(':'); colon != std::string::npos) {
      const auto number = where.substr(colon + 1);
      const auto share = base::parsed_number<double>(number);
      if (!share || !(*share > 0 && *share <= 1))
        throw base::UsageError(fmt::format("{}: {} is no share", before, base::excerpt(number)),
                               "give a number above 0 and at most 1, such as optimizer=disk:0.5");
      placement.share = *share;
      where.resize(colon);
    }
    placement.place = found_in(places, where, before).place;
    if (placement.place == Place::device) placement = {};
  }
  return out;
}

}  // namespace trainyard::plan
