// Reads NFC; Split, Punctuation, Digits and ByteLevel, alone or in a sequence.
#include "libtrain/data/bpe/steps.h"

#include "libtrain/base/error.h"
#include "libtrain/data/bpe/scanner.h"

#include <string>

namespace trainyard::data::bpe {

namespace {

using Object = base::SortedJsonObject;

bool absent(Object& root, const char* key) { return !root.has(key) || root.at(key).is_null(); }

void add_split(Object& o, std::vector<Step>& steps) {
  auto pattern = o.object("pattern");
  Step step;
  if (pattern.has("String")) step = {Step::Kind::literal, pattern.text("String")};
  else step.text = pattern.text("Regex");
  pattern.done();
  if (step.text.empty()) throw base::InputError(o.where() + ": an empty pattern", "it cuts nothing: leave it out");
  const auto behavior = o.text("behavior");
  const bool invert = o.has("invert") && o.boolean("invert");
  o.done();
  // The well-known patterns leave no text between matches, so Removed removes nothing.
  const bool nothing_removed =
      behavior == "Removed" && invert && step.kind == Step::Kind::pattern && Scanner::of_pattern(step.text).has_value();
  if (behavior != "Isolated" && !nothing_removed)
    throw base::InputError(fmt::format("{}: the behavior {} is not supported", o.where(), base::excerpt(behavior)),
                           "Isolated is");
  steps.push_back(std::move(step));
}

void add_byte_level(Object& o, std::vector<Step>& steps) {
  o.has("trim_offsets");  // positions in the text, which are not used here
  if (o.has("add_prefix_space") && o.boolean("add_prefix_space")) steps.push_back({Step::Kind::prefix_space});
  if (!o.has("use_regex") || o.boolean("use_regex")) steps.push_back({Step::Kind::pattern, gpt2_pattern});
  o.done();
}

void add_digits(Object& o, std::vector<Step>& steps) {
  const bool individual = o.has("individual_digits") && o.boolean("individual_digits");
  o.done();
  steps.push_back({Step::Kind::pattern, individual ? "\\p{N}" : "\\p{N}+"});
}

void add_punctuation(Object& o, std::vector<Step>& steps) {
  const auto behavior = o.has("behavior") ? o.text("behavior") : std::string("Isolated");
  o.done();
  if (behavior != "Isolated" && behavior != "Contiguous")
    throw base::InputError(fmt::format("{}: the behavior {} is not supported", o.where(), base::excerpt(behavior)),
                           "Isolated and Contiguous are");
  steps.push_back({behavior == "Isolated" ? Step::Kind::punctuation : Step::Kind::punctuations});
}

}  // namespace

bool composes(Object& root) {
  if (absent(root, "normalizer")) return false;
  auto normalizer = root.object("normalizer");
  const auto type = normalizer.text("type");
  std::vector<std::string> types;
  if (type == "Sequence")
    for (const auto& part : normalizer.array("normalizers")) types.push_back(Object(part, root.where()).text("type"));
  else types.push_back(type);
  for (const auto& one : types)
    if (one != "NFC")
      throw base::InputError(fmt::format("{}: the normalizer {} is not supported", root.where(), base::excerpt(one)),
                             "NFC is; text for another is normalised before, and \"normalizer\" set to null");
  return !types.empty();
}

void require_byte_level_decoder(Object& root) {
  if (absent(root, "decoder")) return;
  const auto type = root.object("decoder").text("type");
  if (type != "ByteLevel")
    throw base::InputError(
        fmt::format("{}: the decoder {} is not that of byte-level BPE", root.where(), base::excerpt(type)),
        "byte-level BPE (GPT-2, Llama 3) is supported; for Llama 2 give tokenizer.model, a "
        "SentencePiece model");
}

std::vector<Step> steps_of(Object& root) {
  const auto missing = [&](const std::string& found) {
    return base::InputError(
        fmt::format("{}: the pre_tokenizer is {}, and does not end in ByteLevel", root.where(), found),
        "byte-level BPE (GPT-2, Llama 3) is supported; for Llama 2 give tokenizer.model, a SentencePiece model");
  };
  if (absent(root, "pre_tokenizer")) throw missing("absent");
  auto first = root.object("pre_tokenizer");
  const auto name = first.text("type");
  std::vector<nlohmann::json> parts{root.at("pre_tokenizer")};
  if (name == "Sequence") {
    const auto& list = first.array("pretokenizers");
    first.done();
    if (list.size() > most_steps)
      throw base::InputError(
          fmt::format("{}: {} pretokenizers, at most {} are supported", root.where(), list.size(), most_steps));
    parts.clear();
    for (const auto& part : list) parts.push_back(part);
  }
  std::vector<Step> steps;
  bool bytes = false;
  int steps_behind = 0;
  for (const auto& part : parts) {
    Object o(part, root.where() + ": pre_tokenizer");
    const auto type = o.text("type");
    if (bytes && type == "ByteLevel")
      throw base::InputError(root.where() + ": ByteLevel behind ByteLevel would see bytes, not text",
                             "one of them is enough");
    if (bytes && steps_behind++ == 0) steps.push_back({Step::Kind::alphabet});
    if (type == "Split") add_split(o, steps);
    else if (type == "Punctuation") add_punctuation(o, steps);
    else if (type == "Digits") add_digits(o, steps);
    else if (type == "ByteLevel") add_byte_level(o, steps), bytes = true;
    else
      throw base::InputError(fmt::format("{}: the pretokenizer {} is not supported", root.where(), base::excerpt(type)),
                             "Split, Punctuation, Digits and ByteLevel are, alone or in a Sequence");
  }
  if (!bytes) throw missing(parts.empty() ? "empty" : base::excerpt(name));
  return steps;
}

}  // namespace trainyard::data::bpe
