// What a program prints for an exception, and its exit code.
#include "tools/common/program.h"

#include "libtrain/base/error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <system_error>

namespace trainyard {
namespace {

TEST(Report, WhatTheSystemRefusesIsOfTheEnvironment) {
  const std::system_error no_thread(std::make_error_code(std::errc::resource_unavailable_try_again));
  testing::internal::CaptureStderr();
  EXPECT_EQ(tools::report("train", no_thread), 4);
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("train: the system refuses: "), 0u) << said;
  EXPECT_NE(said.find("ulimit -a"), std::string::npos) << said;
}

TEST(Report, TellsErrorsApart) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(tools::report("train", base::PeerError("rank 1 is gone")), 6);
  EXPECT_EQ(tools::report("shard-data", std::bad_alloc()), 4);
  EXPECT_EQ(tools::report("train", std::runtime_error("oh")), 1);
  const std::filesystem::filesystem_error no_folder("cannot open", "some/folder",
                                                    std::make_error_code(std::errc::permission_denied));
  EXPECT_EQ(tools::report("train", no_folder), 4);
  const auto said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("train: rank 1 is gone\nshard-data: out of memory\n  try: fewer threads, "), 0u) << said;
  EXPECT_NE(said.find("some/folder]\n  try: may it be read and written?"), std::string::npos) << said;
  EXPECT_NE(said.find("unexpected: oh"), std::string::npos) << said;
}

}  // namespace
}  // namespace trainyard
