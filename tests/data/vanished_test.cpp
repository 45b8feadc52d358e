// Tests shards that are truncated, changed or removed while they are read: the error names the shard. A path that is
// not a file is refused without waiting. Many shards need few open files.
#include "tests/data/sample.h"

#include "libtrain/base/error.h"
#include "libtrain/data/window_dataset.h"

#include <csignal>
#include <sys/stat.h>
#include <unistd.h>

using namespace sample;

namespace {

struct Windows {
  std::vector<std::int32_t> numbers = std::vector<std::int32_t>(4 * 16);
  std::vector<std::uint8_t> weights = std::vector<std::uint8_t>(16);

  // The error's sentence after reading all windows; "" without an error.
  std::string read_all(data::WindowDataset& set) {
    try {
      for (std::uint64_t i = 0; i < set.count(); ++i)
        set.fill(i, {numbers.data(), numbers.data() + 16, numbers.data() + 32, numbers.data() + 48, weights.data()});
      return "";
    } catch (const base::InputError& e) {
      EXPECT_FALSE(e.hint().empty());
      return e.what();
    }
  }
};

data::WindowDataset open_set(const std::string& folder, const data::SetIndex& index) {
  return {folder,
          index,
          index.train,
          {.sequence = 16, .mask = data::DocumentMask::off, .order = data::Order::as_stored, .seed = 1}};
}

std::ptrdiff_t open_files() { return std::distance(fs::directory_iterator("/proc/self/fd"), {}); }

class Vanished : public ::testing::Test {
 protected:
  // More than a page, so that a mapping would lose some.
  void SetUp() override { index = write_set(scratch.path, tokenizer, documents(tokenizer, 2000, 100), 40000); }
  Scratch scratch;
  const Numbers tokenizer{300};
  data::SetIndex index;
  const std::string shard = scratch.path + "/train/shard-00001.h5";
  Windows windows;
};

}  // namespace

TEST_F(Vanished, AShardCutShortIsAnErrorThatNamesIt) {
  auto set = open_set(scratch.path, index);
  ASSERT_EQ(windows.read_all(set), "");  // every block has been checked
  fs::resize_file(shard, static_cast<std::uintmax_t>(index.train[1].bytes / 2));
  const auto said = windows.read_all(set);
  EXPECT_NE(said.find("shard-00001.h5 ends at byte"), std::string::npos) << said;
  fs::resize_file(shard, 0);
  EXPECT_NE(windows.read_all(set).find("shard-00001.h5 ends at byte 0"), std::string::npos);
}

TEST_F(Vanished, WithoutAnIndexToo) {
  fs::remove(scratch.path + "/index.json");
  const auto found = data::read_index(scratch.path);
  auto set = open_set(scratch.path, found);
  fs::resize_file(shard, 5000);
  EXPECT_NE(windows.read_all(set).find("shard-00001.h5 ends at byte 5000"), std::string::npos);
}

TEST_F(Vanished, ManyShardsNeedFewFiles) {
  Scratch many;
  const auto all = write_set(many.path, tokenizer, documents(tokenizer, 500, 40), 60);
  ASSERT_GT(all.train.size(), data::WindowDataset::most_open + 20u);
  const auto before = open_files();
  auto set = open_set(many.path, all);
  EXPECT_EQ(windows.read_all(set), "");
  EXPECT_EQ(windows.read_all(set), "");
  EXPECT_EQ(open_files() - before, data::WindowDataset::most_open);
  // The first shard is closed now. A file in its place is checked again.
  const auto path = many.path + "/" + all.train[0].file;
  const auto good = slurp(path);
  fs::remove(path);
  EXPECT_NE(windows.read_all(set).find("shard-00000.h5"), std::string::npos);
  spit(path, good + "x");
  EXPECT_NE(windows.read_all(set).find("it had"), std::string::npos);
  auto bad = good;
  auto& byte = bad[static_cast<std::size_t>(all.train[0].payload_offset)];
  byte = static_cast<char>(byte ^ 1);
  spit(path, bad);
  EXPECT_NE(windows.read_all(set).find("differ from their checksum"), std::string::npos);
  spit(path, good);
  EXPECT_EQ(windows.read_all(set), "");
}

TEST_F(Vanished, WhatIsNoFileIsRefusedAtOnce) {
  ::alarm(20);  // a hang is a failure
  const auto refused = [&](const auto& open) -> std::string {
    try {
      open();
      return "accepted";
    } catch (const base::InputError& e) {
      return e.what();
    }
  };
  const auto replace = [](const std::string& path) {
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  };
  replace(shard);
  EXPECT_NE(refused([&] { open_set(scratch.path, index); }).find("shard-00001.h5"), std::string::npos);
  replace(scratch.path + "/index.json");
  EXPECT_NE(refused([&] { data::read_index(scratch.path); }).find("index.json: it is a named pipe"), std::string::npos);
  fs::remove(scratch.path + "/index.json");
  EXPECT_NE(refused([&] { data::read_index(scratch.path); }).find("shard-00001.h5: it is a named pipe"),
            std::string::npos);
  const auto model = scratch.path + "/x.model";
  ASSERT_EQ(::mkfifo(model.c_str(), 0600), 0);
  EXPECT_NE(refused([&] { data::make_tokenizer(model); }).find("x.model: it is a named pipe"), std::string::npos);
  EXPECT_NE(refused([&] { data::make_tokenizer("/dev/zero"); }).find("it is a device"), std::string::npos);
  ::alarm(0);
}
