// Tests the values of --partition, and what it refuses.
#include "libtrain/plan/schedule/partition.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/spec/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace trainyard::plan {
namespace {

ModelConfig model_of(const char* name, std::int64_t vocabulary, std::int64_t layers) {
  auto m = preset(name);
  m.vocabulary = vocabulary, m.layers = layers, m.lanes = 1;
  return m;
}

double sum(const std::vector<double>& weights) { return std::accumulate(weights.begin(), weights.end(), 0.0); }

TEST(Partition, ParametersAddUpToThoseOfTheModel) {
  const auto untied = model_of("llama-nano", 300, 5), tied = model_of("gpt2-nano", 300, 5);
  EXPECT_EQ(sum(item_weights("parameters", {untied})), parameter_count(untied));
  // A tied model has its table with the embedding, and with the head.
  EXPECT_EQ(sum(item_weights("parameters", {tied})), parameter_count(tied) + 300 * tied.hidden);
  const auto weights = item_weights("parameters", {tied});
  EXPECT_EQ(weights.size(), 7u);
  EXPECT_EQ(weights[1], weights[5]);
}

TEST(Partition, FlopsAddUpToThoseOfAStep) {
  const auto m = model_of("llama-nano", 300, 5);
  for (const auto recompute : recomputations)
    EXPECT_DOUBLE_EQ(sum(item_weights("flops", {m, 64, recompute})), step_flops(m, 1, 64, recompute) / 64);
  EXPECT_EQ(item_weights("flops", {m, 64})[0], 0);  // an embedding multiplies nothing
}

TEST(Partition, AHugeVocabularyDoesNotOverloadTheEnds) {
  const auto m = model_of("gpt2", 250880, 22);
  const auto even = part_weights(item_weights("parameters", {m}), partition("uniform", {m}, 4)),
             best = part_weights(item_weights("parameters", {m}), partition("parameters", {m}, 4));
  const auto most = [](const std::vector<double>& w) { return *std::max_element(w.begin(), w.end()); };
  EXPECT_LT(most(best), most(even));
  EXPECT_LT(partition("parameters", {m}, 4)[1], 6);
}

TEST(Partition, TypesCountWhatTheyFind) {
  const auto m = model_of("gpt2-nano", 300, 6);
  EXPECT_EQ(item_weights("type:layers", {m}), (std::vector<double>{0, 1, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(item_weights("type:LAYERS.0[02]$|head", {m}), (std::vector<double>{0, 1, 0, 1, 0, 0, 0, 1}));
  const auto cut = partition("type:layers", {m}, 3);
  EXPECT_EQ(part_weights(item_weights("type:layers", {m}), cut), (std::vector<double>{2, 2, 2}));
}

TEST(Partition, Lists) {
  const auto m = model_of("gpt2-nano", 300, 6);
  EXPECT_EQ(partition("0,3,6", {m}, 3), (Boundaries{0, 3, 6, 8}));
  EXPECT_EQ(partition("0", {m}, 1), (Boundaries{0, 8}));
  EXPECT_EQ(partition("uniform", {m}, 3), (Boundaries{0, 3, 6, 8}));
}

TEST(Partition, WhatIsWrongIsSaid) {
  const auto m = model_of("gpt2-nano", 300, 6);
  const auto said = [&](const std::string& how, int parts = 3) -> std::string {
    try {
      partition(how, {m}, parts);
    } catch (const base::UsageError& e) {
      return std::string(e.what()) + " | " + e.hint();
    }
    return "nothing";
  };
  const std::string list = " | the first item of each part, ascending from 0: 0,3,6, for example";
  EXPECT_EQ(said("0,3"), "--partition 0,3: 2 numbers for 3 parts" + list);
  EXPECT_EQ(said("0,3", 1),
            "--partition 0,3: 2 numbers for 1 part | the first item of each part, ascending from 0: 0, "
            "for example");
  EXPECT_EQ(said("0,6,3"), "--partition 0,6,3: each part begins behind the one before" + list);
  EXPECT_EQ(said("0,3,3"), "--partition 0,3,3: each part begins behind the one before" + list);
  EXPECT_EQ(said("1,3,6"), "--partition 1,3,6: the first part begins at item 0" + list);
  EXPECT_EQ(said("0,3,8"), "--partition 0,3,8: the model has items 0 to 7" + list);
  EXPECT_EQ(said("0,3,"), "--partition 0,3,: not a list of whole numbers" + list);
  EXPECT_EQ(said("0,3,99999999999999999999"),
            "--partition 0,3,99999999999999999999: not a list of whole numbers" + list);
  EXPECT_EQ(said("-1,3,6"), "--partition -1,3,6: the first part begins at item 0" + list);
  EXPECT_EQ(said("uniform", 9), "9 parts of a model of 8 items: its embedding, 6 layers and its head | 1 to 8 parts");
  EXPECT_EQ(
      said("type:decoder"),
      "--partition type:decoder finds none of the model's items | they are called embedding, layers.00 and so on, "
      "head");
  EXPECT_NE(said("type:(").find("no regular expression"), std::string::npos);
  EXPECT_NE(said("type:" + std::string(60000, '(') + "a" + std::string(60000, ')')).find("at most 200 characters"),
            std::string::npos);
  EXPECT_NE(said("type:((((.*)*)*)*)*x").find("finds none"), std::string::npos);  // and the search ends
  EXPECT_NE(said("type:(a)\\1").find("no regular expression"), std::string::npos);
  EXPECT_NE(said("parameter").find("did you mean 'parameters'"), std::string::npos) << said("parameter");
  EXPECT_NE(said("").find("is not known"), std::string::npos);
  for (const std::string unknown : {"nonsense", ",", "uniform,parameters"})
    EXPECT_EQ(said(unknown), "--partition " + unknown +
                                 " is not known | uniform, parameters, flops, type:PATTERN, or the first item of each "
                                 "part, such as 0,3,6");
  EXPECT_EQ(said("type:head"),
            "--partition type:head finds 1 of the model's 8 items, fewer than the 3 parts: some "
            "would have none | type:layers, for example, or fewer stages");
  EXPECT_EQ(said("type:head|emb", 2), "nothing");
  EXPECT_EQ(said("type:"), "--partition type: has no pattern behind it | type:layers, for example");
}

}  // namespace
}  // namespace trainyard::plan
