// Tests that golden shard sets of trainyard.shard/1 remain readable: one by shard-data, one by h5py
// (tests/golden/shard_h5py.py). They are never written again.
#include "tests/data/sample.h"

#include "libtrain/data/builder.h"
#include "libtrain/data/shard_pairs.h"
#include "libtrain/data/window_dataset.h"

#include <fmt/format.h>

using namespace sample;

namespace {

std::string document(int k) {
  std::string text = fmt::format("Document {}: ", k);
  for (int i = 0; i < k * 7 % 13; ++i) text += "words and numbers, ";
  return text + fmt::format("{}\n", k * k);
}

// The numbers of a shard's documents. Each must be the document of that number and end with the end of document.
std::vector<int> numbers_of(const std::string& folder, const data::SetIndex& index, const data::ShardEntry& entry) {
  data::ShardReader reader(folder, index, entry);
  const auto bytes = data::make_tokenizer("bytes");
  const auto offsets = reader.documents();
  std::vector<int> out;
  for (std::size_t d = 0; d + 1 < offsets.size(); ++d) {
    Document tokens(offsets[d + 1] - offsets[d]);
    reader.read(static_cast<std::int64_t>(offsets[d]), static_cast<std::int64_t>(tokens.size()), tokens.data());
    EXPECT_EQ(tokens.back(), 256);
    const auto text = bytes->decode(tokens);
    out.push_back(std::stoi(text.substr(9)));
    EXPECT_EQ(text, document(out.back()));
  }
  return out;
}

using Shards = std::vector<std::vector<int>>;
Shards all_numbers(const std::string& folder, const data::SetIndex& index, const std::vector<data::ShardEntry>& split) {
  Shards out;
  for (const auto& e : split) out.push_back(numbers_of(folder, index, e));
  return out;
}

// The documents of each shard. A hash of its bytes assigns each document to a split; shards close at 1000 tokens. Both
// are part of the format.
const Shards train = {{0, 1, 2, 4, 5, 6, 7, 8},
                      {9, 10, 11, 12, 13, 14, 15},
                      {16, 17, 18, 19, 20, 24},
                      {25, 26, 28, 29, 30, 31, 32, 33},
                      {35, 36, 37, 38, 39}};
const Shards validation = {{3, 21, 22, 23, 27, 34}};

}  // namespace

TEST(Golden, OursReadsAsItWasWritten) {
  const std::string folder = GOLDEN "/set-1";
  const auto index = data::read_index(folder);
  EXPECT_TRUE(index.checksummed);
  EXPECT_EQ(index.vocabulary, 257);
  EXPECT_EQ(index.end_of_document, 256);
  EXPECT_EQ(index.tokenizer, "bytes");
  for (const auto* split : {&index.train, &index.validation})
    for (const auto& e : *split) data::ShardReader(folder, index, e).verify_all();
  EXPECT_EQ(all_numbers(folder, index, index.train), train);
  EXPECT_EQ(all_numbers(folder, index, index.validation), validation);
}

TEST(Golden, TheSameDocumentsAreDividedAsEver) {
  Scratch scratch;
  std::string lines;
  for (int k = 0; k < 40; ++k) lines += nlohmann::json{{"text", document(k)}}.dump() + "\n";
  spit(scratch.path + "/documents.jsonl", lines);
  data::DocumentSource source({scratch.path + "/documents.jsonl"}, {});
  data::BuildOptions options;
  options.output = scratch.path + "/set";
  options.shard_tokens = 1000;
  options.validation = 0.2;
  data::build_shards(source, *data::make_tokenizer("bytes"), options, [](std::int64_t) {});
  const auto index = data::read_index(options.output);
  EXPECT_EQ(all_numbers(options.output, index, index.train), train);
  EXPECT_EQ(all_numbers(options.output, index, index.validation), validation);
}

TEST(Golden, TheOneOfH5pyReadsWithoutAnIndex) {
  const std::string folder = GOLDEN "/h5py-1";
  const auto index = data::read_index(folder);
  EXPECT_FALSE(index.checksummed);
  EXPECT_EQ(index.vocabulary, 257);
  EXPECT_EQ(index.end_of_document, 256);
  EXPECT_EQ(all_numbers(folder, index, index.train), (Shards{{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12}}));
  EXPECT_EQ(all_numbers(folder, index, index.validation), (Shards{{13, 14}}));  // its tokens are u32
  data::WindowDataset set(folder, index, index.train,
                          {.sequence = 8, .mask = data::DocumentMask::on, .order = data::Order::as_stored, .seed = 1});
  std::vector<std::int32_t> t(4 * 8);
  std::vector<std::uint8_t> w(8);
  set.fill(0, {t.data(), t.data() + 8, t.data() + 16, t.data() + 24, w.data()});
  EXPECT_EQ(std::string(t.begin(), t.begin() + 8), "Document");
  EXPECT_EQ(std::string(t.begin() + 8, t.begin() + 16), "ocument ");
}

// 40 pairs in one direction, then in the other, made by shard-data --pairs.
TEST(Golden, PairsReadAsTheyWereWritten) {
  const std::string folder = GOLDEN "/pairs-1";
  const auto index = data::read_index(folder);
  EXPECT_TRUE(index.checksummed && index.pairs && index.answers);
  const auto bytes = data::make_tokenizer("bytes");
  std::vector<int> seen(80, 0);
  for (const auto* split : {&index.train, &index.validation})
    for (const auto& entry : *split) {
      data::ShardReader shard(folder, index, entry);
      shard.verify_all();
      data::verify_pairs(shard, index);
      const auto lengths = data::pair_lengths(shard);
      const auto fields = shard.fields();
      for (std::int64_t p = 0; p < std::ssize(lengths); ++p) {
        const auto& length = lengths[static_cast<std::size_t>(p)];
        Document source(static_cast<std::size_t>(length.source)), target(static_cast<std::size_t>(length.target));
        data::read_pair(shard, p, length, source.data(), target.data());
        auto first = bytes->decode(source), second = bytes->decode(target);
        const bool back = first.starts_with("Ziel");
        EXPECT_EQ(fields.values_of(p), (std::vector<std::string>{back ? "de" : "en", back ? "en" : "de"}));
        if (back) std::swap(first, second);
        const int k = std::stoi(first.substr(7));
        EXPECT_EQ(first, fmt::format("Source {}: {}", k, std::string(static_cast<std::size_t>(k * 7 % 13 + 1), 'a')));
        auto ziel = fmt::format("Ziel {}: ", k);
        for (int i = 0; i <= k * 5 % 11; ++i) ziel += "\xC3\xB6";
        EXPECT_EQ(second, ziel);
        ++seen.at(static_cast<std::size_t>(back ? 40 + k : k));
      }
    }
  EXPECT_EQ(seen, std::vector<int>(80, 1));
}
