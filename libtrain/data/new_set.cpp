// Checks paths, writes shards and the index, and gives the set its name last.
#include "libtrain/data/new_set.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/own_set.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace trainyard::data {

std::vector<std::string> written_paths(const BuildOptions& options) {
  std::vector<std::string> out;
  const auto set = base::without_slashes(options.output);
  if (!set.empty())
    for (const auto& folder : {set, set + parts_suffix})
      for (const auto* suffix : {"", ".partial", ".replaced.partial", ".removed.partial"})
        out.push_back(folder + suffix);
  if (!options.rejects.empty()) out.push_back(options.rejects);
  return out;
}

void NewSet::check(const BuildOptions& options, const std::vector<std::string>& precious) {
  if (options.pack >= options.shard_tokens)
    throw base::UsageError(base::text("$shard-tokens {} holds no sequence of {} tokens, with one more",
                                      options.shard_tokens, options.pack),
                           base::text("$shard-tokens {} or more", options.pack + 1));
  Refusals::check(options, precious);
  if (options.existing == base::Existing::refuse && std::filesystem::exists(options.output))
    throw base::UsageError(fmt::format("{} exists already", options.output),
                           base::text("give another place, or $force to replace it"));
  base::require_own(base::without_slashes(options.output), own_shard_sets(precious));
}

NewSet::NewSet(const Tokenizer& tokenizer, const BuildOptions& options, const std::vector<std::string>& precious,
               BuildResult& result)
    : tokenizer_(tokenizer), options_(options), result_(result), refusals_(options, result), fields_(options.fields) {
  check(options, precious);
  if (options.writing == BuildOptions::Writing::off) return;
  folder_.emplace(options.output, options.existing, own_shard_sets(precious));
  if (!tokenizer.model().empty())
    base::write_file(folder_->path() + "/" + set_tokenizer_name(tokenizer), tokenizer.model());
  const auto files = std::make_shared<ShardFiles>(folder_->path(), tokenizer);
  const auto writer_for = [&](const char* split) {
    std::unique_ptr<Writer> writer(new Writer{.shards = {files, split, tokenizer, options.shard_tokens}});
    if (options.marks_answers()) writer->shards.mark_answers();
    if (options.pairs) writer->shards.keep_whole();
    if (!options.fields.empty()) writer->shards.keep_fields(options.fields);
    if (options.pack > 0) writer->packing.emplace(writer->shards, options.pack, tokenizer.end_of_document());
    return writer;
  };
  train_ = writer_for("train"), validation_ = writer_for("validation");
  refusals_.open();
}

bool NewSet::is_new(TextHash hash) {
  if (!options_.deduplicate || seen_.insert(hash)) return true;
  ++result_.duplicates;
  --result_.documents;
  return false;
}

void NewSet::add(Split split, std::span<const std::int32_t> tokens, const std::string& source,
                 const DocumentFacts& facts) {
  const bool validation = split == Split::validation;
  (validation ? result_.validation_tokens : result_.train_tokens) += std::ssize(tokens);
  if (const auto unknown = tokenizer_.unknown(); unknown >= 0)
    result_.unknown_tokens += std::count(tokens.begin(), tokens.end(), unknown);
  result_.cut += is_cut(std::ssize(tokens)) ? 1 : 0;
  fields_.add(facts.fields);
  if (!folder_) return;
  auto& writer = writer_of(split);
  if (writer.packing) writer.packing->add(writer.shards.stored(tokens), std::ssize(tokens), source, facts);
  else writer.shards.add(tokens, source, facts);
}

void NewSet::add(const TokenizedStretch& stretch) {
  result_.documents += std::ssize(stretch.documents);
  result_.text_bytes += stretch.text_bytes;
  if (!options_.deduplicate) result_.unknown_tokens += stretch.unknown_tokens;
  stretch.for_each([&](const auto& document, const void* tokens, const DocumentFacts& facts) {
    if (!is_new(document.hash)) return;
    if (options_.deduplicate) result_.unknown_tokens += stretch.unknown_of(document, tokens, tokenizer_.unknown());
    const bool validation = document.split == Split::validation;
    (validation ? result_.validation_tokens : result_.train_tokens) += document.tokens;
    result_.cut += is_cut(document.tokens) ? 1 : 0;
    fields_.add(facts.fields);
    if (!folder_) return;
    auto& writer = writer_of(document.split);
    if (writer.packing) writer.packing->add(tokens, document.tokens, stretch.source, facts);
    else writer.shards.add(tokens, document.tokens, stretch.source, facts);
  });
}

std::vector<ShardEntry> NewSet::finish(Writer& writer) {
  if (writer.packing) {
    writer.packing->finish();
    result_.sequences += writer.packing->sequences(), result_.padding += writer.packing->padding();
  }
  return writer.shards.finish();
}

bool NewSet::is_cut(std::int64_t tokens) const { return options_.pack > 0 && tokens > options_.pack; }

void NewSet::refuse(const Refusal& refusal) { refusals_.add(refusal); }

void NewSet::finish(const std::function<void(const std::string&)>& before) {
  refusals_.finish();
  if (result_.train_tokens == 0)
    throw base::InputError(
        "the input holds no document for training",
        result_.documents == 0
            ? result_.rejected == 0 && result_.empty == 0 && result_.too_long == 0
                  ? "is it empty?"
                  : "give text that is not refused and not empty: " + left_out_text(result_)
            : base::text("all went to validation: $validation 0 keeps them, or split it into more documents"));
  result_.absent_fields = fields_.absent();
  if (!folder_) return;
  SetIndex index = index_for(tokenizer_);
  index.train = finish(*train_);
  index.validation = finish(*validation_);
  index.packed_sequence = options_.pack;
  index.answers = options_.marks_answers();
  index.pairs = options_.pairs;
  if (tokenizer_.unknown() >= 0) index.unknown_tokens = result_.unknown_tokens;
  result_.train_shards = static_cast<std::int64_t>(index.train.size());
  result_.validation_shards = static_cast<std::int64_t>(index.validation.size());
  const auto text = index_to_json(index).dump(1) + "\n";
  if (before) before(text);
  base::write_file(folder_->path() + "/index.json", text);
  folder_->publish();
}

}  // namespace trainyard::data
