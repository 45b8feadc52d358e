// Tests attention layouts in HDF5 files: what is read, and what is refused.
#include "libtrain/io/layout_file.h"

#include "libtrain/base/error.h"
#include "libtrain/io/hdf5_file.h"
#include "tests/scratch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <functional>
#include <optional>

namespace trainyard::io {
namespace {

using base::DType;
using testing::Scratch;
using testing::slurp;
using testing::spit;

// The content of the file that write() makes. The defaults are valid.
struct Content {
  std::string name = "/layout";
  DType dtype = DType::u8;
  std::vector<std::int64_t> shape = {2, 3, 3};
  std::vector<std::uint8_t> bytes = {1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  std::function<void(Hdf5File&)> attribute = [](Hdf5File& f) { f.set_integer("/layout", "block", 32); };
};

struct LayoutFile : ::testing::Test {
  std::string path() const { return scratch.path + "/it.h5"; }
  void write(const Content& c) const {
    auto f = Hdf5File::create(path());
    if (c.bytes.empty()) f.create_dataset(c.name, c.dtype, c.shape);
    else f.write_dataset(c.name, c.dtype, c.shape, c.bytes.data());
    c.attribute(f);
    f.close();
  }
  std::string refusal() const {
    try {
      read_layout_file(path());
    } catch (const base::InputError& e) {
      EXPECT_NE(std::string(e.what()).find("it.h5"), std::string::npos) << e.what();
      return e.what();
    } catch (const std::exception& e) {
      return std::string("another error: ") + e.what();
    }
    return "it was read";
  }
  void expect_refused(const Content& c, const std::string& words) const {
    write(c);
    EXPECT_NE(refusal().find(words), std::string::npos) << refusal();
  }
  Scratch scratch;
};

TEST_F(LayoutFile, IsReadAsItWasWritten) {
  const Content c;
  write(c);
  const auto map = read_layout_file(path());
  EXPECT_EQ(map.block, 32);
  EXPECT_EQ(map.heads, 2);
  EXPECT_EQ(map.n, 3);
  EXPECT_EQ(map.present, c.bytes);
  EXPECT_TRUE(holds_layout(path()));
}

// The array is numpy.array([[[1, 0, 0], [1, 1, 0], [0, 1, 1]]], "u1") with block = 64, as h5py stores it. One file is
// plain; the other has compressed chunks, the format of HDF5 1.10 and an attribute of 8 bits.
TEST_F(LayoutFile, OfAnotherProgramIsRead) {
  for (const char* file : {"plain.h5", "chunks.h5"}) {
    const auto map = read_layout_file(fmt::format("{}/{}", GOLDEN_LAYOUTS, file));
    EXPECT_EQ(map.block, 64) << file;
    EXPECT_EQ(map.heads, 1);
    EXPECT_EQ(map.n, 3);
    EXPECT_EQ(map.present, (std::vector<std::uint8_t>{1, 0, 0, 1, 1, 0, 0, 1, 1})) << file;
  }
}

TEST_F(LayoutFile, OfAnotherTypeShapeOrValueIsRefused) {
  Content c;
  c.dtype = DType::u16, c.bytes.resize(36);
  expect_refused(c, "layout holds u16, not u8");
  c = {}, c.name = "/other", c.attribute = [](Hdf5File&) {};
  expect_refused(c, "there is no 'layout' in it");
  EXPECT_FALSE(holds_layout(path()));
  c = {}, c.shape = {3, 6};
  expect_refused(c, "the shape [3, 6], which is not [heads, n, n]");
  c = {}, c.shape = {3, 2, 3};
  expect_refused(c, "the shape [3, 2, 3], which is not [heads, n, n]");
  c = {}, c.shape = {0, 3, 3}, c.bytes.clear();
  expect_refused(c, "the shape [0, 3, 3]: it has no blocks");
  c = {}, c.shape = {1, 4097, 4097}, c.bytes.clear();
  expect_refused(c, "4097 blocks a side, more than 4096");
  c = {}, c.bytes[13] = 2;
  expect_refused(c, "layout[1, 1, 1] is 2, neither 0 nor 1");
}

TEST_F(LayoutFile, WithoutARightBlockIsRefused) {
  Content c;
  c.attribute = [](Hdf5File&) {};
  expect_refused(c, "layout has no attribute 'block'");
  c.attribute = [](Hdf5File& f) { f.set_integer("/", "block", 64); };
  expect_refused(c, "layout has no attribute 'block'");
  c.attribute = [](Hdf5File& f) { f.set_integer("/layout", "block", 48); };
  expect_refused(c, "is 48, none of 16, 32, 64, 128");
  c.attribute = [](Hdf5File& f) { f.set_text("/layout", "block", "64"); };
  expect_refused(c, "attribute block of /layout is not an integer");
  c.attribute = [](Hdf5File& f) { f.set_real("/layout", "block", 64); };
  expect_refused(c, "attribute block of /layout is not an integer");
}

// The dataset consists of holes. Neither the file nor its reader allocates that size.
TEST_F(LayoutFile, OfAHugeArrayIsRefusedUnread) {
  const auto file = H5Fcreate(path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t huge[3] = {hsize_t{1} << 40, 4096, 4096}, chunk[3] = {1, 16, 16};
  const auto space = H5Screate_simple(3, huge, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(creation, 3, chunk);
  H5Dclose(H5Dcreate2(file, "layout", H5T_STD_U8LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
  H5Pclose(creation), H5Sclose(space), H5Fclose(file);
  EXPECT_NE(refusal().find("1099511627776 heads of 4096 x 4096 blocks: more than"), std::string::npos) << refusal();
}

TEST_F(LayoutFile, InOtherFilesIsRefused) {
  write({});
  {
    auto f = Hdf5File::create(scratch.path + "/view.h5");
    const VirtualPart part{"it.h5", "/layout", 0, 18, {{0, 0, 0}, {2, 3, 3}}};
    f.create_virtual("/layout", DType::u8, {2, 3, 3}, std::vector{part});
    f.set_integer("/layout", "block", 32);
    f.close();
  }
  try {
    read_layout_file(scratch.path + "/view.h5");
    FAIL() << "it was read";
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("lies in other files"), std::string::npos) << e.what();
  }
}

// A file that is truncated anywhere, or has any byte changed, is refused or gives a complete map.
TEST_F(LayoutFile, ThatIsDamagedIsRefusedOrWhole) {
  write({});
  const auto whole = slurp(path());
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += whole.size() / 61 + 1) {
    spit(path(), whole.substr(0, bytes));
    EXPECT_EQ(refusal().find("it was read"), std::string::npos) << bytes << " of " << whole.size() << " bytes";
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (at > 1024 && at % 4096 > 256 && at + 64 < whole.size()) continue;  // between the parts
    auto damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    spit(path(), damaged);
    std::optional<base::BlockMap> map;
    try {
      map = read_layout_file(path());
    } catch (const base::InputError&) {}
    if (!map) continue;
    ASSERT_EQ(static_cast<std::int64_t>(map->present.size()), map->heads * map->n * map->n) << at;
    for (const auto v : map->present) ASSERT_LE(v, 1) << at;
  }
  std::filesystem::remove(path());
  EXPECT_NE(refusal(), "it was read");
  EXPECT_EQ(refusal().find("another error"), std::string::npos) << refusal();
  EXPECT_FALSE(holds_layout(path()));
}

}  // namespace
}  // namespace trainyard::io
