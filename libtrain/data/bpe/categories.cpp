// Compares the tables with PCRE2, once for each property.
#include "libtrain/data/bpe/categories.h"

#include "libtrain/base/index.h"
#include "libtrain/data/bpe/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

namespace trainyard::data::bpe {

namespace {

constexpr char32_t behind_the_last = 0x110000, first_surrogate = 0xD800, behind_surrogates = 0xE000;

// In the order of the tables, and of `alternating`: Lu and Ll first.
constexpr std::array<std::string_view, alternating> category_names{
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn", "Cs"};

// Appends a range that begins behind the ones before.
void append_range(std::vector<CodePoints>& out, char32_t first, char32_t last) {
  if (!out.empty() && out.back().last + 1 == first) out.back().last = last;
  else out.push_back({first, last});
}

// By code point; 1 in the ranges.
std::vector<char> members(const std::vector<CodePoints>& ranges) {
  std::vector<char> out(behind_the_last);
  for (const auto& r : ranges) std::fill(out.begin() + r.first, out.begin() + r.last + 1, 1);
  return out;
}

template <class Test> std::vector<CodePoints> ranges_where(const Test& test) {
  std::vector<CodePoints> out;
  for (char32_t c = 0; c < behind_the_last; ++c)
    if ((c < first_surrogate || c >= behind_surrogates) && test(c)) append_range(out, c, c);
  return out;
}

std::string in_set(const std::vector<CodePoints>& ranges) {
  std::string out;
  for (const auto& r : ranges)
    out += r.first == r.last ? fmt::format("\\x{{{:X}}}", static_cast<std::uint32_t>(r.first))
                             : fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<std::uint32_t>(r.first),
                                           static_cast<std::uint32_t>(r.last));
  return out;
}

SetItem compared(const std::vector<CodePoints>& known, const std::string& item) {
  const auto ours = members(known), theirs = members(code_points_of_pcre2(item));
  if (ours == theirs) return {fmt::format("\\p{{{}}}", item), fmt::format("\\P{{{}}}", item), true};
  const auto less = ranges_where([&](char32_t c) { return ours[c] < theirs[c]; });
  const auto more = ranges_where([&](char32_t c) { return ours[c] > theirs[c]; });
  // PCRE2 looks characters of a byte up in a table first, if any are written in the set.
  const auto ascii = ranges_where([&](char32_t c) { return c < 0x80 && ours[c] != 0; });
  return {less.empty() ? fmt::format("\\p{{{}}}", item) + in_set(more) + in_set(ascii) : in_set(known),
          in_set(ranges_where([&](char32_t c) { return ours[c] == 0; })), false};
}

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::vector<CodePoints> code_points_of(std::string_view name) {
  for (const auto& script : scripts)
    if (same_name(script.name, name)) return {script.ranges.begin(), script.ranges.end()};
  const auto is_wanted = [&](std::size_t category) {
    const auto known = category_names[category];
    return known != "Cs" && (known == name || (name.size() == 1 && known[0] == name[0]));
  };
  std::vector<CodePoints> out;
  for (std::size_t i = 0; i < category_runs.size(); ++i) {
    const auto category = category_runs[i] & 0xFF;
    const char32_t first = category_runs[i] >> 8;
    const auto end = i + 1 < category_runs.size() ? char32_t{category_runs[i + 1] >> 8} : behind_the_last;
    if (category != alternating) {
      if (is_wanted(category)) append_range(out, first, end - 1);
      continue;
    }
    for (auto c = first; c < end; ++c)
      if (is_wanted((c - first) % 2)) append_range(out, c, c);
  }
  return out;
}

SetItem set_item_of(std::string_view name, const std::string& item) {
  static std::mutex mutex;
  static std::map<std::string, SetItem> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(item);
  if (found != known.end()) return found->second;
  const auto ranges = code_points_of(name);
  const SetItem plain{fmt::format("\\p{{{}}}", item), fmt::format("\\P{{{}}}", item), true};
  return known[item] = ranges.empty() ? plain : compared(ranges, item);
}

}  // namespace trainyard::data::bpe
