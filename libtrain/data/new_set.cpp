// Checks paths, writes shards and the index, and gives the set its name last.
#include "libtrain/data/new_set.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/own_set.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace trainyard::data {

namespace {

// Refuses a list of refusals inside the set's folders. No index names such a file, so the set would not be ours any
// more, or the list would be removed with unfinished files.
void refuse_rejects_within_output(const BuildOptions& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  auto set = fs::weakly_canonical(base::absolute_path(options.output), error);
  if (!set.has_filename()) set = set.parent_path();  // for "data/"
  const auto list = fs::weakly_canonical(base::absolute_path(options.rejects), error);
  for (const auto* suffix : {"", ".partial", ".replaced.partial", parts_suffix}) {
    const fs::path folder = set.string() + suffix;
    if (base::is_within(list, folder))
      throw base::UsageError(
          base::text("$rejects {} lies in the folder of the shard set {}", options.rejects, options.output),
          "name a file beside that folder");
  }
}

// Checks the path of the list of refusals. An existing file is replaced only if it is such a list and replacing is
// asked for.
void refuse_foreign_rejects(const BuildOptions& options, std::vector<std::string> precious) {
  const auto& path = options.rejects;
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  const auto type = std::filesystem::is_symlink(status) && std::filesystem::exists(path, error)
                        ? std::filesystem::status(path, error).type()
                        : status.type();
  if (type == std::filesystem::file_type::not_found || std::filesystem::is_other(std::filesystem::file_status(type)))
    return;  // a device or a pipe holds no data to lose
  if (options.existing == base::Existing::refuse)
    throw base::UsageError(base::text("$rejects {} exists already", path),
                           base::text("name another file, or $force to replace it"));
  base::require_own(path, own_reject_lists(std::move(precious)));
}

}  // namespace

std::vector<std::string> written_paths(const BuildOptions& options) {
  std::vector<std::string> out;
  const auto set = base::without_slashes(options.output);
  for (const auto& folder : {set, set + parts_suffix})
    for (const auto* suffix : {"", ".partial", ".replaced.partial", ".removed.partial"}) out.push_back(folder + suffix);
  if (!options.rejects.empty()) out.push_back(options.rejects);
  return out;
}

void NewSet::check(const BuildOptions& options, const std::vector<std::string>& precious) {
  if (options.pack >= options.shard_tokens)
    throw base::UsageError(base::text("$shard-tokens {} holds no sequence of {} tokens, with one more",
                                      options.shard_tokens, options.pack),
                           base::text("$shard-tokens {} or more", options.pack + 1));
  if (!options.rejects.empty()) {
    refuse_rejects_within_output(options);
    refuse_foreign_rejects(options, precious);
  }
  if (options.existing == base::Existing::refuse && std::filesystem::exists(options.output))
    throw base::UsageError(fmt::format("{} exists already", options.output),
                           base::text("give another place, or $force to replace it"));
  base::require_own(base::without_slashes(options.output), own_shard_sets(precious));
}

NewSet::NewSet(const Tokenizer& tokenizer, const BuildOptions& options, const std::vector<std::string>& precious,
               BuildResult& result)
    : tokenizer_(tokenizer), options_(options), result_(result) {
  check(options, precious);
  if (options.writing == BuildOptions::Writing::off) return;
  folder_.emplace(options.output, options.existing, own_shard_sets(precious));
  if (!tokenizer.model().empty())
    base::write_file(folder_->path() + "/" + set_tokenizer_name(tokenizer), tokenizer.model());
  const auto files = std::make_shared<ShardFiles>(folder_->path(), tokenizer);
  const auto writer_for = [&](const char* split) {
    std::unique_ptr<Writer> writer(new Writer{.shards = {files, split, tokenizer, options.shard_tokens}});
    if (options.chat) writer->shards.mark_answers();
    if (!options.fields.empty()) writer->shards.keep_fields(options.fields);
    if (options.pack > 0) writer->packing.emplace(writer->shards, options.pack, tokenizer.end_of_document());
    return writer;
  };
  train_ = writer_for("train"), validation_ = writer_for("validation");
  if (options.rejects.empty()) return;
  rejects_.open(options.rejects, std::ios::trunc);
  if (!rejects_)
    throw base::EnvironmentError(fmt::format("cannot write {}: {}", options.rejects, std::strerror(errno)));
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

void NewSet::refuse(const Refusal& r) {
  const bool empty = r.reason == empty_document;
  ++(empty ? result_.empty : result_.rejected);
  if (!empty && result_.first_refusals.size() < first_refusals_kept) result_.first_refusals.push_back(r);
  if (rejects_.is_open()) rejects_ << r.source << '\t' << r.line << '\t' << r.reason << '\n';
}

void NewSet::finish(const std::function<void(const std::string&)>& before) {
  if (rejects_.is_open()) {
    rejects_.close();
    if (rejects_.fail())
      throw base::EnvironmentError(fmt::format("cannot write {}", options_.rejects), "is the disk full?");
  }
  const auto all = result_.documents + result_.rejected;
  if (all > 0 && static_cast<double>(result_.rejected) > options_.largest_rejected * static_cast<double>(all))
    too_many_refused(all);
  if (result_.train_tokens == 0)
    throw base::InputError(
        "the input holds no document for training",
        result_.documents == 0
            ? result_.rejected == 0 && result_.empty == 0
                  ? "is it empty?"
                  : "give text that is not refused and not empty: " + left_out_text(result_)
            : base::text("all went to validation: $validation 0 keeps them, or split it into more documents"));
  if (!folder_) return;
  SetIndex index = index_for(tokenizer_);
  index.train = finish(*train_);
  index.validation = finish(*validation_);
  index.packed_sequence = options_.pack;
  index.answers = options_.chat;
  if (tokenizer_.unknown() >= 0) index.unknown_tokens = result_.unknown_tokens;
  result_.train_shards = static_cast<std::int64_t>(index.train.size());
  result_.validation_shards = static_cast<std::int64_t>(index.validation.size());
  const auto text = index_to_json(index).dump(1) + "\n";
  if (before) before(text);
  base::write_file(folder_->path() + "/index.json", text);
  folder_->publish();
}

namespace {

// The keys of the first line of a file of JSON lines that hold text: "content, title". Empty if it cannot be said.
std::string text_keys_of(const std::string& path) {
  constexpr std::size_t longest = 1 << 20;
  std::ifstream file(base::path_of_text(path), std::ios::binary);
  std::string line(longest, '\0');
  file.read(line.data(), static_cast<std::streamsize>(longest));
  line.resize(base::size(file.gcount()));
  line.resize(std::min(line.find('\n'), line.size()));
  const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
  std::vector<std::string> keys;
  if (json.is_object())
    for (const auto& item : json.items())
      if (item.value().is_string() && keys.size() < 10) keys.push_back(base::one_line(item.key()));
  return fmt::format("{}", fmt::join(keys, ", "));
}

// What to try for a reason of a refusal; empty for most.
std::string remedy_for(const Refusal& refusal) {
  if (refusal.reason.starts_with("no key '")) {
    const auto keys = text_keys_of(refusal.source);
    return base::text("$json-key NAME takes the text from another key; ") +
           (keys.empty() ? "" : fmt::format("with text there are: {}; ", keys));
  }
  if (refusal.reason == "invalid UTF-8") return "text in Latin-1 becomes UTF-8 by iconv -f ISO-8859-1 -t UTF-8; ";
  return {};
}

}  // namespace

void NewSet::too_many_refused(std::int64_t all) const {
  auto text = fmt::format("{} of {} documents were refused, {:g} % are allowed", result_.rejected, all,
                          100 * options_.largest_rejected);
  for (const auto& r : result_.first_refusals) text += "\n  " + text_of(r);
  if (const auto more = result_.rejected - static_cast<std::int64_t>(result_.first_refusals.size()); more > 0)
    text += fmt::format("\n  and {} more", more);
  const auto list = options_.rejects.empty() ? base::text("$rejects FILE lists them")
                    : options_.writing == BuildOptions::Writing::on
                        ? fmt::format("see {}", options_.rejects)
                        : base::text("without $dry-run, {} lists them", options_.rejects);
  throw base::InputError(text,
                         remedy_for(result_.first_refusals.front()) + list + base::text("; $max-rejects allows more"));
}

}  // namespace trainyard::data
