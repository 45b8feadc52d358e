// Packing: every token once, in the sequence that fits best, and sets that train reads as windows.
#include "tests/data/sample.h"

#include "libtrain/data/builder.h"
#include "libtrain/data/packing.h"
#include "libtrain/data/shard_reader.h"
#include "libtrain/data/task_builder.h"
#include "libtrain/data/window_dataset.h"

#include <algorithm>
#include <map>
#include <random>

using namespace sample;

namespace pack_test {

using data::PackedPiece;
using Sequences = std::vector<std::vector<PackedPiece>>;

std::int64_t held(const std::vector<PackedPiece>& sequence) {
  std::int64_t sum = 0;
  for (const auto& piece : sequence) sum += piece.count;
  return sum;
}

TEST(Pack, PiecesGoWhereLeastRoomIsLeft) {
  // Of 10: 7 and 6 open two sequences, 4 fits the second, 3 the first, 2 and 1 a third.
  EXPECT_EQ(data::best_fit(std::vector<std::int64_t>{3, 6, 2, 7, 1, 4}, 10),
            (Sequences{{{0, 0, 3}, {3, 0, 7}}, {{1, 0, 6}, {5, 0, 4}}, {{2, 0, 2}, {4, 0, 1}}}));
  // A document of 25 is two sequences and a rest, which 5 fills up; one of 10 is a sequence.
  EXPECT_EQ(data::best_fit(std::vector<std::int64_t>{25, 5, 10}, 10),
            (Sequences{{{0, 0, 10}}, {{0, 10, 10}}, {{0, 20, 5}, {1, 0, 5}}, {{2, 0, 10}}}));
  EXPECT_EQ(data::best_fit(std::vector<std::int64_t>{2, 1}, 1), (Sequences{{{0, 0, 1}}, {{0, 1, 1}}, {{1, 0, 1}}}));
  EXPECT_TRUE(data::best_fit({}, 5).empty());
}

// Against a search that looks at every open sequence.
TEST(Pack, IsBestFitDecreasing) {
  std::mt19937 random(7);
  for (const std::int64_t capacity : {1, 2, 7, 64, 65, 130, 5000}) {
    std::vector<std::int64_t> lengths(400);
    for (auto& n : lengths)
      n = 1 + static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(capacity + capacity / 2 + 1));
    const auto packed = data::best_fit(lengths, capacity);
    std::vector<std::int64_t> pieces;
    std::size_t whole = 0;
    for (const auto n : lengths) {
      whole += static_cast<std::size_t>(n / capacity);
      if (n % capacity > 0) pieces.push_back(n % capacity);
    }
    std::sort(pieces.rbegin(), pieces.rend());
    std::vector<std::int64_t> rooms;
    for (const auto n : pieces) {
      auto best = rooms.end();
      for (auto it = rooms.begin(); it != rooms.end(); ++it)
        if (*it >= n && (best == rooms.end() || *it < *best)) best = it;
      if (best == rooms.end()) rooms.push_back(capacity - n);
      else *best -= n;
    }
    ASSERT_EQ(packed.size(), whole + rooms.size()) << capacity;
    std::vector<std::int64_t> left;
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> seen;
    for (const auto& sequence : packed) {
      ASSERT_LE(held(sequence), capacity);
      if (held(sequence) < capacity) left.push_back(capacity - held(sequence));
      for (const auto& piece : sequence) ASSERT_TRUE(seen.insert({{piece.document, piece.first}, piece.count}).second);
      ASSERT_TRUE(std::is_sorted(sequence.begin(), sequence.end(),
                                 [](const auto& a, const auto& b) { return a.document < b.document; }));
    }
    std::erase(rooms, 0);
    std::sort(rooms.begin(), rooms.end()), std::sort(left.begin(), left.end());
    EXPECT_EQ(left, rooms) << capacity;
    for (std::int64_t d = 0; d < std::ssize(lengths); ++d)  // each document once, front to back
      for (std::int64_t at = 0; at < lengths[static_cast<std::size_t>(d)];) {
        const auto found = seen.find({d, at});
        ASSERT_NE(found, seen.end());
        at += found->second;
        ASSERT_TRUE(found->second == capacity || at == lengths[static_cast<std::size_t>(d)]);
      }
  }
}

TEST(Pack, WindowsAreTheSequences) {
  Scratch scratch;
  const auto input = scratch.path + "/text.txt";
  std::mt19937 random(3);
  std::string text;
  for (int d = 0; d < 300; ++d) {
    for (std::uint32_t i = 0, n = 1 + random() % 70; i < n; ++i) text += static_cast<char>('a' + random() % 26);
    text += '\n';
  }
  spit(input, text);
  const auto make = [&](const std::string& name, std::int64_t pack, int threads) {
    data::BuildOptions o;
    o.output = scratch.path + "/" + name, o.validation = 0.1, o.pack = pack, o.shard_tokens = 1000, o.threads = threads;
    o.stretch_bytes = 256;
    data::DocumentSource source({input}, {.split = data::TextSplit::lines});
    const auto result = data::build_shards(source, *data::make_tokenizer("bytes"), o, [](std::int64_t) {});
    EXPECT_EQ(result.sequences > 0, pack > 0);
    if (pack > 0) {
      EXPECT_EQ(result.sequences * pack, result.train_tokens + result.validation_tokens + result.padding);
    }
    return data::read_index(o.output);
  };
  const auto plain = make("plain", 0, 1), packed = make("packed", 48, 1);
  make("threads", 48, 3);
  EXPECT_EQ(slurp(scratch.path + "/threads/index.json"), slurp(scratch.path + "/packed/index.json"));
  EXPECT_EQ(packed.packed_sequence, 48);
  ASSERT_GT(packed.train.size(), 3u);
  const auto documents_of = [&](const std::string& name, const data::SetIndex& index, const auto& split) {
    std::vector<std::string> out;
    for (const auto& entry : split) {
      data::ShardReader shard(scratch.path + "/" + name, index, entry);
      shard.verify_all();
      const auto places = shard.documents();
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(shard.tokens()));
      shard.read(0, shard.tokens(), tokens.data());
      if (index.packed_sequence > 0) {
        EXPECT_EQ(shard.tokens() % 48, 1);
      }
      for (std::size_t d = 0; d + 1 < places.size(); ++d) {
        std::string document;
        for (auto t = places[d]; t < places[d + 1]; ++t)
          document += tokens[t] == 256 ? '$' : static_cast<char>(tokens[t]);
        if (index.packed_sequence == 0) {
          for (std::size_t at = 0; at < document.size(); at += 48) out.push_back(document.substr(at, 48));
        } else if (document != "$" || places[d] % 48 == 0) {
          out.push_back(document);
        }
      }
    }
    std::erase(out, "$");  // padding, and ends of documents that a cut left alone
    std::sort(out.begin(), out.end());
    return out;
  };
  EXPECT_EQ(documents_of("packed", packed, packed.train), documents_of("plain", plain, plain.train));
  EXPECT_EQ(documents_of("packed", packed, packed.validation), documents_of("plain", plain, plain.validation));
  data::WindowDataset windows(
      scratch.path + "/packed", packed, packed.train,
      {.sequence = 48, .mask = data::DocumentMask::on, .order = data::Order::as_stored, .seed = 0});
  std::uint64_t sequences = 0;
  for (const auto& entry : packed.train) sequences += static_cast<std::uint64_t>(entry.tokens / 48);
  ASSERT_EQ(windows.count(), sequences);
  for (std::uint64_t w = 0; w < windows.count(); ++w) {
    std::vector<std::int32_t> i32(4 * 48);
    std::vector<std::uint8_t> weights(48);
    windows.fill(w, {i32.data(), i32.data() + 48, i32.data() + 96, i32.data() + 144, weights.data()});
    ASSERT_EQ(i32[144], 0);        // it begins a document
    ASSERT_EQ(weights.back(), 0);  // and its last target begins one
    for (std::size_t t = 1; t < 48; ++t)
      if (i32[t - 1] == 256) {
        ASSERT_EQ(weights[t - 1], 0);  // no padding is learned
      }
  }
}

// Tasks pack what one process packs, also documents that are longer than a shard.
TEST(Pack, TasksPackTheSame) {
  Scratch scratch;
  const auto input = scratch.path + "/text.txt";
  std::string text;
  for (std::size_t d = 0; d < 8; ++d) text += std::string(20 + d * 37 % 150, static_cast<char>('a' + d)) + "\n";
  spit(input, text);
  for (const std::int64_t shard_tokens : {64, 70, 1000}) {
    data::BuildOptions o;
    o.validation = 0.2, o.pack = 16, o.shard_tokens = shard_tokens, o.stretch_bytes = 64;
    const auto one = scratch.path + fmt::format("/one-{}", shard_tokens),
               parts = scratch.path + fmt::format("/parts-{}", shard_tokens);
    o.output = one;
    const data::SourceOptions lines{.split = data::TextSplit::lines};
    data::DocumentSource source({input}, lines);
    const auto want = data::build_shards(source, *data::make_tokenizer("bytes"), o, [](std::int64_t) {});
    o.output = parts;
    data::TaskResult made;
    for (const int task : {0, 1, 2}) {
      data::DocumentSource share({input}, lines);
      made = data::build_task(share, *data::make_tokenizer("bytes"), o, {task, 3},
                              {[](std::int64_t) {}, [](std::int64_t, std::int64_t) {}});
    }
    ASSERT_EQ(made.state, data::TaskResult::State::made);
    EXPECT_EQ(want.cut, 8);  // all are longer than a sequence
    EXPECT_EQ(made.set.cut, want.cut);
    EXPECT_EQ(made.set.sequences, want.sequences);
    EXPECT_EQ(made.set.padding, want.padding);
    const auto index = data::read_index(one);
    EXPECT_EQ(slurp(parts + "/index.json"), slurp(one + "/index.json"));
    for (const auto* split : {&index.train, &index.validation})
      for (const auto& entry : *split) EXPECT_EQ(slurp(parts + "/" + entry.file), slurp(one + "/" + entry.file));
  }
}

// A packed document keeps its answers.
TEST(Pack, AnswersMoveAlong) {
  Scratch scratch;
  const Numbers tokenizer(500);
  data::ShardWriter writer(scratch.path, "train", tokenizer, 100);
  writer.mark_answers();
  data::PackingWriter packing(writer, 8, 499);
  std::vector<std::pair<std::int32_t, bool>> want;
  for (std::int32_t d = 0; d < 20; ++d) {
    std::vector<std::uint16_t> document;
    const std::int32_t length = 3 + d % 9, begin = length / 2;
    for (std::int32_t i = 0; i < length; ++i) document.push_back(static_cast<std::uint16_t>(d * 20 + i));
    const std::vector<data::AnswerSpan> answers{{begin, length}};
    packing.add(document.data(), length, "", {answers});
    for (std::int32_t i = 0; i < length; ++i) want.emplace_back(d * 20 + i, i >= begin);
  }
  packing.finish();
  data::SetIndex index;
  index.tokenizer = index.tokenizer_source = tokenizer.name(), index.tokenizer_crc32c = tokenizer.crc32c();
  index.vocabulary = 500, index.end_of_document = 499, index.answers = true, index.packed_sequence = 8;
  index.train = writer.finish();
  std::vector<std::pair<std::int32_t, bool>> found;
  for (const auto& entry : index.train) {
    data::ShardReader shard(scratch.path, index, entry);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(shard.tokens()));
    shard.read(0, shard.tokens(), tokens.data());
    for (std::int64_t t = 0; t < shard.tokens(); ++t) {
      const bool answer = std::any_of(shard.answers().begin(), shard.answers().end(),
                                      [&](const auto& span) { return span.begin <= t && t < span.end; });
      if (const auto token = tokens[static_cast<std::size_t>(t)]; token != 499) found.emplace_back(token, answer);
      else EXPECT_FALSE(answer);
    }
  }
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, want);
}

}  // namespace pack_test
