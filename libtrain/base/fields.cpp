// Reading and printing of fields.
#include "libtrain/base/fields.h"

#include "libtrain/base/advice.h"
#include "libtrain/base/byte_size.h"
#include "libtrain/base/decimal.h"
#include "libtrain/base/environment.h"
#include "libtrain/base/error.h"
#include "libtrain/base/field_text.h"
#include "libtrain/base/index.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace trainyard::base {

std::string shortened_value(const std::string& text) {
  return text.size() <= 60 ? text : fmt::format("{}... ({} bytes)", text.substr(0, 60), text.size());
}

std::string hyphenated(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

namespace {

void refuse_empty(const std::string& text, const std::string& spelled) {
  if (text.empty())
    throw UsageError(fmt::format("{} is empty", spelled), "is a variable unset? Give a value, or leave it out");
}

// Parses a number. `about` describes it, for the hint.
template <class T>
T parse(const std::string& text, const std::string& spelled, Range<T> range, const std::string& about) {
  refuse_empty(text, spelled);
  const auto hint =
      fmt::format("from {} to {}{}", range.low, range.high, about.empty() ? "" : fmt::format(": {}", about));
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = end == text.data() + text.size() && error != std::errc::invalid_argument;
  if (!number)
    throw UsageError(fmt::format("{} '{}' is not a {}", spelled, shortened_value(text),
                                 std::is_floating_point_v<T> ? "number" : "whole number"),
                     hint);
  if (error != std::errc{} || !range.holds(value))
    throw UsageError(
        fmt::format("{} {} must lie between {} and {}", spelled, shortened_value(text), range.low, range.high), hint);
  return value;
}

template <class T>
Field numeric(const std::string& name, T& member, const std::string& group, const std::string& help, Range<T> range) {
  return {name,
          group,
          help,
          std::is_floating_point_v<T> ? FieldKind::number : FieldKind::integer,
          fmt::format("{} to {}", range.low, range.high),
          [&member] { return fmt::format("{}", member); },
          [&member, range, help](const std::string& text, const std::string& spelled) {
            member = parse(text, spelled, range, help);
          }};
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else out += c;
  }
  return out + "\"";
}

// TOML's integers end at 2^63 - 1. A seed may be larger and is then written as text.
bool is_toml_number(FieldKind kind, const std::string& text) {
  if (kind == FieldKind::number) return !text.ends_with('%');
  std::int64_t ignored = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ignored);
  return (kind == FieldKind::integer || kind == FieldKind::integer_or_text) && error == std::errc{} &&
         end == text.data() + text.size();
}

std::string toml_text(FieldKind kind, const std::string& value) {
  if (kind == FieldKind::integers) return fmt::format("[{}]", value);
  return is_toml_number(kind, value) ? value : quoted(value);
}

}  // namespace

bool Field::is_named(const std::string& spelled) const {
  return spelled == name || (!former.empty() && spelled == former) ||
         std::find(aliases.begin(), aliases.end(), spelled) != aliases.end();
}

std::vector<std::string> Field::names() const {
  std::vector<std::string> all{name};
  if (!former.empty()) all.push_back(former);
  all.insert(all.end(), aliases.begin(), aliases.end());
  return all;
}

void FieldVisitor::operator()(const std::string& name, std::string& member, const std::string& group,
                              const std::string& help) {
  const bool may_be_empty = member.empty();
  fields_.push_back({name, group, help, FieldKind::text, "", [&member] { return member; },
                     [&member, may_be_empty](const std::string& text, const std::string& spelled) {
                       if (!may_be_empty) refuse_empty(text, spelled);
                       member = text;
                     }});
}

void FieldVisitor::operator()(const std::string& name, std::string& member, const std::string& group,
                              const std::string& help, MaybeEmpty) {
  fields_.push_back({name, group, help, FieldKind::text, maybe_list, [&member] { return member; },
                     [&member](const std::string& text, const std::string&) { member = text; }});
}

void FieldVisitor::operator()(const std::string& name, SharedText& member, const std::string& group,
                              const std::string& help) {
  fields_.push_back({name, group, help, FieldKind::text, "", [&member] { return member.str(); },
                     [&member](const std::string& text, const std::string&) {
                       if (member.str() != text) member = text;
                     }});
}

void FieldVisitor::operator()(const std::string& name, std::string& member, const std::string& group,
                              const std::string& help, const Words& words) {
  word(
      name, group, help, words.legal, [&member] { return member; },
      [&member, words](std::size_t chosen) { member = words.legal[chosen]; });
}

void FieldVisitor::operator()(const std::string& name, std::string& member, const std::string& group,
                              const std::string& help, Bytes) {
  fields_.push_back({name, group, help, FieldKind::bytes, "1MB or more", [&member] { return member; },
                     [&member](const std::string& text, const std::string& spelled) {
                       if (!text.empty()) parse_bytes(text, spelled, {least_memory, most_bytes});
                       member = text;
                     }});
}

namespace {

constexpr std::int64_t most_words = 10000;  // of one list

// Removes the end " x3" from "word x3" and returns 3; returns 1 where no such number follows.
std::int64_t taken_times(std::string& word, const std::string& spelled) {
  const auto at = word.find_last_of(' ');
  if (at == std::string::npos || at + 2 >= word.size() || word[at + 1] != 'x') return 1;
  std::int64_t n = 0;
  const auto* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data() + at + 2, end, n);
  if (error != std::errc() || stop != end || n < 1 || n > most_words)
    throw UsageError(
        fmt::format("{}: {}: the number after x must lie between 1 and {}", spelled, shortened_value(word), most_words),
        "for example 'sliding x3'");
  word.erase(word.find_last_not_of(' ', at) + 1);
  return n;
}

}  // namespace

void FieldVisitor::operator()(const std::string& name, std::vector<std::string>& member, const std::string& group,
                              const std::string& help, const WordList& words) {
  const auto set = [&member, legal = words.legal, times = words.times](const std::string& text,
                                                                       const std::string& spelled) {
    refuse_empty(text, spelled);
    std::vector<std::string> chosen;
    for (auto& word : comma_separated(text)) {
      const auto again = times == WordList::Times::yes ? taken_times(word, spelled) : 1;
      if (std::find(legal.begin(), legal.end(), word) == legal.end())
        throw UsageError(fmt::format("{} {}: {} is not known; use {}", spelled, shortened_value(text),
                                     shortened_value(word), fmt::join(legal, ", ")),
                         value_hint(word, legal));
      if (std::ssize(chosen) + again > most_words)
        throw UsageError(fmt::format("{}: more than {} words", spelled, most_words), "shorten the list");
      chosen.insert(chosen.end(), size(again), word);
    }
    member = std::move(chosen);
  };
  fields_.push_back({name, group, help, FieldKind::text, fmt::format("{}{}", some_of, fmt::join(words.legal, ", ")),
                     [&member] { return fmt::format("{}", fmt::join(member, ",")); }, set});
}

void FieldVisitor::operator()(const std::string& name, bool& member, const std::string& group,
                              const std::string& help) {
  word(
      name, group, help, {"off", "on"}, [&member] { return std::string(member ? "on" : "off"); },
      [&member](std::size_t chosen) { member = chosen == 1; });
  fields_.back().kind = FieldKind::toggle;
}

void FieldVisitor::operator()(const std::string& name, std::int64_t& m, const std::string& group,
                              const std::string& help, Range<std::int64_t> r) {
  fields_.push_back(numeric(name, m, group, help, r));
}
void FieldVisitor::operator()(const std::string& name, int& m, const std::string& group, const std::string& help,
                              Range<int> r) {
  fields_.push_back(numeric(name, m, group, help, r));
}
void FieldVisitor::operator()(const std::string& name, std::uint64_t& m, const std::string& group,
                              const std::string& help, Range<std::uint64_t> r) {
  fields_.push_back(numeric(name, m, group, help, r));
}
void FieldVisitor::operator()(const std::string& name, double& m, const std::string& group, const std::string& help,
                              Range<double> r) {
  fields_.push_back(numeric(name, m, group, help, r));
}

namespace {

constexpr double most_samples = 1e15;

Amount amount_of(const std::string& text, const std::string& spelled, const Amounts& legal, const std::string& help) {
  const std::string of_percent = name_of(Amount::Unit::percent), of_samples = name_of(Amount::Unit::samples);
  const auto number_before = [&](const std::string& unit) { return text.substr(0, text.size() - unit.size()); };
  // The whole text in the message: a number without its unit would be another amount.
  const auto in_unit = [&](const std::string& unit, const auto& range) {
    try {
      return parse(number_before(unit), spelled, range, help);
    } catch (const UsageError&) {
      throw UsageError(fmt::format("{} '{}' must be a number from {} to {}{}", spelled, shortened_value(text),
                                   range.low, range.high, unit),
                       help);
    }
  };
  if (text.ends_with(of_percent)) return {in_unit(of_percent, Range<double>{0, 100}), Amount::Unit::percent};
  if (legal.samples && text.ends_with(of_samples))
    return {static_cast<double>(in_unit(of_samples, Range<std::int64_t>{0, static_cast<std::int64_t>(most_samples)})),
            Amount::Unit::samples};
  if (!legal.whole) return parse(text, spelled, legal.range, help);
  const Range<std::int64_t> whole{static_cast<std::int64_t>(legal.range.low),
                                  static_cast<std::int64_t>(legal.range.high)};
  return static_cast<double>(parse(text, spelled, whole, help));
}

}  // namespace

void FieldVisitor::operator()(const std::string& name, Amount& member, const std::string& group,
                              const std::string& help, Amounts legal) {
  fields_.push_back(
      {name, group, help, legal.whole ? FieldKind::integer : FieldKind::number,
       fmt::format("{} to {}, or 0% to 100%{}", legal.range.low, legal.range.high, legal.samples ? ", or samples" : ""),
       [&member] { return text_of(member); },
       [&member, legal, help](const std::string& text, const std::string& spelled) {
         member = amount_of(text, spelled, legal, help);
       }});
}

void FieldVisitor::operator()(const std::string& name, std::vector<std::int64_t>& member, const std::string& group,
                              const std::string& help, Range<std::int64_t> range) {
  const bool may_be_empty = member.empty();
  const auto set = [&member, range, help, may_be_empty](const std::string& text, const std::string& spelled) {
    if (!may_be_empty) refuse_empty(text, spelled);
    std::vector<std::int64_t> numbers;
    if (!text.empty())
      for (const auto& number : comma_separated(text)) numbers.push_back(parse(number, spelled, range, help));
    member = std::move(numbers);
  };
  fields_.push_back({name, group, help, FieldKind::integers,
                     fmt::format("whole numbers from {} to {}", range.low, range.high),
                     [&member] { return fmt::format("{}", fmt::join(member, ",")); }, set});
}

void FieldVisitor::operator()(const std::string& name, std::string& member, const std::string& group,
                              const std::string& help, const DecimalOr& words) {
  const auto set = [&member, words, help](const std::string& text, const std::string& spelled) {
    refuse_empty(text, spelled);
    const bool is_word = std::find(words.words.begin(), words.words.end(), text) != words.words.end();
    if (!is_word && !decimal_of(text))
      throw UsageError(fmt::format("{} '{}' is neither a positive decimal number nor {}", spelled,
                                   shortened_value(text), fmt::join(words.words, " nor ")),
                       fmt::format("1.25 for example: {}", help));
    member = is_word ? text : shortest_decimal(text);
  };
  fields_.push_back({name, group, help, FieldKind::word,
                     fmt::format("a decimal number, or {}", fmt::join(words.words, ", ")), [&member] { return member; },
                     set});
}

void FieldVisitor::word(const std::string& name, const std::string& group, const std::string& help,
                        const std::vector<std::string>& words, std::function<std::string()> get,
                        std::function<void(std::size_t)> choose) {
  const auto set = [words, choose = std::move(choose)](const std::string& text, const std::string& spelled) {
    refuse_empty(text, spelled);
    const auto found = std::find(words.begin(), words.end(), hyphenated(text));
    if (found == words.end())
      throw UsageError(
          fmt::format("{} {} is not known; use {}", spelled, shortened_value(text), fmt::join(words, ", ")),
          value_hint(text, words));
    choose(size(found - words.begin()));
  };
  fields_.push_back(
      {name, group, help, FieldKind::word, fmt::format("{}", fmt::join(words, ", ")), std::move(get), set});
}

void FieldVisitor::spelled(std::map<std::string, std::string> spellings) {
  auto& set = fields_.back().set;
  set = [words = std::move(set), spellings = std::move(spellings)](const std::string& text,
                                                                   const std::string& spelled) {
    const auto found = spellings.find(hyphenated(text));
    words(found == spellings.end() ? text : found->second, spelled);
  };
}

void Complaints::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const UsageError& e) {
    add(e.what(), e.hint());
  }
}

void Complaints::add(std::string message, std::string hint) { list_.emplace_back(std::move(message), std::move(hint)); }

void Complaints::raise() const {
  if (list_.empty()) return;
  if (list_.size() == 1) throw UsageError(list_[0].first, list_[0].second);
  auto text = fmt::format("{} problems:", list_.size());
  for (const auto& [message, hint] : list_)
    text += fmt::format("\n  {}{}", message, hint.empty() ? "" : fmt::format(" ({})", hint));
  throw UsageError(text);
}

Field& field_named(std::vector<Field>& fields, const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (auto& f : fields) {
    if (f.is_named(hyphenated(name))) return f;
    names.push_back(f.name);
  }
  auto hint = advice().on_name(name, names);
  // A field of a table, without the table's name.
  for (const auto& f : names)
    if (hint.empty() && f.ends_with(fmt::format("-{}", hyphenated(name))))
      hint = fmt::format("did you mean '{}', which may also be '{}' in the table [{}]?", f, hyphenated(name),
                         f.substr(0, f.size() - name.size() - 1));
  // The beginning of several keys.
  if (hint.empty()) {
    std::vector<std::string> longer;
    for (const auto& f : names)
      if (f.starts_with(hyphenated(name) + "-")) longer.push_back(f);
    if (!longer.empty() && longer.size() < 10) hint = fmt::format("did you mean {}?", fmt::join(longer, ", "));
  }
  throw UsageError(fmt::format("{}: unknown key '{}'", where, shortened_value(name)),
                   hint.empty() ? "leave it out: no key has this name or a similar one" : hint);
}

Field& field_named_once(std::vector<Field>& fields, const std::string& name, const std::string& where,
                        Spellings& spellings) {
  auto& field = field_named(fields, name, where);
  if (const auto [first, is_new] = spellings.emplace(field.name, name); !is_new)
    throw UsageError(fmt::format("{}: '{}' and '{}' are one key, given twice", where, first->second, name),
                     "leave one of them out");
  return field;
}

void read_environment(std::vector<Field>& fields) {
  Complaints complaints;
  std::vector<std::string> names, hinted;  // `hinted` has no former names and aliases
  for (auto& f : fields) {
    std::string first;
    hinted.push_back(f.name);
    for (const auto& name : f.names()) {
      names.push_back(name);
      const auto variable = variable_of(name);
      const char* text = std::getenv(variable.c_str());
      if (text == nullptr) continue;
      complaints.attempt([&] {
        if (!first.empty())
          throw UsageError(fmt::format("{} and {} are one setting, given twice", first, variable), "unset one of them");
        first = variable;
        refuse_empty(text, variable);
        f.set(text, variable);
        f.source = from_environment;
      });
    }
  }
  complaints.attempt([] { static_cast<void>(shared_memory_wanted()); });
  complaints.attempt([] { static_cast<void>(hopper_wanted()); });
  // Module files set these by habit; no setting has such a name.
  for (const char* place : {"root", "home", "dir", "prefix", "version"}) names.emplace_back(place);
  for (const auto& variable : unknown_variables(names))
    complaints.add(fmt::format("{} is set, but there is no such setting", variable), variable_hint(variable, hinted));
  complaints.raise();
}

void check_fields(const std::vector<Field>& fields, Complaints& complaints) {
  for (const auto& f : fields) complaints.attempt([&] { f.set(f.get(), setting_name(f.name)); });
}

std::string print_fields(const std::vector<Field>& fields) {
  std::string out;
  for (const auto& f : fields) {
    const auto value = f.kind == FieldKind::text ? text_of_path(f.get()) : f.get();
    out += fmt::format("{:<42}  # {}\n", fmt::format("{} = {}", f.name, toml_text(f.kind, value)), one_line(f.source));
  }
  return out;
}

}  // namespace trainyard::base
