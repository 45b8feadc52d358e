// Tests what registration of a program's own parts refuses: names that model files cannot hold, and parts that are
// missing.
#include "libtrain/model/assemble.h"
#include "libtrain/model/expert.h"
#include "libtrain/plan/blocks/block_registry.h"
#include "libtrain/plan/blocks/branch_registry.h"
#include "libtrain/plan/blocks/expert_registry.h"
#include "libtrain/plan/blocks/feed_forward_expert.h"
#include "tests/model/small_model.h"
#include "tests/refusal.h"
#include "tests/tools/outside/low_rank.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace assemble_test {

const auto kind = std::make_shared<low_rank::Kind>();
const model::BranchFactory factory = [](const model::BranchSpec& spec) {
  return std::make_unique<low_rank::Branch>(spec);
};

TEST(Registration, RefusesNamesThatModelFilesCannotHold) {
  for (const std::string name : {"mi,ne", "", "my branch", "mine\n"})
    EXPECT_NE(testing::refusal_of<base::UsageError>([&] {
                model::register_branch(name, kind, factory);
              }).find("cannot be the name of a branch"),
              std::string::npos)
        << name;
  EXPECT_EQ(testing::refusal_of<base::UsageError>([] { model::register_branch("my-branch_2.1", kind, factory); }), "");
}

TEST(Registration, RefusesWhatIsMissing) {
  const auto text = [](const char* what) {
    return fmt::format("the {} 'half' is registered without a kind, or without a factory", what);
  };
  EXPECT_EQ(testing::refusal_of<base::UsageError>([] { model::register_branch("half", nullptr, factory); }),
            text("branch"));
  EXPECT_EQ(testing::refusal_of<base::UsageError>([] { model::register_branch("half", kind, {}); }), text("branch"));
  EXPECT_THROW(plan::branch_kind("half"), base::UsageError) << "nothing is registered by halves";
  EXPECT_EQ(testing::refusal_of<base::UsageError>([] { model::register_block("half", {}); }), text("block"));
  EXPECT_EQ(testing::refusal_of<base::UsageError>(
                [] { model::register_block("half", nullptr, model::block_factory("layer")); }),
            text("block"));
  EXPECT_EQ(testing::refusal_of<base::UsageError>([] { plan::register_block("half", nullptr); }), text("block"));
  EXPECT_EQ(testing::refusal_of<base::UsageError>([] { plan::register_branch("half", nullptr); }), text("branch"));
  EXPECT_EQ(testing::refusal_of<base::UsageError>(
                [] { model::register_expert("half", std::make_shared<plan::FeedForwardExpertKind>(), {}); }),
            text("network of experts"));
  EXPECT_EQ(testing::refusal_of<base::UsageError>([] { plan::register_expert("half", nullptr); }),
            text("network of experts"));
}

TEST(Assemble, RefusesAFactoryThatReturnsNull) {
  model::register_branch("none", kind, [](const model::BranchSpec&) { return nullptr; });
  auto m = small_gpt2();
  m.branches = {"attention", "ffn", "none"};
  EXPECT_EQ(testing::refusal_of<base::UsageError>([&] { model::assemble(m); }),
            "the factory of the branch 'none' returns null");

  const auto head = model::block_factory("head");
  model::register_block("head", [](const plan::ModelConfig&, const plan::PlacedBlock&) { return nullptr; });
  EXPECT_EQ(testing::refusal_of<base::UsageError>([] { model::assemble(small_gpt2()); }),
            "the factory of the block 'head' returns null");
  model::register_block("head", head);

  model::register_expert("none", std::make_shared<plan::FeedForwardExpertKind>(),
                         [](const model::ExpertSpec&) { return nullptr; });
  const plan::FlatGroup one;
  EXPECT_EQ(testing::refusal_of<base::UsageError>([&] {
              model::make_expert("none", {m, one});
            }),
            "the factory of the network of experts 'none' returns null");
}

}  // namespace assemble_test
}  // namespace trainyard::test
