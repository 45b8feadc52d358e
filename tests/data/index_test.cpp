// Tests that every number of an index and of a shard is compared with what it indexes, even if all checksums are right.
#include "tests/data/sample.h"

#include "libtrain/base/error.h"
#include "libtrain/data/shard_reader.h"
#include "libtrain/io/hdf5_file.h"

#include <limits>

using namespace sample;
using nlohmann::json;

namespace index_test {

class Index : public ::testing::Test {
 protected:
  void SetUp() override {
    write_set(scratch.path, tokenizer, documents(tokenizer, 60, 40), 500);
    whole = json::parse(slurp(path));
  }

  // "" if the set is read and verified, otherwise the error's sentence.
  std::string refusal(const json& index) {
    spit(path, index.dump());
    try {
      const auto read = data::read_index(scratch.path);
      for (const auto& entry : read.train) data::ShardReader(scratch.path, read, entry).verify_all();
      return "";
    } catch (const base::InputError& e) {
      EXPECT_FALSE(e.hint().empty()) << e.what();
      return e.what();
    }
  }
  void expect_refusal(const json& index, const std::string& words, const std::string& what) {
    const auto said = refusal(index);
    EXPECT_NE(said.find(words), std::string::npos) << what << " says: " << said;
  }

  Scratch scratch;
  const Numbers tokenizer{300};
  const std::string path = scratch.path + "/index.json";
  json whole;
};

// Writes shards with other attributes, and an index that agrees with them.
class Resealed : public Index {
 protected:
  // Writes the first shard again with other numbers: the same tokens, and new checksums of its metadata.
  void reseal(std::int64_t vocabulary, std::int64_t end, const std::string& name, std::int64_t crc) {
    struct Other : Numbers {
      Other(std::int64_t v, std::int64_t e, std::string n, std::int64_t c)
          : Numbers(v), end(e), said(std::move(n)), crc(c) {}
      std::string name() const override { return said; }
      std::uint32_t crc32c() const override { return static_cast<std::uint32_t>(crc); }
      std::int32_t end_of_document() const override { return static_cast<std::int32_t>(end); }
      std::int64_t end;
      std::string said;
      std::int64_t crc;
    };
    fs::remove_all(scratch.path + "/train");
    const Other other(vocabulary, end, name, crc);
    data::ShardWriter writer(scratch.path, "train", other, 500);
    for (const auto& d : documents(tokenizer, 60, 40)) writer.add(d);
    data::SetIndex entries;
    entries.vocabulary = 300;
    entries.tokenizer = "numbers";
    entries.train = writer.finish();
    whole["train"] = data::index_to_json(entries)["train"];
  }
};

TEST_F(Index, AFileInThePlaceOfTheFolderIsCalledAFile) {
  const auto said = [](const std::string& folder) -> std::string {
    try {
      data::read_index(folder);
      return "";
    } catch (const base::InputError& e) {
      return std::string(e.what()) + " / " + e.hint();
    }
  };
  EXPECT_NE(said(path).find("index.json is a file"), std::string::npos) << said(path);
  EXPECT_NE(said(path).find("give the folder that holds it: " + scratch.path), std::string::npos) << said(path);
  spit(scratch.path + "/book.txt", "text");
  EXPECT_NE(said(scratch.path + "/book.txt").find("shard-data --input"), std::string::npos);
  EXPECT_NE(said(scratch.path + "/nope").find("does not exist"), std::string::npos);
}

TEST_F(Index, AsWrittenItIsRead) { EXPECT_EQ(refusal(whole), ""); }

// A number that was once accepted: it does not even fit into the type of a token.
TEST_F(Index, AVocabularyBeyondAnyTokenIsRefused) {
  whole["vocabulary"] = 4294967296;
  expect_refusal(whole, "index.json is damaged: vocabulary is 4294967296", "2^32");
  whole["vocabulary"] = 4294967596;  // 300 in 32 bits
  expect_refusal(whole, "index.json is damaged: vocabulary is 4294967596", "2^32 + 300");
}

TEST_F(Index, NoNumberIsReadThatIsNotRight) {
  std::vector<json> wrong = {-1,
                             0,
                             1,
                             299,
                             301,
                             65536,
                             2147483648,
                             4294967295,
                             4294967296,
                             std::numeric_limits<std::int64_t>::max(),
                             std::numeric_limits<std::int64_t>::min(),
                             std::numeric_limits<std::uint64_t>::max(),
                             1e300,
                             2.5,
                             "300",
                             nullptr,
                             true};
  int changes = 0;
  const auto each = [&](const json::json_pointer& place) {
    for (const auto& value : wrong) {
      auto other = whole;
      if (other[place] == value) continue;
      other[place] = value;
      EXPECT_NE(refusal(other), "") << place.to_string() << " = " << value;
      ++changes;
    }
  };
  for (const char* key : {"/vocabulary", "/end_of_document", "/tokenizer/crc32c"}) each(json::json_pointer(key));
  for (const char* key :
       {"tokens", "documents", "bytes", "payload_offset", "payload_bytes", "metadata_crc32c", "tokens_crc32c"})
    each(json::json_pointer(std::string("/train/1/") + key));
  EXPECT_GT(changes, 150);
  EXPECT_EQ(refusal(whole), "");
}

TEST_F(Index, FilesStayInTheFolderAndAreListedOnce) {
  for (const char* file : {"/etc/passwd", "../x.h5", "train/../../x.h5", "..", ""}) {
    auto other = whole;
    other["train"][0]["file"] = file;
    EXPECT_NE(refusal(other), "") << file;
  }
  auto other = whole;
  other["validation"] = json::array({whole["train"][0]});
  expect_refusal(other, "is listed twice", "a shard of both splits");
  other = whole;
  other["train"] = json::array();
  expect_refusal(other, "train names no shard", "an empty split");
}

TEST_F(Index, BytesHave257Ids) {
  whole["tokenizer"]["name"] = "bytes";
  expect_refusal(whole, "the tokenizer bytes has 257 and 256", "bytes with 300");
}

TEST_F(Index, TooFewBytesForAVocabularyAreRefused) {
  whole["vocabulary"] = 70000;
  expect_refusal(whole, "do not hold a vocabulary of 70000", "u16");
}

TEST_F(Resealed, ShardsAgreeWithTheirSet) {
  reseal(300, 299, "numbers", 0xABCDEF01);
  EXPECT_EQ(refusal(whole), "");
  reseal(301, 299, "numbers", 0xABCDEF01);
  expect_refusal(whole, "vocabulary 301 and end of document 299, the set has 300 and 299", "vocabulary");
  reseal(300, 5, "numbers", 0xABCDEF01);
  expect_refusal(whole, "end of document 5", "end of document");
  whole["end_of_document"] = 5;  // index and shard agree now, but documents end with another token
  expect_refusal(whole, "does not end with the end of document, 5", "ends of documents");
  whole["end_of_document"] = 299;
  reseal(300, 299, "letters", 0xABCDEF01);
  expect_refusal(whole, "another tokenizer (letters)", "name");
  reseal(300, 299, "numbers", 1);
  expect_refusal(whole, "another tokenizer", "checksum of the tokenizer");
  reseal(300, 1000, "numbers", 0xABCDEF01);
  expect_refusal(whole, "end of document 1000 lies outside its vocabulary", "range");
}

// A file of another program, with tables where lists belong.
TEST(IndexlessShards, HaveOneDimension) {
  for (const std::string table : {"/documents", "/answers", ""}) {
    Scratch scratch;
    const std::vector<std::uint16_t> tokens{1, 9, 2, 9};
    const std::vector<std::uint64_t> documents{0, 2, 2, 4}, answers{0, 1, 2, 3};
    const auto shape = [&](const std::string& name) {
      return name == table ? std::vector<std::int64_t>{2, 2} : std::vector<std::int64_t>{4};
    };
    auto file = trainyard::io::Hdf5File::create(scratch.path + "/a.h5");
    file.set_text("/", "format", data::shard_format);
    file.set_integer("/", "vocabulary", 10);
    file.set_integer("/", "end_of_document", 9);
    file.write_dataset("/tokens", base::DType::u16, {4}, tokens.data());
    file.write_dataset("/documents", base::DType::u64, shape("/documents"), documents.data());
    file.write_dataset("/answers", base::DType::u64, shape("/answers"), answers.data());
    file.close();
    std::string said;
    try {
      const auto index = data::read_index(scratch.path);
      data::ShardReader(scratch.path, index, index.train.at(0)).verify_all();
    } catch (const base::InputError& e) {
      said = e.what();
    }
    const auto expected = table + " has 2 dimensions, and 1 is expected";
    EXPECT_TRUE(table.empty() ? said.empty() : said.find(expected) != std::string::npos) << said;
  }
}

TEST_F(Resealed, TheLastDocumentOfAShardMayGoOn) {
  Scratch other;
  Document nine = {0, 1, 2, 3, 4, 5, 6, 7, 99};
  const Numbers hundred(100);
  const auto index = write_set(other.path, hundred, {{5, 99}, nine, {6, 99}}, 4);
  for (const auto& entry : index.train) EXPECT_NO_THROW(data::ShardReader(other.path, index, entry).verify_all());
}

}  // namespace index_test
