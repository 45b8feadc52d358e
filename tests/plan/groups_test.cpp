// Tests group descriptions: the meaning of each form, and every mistake in one.
#include "libtrain/plan/grid/groups.h"
#include "libtrain/base/error.h"

#include <gtest/gtest.h>

namespace trainyard::plan {
namespace {

using Groups = std::vector<std::vector<int>>;

TEST(Groups, Forms) {
  EXPECT_EQ(parse_groups("w:all", 3).at(0).groups, (Groups{{0, 1, 2}}));
  EXPECT_EQ(parse_groups("a:1-3", 8).at(0).groups, (Groups{{1, 2, 3}}));
  EXPECT_EQ(parse_groups("a:5,0,2-3", 8).at(0).groups, (Groups{{0, 2, 3, 5}}));
  EXPECT_EQ(parse_groups("a:0-1/4,5/2-3", 8).at(0).groups, (Groups{{0, 1}, {4, 5}, {2, 3}}));
  EXPECT_EQ(parse_groups("a:block3", 6).at(0).groups, (Groups{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(parse_groups("a:stride3", 6).at(0).groups, (Groups{{0, 3}, {1, 4}, {2, 5}}));
  const auto two = parse_groups("tensor:0-7;data:stride8", 64);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].name, "tensor");
  EXPECT_EQ(two[0].size(), 8);
  EXPECT_EQ(two[1].groups.size(), 8u);
  EXPECT_EQ(two[1].groups[3], (std::vector<int>{3, 11, 19, 27, 35, 43, 51, 59}));
}

TEST(Groups, Refusals) {
  const std::pair<const char*, const char*> wrong[] = {{"", "no group"},
                                                       {"data", "NAME:SPEC"},
                                                       {":0-1", "NAME:SPEC"},
                                                       {"data:", "NAME:SPEC"},
                                                       {"a b:all", "letters"},
                                                       {"a:0-8", "no rank 8"},
                                                       {"a:3-1", "empty"},
                                                       {"a:0-x", "no rank"},
                                                       {"a:0,1,1", "twice"},
                                                       {"a:0-1/1-2", "two groups"},
                                                       {"a:0-1/2-4", "unequal sizes, 2 and 3"},
                                                       {"a:stride3", "unequal"},
                                                       {"a:block0", "block0"},
                                                       {"a:block9", "block9"},
                                                       {"a:stride8", "one rank"},
                                                       {"a:4", "one rank"},
                                                       {"a:0-1;a:2-3", "given twice"},
                                                       {"a:1-2-3", "no range"},
                                                       {"a:-1", "no rank"},
                                                       {"a:99999999999", "no rank"},
                                                       {"a:stride", "no rank"}};
  for (const auto& [text, says] : wrong) {
    try {
      parse_groups(text, 8);
      ADD_FAILURE() << text;
    } catch (const base::UsageError& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << text << ": " << e.what();
      EXPECT_FALSE(e.hint().empty());
    }
  }
}

TEST(Groups, StagesAreMeasuredAsPairsOfNeighbours) {
  const auto families = groups_of(Topology({{Axis::pipe, 5}, {Axis::data, 2}}));
  ASSERT_EQ(families.size(), 2u);
  EXPECT_EQ(families[0].name, "pipe");
  EXPECT_EQ(families[0].description, "neighbours of 5 stages");
  EXPECT_EQ(families[0].groups, (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}})) << "stage 4 idles";
  EXPECT_EQ(groups_of(Topology({{Axis::pipe, 2}, {Axis::tensor, 2}}))[0].groups, (Groups{{0, 2}, {1, 3}}));
}

TEST(Groups, OfATopology) {
  const auto families = groups_of(Topology({{Axis::pipe, 1}, {Axis::data, 2}, {Axis::tensor, 3}}));
  ASSERT_EQ(families.size(), 2u);
  EXPECT_EQ(families[0].name, "data");
  EXPECT_EQ(families[0].groups, (Groups{{0, 3}, {1, 4}, {2, 5}}));
  EXPECT_EQ(families[1].groups, (Groups{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_TRUE(groups_of(Topology({{Axis::data, 1}})).empty());
}

}  // namespace
}  // namespace trainyard::plan
