// The report on a set of token shards.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/data/set_tokenizer.h"
#include "libtrain/data/shard_pairs.h"
#include "libtrain/data/shard_reader.h"
#include "libtrain/data/shard_set.h"
#include "tools/inspect/report.h"
#include "tools/inspect/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace trainyard::inspect {

namespace {

struct Split {
  const char* name;
  const std::vector<data::ShardEntry>& shards;
};

// Checks the tokenizer model that lies in the set. The model that an older set only refers to may have moved.
void verify_tokenizer(const std::string& folder, const data::SetIndex& index) {
  if (!index.checksummed || index.tokenizer_source == "bytes" ||
      std::filesystem::path(index.tokenizer_source).is_absolute())
    return;
  const auto path = data::tokenizer_path(folder, index);
  const auto model = base::read_file(path);
  if (const auto crc = base::crc32c(model.data(), model.size()); crc != index.tokenizer_crc32c)
    throw base::InputError(
        fmt::format("tokenizer {} has CRC32C {:08x}, the index says {:08x}", path, crc, index.tokenizer_crc32c),
        "copy it again: it is the tokenizer that the set was made with");
}

// For a part of a set, whose index lies in the folder above.
std::string way_to_compare(const std::string& folder) {
  const auto set = data::set_around(folder);
  return set.empty() ? "" : fmt::format("; inspect --verify {} compares all checksums", set);
}

// What shard-data added to the tokens: which of them are answers, how they are packed, which fields are kept.
struct Additions {
  struct Side {
    std::int64_t tokens = 0, longest = 0;
    void add(std::int64_t length) { tokens += length, longest = std::max(longest, length); }
    std::string text(const char* name, std::int64_t pairs) const {
      return fmt::format("{} {:.1f} tokens in the mean, {} at most", name,
                         static_cast<double>(tokens) / static_cast<double>(std::max<std::int64_t>(pairs, 1)),
                         human_count(longest));
    }
    nlohmann::json json() const { return {{"tokens", tokens}, {"longest", longest}}; }
  };
  std::int64_t pairs = 0;
  Side source, target;
  void add_pairs(const data::ShardReader& reader) {
    for (const auto& pair : data::pair_lengths(reader)) ++pairs, source.add(pair.source), target.add(pair.target);
  }
  std::int64_t answer_tokens = 0;
  data::FieldTokens field_tokens;
  void add(const data::ShardReader& reader, const data::ShardEntry& shard) {
    for (const auto& span : reader.answers()) answer_tokens += span.end - span.begin;
    for (const auto& [field, values] : shard.field_tokens)
      for (const auto& [value, tokens] : values) field_tokens[field][value] += tokens;
  }
  std::string text(const data::SetIndex& index) const {
    std::string out;
    if (index.answers) out += fmt::format("  answers     {} tokens\n", human_count(answer_tokens));
    if (index.pairs)
      out += fmt::format("  pairs       {}: {}; {}\n", human_count(pairs), source.text("source", pairs),
                         target.text("target", pairs));
    if (index.packed_sequence > 0)
      out += fmt::format("  packed      best-fit, sequences of {} tokens\n", human_count(index.packed_sequence));
    for (const auto& [field, values] : field_tokens) {
      constexpr std::size_t most = 12;  // values in the text; the JSON has all
      std::vector<std::string> parts;
      for (const auto& [value, tokens] : values)
        if (parts.size() < most) parts.push_back(fmt::format("{} {}", base::one_line(value), human_count(tokens)));
      if (values.size() > most) parts.push_back(fmt::format("{} more values", human_count(std::ssize(values) - most)));
      out += fmt::format("  field       {}, in tokens: {}\n", base::one_line(field), fmt::join(parts, ", "));
    }
    return out;
  }
};

}  // namespace

Report shards_report(const std::string& folder, const Options& options) {
  const auto index = data::read_index(folder);
  Report report;
  report.json = data::index_to_json(index);
  report.json["kind"] = "shards";
  report.json["path"] = folder;
  report.json["identity"] = data::identity_of(index);
  report.json["verified"] = options.verify == Verify::everything;

  if (options.verify == Verify::everything) verify_tokenizer(folder, index);

  std::vector<std::vector<std::string>> rows;
  std::int64_t read = 0;
  std::string totals;
  Additions additions;
  for (const auto& split : {Split{"train", index.train}, Split{"validation", index.validation}}) {
    std::int64_t tokens = 0, documents = 0;
    for (const auto& shard : split.shards) {
      data::ShardReader reader(folder, index, shard);
      if (options.verify == Verify::everything) reader.verify_all();
      const auto shard_documents = static_cast<std::int64_t>(reader.documents().size()) - 1;
      std::error_code error;
      const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(reader.path(), error));
      additions.add(reader, shard);
      if (index.pairs) additions.add_pairs(reader);
      if (index.pairs && options.verify == Verify::everything) data::verify_pairs(reader, index);
      tokens += reader.tokens();
      documents += shard_documents;
      read += bytes;
      rows.push_back({shard.file, human_count(reader.tokens()), human_count(shard_documents),
                      base::size_text(bytes, options.sizes)});
    }
    totals += fmt::format("  {:<12}{} tokens, {} documents, {} {}\n", split.name, human_count(tokens),
                          human_count(documents), split.shards.size(), split.shards.size() == 1 ? "shard" : "shards");
  }
  report.text = fmt::format("token shards {}  ({})\n{}", folder,
                            index.checksummed ? data::index_format : "no index.json: nothing is checksummed", totals);
  const auto kind = data::tokenizer_kind(folder, index);
  if (!kind.empty()) report.json["tokenizer_kind"] = kind;
  report.text += fmt::format(
      "  tokenizer   {} ({}{}, crc32c {:08x}), vocabulary {}, end of document {}{}\n", base::one_line(index.tokenizer),
      kind.empty() || kind == "bytes" ? "" : kind + ", ", base::one_line(index.tokenizer_source),
      index.tokenizer_crc32c, human_count(index.vocabulary), index.end_of_document,
      index.begin_of_document < 0 ? std::string() : fmt::format(", beginning {}", index.begin_of_document));
  if (index.unknown_tokens >= 0)
    report.text += fmt::format("  unknown     {} tokens\n", human_count(index.unknown_tokens));
  report.text += additions.text(index);
  if (index.answers) report.json["answer_tokens"] = additions.answer_tokens;
  if (index.pairs)
    report.json["pair_lengths"] = {
        {"pairs", additions.pairs}, {"source", additions.source.json()}, {"target", additions.target.json()}};
  report.text += fmt::format("  identity    {}\n\n", data::identity_of(index));
  report.text += table({"shard", ">tokens", ">documents", ">size"}, rows);
  if (options.verify == Verify::everything)
    report.text += index.checksummed
                       ? fmt::format("\nverified: {} read, every checksum is right\n", size_phrase(read, options.sizes))
                       : fmt::format("\nread: {}; without an index.json nothing was compared{}\n",
                                     size_phrase(read, options.sizes), way_to_compare(folder));
  return report;
}

}  // namespace trainyard::inspect
