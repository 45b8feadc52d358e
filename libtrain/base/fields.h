// Fields: one description of a configuration struct gives its flags, its TOML keys, its environment variables, its
// ranges and --print-config.
#pragma once

#include "libtrain/base/range.h"
#include "libtrain/base/shared_text.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::base {

enum class FieldKind { text, word, bytes, toggle, integer, number, integers };

inline constexpr const char *from_default = "default", *from_plan = "plan", *from_environment = "environment",
                            *from_flag = "flag";

// One setting. Names use hyphens ("global-batch"): flag --global-batch, TOML key global-batch or global_batch,
// environment TRAINYARD_GLOBAL_BATCH. set() throws UsageError when the text is not a legal value; `spelled` is what the
// user wrote before it, "--steps" or "TRAINYARD_STEPS", and begins the message. A field may have other spellings, which
// flags, TOML keys and variables may have in its place.
struct Field {
  std::string name, group, help;
  FieldKind kind = FieldKind::text;
  std::string legal;  // "1 to 4096", "f32, bf16"; empty where any text will do
  std::function<std::string()> get;
  std::function<void(const std::string& text, const std::string& spelled)> set;
  std::string source = from_default;      // who set it last: one of the four above, or a file's name
  std::vector<std::string> aliases = {};  // short spellings: "tp"
  std::string former = {};  // the name of earlier versions, still accepted; JSON has it as the key for ever
  std::map<std::string, std::string> former_words = {};  // values that JSON has as they were: "full" is "layers" there

  bool is_named(const std::string& spelled) const;  // its name, its former name, or an alias
  std::vector<std::string> names() const;           // all of these, the name first
};

struct Words {
  std::vector<std::string> legal;
};  // a text that is one of these
// Some of these, comma-separated, at least one. Times: "word x3" is that word three times, which is how it is kept.
struct WordList {
  enum class Times { no, yes };
  std::vector<std::string> legal;
  Times times = Times::no;
};
struct DecimalOr {
  std::vector<std::string> words;
};
struct MaybeEmpty {};  // a text that may be empty, whatever its default
struct Bytes {};       // a size, "4GB"; empty while it is not said
template <class E> using Choices = std::vector<std::pair<std::string, E>>;

// Collects fields of a struct: visitor("name", member, "group", "help", what it may be). Every number has a range: it
// is checked wherever the number comes from.
class FieldVisitor {
 public:
  void operator()(const std::string& name, std::string& member, const std::string& group, const std::string& help);
  void operator()(const std::string& name, std::string& member, const std::string& group, const std::string& help,
                  MaybeEmpty);
  void operator()(const std::string& name, SharedText& member, const std::string& group, const std::string& help);
  void operator()(const std::string& name, std::string& member, const std::string& group, const std::string& help,
                  const Words& words);
  void operator()(const std::string& name, std::string& member, const std::string& group, const std::string& help,
                  Bytes);
  void operator()(const std::string& name, std::vector<std::string>& member, const std::string& group,
                  const std::string& help, const WordList& words);
  void operator()(const std::string& name, bool& member, const std::string& group,
                  const std::string& help);  // on or off
  // A positive decimal number, kept as it is written (base/decimal.h), or one of some words instead.
  void operator()(const std::string& name, std::string& member, const std::string& group, const std::string& help,
                  const DecimalOr& words);
  void operator()(const std::string& name, std::int64_t& member, const std::string& group, const std::string& help,
                  Range<std::int64_t> range);
  void operator()(const std::string& name, int& member, const std::string& group, const std::string& help,
                  Range<int> range);
  void operator()(const std::string& name, std::uint64_t& member, const std::string& group, const std::string& help,
                  Range<std::uint64_t> range);
  void operator()(const std::string& name, double& member, const std::string& group, const std::string& help,
                  Range<double> range);
  // Whole numbers, comma-separated; TOML and JSON have a list, or one number alone. Empty where the default is.
  void operator()(const std::string& name, std::vector<std::int64_t>& member, const std::string& group,
                  const std::string& help, Range<std::int64_t> range);
  template <class E> void operator()(const std::string& name, E& member, const std::string& group,
                                     const std::string& help, const Choices<E>& choices) {
    std::vector<std::string> words;
    for (const auto& [word, value] : choices) words.push_back(word);
    const auto get = [&member, choices] {
      for (const auto& [word, value] : choices)
        if (value == member) return word;
      return std::string();
    };
    word(name, group, help, words, get, [&member, choices](std::size_t chosen) { member = choices[chosen].second; });
  }
  // Of the field that was visited last: other spellings, and the name of earlier versions.
  void also(std::vector<std::string> aliases) { fields_.back().aliases = std::move(aliases); }
  void formerly(std::string name, std::vector<std::string> aliases = {}) {
    fields_.back().former = std::move(name);
    also(std::move(aliases));
  }
  std::vector<Field> take() { return std::move(fields_); }

 private:
  void word(const std::string& name, const std::string& group, const std::string& help,
            const std::vector<std::string>& words, std::function<std::string()> get,
            std::function<void(std::size_t chosen)> choose);
  std::vector<Field> fields_;
};

// What is wrong, gathered so that a user hears of all of it at once.
class Complaints {
 public:
  void attempt(const std::function<void()>& work);  // keeps the UsageError that it throws
  void add(std::string message, std::string hint = {});
  void raise() const;  // one UsageError for all; none where nothing was wrong
  const std::vector<std::pair<std::string, std::string>>& list() const { return list_; }  // message, hint

 private:
  std::vector<std::pair<std::string, std::string>> list_;
};

Field& field_named(std::vector<Field>& fields, const std::string& name,
                   const std::string& where);  // UsageError names one that resembles it
// The same for each key of one file: UsageError for a second spelling of a field that `said` has already
// ("global-batch" and "global_batch").
using Spellings = std::map<std::string, std::string>;  // of each field, how the file spells it
Field& field_named_once(std::vector<Field>& fields, const std::string& name, const std::string& where, Spellings& said);
// A table [X] stands for the fields "X-...": `count` in it is "X-count". InputError for all that is wrong with the
// file: unknown keys, illegal values.
void read_toml(std::vector<Field>& fields, const std::string& path);
void read_environment(std::vector<Field>& fields);  // TRAINYARD_NAME; UsageError for a variable that nobody reads
void check_fields(const std::vector<Field>& fields, Complaints& complaints);  // of a struct that was filled otherwise
std::string print_fields(const std::vector<Field>& fields);  // TOML with the source of each value; read_toml reads it

}  // namespace trainyard::base
