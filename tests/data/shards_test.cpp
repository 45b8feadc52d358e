// Tests shards: the reader returns what the writer got, divided where the contract says.
#include "tests/data/sample.h"

#include "libtrain/base/checksum.h"
#include "libtrain/data/shard_reader.h"
#include "libtrain/io/hdf5_file.h"

using namespace sample;

namespace {

// The documents of a shard as its reader returns them.
std::vector<Document> documents_of(data::ShardReader& reader) {
  std::vector<Document> out;
  const auto offsets = reader.documents();
  for (std::size_t d = 0; d + 1 < offsets.size(); ++d) {
    Document document(offsets[d + 1] - offsets[d]);
    reader.read(static_cast<std::int64_t>(offsets[d]), static_cast<std::int64_t>(document.size()), document.data());
    out.push_back(document);
  }
  return out;
}

std::vector<std::vector<Document>> read_back(const std::string& folder) {
  const auto index = data::read_index(folder);
  std::vector<std::vector<Document>> shards;
  for (const auto& entry : index.train) {
    data::ShardReader reader(folder, index, entry);
    EXPECT_EQ(reader.tokens(), entry.tokens);
    EXPECT_EQ(static_cast<std::int64_t>(reader.documents().size()) - 1, entry.documents);
    reader.verify_all();
    shards.push_back(documents_of(reader));
  }
  return shards;
}

}  // namespace

TEST(Shards, ReturnTheirDocumentsClosedWhenTheNextWouldPass) {
  for (std::int64_t vocabulary : {257, 65536, 65537, 1000000}) {
    Scratch scratch;
    const Numbers tokenizer(vocabulary);
    const auto all = documents(tokenizer, 100, 50);
    write_set(scratch.path, tokenizer, all, 300);
    // The rule, implemented again: a shard takes documents while they fit.
    std::vector<std::vector<Document>> expected(1);
    std::size_t held = 0;
    for (const auto& d : all) {
      if (held + d.size() > 300) expected.emplace_back(), held = 0;
      expected.back().push_back(d);
      held += d.size();
    }
    ASSERT_GT(expected.size(), 3u);
    EXPECT_EQ(read_back(scratch.path), expected) << vocabulary;
    const auto h5 = trainyard::io::Hdf5File::open(scratch.path + "/train/shard-00000.h5");
    EXPECT_EQ(h5.info("/tokens").dtype, vocabulary <= 65536 ? base::DType::u16 : base::DType::u32);
  }
}

TEST(Shards, AFullShardIsNotPassedAndNotClosedEarly) {
  Scratch scratch;
  const Numbers tokenizer(100);
  const Document ten = {1, 2, 3, 4, 5, 6, 7, 8, 9, 99};
  write_set(scratch.path, tokenizer, {ten, ten, ten, ten, ten}, 20);
  EXPECT_EQ(read_back(scratch.path), (std::vector<std::vector<Document>>{{ten, ten}, {ten, ten}, {ten}}));
}

TEST(Shards, ADocumentLongerThanAShardIsCut) {
  Scratch scratch;
  const Numbers tokenizer(100);
  Document nine = {0, 1, 2, 3, 4, 5, 6, 7, 99}, eight = {0, 1, 2, 3, 4, 5, 6, 99};
  write_set(scratch.path, tokenizer, {{5, 99}, nine, {6, 99}, eight, {7, 99}}, 4);
  // The tail of a divided document may share a shard with the next document.
  EXPECT_EQ(
      read_back(scratch.path),
      (std::vector<std::vector<Document>>{
          {{5, 99}}, {{0, 1, 2, 3}}, {{4, 5, 6, 7}}, {{99}, {6, 99}}, {{0, 1, 2, 3}}, {{4, 5, 6, 99}}, {{7, 99}}}));
}

TEST(Shards, RecordWhatTheFormatNames) {
  Scratch scratch;
  const Numbers tokenizer(70000);
  const auto all = documents(tokenizer, 700, 2000);  // above two MiB: three blocks
  const auto index = write_set(scratch.path, tokenizer, all, std::int64_t{1} << 30);
  ASSERT_EQ(index.train.size(), 1u);
  const auto& entry = index.train[0];
  const auto path = scratch.path + "/" + entry.file;
  const auto h5 = trainyard::io::Hdf5File::open(path);
  EXPECT_EQ(h5.text("/", "format"), "trainyard.shard/1");
  EXPECT_EQ(h5.integer("/", "vocabulary"), 70000);
  EXPECT_EQ(h5.integer("/", "end_of_document"), 69999);
  EXPECT_EQ(h5.text("/", "tokenizer"), "numbers");
  EXPECT_EQ(h5.integer("/", "tokenizer_crc32c"), 0xABCDEF01);
  const auto bytes = slurp(path);
  EXPECT_EQ(static_cast<std::int64_t>(bytes.size()), entry.bytes);
  // The tokens lie where the index says, as plain little-endian numbers.
  std::string plain;
  for (const auto& d : all)
    for (auto t : d)
      for (int b = 0; b < 4; ++b) plain += static_cast<char>(static_cast<std::uint32_t>(t) >> (8 * b));
  ASSERT_EQ(entry.payload_bytes, static_cast<std::int64_t>(plain.size()));
  EXPECT_EQ(bytes.substr(static_cast<std::size_t>(entry.payload_offset), plain.size()), plain);
  // Checksums of each MiB, and of everything else.
  const auto blocks = (plain.size() + (1 << 20) - 1) >> 20;
  ASSERT_GE(blocks, 3u);
  std::vector<std::uint32_t> sums(blocks);
  ASSERT_EQ(h5.info("/checksums").count(), static_cast<std::int64_t>(blocks));
  h5.read_dataset("/checksums", base::DType::u32, 0, static_cast<std::int64_t>(blocks), sums.data());
  for (std::size_t b = 0; b < blocks; ++b) {
    const auto block = plain.substr(b << 20, 1 << 20);
    EXPECT_EQ(sums[b], base::crc32c(block.data(), block.size()));
  }
  auto rest = bytes;
  rest.erase(static_cast<std::size_t>(entry.payload_offset), plain.size());
  EXPECT_EQ(base::crc32c(rest.data(), rest.size()), entry.metadata_crc32c);
}

TEST(Shards, EqualDocumentsGiveEqualBytes) {
  Scratch one, two;
  const Numbers tokenizer(300);
  const auto all = documents(tokenizer, 50, 100);
  write_set(one.path, tokenizer, all, 700);
  write_set(two.path, tokenizer, all, 700);
  for (const auto& item : fs::recursive_directory_iterator(one.path))
    if (item.is_regular_file()) {
      EXPECT_EQ(slurp(item.path()), slurp(two.path + "/" + fs::relative(item.path(), one.path).string()))
          << item.path();
    }
}

TEST(Shards, IndexSurvivesJson) {
  Scratch scratch;
  const Numbers tokenizer(300);
  const auto index = write_set(scratch.path, tokenizer, documents(tokenizer, 50, 100), 700);
  const auto again = data::read_index(scratch.path);
  EXPECT_TRUE(again.checksummed);
  EXPECT_EQ(data::index_to_json(again), data::index_to_json(index));
  EXPECT_EQ(data::identity_of(again), data::identity_of(index));
  auto other = index;
  ++*other.train[0].tokens_crc32c;
  EXPECT_NE(data::identity_of(other), data::identity_of(index));
  other = index;
  other.validation.push_back(index.train[0]);
  EXPECT_NE(data::identity_of(other), data::identity_of(index));
}

// Without an index: other tokens in equal numbers are other data; the same files in another folder are the same data.
TEST(Shards, IdentityWithoutAnIndexSeesTheTokens) {
  Scratch one, two, same;
  const Numbers tokenizer(300);
  auto all = documents(tokenizer, 50, 100);
  write_set(one.path, tokenizer, all, 700);
  write_set(same.path, tokenizer, all, 700);
  all[20][0] ^= 1;
  write_set(two.path, tokenizer, all, 700);
  for (const auto* scratch : {&one, &two, &same}) fs::remove(scratch->path + "/index.json");
  const auto identity = [](const Scratch& s) { return data::identity_of(data::read_index(s.path)); };
  EXPECT_EQ(identity(one), identity(same));
  EXPECT_NE(identity(one), identity(two));
}
