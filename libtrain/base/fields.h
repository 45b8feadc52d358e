// Fields: one description of a configuration struct gives its flags, TOML keys, environment variables, ranges and
// --print-config.
#pragma once

#include "libtrain/base/amount.h"
#include "libtrain/base/range.h"
#include "libtrain/base/shared_text.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::base {

// integer_or_text: a whole number, or a text that no number can be.
enum class FieldKind { text, word, bytes, toggle, integer, number, integers, integer_or_text };

// What is known of a setting beside its value. The lists of settings that programs need are made from these.
enum class FieldTrait : unsigned {
  per_rank = 1,        // ranks of a run may have different values
  evaluation = 2,      // an evaluation reads it, too
  free_on_resume = 4,  // a resume may change it without being told: it changes where and how a run computes, not what
  later_in_plans = 8,  // plans of version 1 did not have it from the beginning, and leave it out if it has its default
  identity = 16,       // it belongs to what a run is: a resume changes it only if the user says so
  of_checkpoint = 32,  // an evaluation takes it from the checkpoint unless the user gives it
  divides_ranks = 64,  // decides which ranks work together, so ranks compare it before they form groups
  of_held_experts = 128,  // fits the experts that a rank holds, so a checkpoint for other ranks leaves it out
};

inline constexpr const char *from_default = "default", *from_plan = "plan", *from_environment = "environment",
                            *from_flag = "flag";

// One setting. Names use hyphens: "global-batch" is the flag --global-batch, the TOML key global-batch or global_batch,
// and the variable TRAINYARD_GLOBAL_BATCH. set() throws UsageError when the text is not a legal value. `spelled` begins
// its message: it is what the user wrote before the value, "--steps" or "TRAINYARD_STEPS". A field may have other
// spellings, which flags, TOML keys and variables accept as well.
struct Field {
  std::string name, group, help;
  FieldKind kind = FieldKind::text;
  std::string legal;  // "1 to 4096", "f32, bf16"; empty where any text is legal
  std::function<std::string()> get;
  std::function<void(const std::string& text, const std::string& spelled)> set;
  std::string source = from_default;      // what set it last: one of the four above, or a file's name
  std::vector<std::string> aliases = {};  // short spellings: "tp"
  // The name in earlier versions. It is still accepted, and JSON keeps it as the key for ever.
  std::string former = {};
  // Words whose JSON text keeps its former spelling: "full" is "layers" there.
  std::map<std::string, std::string> former_words = {};
  unsigned traits = 0;  // of FieldTrait
  // One text for the values of a flag that is given several times; nothing: the last counts. Empty for most settings.
  std::function<std::optional<std::string>(const std::vector<std::string>& values)> joined = {};
  // One text for the tables [[NAME]] of a TOML file, each with the texts of its keys. Empty for most settings.
  using Table = std::vector<std::pair<std::string, std::string>>;
  std::function<std::string(const std::vector<Table>& tables)> tables = {};

  bool has(FieldTrait trait) const { return (traits & static_cast<unsigned>(trait)) != 0; }

  bool is_named(const std::string& spelled) const;  // its name, former name, or an alias
  std::vector<std::string> names() const;           // all of these, the name first
};

struct Words {
  std::vector<std::string> legal;
};  // a text that is one of these
// At least one of these words, separated by commas. Times::yes: "word x3" means that word three times, and is stored
// so.
struct WordList {
  enum class Times { no, yes };
  std::vector<std::string> legal;
  Times times = Times::no;
};
struct DecimalOr {
  std::vector<std::string> words;
};
// The legal values of an Amount. `whole`: its own unit takes whole numbers alone, at most 2^53. 100% is the most.
struct Amounts {
  Range<double> range;
  bool whole = false, samples = false;
};
struct MaybeEmpty {};  // a text that may be empty, whatever its default
struct Bytes {};       // a size, "4GB"; empty while it is not set
template <class E> using Choices = std::vector<std::pair<std::string, E>>;

// Collects the fields of a struct: visitor("name", member, "group", "help", the legal values). Every number has a
// range, which is checked wherever the number comes from.
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
  // A positive decimal number, stored as its shortest text (base/decimal.h), or one of some words instead.
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
  void operator()(const std::string& name, Amount& member, const std::string& group, const std::string& help,
                  Amounts legal);
  // Whole numbers, separated by commas. TOML and JSON have a list, or one number alone. The list may be empty where its
  // default is.
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
  // Both set names of the field that was visited last: other spellings, and its name in earlier versions.
  void also(std::vector<std::string> aliases) { fields_.back().aliases = std::move(aliases); }
  void formerly(std::string name, std::vector<std::string> aliases = {}) {
    fields_.back().former = std::move(name);
    also(std::move(aliases));
  }
  // Other spellings of its values. Messages and help name its words alone.
  void spelled(std::map<std::string, std::string> spellings);
  void is(std::initializer_list<FieldTrait> traits) {  // the field that was visited last
    for (const auto trait : traits) fields_.back().traits |= static_cast<unsigned>(trait);
  }
  std::vector<Field> take() { return std::move(fields_); }

 private:
  void word(const std::string& name, const std::string& group, const std::string& help,
            const std::vector<std::string>& words, std::function<std::string()> get,
            std::function<void(std::size_t chosen)> choose);
  std::vector<Field> fields_;
};

// Collects problems, so that a user sees all of them at once.
class Complaints {
 public:
  void attempt(const std::function<void()>& work);  // keeps a UsageError that `work` throws
  void add(std::string message, std::string hint = {});
  void raise() const;  // throws one UsageError for all problems; nothing without any
  const std::vector<std::pair<std::string, std::string>>& list() const { return list_; }  // message, hint

 private:
  std::vector<std::pair<std::string, std::string>> list_;
};

// The field of this name. UsageError names a field that resembles it.
Field& field_named(std::vector<Field>& fields, const std::string& name, const std::string& where);
// The same for each key of one file. UsageError if `said` already has another spelling of the field ("global-batch" and
// "global_batch").
using Spellings = std::map<std::string, std::string>;  // field name to its spelling in the file
Field& field_named_once(std::vector<Field>& fields, const std::string& name, const std::string& where,
                        Spellings& given);
// Reads a TOML file. A table [X] holds the fields "X-...": the key `count` in it is the field "X-count". InputError
// lists all that is wrong with the file: unknown keys and illegal values.
void read_toml(std::vector<Field>& fields, const std::string& path);
// The same for the text of a file, which messages call `path`.
void read_toml_text(std::vector<Field>& fields, const std::string& text, const std::string& path);
void read_environment(std::vector<Field>& fields);  // reads TRAINYARD_NAME; UsageError for unknown variables
// Checks the values of a struct that was not filled from text.
void check_fields(const std::vector<Field>& fields, Complaints& complaints);
std::string print_fields(const std::vector<Field>& fields);  // TOML with each value's source; read_toml reads it

}  // namespace trainyard::base
