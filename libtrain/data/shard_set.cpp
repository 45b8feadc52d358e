// Reads the index of a folder, or scans a folder without one.
#include "libtrain/data/shard_set.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/random.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/system_error.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <filesystem>

namespace trainyard::data {

namespace {

namespace fs = std::filesystem;

// A checksum of sixteen blocks of 64 KiB, spread evenly over a file from its first byte to its last. It distinguishes
// shards that come without checksums.
std::uint32_t sample_of(const std::string& path) {
  constexpr std::int64_t blocks = 16, block = 64 << 10;
  const io::BulkFile file(path, io::BulkFile::Mode::read);
  const auto size = file.size();
  std::vector<char> buffer(base::size(std::min<std::int64_t>(size, block)));
  auto crc = base::crc32c(&size, sizeof size);
  for (std::int64_t b = 0; b < blocks && !buffer.empty(); ++b) {
    const auto last = size - std::ssize(buffer);
    file.read(b == blocks - 1 ? last : last / (blocks - 1) * b, buffer.data(), std::ssize(buffer));
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
    const auto facts = facts_of(file);
    if (index.vocabulary != 0 && index.vocabulary != facts.vocabulary)
      throw base::InputError(
          fmt::format("{} has a vocabulary of {}, others {}", path, facts.vocabulary, index.vocabulary),
          "one set is made with one tokenizer");
    index.vocabulary = facts.vocabulary;
    index.answers |= file.exists("/answers");
    index.end_of_document = facts.end_of_document;
    if (facts.tokenizer) index.tokenizer = index.tokenizer_source = *facts.tokenizer;
    if (facts.tokenizer_crc32c) index.tokenizer_crc32c = *facts.tokenizer_crc32c;
    out.push_back({(fs::path(sub) / name).string(), file.info("/tokens").count(), file.info("/documents").count() - 1,
                   -1, -1, -1, sample_of(path)});
  }
  return out;
}

// The folder of the set that this shard belongs to.
std::string folder_of_shard(const std::string& shard) {
  const auto folder = base::parent_of(shard);
  const auto set = set_around(folder);
  return set.empty() ? folder : set;
}

// A hint for a folder without shards: a set below it, if there is one.
std::string way_to_shards(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (fs::is_regular_file(it->path() / "index.json", error))
      return fmt::format("{} is a shard set; or make one with shard-data --output", it->path().string());
  return "make some with shard-data --output";
}

}  // namespace

std::string set_around(const std::string& folder) {
  std::error_code error;
  const auto path = fs::path(base::without_slashes(folder));
  const auto name = path.filename();
  const auto parent = base::parent_of(path.string());
  const bool is_part = (name == "train" || name == "validation") && !fs::exists(path / "index.json", error) &&
                       fs::is_regular_file(fs::path(parent) / "index.json", error);
  return is_part ? parent : std::string();
}

ShardFacts facts_of(const io::Hdf5File& file) {
  if (!file.has_attribute("/", "format") || file.text("/", "format") != shard_format)
    throw base::InputError(
        fmt::format("{} is not a token shard: its attribute format is not {}", file.path(), shard_format),
        "datasets/README.md describes what a shard holds");
  ShardFacts f;
  f.vocabulary = file.integer("/", "vocabulary");
  if (f.vocabulary < 1 || f.vocabulary > std::int64_t{1} << 31)
    throw base::InputError(fmt::format("shard {}: a vocabulary of {}", file.path(), f.vocabulary),
                           "the attribute vocabulary counts the different ids");
  const auto end = file.integer("/", "end_of_document");
  if (end < 0 || end >= f.vocabulary)
    throw base::InputError(
        fmt::format("shard {}: end of document {} lies outside its vocabulary of {}", file.path(), end, f.vocabulary),
        "it is one of the ids");
  f.end_of_document = static_cast<std::int32_t>(end);
  if (file.has_attribute("/", "tokenizer")) f.tokenizer = file.text("/", "tokenizer");
  if (f.tokenizer && f.tokenizer->size() > 8192)
    throw base::InputError(
        fmt::format("shard {}: the attribute tokenizer is {}", file.path(), base::excerpt(*f.tokenizer)),
        "it is 'bytes', or the name of a tokenizer's file");
  if (!file.has_attribute("/", "tokenizer_crc32c")) return f;
  const auto crc = file.integer("/", "tokenizer_crc32c");
  if (crc < 0 || crc > 0xFFFFFFFFll)
    throw base::InputError(fmt::format("shard {}: tokenizer_crc32c {} is no checksum of 32 bits", file.path(), crc),
                           "it is the CRC32C of the model file");
  f.tokenizer_crc32c = static_cast<std::uint32_t>(crc);
  return f;
}

std::string tokenizer_path(const std::string& folder, const SetIndex& index) {
  if (index.tokenizer_source == "bytes") return "bytes";
  return (fs::path(folder) / index.tokenizer_source).string();  // an absolute path stays as it is
}

SetIndex read_index(const std::string& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder, error))
    throw base::InputError(
        fmt::format("{} is a file, not the folder of a shard set", folder),
        fs::path(folder).filename() == "index.json"
            ? fmt::format("give the folder that holds it: {}", base::parent_of(folder))
        : fs::path(folder).extension() == ".h5"
            ? fmt::format("give the folder of the set, not its files: {}", folder_of_shard(folder))
            : fmt::format("text becomes a shard set with shard-data --input {} --output FOLDER; give that folder",
                          folder));
  const auto require_look = [&](const std::string& at) {
    if (base::is_unreadable(error.value())) base::throw_cannot_read("look at", at, error.value());
  };
  const bool is_folder = fs::is_directory(folder, error);
  require_look(folder);
  if (!is_folder)
    throw base::InputError(fmt::format("data folder {} does not exist", folder), "make one with shard-data --output");
  const auto path = (fs::path(folder) / "index.json").string();
  const auto type = fs::symlink_status(path, error).type();
  require_look(path);
  if (type > fs::file_type::none)
    return index_from_json(base::parse_json<nlohmann::json>(base::read_file(path), path), path);
  SetIndex index;
  index.checksummed = false;
  index.train = scan(folder, "train", index);
  if (index.train.empty()) index.train = scan(folder, ".", index);
  index.validation = scan(folder, "validation", index);
  if (index.train.empty())
    throw base::InputError(fmt::format("{} holds no token shards", folder), way_to_shards(folder));
  return index;
}

std::string identity_of(const SetIndex& index) {
  std::string text = fmt::format("{} {} {}", index.tokenizer, index.vocabulary, index.end_of_document);
  for (const auto* split : {&index.train, &index.validation}) {
    text += " :";
    for (const auto& e : *split) {
      text += fmt::format(" {} {} {}", e.tokens, e.documents, e.tokens_crc32c.value_or(e.metadata_crc32c));
      if (e.answers_crc32c) text += fmt::format(" {}", *e.answers_crc32c);
      if (e.fields_crc32c) text += fmt::format(" fields {}", *e.fields_crc32c);
    }
  }
  return fmt::format("{:016x}", base::site_hash("data", text));
}

}  // namespace trainyard::data
