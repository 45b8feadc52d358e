// Pairs that depend on their number alone, and a shard set written from them; rows of two sequences as vectors.
#pragma once

#include "tests/data/sample.h"

#include "libtrain/data/window_source.h"

#include <string>
#include <vector>

namespace pair_sample {

using namespace sample;

// Both sides end with the end of document.
struct Pair {
  Document source, target;
  std::string language = {};  // value of the field "target_language"
};

// `count` pairs whose sides have 1 to `longest` tokens and their end. The target of pair p begins with token p, so all
// pairs differ; the tokenizer has more tokens than there are pairs.
inline std::vector<Pair> pairs(const data::Tokenizer& tokenizer, int count, int longest) {
  auto sides = documents(tokenizer, 2 * count, longest);
  std::vector<Pair> out;
  for (int p = 0; p < count; ++p) {
    const auto i = static_cast<std::size_t>(p);
    Pair pair{sides[2 * i], sides[2 * i + 1], p % 3 == 0 ? "de" : "fr"};
    pair.target.insert(pair.target.begin(), static_cast<std::int32_t>(p));
    if (pair.source.size() == 1) pair.source.insert(pair.source.begin(), 7);
    out.push_back(std::move(pair));
  }
  return out;
}

// Writes a set that has training shards only.
inline data::SetIndex write_pairs(const std::string& folder, const data::Tokenizer& tokenizer,
                                  const std::vector<Pair>& pairs, std::int64_t shard_tokens) {
  data::ShardWriter writer(folder, "train", tokenizer, shard_tokens);
  writer.mark_answers();
  writer.keep_fields({"target_language"});
  for (const auto& pair : pairs) {
    auto document = pair.source;
    document.insert(document.end(), pair.target.begin(), pair.target.end());
    const std::vector<data::AnswerSpan> answers{{std::ssize(pair.source), std::ssize(document)}};
    const std::vector<std::string> fields{pair.language};
    writer.add(document, "", {answers, {}, fields});
  }
  auto index = data::index_for(tokenizer);
  index.answers = index.pairs = true;
  index.train = writer.finish();
  base::write_file(folder + "/index.json", data::index_to_json(index).dump(1) + "\n");
  return index;
}

// One sequence and its source, each array with what fill() must replace.
struct Row {
  std::vector<std::int32_t> tokens, targets, positions, starts, key_end;
  std::vector<std::int32_t> source, source_positions, source_begin, source_end, seen_begin, seen_end;
  std::vector<std::uint8_t> weights;
  bool operator==(const Row&) const = default;

  Row(std::int64_t T, std::int64_t S) {
    for (auto* a : {&tokens, &targets, &positions, &starts, &key_end, &seen_begin, &seen_end})
      a->assign(static_cast<std::size_t>(T), -7);
    for (auto* a : {&source, &source_positions, &source_begin, &source_end}) a->assign(static_cast<std::size_t>(S), -7);
    weights.assign(static_cast<std::size_t>(T), 9);
  }
  data::WindowPtrs pointers() {
    return {tokens.data(),
            targets.data(),
            positions.data(),
            starts.data(),
            weights.data(),
            key_end.data(),
            {source.data(), source_positions.data(), source_begin.data(), source_end.data(), seen_begin.data(),
             seen_end.data()}};
  }
};

inline Row row_at(data::WindowSource& set, std::uint64_t ordinal) {
  Row row(set.sequence(), set.source_sequence());
  set.fill(ordinal, row.pointers());
  return row;
}

}  // namespace pair_sample
