// Tests the HDF5 wrapper: attributes, datasets read without the library, virtual datasets, errors.
#include "libtrain/io/hdf5_file.h"

#include "libtrain/base/error.h"
#include "libtrain/io/bulk.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <cmath>
#include <csignal>
#include <numeric>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using trainyard::testing::Scratch;
using trainyard::testing::spit;

namespace io = trainyard::io;
using trainyard::base::bf16;
using trainyard::base::DType;
using trainyard::base::EnvironmentError;
using trainyard::base::InputError;

TEST(Hdf5File, AttributesComeBack) {
  Scratch s;
  const std::string large(200'000, 'j');
  {
    auto f = io::Hdf5File::create(s.path + "/a.h5");
    f.make_group("/deep/er");
    f.set_text("/", "format", "trainyard.test/1");
    f.set_text("/", "format", "trainyard.test/2");
    f.set_text("/deep/er", "large", large);
    f.set_text("/", "empty", "");
    f.set_integer("/", "n", -(std::int64_t{1} << 60) - 1);
    f.set_real("/", "x", 0.1);
    f.close();
  }
  const auto f = io::Hdf5File::open(s.path + "/a.h5");
  EXPECT_EQ(f.text("/", "format"), "trainyard.test/2");
  EXPECT_EQ(f.text("/deep/er", "large"), large);
  EXPECT_EQ(f.text("/", "empty"), "");
  EXPECT_EQ(f.integer("/", "n"), -(std::int64_t{1} << 60) - 1);
  EXPECT_EQ(f.real("/", "x"), 0.1);
  EXPECT_EQ(f.real("/", "n"), -0x1p60);
  EXPECT_TRUE(f.has_attribute("/", "n"));
  EXPECT_FALSE(f.has_attribute("/", "m"));
  EXPECT_FALSE(f.has_attribute("/nowhere", "m"));
  EXPECT_TRUE(f.exists("/deep/er"));
  EXPECT_FALSE(f.exists("/shallow/er"));
  EXPECT_THROW(f.integer("/", "format"), InputError);
  EXPECT_THROW(f.integer("/", "x"), InputError);
  EXPECT_THROW(f.text("/", "n"), InputError);
  EXPECT_THROW(f.text("/", "absent"), InputError);
}

TEST(Hdf5File, APayloadGoesPastTheLibrary) {
  Scratch s;
  std::vector<float> data(5000);
  std::iota(data.begin(), data.end(), -100.0f);
  std::int64_t offset = 0;
  {
    auto f = io::Hdf5File::create(s.path + "/a.h5");
    offset = f.create_dataset("/group/payload", DType::f32, {50, 100});
    const std::uint16_t small[3] = {1, 2, 65535};
    f.write_dataset("/small", DType::u16, {3}, small);
    f.close();
  }
  EXPECT_EQ(offset % 4096, 0);
  {
    io::BulkFile bulk(s.path + "/a.h5", io::BulkFile::Mode::update);
    bulk.write(offset, data.data(), 20000);
  }
  const auto f = io::Hdf5File::open(s.path + "/a.h5");
  EXPECT_EQ(f.info("/group/payload").shape, (std::vector<std::int64_t>{50, 100}));
  EXPECT_EQ(f.info("/group/payload").offset, offset);
  std::vector<float> got(5000);
  f.read_dataset("/group/payload", DType::f32, 0, 5000, got.data());
  EXPECT_EQ(got, data);
  std::uint16_t two[2] = {};
  f.read_dataset("/small", DType::u16, 1, 2, two);
  EXPECT_EQ(two[1], 65535);
  EXPECT_EQ(f.children("/"), (std::vector<std::string>{"group", "small"}));
  EXPECT_THROW(f.read_dataset("/small", DType::u32, 0, 3, got.data()), InputError);
  EXPECT_THROW(f.read_dataset("/small", DType::u16, 2, 2, two), InputError);
  EXPECT_THROW(f.info("/absent"), InputError);
}

TEST(Hdf5File, EveryElementTypeIsRecognised) {
  Scratch s;
  auto f = io::Hdf5File::create(s.path + "/a.h5");
  const std::int64_t zero[2] = {};
  for (const auto& t : trainyard::base::dtype_traits) {
    f.write_dataset(std::string("/") + t.name, t.dtype, {2}, zero);
    EXPECT_EQ(f.info(std::string("/") + t.name).dtype, t.dtype);
  }
  EXPECT_EQ(f.create_dataset("/empty", DType::f32, {0}), -1);
  f.read_dataset("/empty", DType::f32, 0, 0, nullptr);
}

// The library itself widens what was written as f16 or bf16 to the values that were meant.
TEST(Hdf5File, OtherProgramsReadNarrowNumbers) {
  Scratch s;
  const std::vector<float> values{1.0f, -2.5f, 0x1p-14f, 0x1p-24f, 65504.0f, 0.0f};
  std::vector<trainyard::base::f16> f16;
  std::vector<bf16> of_bf16;
  for (const float v : values) f16.emplace_back(v), of_bf16.emplace_back(v);
  {
    auto f = io::Hdf5File::create(s.path + "/a.h5");
    f.write_dataset("/f16", DType::f16, {6}, f16.data());
    f.write_dataset("/bf16", DType::bf16, {6}, of_bf16.data());
  }
  for (const auto& [name, rounded] : {std::pair{"/f16", false}, std::pair{"/bf16", true}}) {
    std::vector<float> read(6);
    const auto access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_file_locking(access, false, true);
    const auto file = H5Fopen((s.path + "/a.h5").c_str(), H5F_ACC_RDONLY, access);
    H5Pclose(access);
    const auto dataset = H5Dopen2(file, name, H5P_DEFAULT);
    ASSERT_GE(H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data()), 0) << name;
    H5Dclose(dataset);
    H5Fclose(file);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(read[i], rounded ? static_cast<float>(of_bf16[i]) : static_cast<float>(f16[i])) << name << " " << i;
  }
}

// Compares every flat range of several shapes with a list of marked elements.
TEST(Hdf5File, BoxesCoverARangeInOrder) {
  for (const auto& shape : {std::vector<std::int64_t>{13}, {5, 7}, {3, 4, 5}, {2, 3, 2, 3}, {1, 6}, {6, 1}}) {
    std::int64_t total = 1;
    for (auto d : shape) total *= d;
    for (std::int64_t first = 0; first < total; ++first)
      for (std::int64_t count = 0; first + count <= total; ++count) {
        const auto boxes = io::boxes_of(shape, first, count);
        ASSERT_LE(boxes.size(), 2 * shape.size() - 1);
        std::vector<std::int64_t> flat;
        for (const auto& box : boxes) {
          std::vector<std::int64_t> at(shape.size(), 0);
          std::int64_t n = 1;
          for (auto e : box.extent) n *= e;
          for (std::int64_t k = 0; k < n; ++k) {
            std::int64_t rest = k, index = 0, stride = 1;
            for (std::size_t d = shape.size(); d-- > 0;) {
              at[d] = box.start[d] + rest % box.extent[d];
              rest /= box.extent[d];
              ASSERT_LT(at[d], shape[d]);
              index += at[d] * stride;
              stride *= shape[d];
            }
            flat.push_back(index);
          }
        }
        ASSERT_EQ(static_cast<std::int64_t>(flat.size()), count);
        for (std::int64_t k = 0; k < count; ++k) ASSERT_EQ(flat[static_cast<std::size_t>(k)], first + k);
      }
  }
}

TEST(Hdf5File, AVirtualDatasetShowsItsParts) {
  Scratch s;
  std::vector<bf16> a, b;
  for (int i = 0; i < 10; ++i) a.push_back(bf16(static_cast<float>(i)));
  for (int i = 0; i < 8; ++i) b.push_back(bf16(static_cast<float>(100 + i)));
  for (const auto& [name, data] : {std::pair<std::string, const std::vector<bf16>&>{"/a.h5", a}, {"/b.h5", b}}) {
    auto f = io::Hdf5File::create(s.path + name);
    f.write_dataset("/flat", DType::bf16, {static_cast<std::int64_t>(data.size())}, data.data());
    f.close();
  }
  auto f = io::Hdf5File::create(s.path + "/whole.h5");
  // 3 x 5: elements 0-6 come from a[2..8], 7-12 from b[1..6], 13 and 14 from no file.
  std::vector<io::VirtualPart> parts;
  const auto add = [&](const char* file, std::int64_t at, std::int64_t size, std::int64_t first, std::int64_t count) {
    for (const auto& box : io::boxes_of({3, 5}, first, count)) {
      parts.push_back({file, "/flat", at, size, box});
      at += box.extent[0] * box.extent[1];
    }
  };
  add("a.h5", 2, 10, 0, 7);
  add("b.h5", 1, 8, 7, 6);
  f.create_virtual("/x/whole", DType::bf16, {3, 5}, parts);
  f.close();
  const auto again = io::Hdf5File::open(s.path + "/whole.h5");
  EXPECT_TRUE(again.info("/x/whole").is_virtual);
  EXPECT_EQ(again.info("/x/whole").offset, -1);
  std::vector<bf16> got(15);
  again.read_dataset("/x/whole", DType::bf16, 0, 15, got.data());
  for (int i = 0; i < 15; ++i) {
    const float x = static_cast<float>(got[static_cast<std::size_t>(i)]);
    if (i < 7) EXPECT_EQ(x, static_cast<float>(i + 2));
    else if (i < 13) EXPECT_EQ(x, static_cast<float>(101 + i - 7));
    else EXPECT_TRUE(std::isnan(x));
  }
}

TEST(Hdf5File, ErrorsNameTheFile) {
  Scratch s;
  spit(s.path + "/text.h5", "this is no HDF5");
  try {
    io::Hdf5File::open(s.path + "/text.h5");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("/text.h5"), std::string::npos);
  }
  EXPECT_THROW(io::Hdf5File::open(s.path + "/absent.h5"), InputError);
  EXPECT_THROW(io::Hdf5File::create(s.path + "/no/such/a.h5"), EnvironmentError);
  EXPECT_EQ(io::hdf5_version().find("1."), 0u);
}

// A link or a pipe under the name is replaced: nothing is written through it.
TEST(Hdf5File, ANewOneIsWrittenThroughNoLinkAndIntoNoPipe) {
  Scratch s;
  spit(s.path + "/elsewhere", "theirs");
  std::filesystem::create_symlink(s.path + "/elsewhere", s.path + "/link.h5");
  ASSERT_EQ(::mkfifo((s.path + "/pipe.h5").c_str(), 0666), 0);
  ::alarm(30);
  for (const char* name : {"/link.h5", "/pipe.h5", "/pipe.h5"}) {
    auto file = io::Hdf5File::create(s.path + name);
    file.set_integer("/", "n", 7);
    file.close();
    EXPECT_EQ(io::Hdf5File::open(s.path + name).integer("/", "n"), 7);
  }
  ::alarm(0);
  EXPECT_EQ(trainyard::testing::slurp(s.path + "/elsewhere"), "theirs");
}

// A person reads the message: which file, what failed, and the system's reason. It has no addresses, descriptors or
// times.
TEST(Hdf5File, AFullDiskIsSaidInOneSentence) {
  Scratch s;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  std::string said;
  {
    auto f = io::Hdf5File::create(s.path + "/a.h5");
    auto tight = before;
    tight.rlim_cur = 100;
    setrlimit(RLIMIT_FSIZE, &tight);
    try {
      f.set_text("/", "large", std::string(200'000, 'j'));
      f.close();
    } catch (const EnvironmentError& e) {
      said = e.what();
    }
    setrlimit(RLIMIT_FSIZE, &before);
  }
  EXPECT_TRUE(said.starts_with(s.path + "/a.h5: cannot ")) << said;
  EXPECT_TRUE(said.ends_with(": File too large")) << said;
  EXPECT_LT(said.size(), s.path.size() + 80) << said;
}
