// Makes the damage: to bytes, JSON and TOML.
#include "tests/mutation/mutations.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace mutation {

namespace {

using Json = nlohmann::ordered_json;

std::string repeated(const std::string& text, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += text;
  return out;
}

// What JSON's tree cannot hold is stored in it as text with this mark. The mark is removed from the dump. In such a
// text @ means a quotation mark.
constexpr const char* mark = "@raw@";
std::string raw(const std::string& text) { return mark + text; }

std::string without_marks(std::string text) {
  const std::string begin = std::string("\"") + mark;
  for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    text.erase(at, begin.size());
    const auto end = text.find('"', at);
    text.erase(end, 1);
    std::replace(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(end), '@',
                 '"');
  }
  return text;
}

const std::vector<std::string>& boundary_numbers() {
  static const std::vector<std::string> all = {"0",
                                               "-1",
                                               "1",
                                               "2",
                                               "3",
                                               "63",
                                               "64",
                                               "1000000",
                                               "2147483647",
                                               "2147483648",
                                               "-2147483648",
                                               "4294967296",
                                               "9007199254740993",
                                               "4611686018427387904",
                                               "9223372036854775807",
                                               "9223372036854775808",
                                               "-9223372036854775808",
                                               "18446744073709551615",
                                               "18446744073709551616",
                                               "1e308",
                                               "-1e308",
                                               "1e-308",
                                               "1e999",
                                               "0.5",
                                               "1.0",
                                               "-0.0",
                                               "NaN",
                                               "Infinity"};
  return all;
}

struct Node {
  Json* value;
  Json* parent;       // nullptr: the root
  std::string key;    // in an object
  std::size_t index;  // in an array
};

void collect(Json& json, std::vector<Node>& out) {
  if (json.is_object())
    for (auto& [key, value] : json.items()) {
      out.push_back({&value, &json, key, 0});
      collect(value, out);
    }
  if (json.is_array())
    for (std::size_t i = 0; i < json.size(); ++i) {
      out.push_back({&json[i], &json, "", i});
      collect(json[i], out);
    }
}

std::string name_of(const Node& n) { return n.parent->is_object() ? n.key : fmt::format("[{}]", n.index); }

Json other_type(Random& random) {
  switch (below(random, 8)) {
    case 0: return nullptr;
    case 1: return "text";
    case 2: return "";
    case 3: return Json::array();
    case 4: return Json::object();
    case 5: return true;
    case 6: return 7;
    default: return {{"a", 1}, {"b", {1, 2}}};
  }
}

std::string damage(Node& n, std::vector<Node>& all, Random& random) {
  auto& parent = *n.parent;
  const auto name = name_of(n);
  switch (below(random, 12)) {
    case 0:
      if (parent.is_object()) parent.erase(n.key);
      else parent.erase(n.index);
      return name + " removed";
    case 1:
      if (parent.is_object()) {
        const auto copy = *n.value;
        parent[raw("\"" + n.key + "\":0,\"" + n.key)] = copy;  // see doubled()
      } else {
        const auto copy = *n.value;
        parent.push_back(copy);
      }
      return name + " doubled";
    case 2: {
      const auto other = other_type(random);
      *n.value = other;
      return fmt::format("{} is {}", name, other.dump());
    }
    case 3: *n.value = std::string(100'000, 'x'); return name + " is a long text";
    case 4: {
      const auto open = below(random, 2) == 0 ? std::string("[") : std::string("{@a@:");
      *n.value = raw(repeated(open, 100'000) + "0" + repeated(open == "[" ? "]" : "}", 100'000));
      return name + " is deep";
    }
    case 5: {
      const auto& other = all[below(random, all.size())];
      const auto inside = other_type(random);
      const Json a = *n.value, b = *other.value;
      if (other.value != n.value && !a.is_structured() && !b.is_structured()) *n.value = b, *other.value = a;
      return fmt::format("{} and {} exchanged", name, name_of(other));
    }
    case 6: {
      if (!parent.is_object()) return "nothing";
      const Json value = *n.value;
      parent.erase(n.key);
      const auto renamed = below(random, 2) == 0 ? n.key + "x" : std::string("\x1b[31m") + n.key;
      parent[renamed] = value;
      return name + " renamed";
    }
    case 7: {
      if (!parent.is_object() || parent.size() < 2) return "nothing";
      auto other = parent.begin();
      std::advance(other, static_cast<std::ptrdiff_t>(below(random, parent.size())));
      const auto other_name = other.key();
      std::swap(*n.value, other.value());
      return fmt::format("values of {} and {} exchanged", name, other_name);
    }
    case 8:
      if (n.value->is_number_integer()) {
        const auto delta = std::vector<std::int64_t>{-64, -1, 1, 16, 64, 4096}[below(random, 6)];
        *n.value = static_cast<std::int64_t>(n.value->get<std::uint64_t>() + static_cast<std::uint64_t>(delta));
        return fmt::format("{} changed by {}", name, delta);
      }
      [[fallthrough]];
    case 9:
      if (n.value->is_string() && !n.value->get_ref<const std::string&>().empty()) {
        auto text = n.value->get<std::string>();
        auto& c = text[below(random, text.size())];
        c = static_cast<char>("0123456789abcdefxyz./-_ \n"[below(random, 25)]);
        *n.value = text;
        return name + " has another character";
      }
      [[fallthrough]];
    default: {
      const auto& number = boundary_numbers()[below(random, boundary_numbers().size())];
      *n.value = raw(number);
      return fmt::format("{} is {}", name, number);
    }
  }
}

// A doubled key was stored as one key that contains both: "@raw@"k":0,"k" becomes "k":0,"k".
std::string doubled(std::string text) {
  const std::string begin = std::string("\"") + mark + "\\\"";
  for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    const auto end = text.find("\":", text.find(",\\\"", at) + 3);
    auto part = text.substr(at + begin.size() - 2, end + 1 - (at + begin.size() - 2));
    std::string plain;
    for (std::size_t i = 0; i < part.size(); ++i)
      if (part[i] != '\\') plain += part[i];
    text.replace(at, end + 1 - at, plain);
  }
  return text;
}

}  // namespace

std::size_t below(Random& random, std::size_t n) { return static_cast<std::size_t>(random() % n); }

Mutation mutate_bytes(const std::string& content, Random& random) {
  auto out = content;
  if (out.empty()) return {out, "nothing"};
  const auto at = below(random, out.size()), n = std::min(out.size() - at, std::size_t{1} << below(random, 9));
  switch (below(random, 7)) {
    case 0:
      out[at] = static_cast<char>(out[at] ^ (1 << below(random, 8)));
      return {out, fmt::format("a bit of byte {} flipped", at)};
    case 1: return {out.substr(0, at), fmt::format("cut to {} bytes", at)};
    case 2: out.insert(at, out.substr(at, n)); return {out, fmt::format("{} bytes from {} doubled", n, at)};
    case 3: out.erase(at, n); return {out, fmt::format("{} bytes from {} removed", n, at)};
    case 4: {
      for (std::size_t i = 0; i < n; ++i) out[at + i] = static_cast<char>(random());
      return {out, fmt::format("{} bytes from {} overwritten", n, at)};
    }
    case 5: {
      const auto& number = boundary_numbers()[below(random, boundary_numbers().size())];
      const auto digit = out.find_first_of("0123456789", at);
      if (digit == std::string::npos) return {out, "nothing"};
      const auto end = std::min(out.find_first_not_of("0123456789.e-", digit), out.size());
      return {out.replace(digit, end - digit, number), fmt::format("the number at byte {} is {}", digit, number)};
    }
    default: {
      const auto other = below(random, out.size());
      std::swap(out[at], out[other]);
      return {out, fmt::format("bytes {} and {} exchanged", at, other)};
    }
  }
}

Mutation mutate_json(const std::string& content, Random& random) {
  if (below(random, 5) == 0) return mutate_bytes(content, random);
  auto json = Json::parse(content);
  std::vector<Node> all;
  collect(json, all);
  const auto what = damage(all[below(random, all.size())], all, random);
  // A character with one changed byte is not UTF-8 any more.
  return {without_marks(doubled(json.dump(1, ' ', false, Json::error_handler_t::replace))), what};
}

Mutation mutate_toml(const std::string& content, Random& random) {
  if (below(random, 5) == 0) return mutate_bytes(content, random);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < content.size();) {
    const auto end = std::min(content.find('\n', at), content.size());
    lines.push_back(content.substr(at, end - at));
    at = end + 1;
  }
  static const std::vector<std::string> others = {"\"\"",
                                                  "\"text\"",
                                                  "true",
                                                  "[]",
                                                  "[1, 2]",
                                                  "{}",
                                                  "{a = 1}",
                                                  "1979-05-27",
                                                  "07:32:00",
                                                  "nan",
                                                  "inf",
                                                  "-inf",
                                                  "0x7fffffffffffffff",
                                                  "''",
                                                  "\"\\u001b[31m\"",
                                                  "\"/nonexistent\"",
                                                  "\"../../..\"",
                                                  "1_000"};
  const auto n = below(random, lines.size());
  auto& line = lines[n];
  const auto equals = line.find('=');
  const auto key = line.substr(0, equals == std::string::npos ? line.size() : equals);
  std::string what;
  const auto set = [&](const std::string& value, const std::string& said) {
    line = key + "= " + value, what = key + said;
  };
  switch (below(random, 9)) {
    case 0: line.clear(), what = key + "removed"; break;
    case 1: lines.push_back(line), what = key + "doubled"; break;
    case 2: set(others[below(random, others.size())], "of another type"); break;
    case 3: set("\"" + std::string(100'000, 'x') + "\"", "is a long text"); break;
    case 4: set(repeated("[", 100'000), "is deep"); break;
    case 5: line = repeated(below(random, 2) == 0 ? "a." : "\"a\" . ", 200'000) + line, what = key + "dotted"; break;
    case 6: line = below(random, 2) == 0 ? "[" + key + "]" : "[[" + key + "]]", what = key + "is a table"; break;
    case 7: std::swap(line, lines[below(random, lines.size())]), line = "x" + line, what = key + "renamed"; break;
    default: {
      const auto& number = boundary_numbers()[below(random, boundary_numbers().size())];
      set(number, "is " + number);
    }
  }
  std::string out;
  for (const auto& l : lines) out += l + "\n";
  return {out, what};
}

}  // namespace mutation
