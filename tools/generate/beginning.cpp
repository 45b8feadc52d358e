// Decides what precedes a prompt by the origin of the weights.
#include "tools/generate/beginning.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/document_tokens.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace trainyard::generate {

namespace {

using Ids = std::vector<std::int32_t>;

struct Said {
  Ids tokens;
  std::string by;
};

// The first bos_token_id of the imported config.json, if the model has a row for it.
std::optional<std::int32_t> imported_begin(const checkpoint::RunState& state) {
  const auto id = checkpoint::imported_begin_id(state.provenance);
  return id >= 0 && id < state.model.vocabulary ? std::optional(id) : std::nullopt;
}

Said recorded_of_imported(std::int32_t recorded, const data::Tokenizer& tokenizer, const data::BeginBeside& beside) {
  const bool denied = beside.added && !*beside.added;
  if (auto before = tokenizer.before_text(); !before.empty())
    return {std::move(before), fmt::format("the post_processor of {} says{}", base::one_line(tokenizer.name()),
                                           denied ? ", and not add_bos_token" : "")};
  if (denied && recorded < 0) return {};
  if (recorded >= 0) return {{recorded}, "the files of the imported model said"};
  if (!beside.added || beside.token.empty()) return {};
  const auto id = tokenizer.token_named(beside.token);
  if (id < 0)
    throw base::InputError(
        fmt::format("tokenizer_config.json puts {} before each text, which tokenizer {} does not have",
                    base::excerpt(beside.token), base::one_line(tokenizer.name())),
        "correct bos_token or add_bos_token there, or give --no-bos");
  return {{id}, "add_bos_token of tokenizer_config.json says"};
}

void require_rows(const Ids& tokens, const data::Tokenizer& tokenizer, std::int64_t rows) {
  for (const auto id : tokens)
    if (id < 0 || id >= rows)
      throw base::InputError(fmt::format("token {} is to stand before each text, the model's vocabulary has {} tokens",
                                         names_of(tokenizer, {id}), rows),
                             "give the tokenizer of this model (--tokenizer), or --no-bos");
}

Beginning of_imported(const checkpoint::RunState& state, std::int32_t recorded, const data::Tokenizer& tokenizer,
                      const data::BeginBeside& beside) {
  auto given = recorded_of_imported(recorded, tokenizer, beside);
  Beginning out;
  out.tokens = given.tokens;
  out.alone = std::move(given.tokens);
  if (!out.tokens.empty())
    out.reported = fmt::format("{} is put before the text, as {}. --no-bos leaves it out",
                               names_of(tokenizer, out.tokens), given.by);
  else out.alone = {imported_begin(state).value_or(tokenizer.end_of_document())};
  return out;
}

// Whether no document saw an end of document before its own tokens: each saw itself alone, or the run began with
// imported weights that were fed nothing there.
bool saw_nothing_before(const checkpoint::RunState& state, const data::Tokenizer& tokenizer) {
  if (state.identity.is_object() && state.identity.value("document_mask", nlohmann::json()) == "on") return true;
  const auto& p = state.provenance;
  if (tokenizer.source() == "bytes" || !p.is_object() || !p.contains("weights_from") || !p.contains("hugging_face"))
    return false;
  const bool may_begin = checkpoint::imported_begin_id(p) >= 0 || !tokenizer.before_text().empty();
  return !checkpoint::imported_begins_texts(p).value_or(may_begin);
}

Beginning of_trained(const checkpoint::RunState& state, std::int32_t recorded, const data::Tokenizer& tokenizer) {
  if (recorded < 0 && saw_nothing_before(state, tokenizer))
    return {{}, {imported_begin(state).value_or(tokenizer.end_of_document())}, ""};
  const Ids begin{recorded >= 0 ? recorded : tokenizer.end_of_document()};
  Beginning out{begin, begin, ""};
  out.reported =
      fmt::format("{} is put before the text, as {} of the training data. --no-bos leaves it out",
                  names_of(tokenizer, begin), recorded >= 0 ? "before each document" : "between the documents");
  if (recorded >= 0) return out;
  if (const auto usual = tokenizer.before_text(); !usual.empty() && usual != begin) {
    out.reported = fmt::format(
        "{} is put before the text, as between the documents of the training data. They do not begin with {}, as the "
        "post_processor of {} has it (shard-data --begin-of-document)",
        names_of(tokenizer, begin), names_of(tokenizer, usual), base::one_line(tokenizer.name()));
  }
  return out;
}

}  // namespace

Beginning beginning_of(const checkpoint::RunState& state, const data::Tokenizer& tokenizer,
                       const data::BeginBeside& beside) {
  const auto recorded = checkpoint::document_ids_of(state.provenance).begin;
  const bool came_back = recorded < 0 && tokenizer.source() == "bytes";  // only our programs have this tokenizer
  auto out = is_imported(state) && !came_back ? of_imported(state, recorded, tokenizer, beside)
                                              : of_trained(state, recorded, tokenizer);
  require_rows(out.tokens, tokenizer, state.model.vocabulary);
  return out;
}

std::string names_of(const data::Tokenizer& tokenizer, const std::vector<std::int32_t>& tokens) {
  std::vector<std::string> parts;
  for (const auto id : tokens) {
    auto name = tokenizer.name_of_token(id);
    if (name.empty() && id == tokenizer.end_of_document()) name = "end of document";
    parts.push_back(name.empty() ? fmt::format("token {}", id)
                                 : fmt::format("{} (token {})", base::one_line(name), id));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

bool is_imported(const checkpoint::RunState& state) {
  return state.provenance.is_object() && state.provenance.contains("imported_from");
}

}  // namespace trainyard::generate
