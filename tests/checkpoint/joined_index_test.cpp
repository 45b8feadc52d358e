// ranks.index, the one file with the indices of all ranks. Each false entry of its table, with right checksums, is
// refused with a message that names the file and the entry.
#include "tests/checkpoint/layouts.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace sample;
using trainyard::base::DType;

namespace joined_index_test {

constexpr std::size_t step_at = 32, ranks_at = 40, table_at = 44;  // then begin (8), size (8) and CRC32C (4) of each

class Joined : public ::testing::Test {
 protected:
  void SetUp() override {
    save(scratch.path, state(gpt(), DType::f32, 5), 2);
    folder = scratch.path + "/step-00000005";
    bytes = slurp(folder + "/ranks.index");
    parts = sections(folder);
  }
  std::string refusal() { return refusal_of(folder); }
  void refused(const std::string& content, const std::string& said) {
    replace_joined_index(folder, content);
    const auto found = refusal();
    EXPECT_NE(found.find(folder + "/ranks.index: " + said), std::string::npos)
        << "expected: " << said << "\nfound: " << found;
  }
  template <class T> void number(std::size_t at, T value, const std::string& said) {
    auto other = bytes;
    std::memcpy(other.data() + at, &value, sizeof value);
    refused(other, said);
  }

  Scratch scratch;
  std::string folder, bytes;
  std::vector<std::string> parts;
};

TEST_F(Joined, ComesBackAsItWasWritten) {
  EXPECT_EQ(checkpoint::joined_index_bytes(5, parts), bytes);
  replace_joined_index(folder, bytes);
  EXPECT_EQ(refusal(), "");
}

// However many ranks wrote the checkpoint, a rank that resumes opens two files before its first rank file.
TEST_F(Joined, AReaderNeedsNothingElse) {
  const auto bare = scratch.path + "/bare";
  fs::create_directory(bare);
  for (const char* name : {"manifest.json", "ranks.index"}) fs::copy(folder + "/" + name, bare + "/" + name);
  checkpoint::Reader reader(bare, checkpoint::Reader::Check::as_needed);
  EXPECT_EQ(reader.manifest().boxes, checkpoint::Reader(folder).manifest().boxes);
}

TEST_F(Joined, TheTableIsHeldAgainstManifestAndSize) {
  const auto first = table_at + 2 * 20;  // byte of the first section
  number<char>(0, 'T', "format is");
  number<std::uint64_t>(step_at, 6, "it is of step 6 and 2 ranks; expected step 5 and 2 ranks");
  for (std::uint32_t ranks : {0u, 1u, 3u, 0xffffffffu})
    number<std::uint32_t>(ranks_at, ranks, fmt::format("it is of step 5 and {} ranks", ranks));
  number<std::uint64_t>(table_at, first - 20, fmt::format("the section of rank 0 begins at byte {}", first - 20));
  number<std::uint64_t>(table_at + 20, first + parts[0].size() + 1, "the section of rank 1 begins at byte");
  number<std::uint64_t>(table_at + 20, first, "the section of rank 1 begins at byte");
  number<std::uint64_t>(table_at, ~std::uint64_t{0}, "18446744073709551615 is too large");
  number<std::uint64_t>(table_at + 28, parts[1].size() + 1,
                        fmt::format("the section of rank 1 has {} bytes, but", parts[1].size() + 1));
  number<std::uint64_t>(table_at + 28, parts[1].size() - 1, "the section of rank 1 has checksum");
  number<std::uint64_t>(table_at + 8, std::uint64_t{1} << 56, "the section of rank 0 has 72057594037927936 bytes");
  number<std::uint32_t>(table_at + 16, 0, "the section of rank 0 has checksum");
}

TEST_F(Joined, SectionsAreThoseOfTheRanks) {
  refused(checkpoint::joined_index_bytes(5, {parts[1], parts[0]}),
          "rank 0 is of step 5, rank 1 of 2; expected step 5, rank 0 of 2");
  refused(checkpoint::joined_index_bytes(5, {parts[0], parts[0]}), "rank 1 is of step 5, rank 0 of 2");
  refused(checkpoint::joined_index_bytes(5, {parts[0], ""}), "rank 1: it ends in the middle of a record");
  refused(bytes + '\0', "1 bytes follow the last section");
  for (std::size_t size = 0; size < bytes.size(); size += 1 + size / 16) {
    replace_joined_index(folder, bytes.substr(0, size));
    ASSERT_NE(refusal().find("ranks.index: "), std::string::npos) << "cut to " << size;
  }
}

}  // namespace joined_index_test
