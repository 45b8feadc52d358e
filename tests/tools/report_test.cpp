// What a program says of an exception, and its exit code.
#include "tools/common/program.h"

#include "libtrain/base/error.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(tools::report("train: rank 2 on host", std::bad_alloc()), 4);
  EXPECT_EQ(tools::report("shard-data", std::bad_alloc()), 4);
  EXPECT_EQ(tools::report("train", std::runtime_error("oh")), 1);
  const auto said = testing::internal::GetCapturedStderr();
  const auto of_train = said.find("train: rank 2 on host: out of memory"), batch = said.find("a smaller batch"),
             of_shards = said.find("shard-data: out of memory");
  EXPECT_LT(of_train, batch) << said;
  EXPECT_LT(batch, of_shards) << said;
  EXPECT_EQ(said.find("batch", of_shards), std::string::npos) << said;
  EXPECT_NE(said.find("unexpected: oh"), std::string::npos) << said;
}

}  // namespace
}  // namespace trainyard
