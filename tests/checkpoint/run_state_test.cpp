// The run's state in a checkpoint is compared with what is possible, before any file that it names is opened.
#include "libtrain/checkpoint/run_state.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/spec/model_config.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

namespace trainyard::checkpoint {
namespace {

RunState with_tokenizer(const nlohmann::json& recorded) {
  RunState state;
  state.model = plan::preset("gpt2-nano");
  state.model.vocabulary = 257;
  state.isa = "avx2";
  auto j = state_to_json(state);
  j["provenance"]["tokenizer"] = recorded;
  return state_from_json(nlohmann::json::parse(j.dump()), "here");
}

TEST(RunState, ATokenizerIsANameOrARecord) {
  EXPECT_EQ(with_tokenizer("bytes").provenance["tokenizer"], "bytes");
  const nlohmann::json record{{"name", "bpe"}, {"source", "t.json"}, {"crc32c", 0xffffffffu}};
  EXPECT_EQ(with_tokenizer(record).provenance["tokenizer"], record);
  for (const nlohmann::json& wrong :
       {nlohmann::json{{"source", 7}}, nlohmann::json{{"name", nlohmann::json::array()}},
        nlohmann::json{{"source", "t"}, {"crc32c", "1"}}, nlohmann::json{{"source", "t"}, {"crc32c", -1}},
        nlohmann::json(7), nlohmann::json::array({"bytes"})}) {
    try {
      with_tokenizer(wrong);
      ADD_FAILURE() << wrong;
    } catch (const base::InputError& e) {
      EXPECT_EQ(std::string(e.what()).find("here: provenance.tokenizer is "), 0u) << e.what();
    }
  }
}

}  // namespace
}  // namespace trainyard::checkpoint
