// Documents that depend on their number alone, a tokenizer of bare numbers, and a shard set written from them.
#pragma once

#include "tests/scratch.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/data/shard_set.h"
#include "libtrain/data/shard_writer.h"
#include "libtrain/data/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace sample {

namespace fs = std::filesystem;
namespace base = trainyard::base;
namespace data = trainyard::data;

using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

// A tokenizer that knows sizes and never encodes.
class Numbers : public data::Tokenizer {
 public:
  explicit Numbers(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::string name() const override { return "numbers"; }
  std::uint32_t crc32c() const override { return 0xABCDEF01u; }
  std::string source() const override { return "numbers"; }
  std::int64_t vocabulary() const override { return vocabulary_; }
  std::int32_t end_of_document() const override { return static_cast<std::int32_t>(vocabulary_ - 1); }
  void encode(std::string_view, std::vector<std::int32_t>&) const override {}
  std::string decode(std::span<const std::int32_t>) const override { return ""; }

 private:
  std::int64_t vocabulary_;
};

using Document = std::vector<std::int32_t>;

// `count` documents of 1 to `longest` tokens from a linear congruential sequence. Each ends with the end of document.
inline std::vector<Document> documents(const data::Tokenizer& tokenizer, int count, int longest) {
  std::uint32_t x = 12345;
  const auto next = [&] { return (x = x * 1664525u + 1013904223u) >> 8; };
  std::vector<Document> out;
  for (int d = 0; d < count; ++d) {
    Document document(next() % static_cast<std::uint32_t>(longest));
    for (auto& t : document)
      t = static_cast<std::int32_t>(next() % static_cast<std::uint32_t>(tokenizer.vocabulary() - 1));
    document.push_back(tokenizer.end_of_document());
    out.push_back(document);
  }
  return out;
}

// Writes a set that has training shards only.
inline data::SetIndex write_set(const std::string& folder, const data::Tokenizer& tokenizer,
                                const std::vector<Document>& documents, std::int64_t shard_tokens) {
  data::ShardWriter writer(folder, "train", tokenizer, shard_tokens);
  for (const auto& d : documents) writer.add(d);
  data::SetIndex index;
  index.tokenizer = index.tokenizer_source = tokenizer.name();
  index.tokenizer_crc32c = tokenizer.crc32c();
  index.vocabulary = tokenizer.vocabulary();
  index.end_of_document = tokenizer.end_of_document();
  index.train = writer.finish();
  trainyard::base::write_file(folder + "/index.json", data::index_to_json(index).dump(1) + "\n");
  return index;
}

}  // namespace sample
