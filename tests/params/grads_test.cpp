// Tests that a block commits the gradients that it takes: one that forgets gets an error, one that fails does not.
#include "libtrain/plan/spec/presets.h"
#include "tests/model/plain_store.h"

#include <gtest/gtest.h>

#include <optional>

namespace trainyard::test {
namespace grads_test {

plan::ModelConfig model() {
  auto m = plan::preset("gpt2-nano");
  m.vocabulary = 5;
  return m;
}

TEST(Grads, ForgettingToCommitIsSeen) {
  PlainStore store(model(), base::DType::f32, 1);
  EXPECT_THROW({ const auto forgotten = store.grads({1, 0}); }, std::logic_error);
  auto committed = store.grads({1, 0});
  committed.commit();
  auto moved = store.grads({1, 0});
  auto kept = std::move(moved);
  kept.commit();
}

TEST(Grads, AFailureUnderWayIsNotReplaced) {
  PlainStore store(model(), base::DType::f32, 1);
  const auto fails = [&] {
    const auto grads = store.grads({1, 0});
    throw base::CheckError("what really happened");
  };
  EXPECT_THROW(fails(), base::CheckError);
}

// Gradients that are taken and forgotten while another failure unwinds the stack are still reported.
TEST(Grads, OnlyAFailureInTheirLifeExcusesThem) {
  PlainStore store(model(), base::DType::f32, 1);
  bool seen = false;
  struct AtUnwinding {
    PlainStore& store;
    bool& seen;
    ~AtUnwinding() {
      try {
        const auto forgotten = store.grads({1, 0});
      } catch (const std::logic_error&) {
        seen = true;
      }
    }
  };
  try {
    const AtUnwinding at{store, seen};
    throw base::CheckError("first");
  } catch (const base::CheckError&) {}
  EXPECT_TRUE(seen);
}

}  // namespace grads_test
}  // namespace trainyard::test
