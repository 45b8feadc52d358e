// The presets have as many parameters as their authors published: the papers' tables, and the totals that the published
// files of weights state.
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

using namespace trainyard::plan;

namespace preset_counts_test {

std::int64_t count(const char* name) {
  auto m = preset(name);
  m.vocabulary = published_vocabulary(name);
  return parameter_count(m);
}

TEST(PresetCounts, AreThoseOfPublishedFiles) {
  for (const auto& [name, parameters] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"gpt2", 124'439'808},
           {"gpt2-xl", 1'557'611'200},
           {"llama-2-7b", 6'738'415'616},
           {"llama-2-13b", 13'015'864'320},
           {"llama-2-70b", 68'976'648'192},
           {"llama-3.1-8b", 8'030'261'248},
           {"llama-3.1-70b", 70'553'706'496},
           {"llama-3.1-405b", 405'853'388'800},
           {"llama-3.2-1b", 1'235'814'400},
           {"llama-3.2-3b", 3'212'749'824},
           {"mistral-7b", 7'241'732'096},
           {"mixtral-8x7b", 46'702'792'704},
           {"mixtral-8x22b", 140'620'634'112},
           {"qwen2.5-0.5b", 494'032'768},
           {"qwen2.5-1.5b", 1'543'714'304},
           {"qwen2.5-3b", 3'085'938'688},
           {"qwen2.5-7b", 7'615'616'512},
           {"qwen2.5-14b", 14'770'033'664},
           {"qwen2.5-32b", 32'763'876'352},
           {"qwen2.5-72b", 72'706'203'648},
           {"qwen3-0.6b", 596'049'920},
           {"qwen3-1.7b", 1'720'574'976},
           {"qwen3-4b", 4'022'468'096},
           {"qwen3-8b", 8'190'735'360},
           {"qwen3-14b", 14'768'307'200},
           {"qwen3-32b", 32'762'123'264},
           {"qwen3-30b-a3b", 30'532'122'624},
           {"qwen3-235b-a22b", 235'093'634'560},
           {"olmo-2-7b", 7'298'617'344},
           {"olmo-2-13b", 13'716'198'400},
           {"olmo-2-32b", 32'234'279'936},
           {"olmoe-1b-7b", 6'919'161'856},
           {"phi-3-mini", 3'821'079'552},
           {"phi-3-medium", 13'960'238'080},
           {"pythia-70m", 70'426'624},
           {"pythia-160m", 162'322'944},
           {"pythia-410m", 405'334'016},
           {"pythia-1b", 1'011'781'632},
           {"pythia-1.4b", 1'414'647'808},
           {"pythia-2.8b", 2'775'208'960},
           {"pythia-6.9b", 6'857'302'016},
           {"pythia-12b", 11'846'072'320},
           {"gpt-neox-20b", 20'554'567'680},
           {"gemma-2-2b", 2'614'341'888},
           {"gemma-2-9b", 9'241'705'984},
           {"gemma-2-27b", 27'227'128'320},
           {"gemma-3-1b", 999'885'952},
           {"t5-small", 60'506'624},
           {"t5-base", 222'903'552},
           {"t5-large", 737'668'096},
           {"t5-3b", 2'851'598'336},
           {"t5-11b", 11'307'321'344},
           {"t5-v1.1-small", 76'961'152},
           {"t5-v1.1-base", 247'577'856},
           {"t5-v1.1-large", 783'150'080},
           {"t5-v1.1-xl", 2'849'757'184},
           {"t5-v1.1-xxl", 11'135'332'352},
           {"mt5-small", 300'176'768},
           {"mt5-base", 582'401'280},
           {"mt5-large", 1'229'581'312},
           {"mt5-xl", 3'742'619'648},
           {"mt5-xxl", 12'921'057'280},
       })
    EXPECT_EQ(count(name), parameters) << name;
}

// Gemma Team (2025), table 1: parameters of the embedding and others, in millions.
TEST(PresetCounts, OfGemma3AreThoseOfItsReport) {
  for (const auto& [name, embedding, others] :
       std::initializer_list<std::tuple<const char*, double, double>>{{"gemma-3-1b", 302, 698},
                                                                      {"gemma-3-4b", 675, 3209},
                                                                      {"gemma-3-12b", 1012, 10759},
                                                                      {"gemma-3-27b", 1416, 25600}}) {
    const auto table = published_vocabulary(name) * preset(name).hidden;
    EXPECT_NEAR(static_cast<double>(table) / 1e6, embedding, 0.01 * embedding) << name;
    EXPECT_NEAR(static_cast<double>(count(name) - table) / 1e6, others, 0.002 * others) << name;
  }
}

// Kim et al. (2021), section 4: 0.7, 1.8 and 10 billion parameters. By hand, with h = 1024: a layer has 4 h^2 + 4 h of
// attention, 8 h^2 + 5 h of its feed-forward part, and 4 h of norms.
TEST(PresetCounts, OfZcodeFollowItsShape) {
  const std::int64_t h = 1024, attention = 4 * h * h + 4 * h, feed = 8 * h * h + 5 * h, tables = (250000 + 2 * 512) * h;
  const auto all = [&](std::int64_t experts) {
    const auto in_18 = experts == 0 ? feed : experts * feed + experts * h;  // a gate has no bias
    return 36 * (attention + 4 * h) + 12 * (attention + 2 * h) + 18 * feed + 18 * in_18 + tables + 2 * 2 * h;
  };
  EXPECT_EQ(count("zcode-0.7b"), all(0));
  EXPECT_EQ(count("zcode-1.8b"), all(8));
  EXPECT_EQ(count("zcode-10b"), all(64));
  EXPECT_NEAR(static_cast<double>(count("zcode-0.7b")), 0.760e9, 0.001e9);
  EXPECT_NEAR(static_cast<double>(count("zcode-1.8b")), 1.818e9, 0.001e9);
  EXPECT_NEAR(static_cast<double>(count("zcode-10b")), 10.28e9, 0.01e9);
}

}  // namespace preset_counts_test
