// Damaged indexes and shards: refused, or the same tokens, or a set that a run's identity distinguishes. What only the
// HDF5 library understands does not make it crash or hang.
#include "tests/data/sample.h"
#include "tests/mutation/harness.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/data/shard_reader.h"
#include "tools/inspect/report.h"

using namespace sample;
namespace inspect = trainyard::inspect;

namespace {

std::vector<std::int32_t> tokens_of(const std::string& folder, const data::SetIndex& set) {
  std::vector<std::int32_t> out;
  for (const auto* split : {&set.train, &set.validation})
    for (const auto& entry : *split) {
      data::ShardReader reader(folder, set, entry);
      reader.verify_all();
      const auto at = out.size();
      out.resize(at + static_cast<std::size_t>(reader.tokens()));
      reader.read(0, reader.tokens(), out.data() + at);
    }
  return out;
}

// The non-zero bytes of a shard outside [payload, payload + bytes). Most other bytes are zeros, up to the next page.
std::vector<std::size_t> metadata_of(const std::string& shard, std::size_t payload, std::size_t bytes) {
  std::vector<std::size_t> out;
  for (std::size_t at = 0; at < shard.size(); ++at)
    if (shard[at] != 0 && (at < payload || at >= payload + bytes)) out.push_back(at);
  return out;
}

// Changes one byte, or eight bytes to an address or a length that matters to the library.
mutation::Mutation mutate_metadata(const std::string& shard, const std::vector<std::size_t>& places,
                                   mutation::Random& random) {
  const auto at = places[mutation::below(random, places.size())];
  auto bytes = shard;
  if (mutation::below(random, 4) != 0 || at + 8 > bytes.size()) {
    bytes[at] = static_cast<char>(mutation::below(random, 2) == 0 ? bytes[at] ^ (1 << mutation::below(random, 8))
                                                                  : static_cast<int>(random() % 256));
    return {bytes, fmt::format("byte {} is {}", at, static_cast<int>(bytes[at]))};
  }
  const std::uint64_t numbers[] = {0,
                                   1,
                                   0x10,
                                   0x7FFFFFFFFFFFFFFF,
                                   0xFFFFFFFFFFFFFFF0,
                                   0xFFFFFFFFFFFFFFFF,
                                   random() % bytes.size(),
                                   shard.size(),
                                   random()};
  const auto number = numbers[mutation::below(random, std::size(numbers))];
  const auto place = mutation::below(random, 2) == 0 ? at / 8 * 8 : at;
  std::memcpy(bytes.data() + place, &number, sizeof number);
  return {bytes, fmt::format("bytes {} to {} are {:#x}", place, place + 8, number)};
}

// The index with the present size and checksums of its only shard.
std::string resealed(data::SetIndex index, const std::string& shard) {
  auto& e = index.train.at(0);
  e.bytes = static_cast<std::int64_t>(shard.size());
  const auto from = static_cast<std::size_t>(e.payload_offset), end = from + static_cast<std::size_t>(e.payload_bytes);
  e.metadata_crc32c = base::crc32c(shard.data() + end, shard.size() - end, base::crc32c(shard.data(), from));
  return data::index_to_json(index).dump(1);
}

}  // namespace

TEST(Shards, Indexes) {
  Scratch scratch;
  const auto bytes = data::make_tokenizer("bytes");
  const auto index = write_set(scratch.path, *bytes, documents(*bytes, 40, 30), 200);
  const auto path = scratch.path + "/index.json", original = slurp(path);
  const auto expected = tokens_of(scratch.path, index);
  mutation::run({"shard index", [&](mutation::Random& random) { return mutation::mutate_json(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   const auto set = data::read_index(scratch.path);
                   inspect::report_on(scratch.path, {inspect::Verify::everything, {}, {}, {}, {}, {}});
                   if (set.vocabulary != index.vocabulary) return "another vocabulary";
                   // Fewer shards, or another order, may be wanted; the run's identity distinguishes them.
                   return tokens_of(scratch.path, set) == expected || data::identity_of(set) != data::identity_of(index)
                              ? ""
                              : "other tokens";
                 }});
}

TEST(Shards, Metadata) {
  Scratch scratch;
  const auto bytes = data::make_tokenizer("bytes");
  const auto index = write_set(scratch.path, *bytes, documents(*bytes, 40, 30), 2000);
  ASSERT_EQ(index.train.size(), 1u);
  const auto path = scratch.path + "/" + index.train[0].file, original = slurp(path);
  const auto places = metadata_of(original, static_cast<std::size_t>(index.train[0].payload_offset),
                                  static_cast<std::size_t>(index.train[0].payload_bytes));
  ASSERT_GT(places.size(), 200u);
  const auto expected = tokens_of(scratch.path, index);
  ASSERT_EQ(resealed(index, original) + "\n", slurp(scratch.path + "/index.json"));
  mutation::run({"shard metadata", [&](mutation::Random& random) { return mutate_metadata(original, places, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   spit(scratch.path + "/index.json", resealed(index, content));
                   const auto set = data::read_index(scratch.path);
                   inspect::report_on(scratch.path, {inspect::Verify::everything, {}, {}, {}, {}, {}});
                   return tokens_of(scratch.path, set) == expected ? "" : "other tokens";
                 }});
}

// Metadata that h5py wrote without an index. It has no checksums, so another value may be accepted, but nothing crashes
// or hangs.
TEST(Shards, MetadataOfH5py) {
  Scratch scratch;
  const auto path = scratch.path + "/train/a.h5", original = slurp(ROOT "/datasets/golden/h5py-1/train/a.h5");
  fs::create_directories(scratch.path + "/train");
  spit(path, original);
  const auto payload = static_cast<std::size_t>(data::read_index(scratch.path).train.at(0).tokens) * 2;
  const auto places = metadata_of(original, 0x1800, payload);
  ASSERT_GT(places.size(), 200u);
  ASSERT_FALSE(tokens_of(scratch.path, data::read_index(scratch.path)).empty());
  mutation::run({"h5py shard", [&](mutation::Random& random) { return mutate_metadata(original, places, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   const auto set = data::read_index(scratch.path);
                   inspect::report_on(scratch.path, {});
                   tokens_of(scratch.path, set);
                   return "";
                 }});
}

// Answers and values of fields have checksums of their own in the index, so none differs, even where the other
// checksums of the index agree with the changed file.
TEST(Shards, AnswersAndFields) {
  Scratch scratch;
  const auto bytes = data::make_tokenizer("bytes");
  const std::vector<std::string> names{"lang"}, values{"de", "en", ""};
  data::ShardWriter writer(scratch.path, "train", *bytes, 2000);
  writer.mark_answers();
  writer.keep_fields(names);
  for (std::size_t d = 0; const auto& document : documents(*bytes, 40, 30)) {
    const auto end = static_cast<std::int64_t>(document.size());
    const std::vector<data::AnswerSpan> answers{{end / 2, end}};
    writer.add(document, "", {.answers = answers, .hash = {}, .fields = std::span(values).subspan(d++ % 3, 1)});
  }
  data::SetIndex index;
  index.vocabulary = bytes->vocabulary();
  index.end_of_document = bytes->end_of_document();
  index.answers = true;
  index.train = writer.finish();
  ASSERT_EQ(index.train.size(), 1u);
  spit(scratch.path + "/index.json", data::index_to_json(index).dump(1));
  const auto path = scratch.path + "/" + index.train[0].file, original = slurp(path);
  const auto places = metadata_of(original, static_cast<std::size_t>(index.train[0].payload_offset),
                                  static_cast<std::size_t>(index.train[0].payload_bytes));
  const auto tokens = tokens_of(scratch.path, index);
  const auto answers_of = [&](const data::SetIndex& set) {
    const data::ShardReader reader(scratch.path, set, set.train.at(0));
    return std::vector<data::AnswerSpan>(reader.answers().begin(), reader.answers().end());
  };
  const auto kept_of = [&](const data::SetIndex& set) {
    data::ShardReader some(scratch.path, set, set.train.at(0));
    some.keep_only("lang", "de");
    std::vector<std::int32_t> kept(static_cast<std::size_t>(some.tokens()));
    some.read(0, some.tokens(), kept.data());
    return kept;
  };
  const auto answers = answers_of(index);
  const auto kept = kept_of(index);
  ASSERT_GT(answers.size(), 10u);
  mutation::run({"answers and fields",
                 [&](mutation::Random& random) { return mutate_metadata(original, places, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   spit(scratch.path + "/index.json", resealed(index, content));
                   const auto set = data::read_index(scratch.path);
                   inspect::report_on(scratch.path, {inspect::Verify::everything, {}, {}, {}, {}, {}});
                   if (tokens_of(scratch.path, set) != tokens) return "other tokens";
                   if (answers_of(set) != answers) return "other answers";
                   return kept_of(set) == kept ? "" : "other documents";
                 }});
}
