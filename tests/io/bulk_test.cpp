// Tests bulk reading and writing: blocks, checksums, short files, and a limited rate.
#include "libtrain/io/bulk.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "tests/scratch.h"
#include "tests/simulated_clock.h"

#include <gtest/gtest.h>

using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace io = trainyard::io;
using trainyard::base::crc32c;
using trainyard::base::InputError;

namespace {

std::string noise(std::size_t n) {
  std::string s(n, '\0');
  std::uint64_t x = 88172645463325252ull;
  for (auto& c : s) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    c = static_cast<char>(x);
  }
  return s;
}

// CRC32C bit by bit, from its definition.
std::uint32_t plain_crc(const std::string& s) {
  std::uint32_t c = ~0u;
  for (unsigned char byte : s) {
    c ^= byte;
    for (int k = 0; k < 8; ++k) c = (c >> 1) ^ ((c & 1u) ? 0x82F63B78u : 0u);
  }
  return ~c;
}

}  // namespace

TEST(Bulk, ChecksumsOfConcatenations) {
  EXPECT_EQ(plain_crc("123456789"), 0xE3069283u);
  const auto s = noise(5000);
  for (std::size_t cut : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{64}, std::size_t{2500},
                          std::size_t{4999}, std::size_t{5000}}) {
    const auto a = s.substr(0, cut), b = s.substr(cut);
    EXPECT_EQ(io::crc32c_combine(plain_crc(a), plain_crc(b), static_cast<std::int64_t>(b.size())), plain_crc(s)) << cut;
  }
  const std::string zeros(3 << 20, '\0');
  EXPECT_EQ(io::crc32c_combine(plain_crc("abc"), crc32c(zeros.data(), zeros.size()), 3 << 20),
            plain_crc("abc" + zeros));
}

TEST(Bulk, BlocksAreCountedFromThePayloadsStart) {
  Scratch s;
  const auto data = noise(2 * io::block_bytes + 777);
  io::BulkFile file(s.path + "/f", io::BulkFile::Mode::create);
  io::Pace pace;
  io::BlockWriter out(file, 4096, pace);
  for (std::size_t at = 0; at < data.size();) {  // portions of uneven sizes
    const auto n = std::min<std::size_t>(data.size() - at, 100000 + at % 977);
    out.write(data.data() + at, static_cast<std::int64_t>(n));
    at += n;
  }
  const auto blocks = out.finish();
  ASSERT_EQ(blocks.size(), 3u);
  for (std::size_t b = 0; b < 3; ++b) {
    const auto part = data.substr(b * io::block_bytes, io::block_bytes);
    EXPECT_EQ(blocks[b], crc32c(part.data(), part.size()));
  }
  file.sync();
  file.close();
  EXPECT_EQ(slurp(s.path + "/f").substr(4096), data);
  const io::BulkFile again(s.path + "/f", io::BulkFile::Mode::read);
  EXPECT_EQ(io::crc32c_of(again, 4096, static_cast<std::int64_t>(data.size())), crc32c(data.data(), data.size()));
  EXPECT_EQ(io::blocks_of(0), 0);
  EXPECT_EQ(io::blocks_of(1), 1);
  EXPECT_EQ(io::blocks_of(io::block_bytes), 1);
}

TEST(Bulk, AShortFileIsRefused) {
  Scratch s;
  spit(s.path + "/f", "0123456789");
  const io::BulkFile file(s.path + "/f", io::BulkFile::Mode::read);
  char buffer[16];
  file.read(2, buffer, 8);
  EXPECT_EQ(std::string(buffer, 8), "23456789");
  try {
    file.read(4, buffer, 8);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("ends at byte 10"), std::string::npos) << e.what();
  }
  EXPECT_THROW(io::BulkFile(s.path + "/absent", io::BulkFile::Mode::read), InputError);
  EXPECT_THROW(io::BulkFile(s.path + "/absent", io::BulkFile::Mode::update), trainyard::base::EnvironmentError);
}

TEST(Bulk, AFullDeviceIsExit4) {
  if (!std::filesystem::exists("/dev/full"))
    GTEST_SKIP() << "this system has no /dev/full; train/command_line limits the size of files instead";
  io::BulkFile file("/dev/full", io::BulkFile::Mode::update);
  try {
    file.write(0, "x", 1);
    FAIL();
  } catch (const trainyard::base::EnvironmentError& e) {
    EXPECT_NE(e.hint().find("disk is full"), std::string::npos) << e.hint();
  }
}

TEST(Bulk, PaceHoldsTheRate) {
  const trainyard::testing::SimulatedClock clock;
  io::Pace pace(1'000'000, {}, clock);
  const double begin = clock.now();
  for (int i = 1; i <= 10; ++i) {
    pace.spend(10'000);
    EXPECT_NEAR(clock.now() - begin, 0.01 * i, 1e-9) << "neither faster nor slower";
  }
  clock.spend(0.5);  // a writer that was slow for other reasons does not wait
  pace.spend(10'000);
  EXPECT_NEAR(clock.now() - begin, 0.6, 1e-9);
  io::Pace none(0, {}, clock);
  none.spend(std::int64_t{1} << 60);
  EXPECT_NEAR(clock.now() - begin, 0.6, 1e-9);
}

TEST(Bulk, APaceThatIsLiftedHoldsNobody) {
  const trainyard::testing::SimulatedClock clock;
  const double begin = clock.now();
  int asked = 0;
  io::Pace pace(
      1, [&] { return clock.now() - begin > 0.5 && ++asked > 0; }, clock);  // 1 MB would take eleven days
  pace.spend(1'000'000);
  EXPECT_EQ(asked, 1);
  EXPECT_NEAR(clock.now() - begin, 0.5, 0.05);
  pace.spend(1'000'000);
  EXPECT_NEAR(clock.now() - begin, 0.5, 0.05);
}
