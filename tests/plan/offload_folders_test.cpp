// Tests the text of folders, and the stripes of a plan's extents, placed by hand.
#include "libtrain/plan/offload_folders.h"

#include "libtrain/plan/cost/offload.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/disk_use.h"
#include "tests/plan/offload_plan.h"

#include <gtest/gtest.h>

#include <numeric>

namespace trainyard::plan {
namespace offload_folders_test {

using Folders = std::vector<OffloadFolder>;

std::string refusal(const std::string& text) {
  try {
    offload_folders(text, "--offload-dir");
  } catch (const base::UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(OffloadFolders, Text) {
  EXPECT_EQ(offload_folders("", "x"), Folders{});
  EXPECT_EQ(offload_folders("/local/nvme", "x"), (Folders{{"/local/nvme", 1}}));
  EXPECT_EQ(offload_folders("/a:3,b/c:0.5,d", "x"), (Folders{{"/a", 3}, {"b/c", 0.5}, {"d", 1}}));
  EXPECT_EQ(offload_folders("/a:1.93e9,/b:697000000", "x"), (Folders{{"/a", 1.93e9}, {"/b", 697e6}}));
  // A colon in a name is a colon, unless a number follows: then a weight follows that.
  EXPECT_EQ(offload_folders("run:one,nan:nan:1,run:2:1,a:,v:1.2.3,d:+2,../a:,...:1,n:nano", "x"),
            (Folders{{"run:one", 1},
                     {"nan:nan", 1},
                     {"run:2", 1},
                     {"a:", 1},
                     {"v:1.2.3", 1},
                     {"d", 2},
                     {"../a:", 1},
                     {"...", 1},
                     {"n:nano", 1}}));
  EXPECT_EQ(offload_folders(" a:2 , b ,./~,./ c", "x"), (Folders{{"a", 2}, {"b"}, {"./~"}, {"./ c"}}));
  EXPECT_EQ(folders_text({{"/a", 1.93e9}, {"/b", 697e6}}), "/a:2.77,/b:1");
  EXPECT_EQ(folders_text({{"run:2", 7}}), "run:2:1");
  EXPECT_EQ(offload_folders(folders_text({{"run:2", 7}, {"b", 14}}), "x"), (Folders{{"run:2", 1}, {"b", 2}}));
}

TEST(OffloadFolders, Refusals) {
  EXPECT_EQ(refusal("a,"), "--offload-dir \"a,\": a folder without a name");
  EXPECT_EQ(refusal(",a"), "--offload-dir \",a\": a folder without a name");
  EXPECT_EQ(refusal(":2"), "--offload-dir \":2\": a folder without a name");
  EXPECT_EQ(refusal("a:2,b,a:3"), "--offload-dir \"a:2,b,a:3\": a comes twice");
  EXPECT_EQ(refusal("a:2,b,a/:3"), "--offload-dir \"a:2,b,a/:3\": a and a/ are one folder");
  EXPECT_EQ(refusal("a, "), "--offload-dir \"a, \": a folder without a name");
  EXPECT_EQ(refusal("/home/me/a,~/b"), "--offload-dir \"/home/me/a,~/b\": the shell did not replace ~ in ~/b");
  EXPECT_EQ(refusal("fast,./fast"), "--offload-dir \"fast,./fast\": fast and ./fast are one folder");
  EXPECT_EQ(refusal("/x//y/./z:2,/x/y/z/."),
            "--offload-dir \"/x//y/./z:2,/x/y/z/.\": /x//y/./z and /x/y/z/. are one folder");
  for (const char* wrong : {"a:0", "a:-0", "a:-1", "a:1e300", "a:1e-300", "a:1e999", "a:nan", "a:-nan", "a:NaN",
                            "a:inf", "a:-inf", "a:Infinity", "a:+inf"})
    EXPECT_NE(refusal(wrong).find(" is no weight"), std::string::npos) << wrong << ": " << refusal(wrong);
}

// Each stripe goes where the folder is then filled the least for its weight; the first of several. The extents are m
// and v of tokens (32,768 bytes each), positions (8,192), three layers (200,704 in whole pages) and the norm (4,096).
TEST(OffloadFolders, BytesOfEach) {
  const auto offload = offload_of_stage(small_offload_plan("optimizer=disk", 1), 0);
  // a: m and v of tokens, m of layer 0, v of layer 0, v of layer 1, m and v of layer 2. b: the others.
  std::vector<std::int64_t> extents;
  for (const auto& e : offload.extents()) extents.push_back(e.bytes());
  const auto of = folder_bytes(extents, {{"a", 3}, {"b", 1}});
  EXPECT_EQ(of, (std::vector<std::int64_t>{2 * 32768 + 5 * 200704, 2 * 8192 + 200704 + 2 * 4096}));
  // With equal weights they take turns: all of m in a, and all of v in b.
  const auto equal = folder_bytes(extents, {{"a"}, {"b"}});
  EXPECT_EQ(equal, (std::vector<std::int64_t>(2, 32768 + 8192 + 3 * 200704 + 4096)));
  for (const auto& each : {of, equal, folder_bytes(extents, {{"a"}}), folder_bytes(extents, {{"a"}, {"b", 7}, {"c"}})})
    EXPECT_EQ(std::accumulate(each.begin(), each.end(), std::int64_t{0}), offload.disk_bytes());
}

}  // namespace offload_folders_test
}  // namespace trainyard::plan
