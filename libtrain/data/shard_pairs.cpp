// Finds the border of a pair where its answer begins.
#include "libtrain/data/shard_pairs.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

namespace trainyard::data {

namespace {

[[noreturn]] void refuse_pair(const ShardReader& shard, std::int64_t pair, const char* why) {
  throw base::InputError(fmt::format("shard {}: document {} is no pair: {}", shard.path(), pair, why),
                         "the index says that its documents are pairs: make the shards again with shard-data");
}

}  // namespace

std::vector<PairLength> pair_lengths(const ShardReader& shard) {
  const auto documents = shard.documents();
  const auto answers = shard.answers();
  std::vector<PairLength> out;
  out.reserve(documents.size() - 1);
  for (std::int64_t p = 0; p + 1 < std::ssize(documents); ++p) {
    const auto begin = static_cast<std::int64_t>(documents[base::size(p)]),
               end = static_cast<std::int64_t>(documents[base::size(p) + 1]);
    if (p >= std::ssize(answers)) refuse_pair(shard, p, "it has no answer");
    const auto& answer = answers[base::size(p)];
    if (answer.begin <= begin || answer.begin >= end) refuse_pair(shard, p, "its answer does not begin in it");
    if (answer.end != end) refuse_pair(shard, p, "its answer does not end with it");
    out.push_back({answer.begin - begin, end - answer.begin});
  }
  if (std::ssize(answers) > std::ssize(out)) refuse_pair(shard, std::ssize(out), "an answer lies behind all documents");
  return out;
}

PairLength pair_length(const ShardReader& shard, std::int64_t pair) {
  const auto documents = shard.documents();
  const auto border = shard.answers()[base::size(pair)].begin;
  return {border - static_cast<std::int64_t>(documents[base::size(pair)]),
          static_cast<std::int64_t>(documents[base::size(pair + 1)]) - border};
}

void read_pair(ShardReader& shard, std::int64_t pair, const PairLength& length, std::int32_t* source,
               std::int32_t* target) {
  const auto begin = static_cast<std::int64_t>(shard.documents()[base::size(pair)]);
  shard.read(begin, length.source, source);
  shard.read(begin + length.source, length.target, target);
}

void verify_pairs(ShardReader& shard, const SetIndex& index) {
  const auto lengths = pair_lengths(shard);
  std::int64_t at = 0;
  for (std::int64_t p = 0; p < std::ssize(lengths); ++p)
    for (const auto side : {base::at(lengths, p).source, base::at(lengths, p).target}) {
      std::int32_t last = 0;
      shard.read((at += side) - 1, 1, &last);
      if (last != index.end_of_document) refuse_pair(shard, p, "a side does not end with the end of document");
    }
}

}  // namespace trainyard::data
