// Reads what the user names, and divides sequences among sets.
#include "libtrain/data/mixture.h"

#include "libtrain/base/decimal.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/random.h"
#include "libtrain/base/text.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string_view>

namespace trainyard::data {

namespace {

constexpr std::int64_t most_weight = 1'000'000, least_fraction = 1'000'000;  // weights have at most six decimals

// Whether a part behind a colon is meant as a number, right or wrong. A path may have colons, too.
bool looks_like_number(std::string_view text) {
  if (text == "nan" || text == "inf" || text == "-inf") return true;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  const auto digits = text.substr(0, text.find_first_of("eE"));
  return text.find_first_not_of("0123456789.eE+-") == text.npos &&
         digits.find_first_not_of("0123456789.") == digits.npos;
}

// Takes a number from the end of "path:number", with the colon.
std::optional<std::string> take_number(std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || !looks_like_number(std::string_view(text).substr(colon + 1)))
    return {};
  auto number = text.substr(colon + 1);
  text.resize(colon);
  return number;
}

// "[field=value]" in a text, and where the text goes on behind it.
struct Choice {
  std::string field, value;
  std::size_t end = 0;
};

// The choice that begins at a bracket. Nothing where brackets are part of a path: behind a choice comes a colon, a
// comma or the end.
std::optional<Choice> choice_at(std::string_view text, std::size_t open) {
  const auto equal = text.find_first_of("=[],:", open + 1);
  if (equal == text.npos || text[equal] != '=' || equal == open + 1) return {};
  Choice choice{std::string(text.substr(open + 1, equal - open - 1)), {}, equal + 1};
  for (auto& at = choice.end; at < text.size(); ++at) {
    if (text[at] == ']' && !text.substr(at + 1).starts_with(']')) {
      const auto next = text.find_first_not_of(' ', ++at);
      if (next == text.npos || text[next] == ',' || text[next] == ':') return choice;
      return {};
    }
    choice.value += text[at];
    if (text[at] == ']') ++at;  // two stand for one
  }
  return {};
}

// The sets of a text, without spaces around them. A comma in a choice separates nothing.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts{""};
  for (std::size_t at = 0; at < text.size();) {
    const auto choice = text[at] == '[' ? choice_at(text, at) : std::nullopt;
    const auto end = choice ? choice->end : at + 1;
    if (text[at] == ',') parts.emplace_back();
    else parts.back().append(text, at, end - at);
    at = end;
  }
  for (auto& part : parts) {
    part.erase(0, std::min(part.find_first_not_of(' '), part.size()));
    part.erase(part.find_last_not_of(' ') + 1);
  }
  return parts;
}

// Takes "[field=value]" from the end of a folder's name.
void take_field(NamedSet& set) {
  for (auto open = set.folder.find('['); open != std::string::npos; open = set.folder.find('[', open + 1)) {
    const auto choice = choice_at(set.folder, open);
    if (!choice || choice->end != set.folder.size()) continue;
    set.field = choice->field, set.value = choice->value;
    return set.folder.resize(open);
  }
}

NamedSet set_of(const std::string& text, const std::string& spelled) {
  NamedSet set{text};
  std::error_code error;
  if (std::filesystem::is_directory(text, error)) return set;
  auto last = take_number(set.folder);
  auto before = last ? take_number(set.folder) : std::nullopt;
  auto weight = before ? *before : last.value_or("");
  const auto epochs = before ? *last : std::string();
  const auto refuse = [&](const std::string& why) {
    throw base::UsageError(fmt::format("{} {}: {}", spelled, base::one_line(text), why),
                           "a set is PATH, PATH:WEIGHT or PATH:WEIGHT:EPOCHS, such as wiki:0.7:2; PATH may end with "
                           "[FIELD=VALUE]");
  };
  if (last && last->empty()) refuse("a number is missing behind the last colon");
  if (set.folder.ends_with(']') && !std::filesystem::is_directory(set.folder, error)) {
    take_field(set);
    const auto open = set.folder.find('[');
    if (set.field.empty() && open != std::string::npos && set.folder.find('=', open) != std::string::npos)
      refuse("in the value of a field, ] is written twice");
  }
  if (set.folder.empty()) refuse("a set has no path");
  if (weight.starts_with('.')) weight.insert(0, "0");
  if (!weight.empty()) {
    const auto number = base::decimal_of(weight);
    if (!number || number->denominator > least_fraction || number->numerator > most_weight * number->denominator)
      refuse(fmt::format("the weight {} is no number above 0 and up to {}, with at most six decimals",
                         base::excerpt(weight), most_weight));
    set.weight = base::shortest_decimal(weight);
  }
  if (!epochs.empty()) {
    const auto number = base::decimal_of(epochs);
    if (!number) refuse(fmt::format("{} epochs are no number above 0", base::excerpt(epochs)));
    set.epochs = static_cast<double>(number->numerator) / static_cast<double>(number->denominator);
  }
  return set;
}

// One folder may be named in several ways.
bool is_same(const NamedSet& a, const NamedSet& b) {
  std::error_code error;
  return a.field == b.field && a.value == b.value && std::filesystem::equivalent(a.folder, b.folder, error);
}

void without_common_factor(std::vector<std::int64_t>& weights) {
  std::int64_t common = 0;
  for (const auto w : weights) common = std::gcd(common, w);
  for (auto& w : weights) w /= common;
}

}  // namespace

std::vector<NamedSet> sets_of(const std::string& text, const std::string& spelled) {
  std::error_code error;
  if (std::filesystem::exists(text, error) || text.empty()) return {{text}};
  std::vector<NamedSet> sets;
  for (const auto& part : parts_of(text)) sets.push_back(set_of(part, spelled));
  if (std::ssize(sets) > most_sets)
    throw base::UsageError(fmt::format("{} names {} sets, at most {} are mixed", spelled, sets.size(), most_sets),
                           "join sets with shard-data");
  const auto given = std::count_if(sets.begin(), sets.end(), [](const auto& set) { return !set.weight.empty(); });
  if (given != 0 && given != std::ssize(sets))
    throw base::UsageError(
        fmt::format("{} {} has weights for {} of {} sets", spelled, base::one_line(text), given, sets.size()),
        "give each set a weight, such as wiki:0.7,code:0.3, or none");
  for (std::size_t i = 0; i < sets.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (name_of(sets[i]) == name_of(sets[j]) || is_same(sets[i], sets[j]))
        throw base::UsageError(fmt::format("{} names {} twice", spelled, base::one_line(name_of(sets[i]))),
                               "name it once, with the sum of the weights");
  return sets;
}

std::string name_of(const NamedSet& set) {
  if (set.field.empty()) return set.folder;
  std::string value;
  for (const auto c : set.value) value.append(c == ']' ? 2 : 1, c);
  return fmt::format("{}[{}={}]", set.folder, set.field, value);
}

std::string first_folder(const std::string& text) {
  try {
    return sets_of(text, "data").front().folder;
  } catch (const base::UsageError&) {
    return text;
  }
}

std::optional<std::string> joined_sets(const std::vector<std::string>& texts) {
  if (std::all_of(texts.begin(), texts.end(), [&](const auto& text) { return text == texts.front(); })) return {};
  std::string all;
  for (const auto& text : texts) {
    std::error_code error;
    if (text.find_first_of(",:[") != std::string::npos && std::filesystem::exists(text, error)) return {};
    all += (all.empty() ? "" : ",") + text;
  }
  return all;
}

bool is_one_folder(const std::string& text) { return first_folder(text) == text; }

std::vector<std::int64_t> weights_of(std::span<const std::string> decimals) {
  std::vector<std::int64_t> weights;
  for (const auto& text : decimals) {
    const auto number = base::decimal_of(text);
    TRAINYARD_ASSERT(number && least_fraction % number->denominator == 0, "a weight of {}", text);
    weights.push_back(number->numerator * (least_fraction / number->denominator));
  }
  without_common_factor(weights);
  return weights;
}

std::vector<std::int64_t> weights_of_sizes(std::span<const std::int64_t> sizes, double temperature) {
  const auto largest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::int64_t> weights;
  for (const auto size : sizes) {
    const double share = std::pow(static_cast<double>(size) / static_cast<double>(largest), 1 / temperature);
    weights.push_back(std::max<std::int64_t>(1, std::llround(share * 0x1p20)));
  }
  without_common_factor(weights);
  return weights;
}

Mixture::Mixture(std::vector<std::int64_t> weights, std::uint64_t seed, std::int64_t together)
    : weights_(std::move(weights)), rest_(weights_.size()), offsets_(weights_.size()), together_(together) {
  TRAINYARD_ASSERT(!weights_.empty(), "a mixture of {} sets", weights_.size());
  TRAINYARD_ASSERT(together > 0, "turns of {} sequences", together);
  const auto site = base::site_hash("data", "mixture");
  std::int64_t rest = 0;
  for (auto k = weights_.size(); k-- > 0;) {
    TRAINYARD_ASSERT(weights_[k] > 0, "a weight of {}", weights_[k]);
    rest_[k] = rest += weights_[k];
    const auto words = base::random_words(seed, site, k);
    const auto draw = (static_cast<std::uint64_t>(words[0]) << 32) | words[1];
    offsets_[k] = static_cast<std::int64_t>((static_cast<unsigned __int128>(draw) * base::size(rest)) >> 64);
  }
}

std::uint64_t Mixture::taken(std::size_t k, std::uint64_t left) const {
  return static_cast<std::uint64_t>(
      (static_cast<unsigned __int128>(left) * base::size(weights_[k]) + base::size(offsets_[k])) /
      base::size(rest_[k]));
}

Mixture::Sample Mixture::of(std::uint64_t index) const {
  const auto n = base::size(together_);
  const auto [set, before] = turn(index / n);
  return {set, before * n + index % n};
}

// Of a turn: its set, and how many turns the set had before.
Mixture::Sample Mixture::turn(std::uint64_t index) const {
  for (std::size_t k = 0; k + 1 < weights_.size(); ++k) {
    const auto before = taken(k, index);
    if (taken(k, index + 1) > before) return {static_cast<int>(k), before};
    index -= before;
  }
  return {sets() - 1, index};
}

std::vector<std::uint64_t> Mixture::counts(std::uint64_t end) const {
  const auto n = base::size(together_);
  auto left = end / n;
  std::vector<std::uint64_t> out;
  for (std::size_t k = 0; k + 1 < weights_.size(); ++k) {
    out.push_back(taken(k, left));
    left -= out.back();
  }
  out.push_back(left);
  for (auto& count : out) count *= n;
  base::at(out, turn(end / n).set) += end % n;
  return out;
}

double Mixture::share(int set) const {
  return static_cast<double>(base::at(weights_, set)) / static_cast<double>(rest_.front());
}

}  // namespace trainyard::data
