// Tests the messages of internal checks.
#include "libtrain/base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace trainyard::base {
namespace {

// The place of a failed check is a path from the root of the sources, wherever they were built.
TEST(Error, OfAnInternalCheckNamesTheSource) {
  const int three = 3;
  try {
    TRAINYARD_ASSERT(three == 4, "three {}", three);
    FAIL();
  } catch (const std::logic_error& e) {
    const std::string text = e.what();
    EXPECT_TRUE(text.starts_with("tests/base/error_test.cpp:")) << text;
    EXPECT_TRUE(text.ends_with(": internal check 'three == 4' failed: three 3")) << text;
  }
}

}  // namespace
}  // namespace trainyard::base
