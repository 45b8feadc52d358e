// Equal documents: the first is kept, in one process and in tasks.
#include "tests/data/sample.h"

#include "libtrain/data/builder.h"
#include "libtrain/data/shard_reader.h"
#include "libtrain/data/task_builder.h"
#include "libtrain/data/text_hash.h"

#include <set>

using namespace sample;

namespace deduplicate_test {

using data::TextHash;

// The values of the published implementation (mmh3.hash64 with seed 0, unsigned).
TEST(Deduplicate, TheHashIsMurmur3) {
  EXPECT_EQ(data::hash_of_text(""), (TextHash{0, 0}));
  EXPECT_EQ(data::hash_of_text("foo"), (TextHash{0xe271865701f54561ull, 0x7eaf87e42bba7d87ull}));
  EXPECT_EQ(data::hash_of_text("hello"), (TextHash{0xcbd8a7b341bd9b02ull, 0x5b1e906a48ae1d19ull}));
  EXPECT_EQ(data::hash_of_text("hello, world"), (TextHash{0x342fac623a5ebc8eull, 0x4cdcbc079642414dull}));
  EXPECT_EQ(data::hash_of_text("The quick brown fox jumps over the lazy dog."),
            (TextHash{0xcd99481f9ee902c9ull, 0x695da1a38987b6e7ull}));
}

TEST(Deduplicate, HashesAreASet) {
  data::TextHashes hashes;
  std::set<std::pair<std::uint64_t, std::uint64_t>> expected;
  std::uint64_t x = 1;
  for (int i = 0; i < 20000; ++i) {
    x = x * 6364136223846793005ull + 1442695040888963407ull;
    const TextHash hash{x >> 55, (x >> 40) % 4};  // few, so that many come again, and {0, 0} does
    EXPECT_EQ(hashes.insert(hash), expected.insert({hash.a, hash.b}).second);
  }
  for (std::uint64_t i = 0; i < 5000; ++i) EXPECT_TRUE(hashes.insert({i << 40, ~i}));  // all in one place at first
  EXPECT_EQ(hashes.count(), expected.size() + 5000);
}

struct Made {
  data::BuildResult result;
  std::string index, train;
  std::vector<std::string> documents;
};

struct Sets {
  Scratch scratch;
  std::vector<std::string> inputs;
  Sets() {
    std::string one, two;
    for (int i = 0; i < 40; ++i) one += "line " + std::to_string(i % 25) + " of some text\n";
    for (int i = 0; i < 40; ++i) two += "line " + std::to_string(i) + " of some text\n";
    two += std::string(1500, 'x') + "\n" + std::string(1500, 'x') + "\n";  // longer than a shard
    for (const auto& text : {one, two}) {
      inputs.push_back(scratch.path + "/" + std::to_string(inputs.size()) + ".txt");
      spit(inputs.back(), text);
    }
  }
  Made make(const std::string& name, bool deduplicate, int tasks = 0) {
    data::BuildOptions o;
    o.output = scratch.path + "/" + name, o.validation = 0, o.shard_tokens = 400, o.deduplicate = deduplicate;
    o.stretch_bytes = 64, o.threads = tasks == 0 ? 3 : 1;
    const auto tokenizer = data::make_tokenizer("bytes");
    Made made;
    for (int task = 0; task < std::max(1, tasks); ++task) {
      data::DocumentSource source(inputs, {.split = data::TextSplit::lines});
      if (tasks == 0) made.result = data::build_shards(source, *tokenizer, o, [](std::int64_t) {});
      else
        made.result = data::build_task(source, *tokenizer, o, {task, tasks},
                                       {[](std::int64_t) {}, [](std::int64_t, std::int64_t) {}})
                          .set;
    }
    made.index = slurp(o.output + "/index.json"), made.train = slurp(o.output + "/train/shard-00001.h5");
    const auto index = data::read_index(o.output);
    for (const auto& entry : index.train) {
      data::ShardReader shard(o.output, index, entry);
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(shard.tokens()));
      shard.read(0, shard.tokens(), tokens.data());
      for (std::size_t d = 0; d + 1 < shard.documents().size(); ++d)
        made.documents.emplace_back(tokens.begin() + static_cast<std::ptrdiff_t>(shard.documents()[d]),
                                    tokens.begin() + static_cast<std::ptrdiff_t>(shard.documents()[d + 1]));
    }
    return made;
  }
};

TEST(Deduplicate, TheFirstOfEqualDocumentsIsKept) {
  Sets sets;
  const auto all = sets.make("all", false), once = sets.make("once", true);
  EXPECT_EQ(all.result.duplicates, 0);
  EXPECT_EQ(all.result.documents, 82);
  EXPECT_EQ(once.result.duplicates, 15 + 25 + 1);
  EXPECT_EQ(once.result.documents, 41);
  std::vector<std::string> expected;
  std::set<std::string> seen;
  for (const auto& document : all.documents)
    if (document.find("text") != std::string::npos && seen.insert(document).second) expected.push_back(document);
  for (int i = 0; i < 4; ++i) expected.push_back(all.documents[all.documents.size() - 4 + static_cast<std::size_t>(i)]);
  EXPECT_EQ(once.documents, expected);  // 25 lines, 15 more, and the long one in four pieces
}

TEST(Deduplicate, TasksKeepTheSameOnes) {
  Sets sets;
  const auto once = sets.make("once", true);
  for (const int tasks : {1, 2, 5}) {
    const auto parts = sets.make("parts-" + std::to_string(tasks), true, tasks);
    EXPECT_EQ(parts.index, once.index) << tasks;
    EXPECT_EQ(parts.train, once.train) << tasks;
    EXPECT_EQ(parts.result.documents, once.result.documents);
    EXPECT_EQ(parts.result.duplicates, once.result.duplicates);
  }
}

}  // namespace deduplicate_test
