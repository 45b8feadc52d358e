// Reads and writes index.json, and scans folders that have none.
#include "libtrain/data/shard_set.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/random.h"
#include "libtrain/io/atomic_file.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace trainyard::data {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json entries_to_json(const std::vector<ShardEntry>& entries) {
  json out = json::array();
  for (const auto& e : entries) {
    out.push_back({{"file", e.file}, {"tokens", e.tokens}, {"documents", e.documents}, {"bytes", e.bytes}, {"payload_offset", e.payload_offset}, {"payload_bytes", e.payload_bytes}, {"metadata_crc32c", e.metadata_crc32c}});
    if (e.tokens_crc32c) out.back()["tokens_crc32c"] = *e.tokens_crc32c;
  }
  return out;
}

std::vector<ShardEntry> entries_from_json(const json& list) {
  std::vector<ShardEntry> out;
  for (const auto& e : list) {
    out.push_back({e.at("file"), e.at("tokens"), e.at("documents"), e.at("bytes"), e.at("payload_offset"), e.at("payload_bytes"), e.at("metadata_crc32c")});
    if (e.contains("tokens_crc32c")) out.back().tokens_crc32c = e["tokens_crc32c"].get<std::uint32_t>();
  }
  return out;
}

// A checksum of sixteen blocks of 64 KiB spread evenly over a file from its first byte to its last: what tells shards apart that come without checksums.
std::uint32_t sample_of(const std::string& path) {
  constexpr std::int64_t blocks = 16, block = 64 << 10;
  const auto size = io::file_size(path);
  std::ifstream file(path, std::ios::binary);
  std::vector<char> buffer(static_cast<std::size_t>(std::min<std::int64_t>(size, block)));
  auto crc = base::crc32c(&size, sizeof size);
  for (std::int64_t b = 0; b < blocks && !buffer.empty(); ++b) {
    file.seekg((size - static_cast<std::int64_t>(buffer.size())) / (blocks - 1) * b);
    if (b == blocks - 1) file.seekg(size - static_cast<std::int64_t>(buffer.size()));
    if (!file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) throw base::InputError(fmt::format("cannot read shard {}", path), "check its permissions and the disk");
    crc = base::crc32c(buffer.data(), buffer.size(), crc);
  }
  return crc;
}

std::vector<ShardEntry> scan(const std::string& folder, const std::string& sub, SetIndex& index) {
  std::vector<std::string> names;
  const fs::path place = fs::path(folder) / sub;
  if (fs::is_directory(place))
    for (const auto& item : fs::directory_iterator(place))
      if (item.path().extension() == ".h5") names.push_back(item.path().filename().string());
  std::sort(names.begin(), names.end());
  std::vector<ShardEntry> out;
  for (const auto& name : names) {
    const auto path = (place / name).string();
    const auto file = io::Hdf5File::open(path);
    if (!file.has_attribute("/", "format") || file.text("/", "format") != shard_format)
      throw base::InputError(fmt::format("{} is not a token shard: its attribute format is not {}", path, shard_format), "datasets/README.md tells what a shard holds");
    const auto vocabulary = file.integer("/", "vocabulary");
    if (index.vocabulary != 0 && index.vocabulary != vocabulary)
      throw base::InputError(fmt::format("{} has a vocabulary of {}, others {}", path, vocabulary, index.vocabulary), "one set is made with one tokenizer");
    index.vocabulary = vocabulary;
    index.end_of_document = static_cast<std::int32_t>(file.integer("/", "end_of_document"));
    if (file.has_attribute("/", "tokenizer")) index.tokenizer = index.tokenizer_source = file.text("/", "tokenizer");
    out.push_back({(fs::path(sub) / name).string(), file.info("/tokens").count(), file.info("/documents").count() - 1, -1, -1, -1, sample_of(path)});
  }
  return out;
}

}  // namespace

json index_to_json(const SetIndex& i) {
  return {{"format", index_format},
          {"tokenizer", {{"name", i.tokenizer}, {"source", i.tokenizer_source}, {"crc32c", i.tokenizer_crc32c}}},
          {"vocabulary", i.vocabulary},
          {"end_of_document", i.end_of_document},
          {"train", entries_to_json(i.train)},
          {"validation", entries_to_json(i.validation)}};
}

SetIndex index_from_json(const json& j, const std::string& where) {
  try {
    const std::string format = j.at("format");
    if (format != index_format) throw base::InputError(fmt::format("{}: format is '{}', this program reads '{}'", where, format, index_format), "use the version of the programs that wrote it, or make the shards again with shard-data");
    SetIndex i;
    i.tokenizer = j.at("tokenizer").at("name");
    i.tokenizer_source = j.at("tokenizer").at("source");
    i.tokenizer_crc32c = j.at("tokenizer").at("crc32c");
    i.vocabulary = j.at("vocabulary");
    i.end_of_document = j.at("end_of_document");
    i.train = entries_from_json(j.at("train"));
    i.validation = entries_from_json(j.at("validation"));
    return i;
  } catch (const json::exception& e) {
    throw base::InputError(fmt::format("{} is damaged: {}", where, e.what()), "make the shards again with shard-data");
  }
}

SetIndex read_index(const std::string& folder) {
  if (!fs::is_directory(folder)) throw base::InputError(fmt::format("data folder {} does not exist", folder), "make one with shard-data --output");
  const auto path = (fs::path(folder) / "index.json").string();
  if (fs::exists(path)) {
    const auto parsed = json::parse(io::read_file(path), nullptr, false);
    if (parsed.is_discarded()) throw base::InputError(fmt::format("{} is not JSON", path), "make the shards again with shard-data");
    return index_from_json(parsed, path);
  }
  SetIndex index;
  index.checksummed = false;
  index.train = scan(folder, "train", index);
  if (index.train.empty()) index.train = scan(folder, ".", index);
  index.validation = scan(folder, "validation", index);
  if (index.train.empty()) throw base::InputError(fmt::format("{} holds no token shards", folder), "make some with shard-data --output");
  return index;
}

std::string identity_of(const SetIndex& index) {
  std::string text = fmt::format("{} {} {}", index.tokenizer, index.vocabulary, index.end_of_document);
  for (const auto* split : {&index.train, &index.validation}) {
    text += " :";
    for (const auto& e : *split) text += fmt::format(" {} {} {}", e.tokens, e.documents, e.tokens_crc32c.value_or(e.metadata_crc32c));
  }
  return fmt::format("{:016x}", base::site_hash("data", text));
}

}  // namespace trainyard::data
