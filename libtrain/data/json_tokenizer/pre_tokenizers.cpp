// One function for each type that has parameters.
#include "libtrain/data/json_tokenizer/pre_tokenizers.h"

#include "libtrain/base/error.h"

#include <string>
#include <utility>

namespace trainyard::data::json_tokenizer {

namespace {

using Object = base::SortedJsonObject;
using Json = nlohmann::json;

constexpr std::size_t most_steps = 16;
constexpr int deepest_steps = 4;

// Old files write names of behaviors in lower case.
Behavior behavior_of(Object& o, Behavior otherwise) {
  if (!o.has("behavior")) return otherwise;
  const auto name = o.text("behavior");
  for (const auto& [known, behavior] :
       {std::pair("Isolated", Behavior::isolated), std::pair("Removed", Behavior::removed),
        std::pair("Contiguous", Behavior::contiguous), std::pair("MergedWithPrevious", Behavior::merged_with_previous),
        std::pair("MergedWithNext", Behavior::merged_with_next)})
    if (name == known) return behavior;
  throw base::InputError(fmt::format("{}: the behavior {} is not known", o.where(), base::excerpt(name)),
                         "Isolated, Removed, Contiguous, MergedWithPrevious and MergedWithNext are");
}

Cutter read_split(Object& o) {
  auto finder = Finder::read(o, o.where());
  o.at("behavior");
  const auto behavior = behavior_of(o, Behavior::isolated);
  const bool invert = o.has("invert") && o.boolean("invert");
  const auto scanner = bpe::Scanner::of_pattern(finder.expression());
  // The well-known patterns leave no text between matches, so Removed removes nothing there.
  if (scanner && (behavior == Behavior::isolated || (behavior == Behavior::removed && invert)))
    return ScannerCutter{*scanner};
  return FinderCutter{std::move(finder), behavior, invert};
}

Cutter read_metaspace(Object& o) {
  MetaspaceCutter out;
  out.mark = o.has("replacement") ? o.text("replacement", 16) : "\u2581";
  if (out.mark.empty()) throw base::InputError(o.where() + ": an empty replacement");
  o.has("str_rep");  // an older name of the replacement, which the package ignores
  const bool space = !o.has("add_prefix_space") || o.boolean("add_prefix_space");
  const auto scheme = o.has("prepend_scheme") ? o.text("prepend_scheme") : std::string("always");
  using Prepend = MetaspaceCutter::Prepend;
  if (scheme != "always" && scheme != "first" && scheme != "never")
    throw base::InputError(fmt::format("{}: the prepend_scheme {} is not known", o.where(), base::excerpt(scheme)),
                           "always, first and never are");
  out.prepend = scheme == "never" ? Prepend::never : scheme == "first" ? Prepend::first : Prepend::always;
  // add_prefix_space alone is what older files have.
  if (o.has("add_prefix_space") && !space) {
    if (o.has("prepend_scheme") && out.prepend != Prepend::never)
      throw base::InputError(o.where() + ": add_prefix_space is false, prepend_scheme is " + scheme,
                             "they must say the same");
    out.prepend = Prepend::never;
  }
  out.splits = !o.has("split") || o.boolean("split");
  return out;
}

class PreTokenizerReader {
 public:
  PreTokenizerReader(std::string where, bool keeps_bytes, bool normalizes)
      : where_(std::move(where)), keeps_bytes_(keeps_bytes), normalizes_(normalizes) {}
  PreTokenizers take() { return std::move(out_); }

  void add(const Json& part, int depth) {
    Object o(part, where_);
    const auto type = o.text("type");
    if (type == "Sequence") return add_sequence(o, depth);
    if (out_.of_bytes && keeps_bytes_ && !out_.writes_alphabet) {
      if (type == "ByteLevel") refuse_bytes_of_bytes();
      push(AlphabetCutter());
      out_.writes_alphabet = true;
    }
    if (type == "Split") push(read_split(o));
    else if (type == "Punctuation") push(PropertyCutter{unicode::is_sign, behavior_of(o, Behavior::isolated)});
    else if (type == "Digits") {
      const bool individual = o.has("individual_digits") && o.boolean("individual_digits");
      push(PropertyCutter{unicode::is_number, individual ? Behavior::isolated : Behavior::contiguous});
    } else if (type == "ByteLevel") add_byte_level(o);
    else if (type == "BertPreTokenizer") push(BertCutter());
    else if (type == "Whitespace") push(WordCutter());
    else if (type == "WhitespaceSplit") push(PropertyCutter{unicode::is_space, Behavior::removed});
    else if (type == "CharDelimiterSplit") push(FinderCutter{Finder::of_text(o.text("delimiter")), Behavior::removed});
    else if (type == "FixedLength") push(LengthCutter{o.has("length") ? o.integer("length", 1, 1 << 30) : 5});
    else if (type == "Metaspace") add_metaspace(o);
    else
      throw base::InputError(fmt::format("{}: the pretokenizer {} is not supported", where_, base::excerpt(type)),
                             "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, "
                             "Punctuation, Split, Whitespace and WhitespaceSplit are, alone or in a Sequence");
    o.done();
  }

 private:
  void push(Cutter cutter) {
    out_.cutters.push_back(std::move(cutter));
    if (out_.cutters.size() > most_steps)
      throw base::InputError(
          fmt::format("{}: more than {} pretokenizers, at most {} are supported", where_, most_steps, most_steps));
  }

  void add_sequence(Object& o, int depth) {
    if (depth >= deepest_steps)
      throw base::InputError(fmt::format("{}: sequences in sequences, more than {} deep", where_, deepest_steps));
    for (const auto& part : o.array("pretokenizers")) add(part, depth + 1);
    o.done();
  }

  [[noreturn]] void refuse_bytes_of_bytes() const {
    throw base::InputError(where_ + ": ByteLevel behind ByteLevel would see bytes, not text", "one of them is enough");
  }

  void add_byte_level(Object& o) {
    if (out_.of_bytes) refuse_bytes_of_bytes();
    o.has("trim_offsets");  // positions in the text, which are not used here
    if (o.has("add_prefix_space") && o.boolean("add_prefix_space")) push(PrefixSpaceCutter());
    if (!o.has("use_regex") || o.boolean("use_regex")) push(ScannerCutter{bpe::Scanner(bpe::Scanner::Rules::gpt2)});
    if (!keeps_bytes_) push(AlphabetCutter()), out_.writes_alphabet = true;
    out_.of_bytes = true;
  }

  void add_metaspace(Object& o) {
    auto cutter = read_metaspace(o);
    const bool first = std::get<MetaspaceCutter>(cutter).prepend == MetaspaceCutter::Prepend::first;
    bool writes = false;
    for (const auto& before : out_.cutters)
      writes |= !std::holds_alternative<FinderCutter>(before) && !std::holds_alternative<PropertyCutter>(before) &&
                !std::holds_alternative<BertCutter>(before) && !std::holds_alternative<WordCutter>(before);
    if (first && !out_.cutters.empty() && (writes || normalizes_))
      throw base::InputError(where_ +
                                 ": Metaspace with prepend_scheme first, behind another pretokenizer that writes "
                                 "text, or with a normalizer, is not supported",
                             "put Metaspace first, or use always or never");
    if (out_.writes_alphabet && std::get<MetaspaceCutter>(cutter).prepend != MetaspaceCutter::Prepend::never)
      throw base::InputError(where_ + ": Metaspace behind ByteLevel writes characters that stand for no byte",
                             "one of them is enough");
    push(std::move(cutter));
  }

  std::string where_;
  bool keeps_bytes_, normalizes_;
  PreTokenizers out_;
};

}  // namespace

PreTokenizers read_pre_tokenizers(Object& root, bool keeps_bytes, bool normalizes) {
  PreTokenizerReader reader(root.where() + ": pre_tokenizer", keeps_bytes, normalizes);
  if (root.has("pre_tokenizer") && !root.at("pre_tokenizer").is_null()) reader.add(root.at("pre_tokenizer"), 0);
  return reader.take();
}

}  // namespace trainyard::data::json_tokenizer
