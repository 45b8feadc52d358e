// Tests files of other programs, of every kind whose text is read. Contents that would crash the HDF5 library, or keep
// it busy for ever, must be refused.
#include "libtrain/io/hdf5_file.h"

#include "libtrain/base/error.h"
#include "tests/scratch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <cstring>
#include <functional>
#include <sys/stat.h>

using trainyard::base::InputError;
using trainyard::io::Hdf5File;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace {

enum class Layout { old, latest };  // what h5py writes: by default, and with libver="latest"

struct Damage : ::testing::Test {
  std::string path() const { return scratch.path + "/a.h5"; }

  void write(Layout layout, const std::function<void(hid_t)>& fill, hsize_t user_block = 0, unsigned order = 0) {
    const auto access = H5Pcreate(H5P_FILE_ACCESS), creation = H5Pcreate(H5P_FILE_CREATE);
    if (layout == Layout::latest) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
    H5Pset_userblock(creation, user_block);
    H5Pset_link_creation_order(creation, order);
    const auto file = H5Fcreate(path().c_str(), H5F_ACC_TRUNC, creation, access);
    fill(file);
    H5Fclose(file), H5Pclose(access), H5Pclose(creation);
  }
  static void text(hid_t file, const std::string& name, const std::string& value) {
    const auto type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, H5T_VARIABLE);
    const auto attribute = H5Acreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT);
    const char* pointer = value.c_str();
    H5Awrite(attribute, type, &pointer);
    H5Aclose(attribute), H5Tclose(type), H5Sclose(space);
  }
  static void numbers(hid_t file, const char* name, hid_t creation = H5P_DEFAULT) {
    const hsize_t count = 4;
    const auto space = H5Screate_simple(1, &count, nullptr);
    H5Dclose(H5Dcreate2(file, name, H5T_STD_U64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
    H5Sclose(space);
  }
  static void two(hid_t file) {
    text(file, "format", "trainyard.shard/1"), text(file, "tokenizer", "bytes"), numbers(file, "tokens"),
        numbers(file, "documents");
  }

  // Sets eight bytes of the file to `number`, `distance` bytes behind the first `mark`.
  void damage(std::string_view mark, std::size_t distance, std::uint64_t number) {
    auto bytes = slurp(path());
    const auto at = bytes.find(mark);
    ASSERT_NE(at, bytes.npos);
    std::memcpy(bytes.data() + at + distance, &number, sizeof number);
    spit(path(), bytes);
  }
  void expect_refusal(const std::function<void(const Hdf5File&)>& use, const std::string& words) {
    try {
      use(Hdf5File::open(path()));
      ADD_FAILURE() << "passes, expected: " << words;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("a.h5"), std::string::npos) << e.what();
    }
  }
  void expect_text_refused() {
    expect_refusal([](const Hdf5File& f) { f.text("/", "format"); }, "attribute format of / lies in a damaged heap");
  }

  Scratch scratch;
};

constexpr std::uint64_t nowhere = ~std::uint64_t{0};

}  // namespace

TEST_F(Damage, TextOfAnyLayoutIsRead) {
  for (const auto layout : {Layout::old, Layout::latest})
    for (const hsize_t user_block : {0, 512, 4096})
      for (const int attributes : {0, 6, 20})  // above eight, the latest layout keeps attributes in a heap
        for (const unsigned order : {0u, unsigned{H5P_CRT_ORDER_TRACKED}}) {
          write(
              layout,
              [&](hid_t file) {
                for (int i = 0; i < attributes; ++i)
                  text(file, fmt::format("note {}", i), std::string(static_cast<std::size_t>(i) * 500, 'n'));
                two(file), text(file, "empty", ""), text(file, "large", std::string(100'000, 'x')),
                    text(file, "last", "of all");
                for (int i = 0; i < 50 * attributes; ++i)
                  H5Lcreate_soft("/tokens", file, fmt::format("link {}", i).c_str(), H5P_DEFAULT,
                                 H5P_DEFAULT);  // a tree of several levels
                for (int i = 0; i < 50 * attributes; i += 3)
                  H5Ldelete(file, fmt::format("link {}", i).c_str(), H5P_DEFAULT);
              },
              user_block, order);
          const auto file = Hdf5File::open(path());
          EXPECT_EQ(file.text("/", "format"), "trainyard.shard/1");
          EXPECT_EQ(file.text("/", "tokenizer"), "bytes");
          EXPECT_EQ(file.text("/", "empty"), "");
          EXPECT_EQ(file.text("/", "large"), std::string(100'000, 'x'));
          EXPECT_EQ(file.text("/", "last"), "of all");
          EXPECT_EQ(attributes == 20 ? file.text("/", "note 19") : std::string(9500, 'n'), std::string(9500, 'n'));
          EXPECT_EQ(file.info("/documents").count(), 4);
          EXPECT_EQ(file.exists("/link 298"), attributes > 5);
          EXPECT_FALSE(file.exists("/link 297"));
        }
}

// A heap collection: "GCOL", version, size at byte 8. Objects begin at 16: index and uses, size at their byte 8.
TEST_F(Damage, AHeapThatEndsNowhereIsRefused) {
  for (const auto layout : {Layout::old, Layout::latest}) {
    for (const std::uint64_t size :
         {std::uint64_t{0}, std::uint64_t{15}, std::uint64_t{1} << 20, nowhere - 15, nowhere}) {
      write(layout, two);
      damage("GCOL", 16 + 8, size);  // size of the first object
      expect_text_refused();
      write(layout, [](hid_t file) { text(file, "format", "trainyard.shard/1"); });
      damage("GCOL", 16 + 16 + 24 + 8, size);  // size of the free space, where the library would loop
      expect_text_refused();
      write(layout, two);
      damage("GCOL", 8, size);  // size of the whole collection
      expect_text_refused();
    }
    write(layout, two);
    damage("GCOL", 16, 77);  // another index
    expect_text_refused();
    write(layout, two);
    damage("GCOL", 16 + 8, 5);  // shorter than the attribute says: the library would read past its end
    expect_text_refused();
  }
}

// The root group of the old layout: a heap of names ("HEAP": its bytes, its free bytes, its address), a tree ("TREE":
// its first child at 32), and leaves ("SNOD": the first name at 8).
TEST_F(Damage, AnOldRootGroupThatLeadsNowhereIsRefused) {
  const std::size_t names = 8, unused = 16, place = 24;
  for (const auto& [mark, distance] : {std::pair{"HEAP", names},
                                       {"HEAP", unused},
                                       {"HEAP", place},
                                       {"TREE", std::size_t{32}},
                                       {"TREE", std::size_t{24}},
                                       {"SNOD", std::size_t{8}}})
    for (const std::uint64_t number : {nowhere, nowhere / 2, std::uint64_t{1} << 40}) {
      write(Layout::old, two);
      damage(mark, distance, number);
      if (distance == unused && number == nowhere) continue;  // another form of an empty list
      expect_refusal([](const Hdf5File& f) { f.exists("/tokens"); }, "is no HDF5 file that can be read");
    }
  for (const std::size_t address : {64, 80, 88}) {  // of the root's header, and of tree and names in the superblock
    write(Layout::old, two);
    damage("\x89HDF", address, nowhere);
    expect_refusal([](const Hdf5File& f) { f.exists("/tokens"); },
                   "is no HDF5 file that can be read: it leads to bytes");
  }
}

TEST_F(Damage, CirclesAreRefused) {
  write(Layout::old, two);
  const auto bytes = slurp(path());
  const auto tree = bytes.find("TREE");
  damage("TREE", 32, tree);  // the tree is its own child, one level higher
  auto level = slurp(path());
  level[tree + 5] = 1;
  spit(path(), level);
  expect_refusal([](const Hdf5File& f) { f.exists("/tokens"); }, "the tree of its root group leads nowhere");
  std::uint64_t heap_data = 0;
  std::memcpy(&heap_data, bytes.data() + bytes.find("HEAP") + 24, 8);
  std::uint64_t unused = 0;
  std::memcpy(&unused, bytes.data() + bytes.find("HEAP") + 16, 8);
  auto circle = bytes;
  std::memcpy(circle.data() + heap_data + unused, &unused, 8);
  spit(path(), circle);
  expect_refusal([](const Hdf5File& f) { f.exists("/tokens"); },
                 "the list of free names of its root group does not end");
}

TEST_F(Damage, AVirtualDatasetWithADamagedMapIsRefused) {
  const hsize_t count = 4;
  const auto space = H5Screate_simple(1, &count, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_virtual(creation, space, "other.h5", "/x", space);
  for (const std::uint64_t size : {std::uint64_t{0}, nowhere}) {
    write(Layout::latest, [&](hid_t file) { numbers(file, "tokens", creation); });
    EXPECT_TRUE(Hdf5File::open(path()).info("/tokens").is_virtual);
    auto bytes = slurp(path());
    std::uint64_t first = 0;
    std::memcpy(&first, bytes.data() + bytes.find("GCOL") + 16 + 8, 8);
    damage("GCOL", 16 + 16 + (first + 7) / 8 * 8 + 8, size);  // size of the free space behind the map
    expect_refusal([](const Hdf5File& f) { f.info("/tokens"); }, "cannot open the dataset /tokens");
  }
  H5Sclose(space), H5Pclose(creation);
}

TEST_F(Damage, NoOtherFileIsWaitedFor) {
  const auto pipe = scratch.path + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const hsize_t count = 4;
  const auto space = H5Screate_simple(1, &count, nullptr), elsewhere = H5Pcreate(H5P_DATASET_CREATE),
             external = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_virtual(elsewhere, space, "pipe", "/x", space);
  H5Pset_external(external, pipe.c_str(), 0, 32);
  write(Layout::latest, [&](hid_t file) {
    H5Lcreate_external("pipe", "/x", file, "linked", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_external(path().c_str(), "/tokens", file, "beyond", H5P_DEFAULT, H5P_DEFAULT);  // a file that exists
    H5Lcreate_external(path().c_str(), "/", file, "folder", H5P_DEFAULT, H5P_DEFAULT);
    numbers(file, "virtual", elsewhere), numbers(file, "external", external);
  });
  std::uint64_t out[4] = {1, 1, 1, 1};
  for (const char* name : {"/linked", "/beyond"})
    expect_refusal([&](const Hdf5File& f) { f.info(name); }, std::string(name) + " is a link into another file");
  expect_refusal([&](const Hdf5File& f) { f.info("/folder/x"); }, "open the dataset /folder/x");
  expect_refusal([&](const Hdf5File& f) { f.read_dataset("/external", trainyard::base::DType::u64, 0, 4, out); },
                 "/external lies in another file");
  Hdf5File::open(path()).read_dataset("/virtual", trainyard::base::DType::u64, 0, 4,
                                      out);  // missing elements still read as 0
  EXPECT_EQ(out[3], 0u);
  H5Sclose(space), H5Pclose(elsewhere), H5Pclose(external);
}

TEST_F(Damage, ATextThatIsTooLongIsRefused) {
  write(Layout::latest, [](hid_t file) {
    const std::string value(3 << 20, 'x');
    const auto type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, value.size());
    const auto attribute = H5Acreate2(file, "format", type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, value.data());
    H5Aclose(attribute), H5Tclose(type), H5Sclose(space);
  });
  expect_refusal([](const Hdf5File& f) { f.text("/", "format"); }, "has 3145728 bytes");
}

// A header that says compact, where the elements should be in the header itself, and stores none or few.
TEST_F(Damage, ACompactDatasetWithoutItsElementsIsRefused) {
  constexpr auto u64 = trainyard::base::DType::u64;
  std::array<std::uint64_t, 4> out{1, 1, 1, 1};
  for (const std::uint64_t stored : {0, 8, 31}) {
    write(Layout::old, two);
    const std::string unallocated("\x03\x01\xff\xff\xff\xff\xff\xff\xff\xff\x20", 11);
    damage(unallocated, 1, stored << 8);  // class 0, then two bytes of size
    expect_refusal([&](const Hdf5File& f) { f.read_dataset("/tokens", u64, 0, 4, out.data()); },
                   stored == 0 ? "stores fewer elements" : "/tokens");
  }
  // One that is whole is read.
  write(Layout::old, [](hid_t file) {
    const auto creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(creation, H5D_COMPACT);
    numbers(file, "tokens", creation);
    H5Pclose(creation);
  });
  Hdf5File::open(path()).read_dataset("/tokens", u64, 0, 4, out.data());
  EXPECT_EQ(out, (std::array<std::uint64_t, 4>{}));
}

// The place of a dataset's elements, in files without checksums: anywhere but in the file is damage, not a failed read.
TEST_F(Damage, ADatasetThatLeadsOutOfTheFileIsRefused) {
  for (const std::uint64_t at : {~std::uint64_t{15}, std::uint64_t{1} << 63, std::uint64_t{1} << 40}) {
    write(Layout::old, [](hid_t file) {
      const auto creation = H5Pcreate(H5P_DATASET_CREATE);
      H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
      numbers(file, "tokens", creation);
      H5Pclose(creation);
    });
    hsize_t offset = 0;
    {
      const auto file = Hdf5File::open(path());
      offset = static_cast<hsize_t>(file.info("/tokens").offset);
    }
    std::string place(10, 0);
    place[0] = 3, place[1] = 1;
    std::memcpy(place.data() + 2, &offset, sizeof offset);
    damage(place, 2, at);
    expect_refusal([](const Hdf5File& f) { f.info("/tokens"); }, "/tokens leads beyond the end of the file");
  }
}
