// Writes the tokenizer and the files beside it, and compares ids with what transformers makes of them.
#include "libtrain/checkpoint/export_tokens.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/companions.h"
#include "libtrain/checkpoint/document_tokens.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace trainyard::checkpoint {

namespace {

constexpr const char *settings_name = "tokenizer_config.json", *generation_name = "generation_config.json";

bool lists_file(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

nlohmann::ordered_json object_at(const std::string& path) {
  auto read = nlohmann::ordered_json::parse(base::read_file(path), nullptr, false);
  return read.is_object() ? read : nlohmann::ordered_json();
}

// Whether a token of this name is there for padding, or for nothing yet.
bool is_for_padding(const std::string& name) {
  auto lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return is_sign(name) && (lower.find("pad") != std::string::npos || lower.find("unused") != std::string::npos ||
                           lower.find("reserved") != std::string::npos);
}

bool made_of_bytes(const nlohmann::json& provenance) {
  const auto tokenizer = provenance.value("tokenizer", nlohmann::json());
  return tokenizer.is_object() && tokenizer.value("source", nlohmann::json()) == "bytes";
}

// The mask of the run, else the tokenizer's; -1: the model has none.
std::int32_t mask_of(const RunState& state, const std::optional<FileTokens>& tokens) {
  if (state.model.attention.causal) return -1;
  const auto mask =
      state.identity.is_object() ? state.identity.value("mask_token", nlohmann::json()) : nlohmann::json();
  if (mask.is_number_integer()) return mask.get<std::int32_t>();
  return tokens ? tokens->mask : -1;
}

}  // namespace

ExportedTokens::ExportedTokens(const Reader& source, const ReadTokens& read)
    : source_(source), provenance_(source.state().provenance), tokenizer_(kept_tokenizer(source.path(), provenance_)) {
  if (!tokenizer_.path.empty() && read) tokens_ = read(tokenizer_.path);
  const auto ids = document_ids_of(provenance_);
  ids_ = {ids.end, ids.begin, mask_of(source.state(), tokens_)};
}

std::int64_t ExportedTokens::bytes() const { return companion_bytes(provenance_) + std::ssize(tokenizer_.content); }

void ExportedTokens::require_padding(const char* model_type, std::vector<std::string>& warnings) const {
  const auto offset = source_.state().model.position_offset;
  if (offset == 0 || !provenance_.is_object() || !provenance_.contains("tokenizer") ||
      provenance_.contains("imported_from") || has_imported_tokenizer(provenance_))
    return;
  const auto id = static_cast<std::int32_t>(offset - 1);
  const bool bytes = made_of_bytes(provenance_);
  auto name = tokens_ ? tokens_->name(id) : std::string();
  if (bytes && id < 256) name = fmt::format("byte {}", id);
  const bool in_all = id == ids_.end || id == ids_.begin || id == ids_.mask;
  if (!in_all && (bytes || tokens_) && (name.empty() || is_for_padding(name))) return;
  const auto* part = id == ids_.mask    ? "the mask"
                     : id == ids_.end   ? "the end of documents"
                     : id == ids_.begin ? "the beginning of documents"
                                        : "";
  const auto what = fmt::format("token {}{}{}", id, name.empty() ? "" : ", " + base::excerpt(name),
                                *part == '\0' ? std::string() : fmt::format(", {},", part));
  const auto why = fmt::format(
      "{} of the run's tokenizer is padding in a {} of transformers, whose positions begin behind the id of padding "
      "(position-offset is {})",
      what, model_type, offset);
  constexpr int first_visible = 32;
  const bool rare =
      bytes ? id < first_visible && (id < '\t' || id > '\r') : !tokens_ || (is_sign(name) && id != tokens_->unknown);
  // Imported weights have their offset, whatever the run's tokenizer.
  if (in_all || (!rare && !provenance_.contains("hugging_face")))
    throw base::InputError(
        fmt::format("{}: {}: it would count no position for this token", source_.path(), why),
        base::text("train with position-offset one above the id of a padding token; the first $special-token of a new "
                   "tokenizer has the id 1, '<pad>' for example"));
  warnings.push_back(
      !bytes && !tokens_
          ? fmt::format("nothing says what {}; a text that has it needs position_ids there: {}, {}, ...", why, offset,
                        offset + 1)
          : fmt::format("{}: a text that has it needs position_ids there: {}, {}, ...", why, offset, offset + 1));
}

std::vector<std::string> ExportedTokens::write(const std::string& folder, std::vector<std::string>& warnings) const {
  std::vector<std::string> names;
  if (has_other_tokenizer(provenance_)) {
    if (companion_bytes(provenance_) > 0)
      warnings.push_back(fmt::format(
          "the run has another tokenizer than the imported model: its files about tokens in {} are left out",
          base::one_line(recorded_folder(provenance_))));
  } else {
    names = copy_companions(provenance_, folder, warnings);
    if (may_have_other_tokenizer(provenance_))
      warnings.push_back(
          fmt::format("nothing says whether the run's tokenizer is the imported model's, whose folder {} had none: the "
                      "ids in its files are kept",
                      base::one_line(recorded_folder(provenance_))));
  }
  if (const auto path = folder + "/" + generation_name; lists_file(names, generation_name))
    if (auto generation = object_at(path); generation.is_object()) {
      const auto before = generation;
      use_ids_of_run(provenance_, generation);
      if (generation != before) base::write_file(path, generation.dump(2) + "\n");
    }
  const bool own = !tokenizer_.path.empty() &&
                   std::none_of(names.begin(), names.end(), [](const auto& name) { return is_tokenizer(name); });
  if (own) {
    names.emplace_back(tokenizer_.name.ends_with(".json") ? "tokenizer.json" : "tokenizer.model");
    base::write_file(folder + "/" + names.back(), tokenizer_.content);
  }
  write_settings(folder, own, names, warnings);
  return names;
}

// Whether documents of the run begin with a token that the imported model's texts did not begin with.
bool ExportedTokens::begins_otherwise() const {
  if (ids_.begin < 0 || provenance_.contains("imported_from")) return false;
  return has_other_tokenizer(provenance_) || !imported_begins_texts(provenance_).value_or(false) ||
         imported_begin_id(provenance_) != ids_.begin;
}

void ExportedTokens::write_settings(const std::string& folder, bool own_tokenizer, std::vector<std::string>& names,
                                    std::vector<std::string>& warnings) const {
  const auto path = folder + "/" + settings_name;
  const bool there = lists_file(names, settings_name);
  if (own_tokenizer && !there) {
    base::write_file(path, tokenizer_config(tokenizer_, tokens_, ids_).dump(2) + "\n");
    names.emplace_back(settings_name);
  } else if (const auto token = special_name(tokenizer_, tokens_, ids_.begin); begins_otherwise() && !token.empty()) {
    auto settings = there ? object_at(path) : nlohmann::ordered_json::object();
    settings["bos_token"] = token, settings["add_bos_token"] = true;
    base::write_file(path, settings.dump(2) + "\n");
    if (!there) names.emplace_back(settings_name);
  }
  if (const auto why = begins_otherwise() ? why_no_beginning(names) : std::string(); !why.empty())
    warnings.push_back(fmt::format("texts of the run begin with token {}, which {}", ids_.begin, why));
}

std::string ExportedTokens::why_no_beginning(const std::vector<std::string>& names) const {
  if (std::none_of(names.begin(), names.end(), [](const auto& name) { return is_tokenizer(name); }))
    return "nothing in the exported folder says: it has no tokenizer";
  if (special_name(tokenizer_, tokens_, ids_.begin).empty())
    return "tokenizer_config.json does not say: the token has no name";
  if (lists_file(names, "tokenizer.json") && tokens_ && tokens_->before_text != std::vector{ids_.begin})
    return fmt::format(
        "AutoTokenizer of transformers {} before a text: it goes by the post_processor of "
        "tokenizer.json; bos_token of tokenizer_config.json names the token",
        tokens_->before_text.empty() ? "does not put" : "does not put alone");
  return {};
}

}  // namespace trainyard::checkpoint
