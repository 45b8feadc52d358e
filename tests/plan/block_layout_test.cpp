// Compares layouts with values that were written down for each rule, and checks what holds for all layouts.
#include "libtrain/plan/spec/block_layout.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/spec/block_ranges.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/presets.h"
#include "libtrain/plan/spec/tile_list.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <random>
#include <set>

namespace trainyard::plan {
namespace {

ModelConfig of(const std::string& layout, bool causal) {
  ModelConfig m;
  m.heads = m.kv_heads = 4;
  m.attention.layout = {layout}, m.attention.causal = causal;
  return m;
}

std::string drawing(const BlockLayout& l, std::int64_t head = 0) {
  std::string out;
  for (std::int64_t i = 0; i < l.n; ++i) {
    std::string row(static_cast<std::size_t>(l.n), '0');
    for (const auto j : l.row(head, i)) row[static_cast<std::size_t>(j)] = '1';
    out += (i > 0 ? " " : "") + row;
  }
  return out;
}
std::string drawn(const ModelConfig& m, std::int64_t n = 8) {
  return drawing(block_layout(m, 0, n * m.attention.block));
}

TEST(BlockLayout, HasTheValuesOfTheRules) {
  EXPECT_EQ(drawn(of("fixed", false)), "11110001 11110001 11110001 11110001 00011111 00011111 00011111 00011111");
  EXPECT_EQ(drawn(of("fixed", true)), "10000000 11000000 11100000 11110000 00011000 00011100 00011110 00011111");
  auto m = of("fixed", false);
  m.attention.horizontal = true;
  EXPECT_EQ(drawn(m), "11110001 11110001 11110001 11111111 00011111 00011111 00011111 11111111");
  EXPECT_EQ(drawn(of("fixed", true), 6), "100000 110000 111000 111100 000110 000111");
  m = of("fixed", true);
  m.attention.global = 2;
  EXPECT_EQ(drawn(m), "10000000 11000000 11100000 11110000 00111000 00111100 00111110 00111111");
  m = of("variable", false);
  m.attention.local = {1, 2};
  EXPECT_EQ(drawn(m), "10000000 11100000 11100000 10011000 10011000 10000110 10000110 10000001");
  m = of("bigbird", false);
  m.attention.random = 0;
  const std::string windows = "11111111 11100000 11110000 10111000 10011100 10001110 10000111 10000011";
  EXPECT_EQ(drawn(m), windows);
  EXPECT_EQ(drawn(of("longformer", false)), windows);
  m.attention.causal = true;
  const std::string causal = "10000000 11000000 11100000 10110000 10011000 10001100 10000110 10000011";
  EXPECT_EQ(drawn(m), causal);
  EXPECT_EQ(drawn(of("longformer", true)), causal);
  EXPECT_EQ(drawn(of("sliding", false)), "11000000 11100000 01110000 00111000 00011100 00001110 00000111 00000011");
  EXPECT_EQ(drawn(of("sliding", true)), "10000000 11000000 11100000 01110000 00111000 00011100 00001110 00000111");
  m = of("sliding", true);
  m.attention.window = 2;
  EXPECT_EQ(drawn(m, 4), "1000 1100 0110 0011") << "even windows are as wide as they say";
  EXPECT_EQ(drawn(of("dense", true), 3), "100 110 111");
  m = of("longformer", false);
  m.attention.global_blocks = "2:4", m.attention.window = 1;
  EXPECT_EQ(drawn(m, 5), "10110 01110 11111 11111 00111");
}

TEST(BlockLayout, HeadsHavePatternsOfTheirOwn) {
  auto m = of("fixed", true);
  m.attention.patterns = 4, m.attention.per_head = true;
  const auto l = block_layout(m, 0, 8 * 64);
  ASSERT_EQ(l.heads, 4);
  EXPECT_EQ(drawing(l, 0).substr(36, 8), "00011000");
  EXPECT_EQ(drawing(l, 1).substr(36, 8), "00101000");
  EXPECT_EQ(drawing(l, 3).substr(36, 8), "10001000");
}

ModelConfig any(std::mt19937_64& random) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(random() % n); };
  const std::string layouts[] = {"fixed", "variable", "bigbird", "longformer", "sliding"};
  const std::int64_t blocks[] = {16, 32, 64, 128};
  auto m = of(layouts[below(5)], below(2) == 0);
  auto& a = m.attention;
  a.block = blocks[below(4)], a.window = 1 + below(6), a.global = below(3), a.random = below(4) - 1;
  a.local = {1 + below(4), 1 + below(4)}, a.seed = random();
  if (a.layout[0] == "fixed") a.local = {2 + below(4)}, a.global = 1 + below(2);
  a.global_blocks = below(2) == 0 ? "0" : "1, 3:5", a.per_head = below(2) == 0, a.shared_draws = below(2) == 0;
  a.horizontal = !a.causal && below(2) == 0;
  return m;
}

TEST(BlockLayout, AThousandOfThemKeepTheRules) {
  std::mt19937_64 random(3);
  for (int k = 0; k < 1000; ++k) {
    const auto m = any(random);
    const auto n = static_cast<std::int64_t>(1 + random() % 20);
    const auto sequence = (n - 1) * m.attention.block + 1 +
                          static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(m.attention.block));
    const auto l = block_layout(m, 1, sequence), again = block_layout(m, 1, sequence),
               other = block_layout(m, 2, sequence);
    ASSERT_EQ(l.n, n);
    ASSERT_EQ(l, again);
    ASSERT_EQ(l.columns.size(), other.columns.size()) << "as many blocks, whatever is drawn";
    ASSERT_EQ(l.heads, m.attention.per_head ? 4 : 1);
    for (std::int64_t h = 0; h < l.heads; ++h)
      for (std::int64_t i = 0; i < n; ++i) {
        std::int32_t before = -1;
        for (const auto j : l.row(h, i)) {
          ASSERT_GT(j, before);
          ASSERT_LT(j, n);
          ASSERT_TRUE(!m.attention.causal || j <= i);
          before = j;
        }
      }
  }
}

TEST(BlockLayout, DrawsDependOnSeedLayerHeadAndRowAlone) {
  auto m = of("bigbird", true);
  m.attention.per_head = true, m.attention.window = 1, m.attention.global = 0;
  const auto at = [&](std::int64_t layer, std::int64_t n) { return block_layout(m, layer, n * 64); };
  const auto l = at(0, 40);
  EXPECT_NE(drawing(l, 0), drawing(l, 1));
  EXPECT_NE(drawing(l, 0), drawing(at(1, 40), 0));
  EXPECT_EQ(drawing(at(0, 20), 2).substr(19 * 21, 20), drawing(l, 2).substr(19 * 41, 20)) << "a longer one goes on";
  m.attention.shared_draws = true;
  EXPECT_EQ(drawing(at(0, 40), 1), drawing(at(1, 40), 1));
  m.attention.seed = 1;
  EXPECT_NE(drawing(at(0, 40), 1), drawing(l, 1));
  // Every column that a row may see is equally likely.
  std::vector<int> times(39);
  for (std::uint64_t seed = 0; seed < 3900; ++seed) {
    m.attention.seed = seed;
    const auto drawn = block_layout(m, 0, 40 * 64);
    for (const auto j : drawn.row(0, 39))
      if (j < 39) ++times[static_cast<std::size_t>(j)];
  }
  for (const int t : times) EXPECT_NEAR(t, 100, 50);
}

// What a causal model learned about a text stays valid for its beginning.
TEST(BlockLayout, InACausalModelALongerTextGoesOnWhereAShorterEnded) {
  std::mt19937_64 random(11);
  auto fixed = of("fixed", true);
  fixed.attention.local = {4}, fixed.attention.global = 2, fixed.attention.patterns = 2,
  fixed.attention.per_head = true;
  for (int k = 0; k < 200; ++k) {
    auto m = k == 0 ? fixed : any(random);
    m.attention.causal = true, m.attention.horizontal = false;
    const auto longest = block_layout(m, 0, 24 * m.attention.block);
    for (std::int64_t n = 1; n < 24; ++n) {
      const auto l = block_layout(m, 0, n * m.attention.block);
      for (std::int64_t h = 0; h < l.heads; ++h)
        for (std::int64_t i = 0; i < n; ++i) {
          const auto found = l.row(h, i), want = longest.row(h, i);
          ASSERT_TRUE(std::equal(found.begin(), found.end(), want.begin(), want.end()))
              << m.attention.layout[0] << ", " << n << " blocks, head " << h << ", row " << i;
        }
    }
  }
}

// A layout that is too large is found before it is made.
TEST(BlockLayout, WhatIsTooLargeIsRefusedSoon) {
  auto m = preset("gpt2");
  m.vocabulary = 257, m.heads = m.kv_heads = 64, m.context = 131072;
  m.attention.layout = {"fixed"}, m.attention.block = 16, m.attention.local = {8192}, m.attention.patterns = 2;
  m.attention.per_head = true;
  EXPECT_LE(std::ssize(block_layout(m, 0, m.context).columns), most_layout_columns + std::int64_t{8192} * 8192);
  const auto wrong = problems(m);
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_NE(wrong[0].find("has more than 16777216 blocks in all heads"), std::string::npos) << wrong[0];
  m.attention = {}, m.attention.layout = {"variable"}, m.attention.block = 16, m.attention.local = {1};
  for (int i = 0; i < 4096; ++i) m.attention.global_blocks += ", 0:1048576";
  EXPECT_EQ(problems(m).size(), 1u);
}

TEST(BlockLayout, OfAFileIsItsRows) {
  const std::string text = "0;0 1;;1:4|0;1;2;3";
  const auto rows = file_rows(text);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(file_text(rows), text);
  auto m = of("file", false);
  m.attention.file_blocks = text;
  const auto l = block_layout(m, 0, 4 * 64);
  EXPECT_EQ(drawing(l, 0), "1000 1100 0000 0111");
  EXPECT_EQ(drawing(l, 1), "1000 0100 0010 0001");
  EXPECT_THROW(block_layout(m, 0, 5 * 64), base::InputError);
  for (const char* wrong : {"0-3", "a", "3:2", "1:1", "-1", "99999999999999999999", "1:"})
    EXPECT_THROW(file_rows(wrong), base::InputError) << wrong;
  m.attention.causal = true, m.attention.file_blocks = "0:4;0:4;0:4;0:4";
  EXPECT_EQ(drawing(block_layout(m, 0, 4 * 64)), "1000 1100 1110 1111");
}

TEST(TileList, HasTheElementsOfTheBlocks) {
  std::mt19937_64 random(4);
  for (int k = 0; k < 300; ++k) {
    const auto m = any(random);
    const auto sequence = static_cast<std::int64_t>(1 + random() % 600);
    const auto l = block_layout(m, 0, sequence);
    const auto queries = tiles_of(l), keys = by_keys(queries);
    std::set<std::array<std::int64_t, 3>> blocks, tiles, turned;  // head, and parts of queries and keys
    const auto parts = l.block / attention_part;
    for (std::int64_t h = 0; h < l.heads; ++h)
      for (std::int64_t i = 0; i < l.n; ++i)
        for (const auto j : l.row(h, i))
          for (std::int64_t r = 0; r < parts; ++r)
            for (std::int64_t c = 0; c < parts; ++c) blocks.insert({h, i * parts + r, j * parts + c});
    for (const auto* list : {&queries, &keys}) {
      ASSERT_EQ(list->heads, l.heads);
      ASSERT_GE(list->tiles * attention_tile, sequence);
      ASSERT_EQ(list->begin.size(), static_cast<std::size_t>(l.heads * list->tiles + 1));
      for (std::int64_t h = 0; h < l.heads; ++h)
        for (std::int64_t t = 0; t < list->tiles; ++t) {
          const auto at = static_cast<std::size_t>(h * list->tiles + t);
          for (auto n = list->begin[at]; n < list->begin[at + 1]; ++n) {
            const auto e = static_cast<std::size_t>(n);
            ASSERT_TRUE(n == list->begin[at] || list->other[e - 1] < list->other[e]);
            ASSERT_NE(list->parts[e], 0);
            for (int bit = 0; bit < 16; ++bit)
              if ((list->parts[e] >> bit & 1) != 0) {
                const auto i = list == &queries ? t : list->other[e], j = list == &queries ? list->other[e] : t;
                (list == &queries ? tiles : turned).insert({h, 4 * i + bit / 4, 4 * j + bit % 4});
              }
          }
        }
    }
    ASSERT_EQ(tiles, blocks);
    ASSERT_EQ(turned, blocks);
    const auto room = list_room(m, sequence);
    ASSERT_EQ(room.begins, static_cast<std::int64_t>(queries.begin.size()));
    ASSERT_GE(room.entries, static_cast<std::int64_t>(queries.other.size()));
    if (l.block < 64) continue;
    ASSERT_EQ(room.entries, static_cast<std::int64_t>(queries.other.size()));
  }
}

TEST(AttentionLists, LayersThatAreAlikeShareThem) {
  auto m = of("sliding", true);
  m.layers = 6, m.attention.layout = {"dense", "sliding", "bigbird"};
  EXPECT_EQ(list_of_layer(m), (std::map<std::int64_t, std::int64_t>{{1, 1}, {2, 2}, {4, 1}, {5, 5}}));
  const auto one = [&](std::int64_t layer) { return 2 * list_room(layer_model(m, layer), 640).bytes(); };
  EXPECT_EQ(attention_list_bytes(m, 640), one(1) + 2 * one(2));
  m.attention.shared_draws = true;
  EXPECT_EQ(list_of_layer(m), (std::map<std::int64_t, std::int64_t>{{1, 1}, {2, 2}, {4, 1}, {5, 2}}));
  EXPECT_EQ(attention_list_bytes(m, 640), one(1) + one(2));
  m.attention.layout = {"dense"};
  EXPECT_EQ(attention_list_bytes(m, 640), 0);
}

}  // namespace
}  // namespace trainyard::plan
