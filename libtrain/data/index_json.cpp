// Writes index.json, and reads it. Every number is checked against its range and the other numbers.
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/text.h"
#include "libtrain/data/shard_set.h"

#include <set>
#include <string_view>

namespace trainyard::data {

namespace {

using nlohmann::json;

constexpr std::int64_t most_vocabulary = std::int64_t{1} << 31, most_tokens = std::int64_t{1} << 56,
                       most_shard_bytes = std::int64_t{1} << 60;

json entries_to_json(const std::vector<ShardEntry>& entries) {
  json out = json::array();
  for (const auto& e : entries) {
    out.push_back({{"file", e.file},
                   {"tokens", e.tokens},
                   {"documents", e.documents},
                   {"bytes", e.bytes},
                   {"payload_offset", e.payload_offset},
                   {"payload_bytes", e.payload_bytes},
                   {"metadata_crc32c", e.metadata_crc32c}});
    if (e.tokens_crc32c) out.back()["tokens_crc32c"] = *e.tokens_crc32c;
    if (e.answers_crc32c) out.back()["answers_crc32c"] = *e.answers_crc32c;
    if (e.fields_crc32c) out.back()["fields_crc32c"] = *e.fields_crc32c;
    if (!e.field_tokens.empty()) out.back()["field_tokens"] = e.field_tokens;
  }
  return out;
}

struct Index {
  const std::string& where;

  [[noreturn]] void damaged(const std::string& what) const {
    throw base::InputError(fmt::format("{} is damaged: {}", where, what),
                           "copy it again, or make the shards again with shard-data");
  }

  std::int64_t whole(const json& object, const char* key, std::int64_t least, std::int64_t most) const {
    return number(object.at(key), key, least, most);
  }
  std::int64_t number(const json& v, std::string_view name, std::int64_t least, std::int64_t most) const {
    const bool fits = v.is_number_unsigned()
                          ? v.get<std::uint64_t>() <= static_cast<std::uint64_t>(most) &&
                                static_cast<std::int64_t>(v.get<std::uint64_t>()) >= least
                          : v.is_number_integer() && v.get<std::int64_t>() >= least && v.get<std::int64_t>() <= most;
    if (!fits)
      damaged(fmt::format("{} is {}, expected a whole number from {} to {}", base::one_line(name),
                          v.dump().substr(0, 80), least, most));
    return v.get<std::int64_t>();
  }
  std::uint32_t crc(const json& object, const char* key) const {
    return static_cast<std::uint32_t>(whole(object, key, 0, 0xFFFFFFFFll));
  }
  std::string text(const json& object, const char* key) const {
    auto value = object.at(key).get<std::string>();
    if (value.empty() || value.size() > 8192 || value.find('\0') != value.npos)
      damaged(fmt::format("{} is {}", key, base::excerpt(value)));
    return value;
  }

  ShardEntry entry(const json& e, std::int64_t vocabulary) const {
    ShardEntry s;
    s.file = text(e, "file");
    if (s.file[0] == '/' || ("/" + s.file + "/").find("/../") != std::string::npos)
      damaged(fmt::format("shard {} lies outside the folder", s.file));
    s.tokens = whole(e, "tokens", 1, most_tokens);
    s.documents = whole(e, "documents", 1, s.tokens);
    s.bytes = whole(e, "bytes", 1, most_shard_bytes);
    s.payload_bytes = whole(e, "payload_bytes", 1, s.bytes);
    s.payload_offset = whole(e, "payload_offset", 0, s.bytes - s.payload_bytes);
    if (s.payload_bytes != 2 * s.tokens && s.payload_bytes != 4 * s.tokens)
      damaged(fmt::format("{}: {} tokens in {} bytes", s.file, s.tokens, s.payload_bytes));
    if (s.payload_bytes == 2 * s.tokens && vocabulary > 65536)
      damaged(fmt::format("{}: tokens of 2 bytes do not hold a vocabulary of {}", s.file, vocabulary));
    s.metadata_crc32c = crc(e, "metadata_crc32c");
    if (e.contains("tokens_crc32c")) s.tokens_crc32c = crc(e, "tokens_crc32c");
    if (e.contains("answers_crc32c")) s.answers_crc32c = crc(e, "answers_crc32c");
    if (e.contains("fields_crc32c")) s.fields_crc32c = crc(e, "fields_crc32c");
    if (e.contains("field_tokens")) s.field_tokens = field_tokens(e.at("field_tokens"), s);
    return s;
  }

  FieldTokens field_tokens(const json& fields, const ShardEntry& shard) const {
    FieldTokens out;
    for (const auto& [field, values] : fields.items()) {
      std::int64_t sum = 0;
      for (const auto& [value, tokens] : values.items())
        sum += out[field][value] = number(tokens, value, 1, shard.tokens);
      if (sum != shard.tokens)
        damaged(fmt::format("{}: {} tokens by the field {}, and {} in all", shard.file, sum, base::excerpt(field),
                            shard.tokens));
    }
    return out;
  }

  std::vector<ShardEntry> entries(const json& list, const char* split, std::int64_t vocabulary,
                                  std::set<std::string>& files) const {
    if (!list.is_array()) damaged(fmt::format("{} is no list", split));
    std::vector<ShardEntry> out;
    std::int64_t tokens = 0;
    for (const auto& e : list) {
      out.push_back(entry(e, vocabulary));
      if (!files.insert(out.back().file).second) damaged(fmt::format("{} is listed twice", out.back().file));
      if (tokens += out.back().tokens; tokens > most_tokens)
        damaged(fmt::format("{} has more than {} tokens", split, most_tokens));
    }
    return out;
  }
};

}  // namespace

json index_to_json(const SetIndex& i) {
  json out{{"format", index_format},
           {"tokenizer", {{"name", i.tokenizer}, {"source", i.tokenizer_source}, {"crc32c", i.tokenizer_crc32c}}},
           {"vocabulary", i.vocabulary},
           {"end_of_document", i.end_of_document},
           {"train", entries_to_json(i.train)},
           {"validation", entries_to_json(i.validation)}};
  if (i.begin_of_document >= 0) out["begin_of_document"] = i.begin_of_document;
  if (i.answers) out["answers"] = true;
  if (i.pairs) out["pairs"] = true;
  if (i.packed_sequence > 0) out["packed_sequence"] = i.packed_sequence;
  if (i.unknown_tokens >= 0) out["unknown_tokens"] = i.unknown_tokens;
  return out;
}

SetIndex index_from_json(const json& j, const std::string& where, IndexOf what) {
  const Index read{where};
  try {
    const std::string format = j.at("format");
    if (format != index_format)
      throw base::InputError(
          fmt::format("{}: format is {}, this program reads '{}'", where, base::excerpt(format), index_format),
          "use the version of the programs that wrote it, or make the shards again with shard-data");
    SetIndex i;
    const auto& tokenizer = j.at("tokenizer");
    i.tokenizer = read.text(tokenizer, "name");
    i.tokenizer_source = read.text(tokenizer, "source");
    i.tokenizer_crc32c = read.crc(tokenizer, "crc32c");
    i.vocabulary = read.whole(j, "vocabulary", 1, most_vocabulary);
    i.end_of_document = static_cast<std::int32_t>(read.whole(j, "end_of_document", 0, i.vocabulary - 1));
    if (i.tokenizer == "bytes" && (i.vocabulary != 257 || i.end_of_document != 256))
      read.damaged(fmt::format("vocabulary {} and end of document {}, the tokenizer bytes has 257 and 256",
                               i.vocabulary, i.end_of_document));
    if (j.contains("begin_of_document"))
      i.begin_of_document = static_cast<std::int32_t>(read.whole(j, "begin_of_document", 0, i.vocabulary - 1));
    if (j.contains("unknown_tokens")) i.unknown_tokens = read.whole(j, "unknown_tokens", 0, 2 * most_tokens);
    if (j.contains("answers")) i.answers = j.at("answers").get<bool>();
    if (j.contains("pairs")) i.pairs = j.at("pairs").get<bool>();
    if (i.pairs && !i.answers) read.damaged("documents are pairs, and no shard says where their targets are");
    if (i.pairs && j.contains("packed_sequence")) read.damaged("documents are pairs, and packed into sequences");
    if (j.contains("packed_sequence")) i.packed_sequence = read.whole(j, "packed_sequence", 1, most_tokens);
    std::set<std::string> files;
    i.train = read.entries(j.at("train"), "train", i.vocabulary, files);
    i.validation = read.entries(j.at("validation"), "validation", i.vocabulary, files);
    if (i.train.empty() && what == IndexOf::set) read.damaged("train names no shard");
    return i;
  } catch (const json::exception& e) {
    read.damaged(e.what());
  }
}

}  // namespace trainyard::data
