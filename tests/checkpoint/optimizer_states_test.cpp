// Checkpoints of other optimizers than AdamW: their states are written, read, resharded, averaged and compared by name,
// without a description of the optimizer.
#include "tests/checkpoint/layouts.h"

#include "libtrain/checkpoint/average.h"
#include "libtrain/checkpoint/compare.h"
#include "libtrain/checkpoint/reshard.h"
#include "libtrain/io/hdf5_file.h"

#include <gtest/gtest.h>

using namespace sample;
using checkpoint::Kind;
using trainyard::base::DType;

namespace {

checkpoint::RunState other_state(DType dtype, std::vector<std::string> states, std::int64_t step = 5) {
  auto s = state(gpt(), dtype, step);
  s.optimizer = {"other", std::move(states)};
  return s;
}

std::vector<float> stored(const std::string& path, const Kind& kind, const checkpoint::ParameterEntry& p) {
  std::vector<float> values(static_cast<std::size_t>(p.count));
  checkpoint::Reader(path).read_tensor(kind, p.name, 0, p.count, values.data());
  return values;
}

std::string refusal_of_state(const std::string& path, const Kind& kind) {
  float first = 0;
  try {
    checkpoint::Reader(path).read_tensor(kind, "embedding.tokens.weight", 0, 1, &first);
    return "";
  } catch (const base::InputError& e) {
    return e.what();
  }
}

}  // namespace

TEST(OptimizerStates, AreReadOnAnyLayout) {
  for (const auto dtype : {DType::f32, DType::bf16, DType::f16})
    for (const auto& names : {std::vector<std::string>{}, {"momentum"}, {"first", "second", "a_third_1"}}) {
      Scratch scratch;
      const auto s = other_state(dtype, names);
      save(scratch.path, s, 3);
      const auto folder = scratch.path + "/step-00000005";
      checkpoint::Reader reader(folder);
      reader.verify_all();
      EXPECT_EQ(reader.state().optimizer, s.optimizer);
      EXPECT_EQ(reader.tensors().size(),
                checkpoint::parameters_of(gpt()).size() * (names.size() + (base::is_narrow(dtype) ? 2 : 1)));
      for (const int ranks : {1, 2, 4}) EXPECT_EQ(differences(reader, ranks), 0);
      const auto told = refusal_of_state(folder, Kind::state("v"));
      EXPECT_NE(told.find("holds no state 'v': its optimizer is other"), std::string::npos) << told;
    }
}

TEST(OptimizerStates, AreReshardedToTheSameFiles) {
  Scratch scratch;
  const auto from = scratch.path + "/from/step-00000005", to = scratch.path + "/to", narrow = scratch.path + "/narrow";
  const auto s = other_state(DType::f32, {"momentum"});
  save(scratch.path + "/from", s, 3);
  checkpoint::reshard(checkpoint::Reader(from), to, {2, {}, {}, {}}, {});
  checkpoint::Reader reader(to);
  EXPECT_EQ(reader.state().optimizer, s.optimizer);
  EXPECT_EQ(differences(reader, 4), 0);
  checkpoint::reshard(checkpoint::Reader(from), narrow, {2, DType::bf16, {}, {}}, {});
  EXPECT_EQ(checkpoint::Reader(narrow).state().optimizer, s.optimizer);
  for (const auto& p : checkpoint::parameters_of(gpt())) {
    EXPECT_EQ(stored(narrow, Kind::state("momentum"), p), stored(from, Kind::state("momentum"), p)) << p.name;
    EXPECT_EQ(stored(narrow, Kind::master, p), stored(from, Kind::model, p)) << p.name;
  }
}

// States in bf16 take half of the bytes, whatever the working dtype, and are never rounded again.
TEST(OptimizerStates, OfBf16StayBf16) {
  for (const auto dtype : {DType::f32, DType::bf16}) {
    Scratch scratch;
    const auto from = scratch.path + "/from/step-00000005", to = scratch.path + "/to", mean = scratch.path + "/mean";
    auto s = other_state(dtype, {"bf16_m", "bf16_v"});
    s.optimizer.dtype = DType::bf16;
    save(scratch.path + "/from", s, 3);
    EXPECT_EQ(checkpoint::state_to_json(s)["optimizer"].dump(),
              R"({"dtype":"bf16","name":"other","states":["bf16_m","bf16_v"]})");
    const checkpoint::Reader source(from);
    checkpoint::reshard(source, to, {2, {}, {}, {}}, {});
    checkpoint::average({&source}, mean, {3, {}, {}, {}}, {});
    for (const auto& folder : {from, to, mean}) {
      checkpoint::Reader reader(folder);
      reader.verify_all();
      EXPECT_EQ(reader.state().optimizer, s.optimizer) << folder;
      if (folder != mean) {  // a mean rounds its weights anew
        EXPECT_EQ(differences(reader, 4), 0) << folder;
      }
      for (const auto& p : checkpoint::parameters_of(gpt()))
        EXPECT_EQ(stored(folder, Kind::state("bf16_v"), p), stored(from, Kind::state("bf16_v"), p)) << folder << p.name;
      for (const auto& t : reader.tensors())
        EXPECT_EQ(t.dtype, t.kind.is_state() ? DType::bf16 : t.kind == Kind::master ? DType::f32 : dtype) << t.path;
      const auto view = trainyard::io::Hdf5File::open(folder + "/checkpoint.h5");
      EXPECT_EQ(view.info("/optimizer/bf16_m/" + checkpoint::parameters_of(gpt()).front().name).dtype, DType::bf16);
    }
    for (const auto& t : checkpoint::compare(source, checkpoint::Reader(to), checkpoint::Contents::all, 2))
      EXPECT_TRUE(t.problem.empty() && t.different == 0) << t.path;
  }
}

// The mean is one of weights, so optimizers may differ; the states are those of the last.
TEST(OptimizerStates, OfTheLastGoIntoAMean) {
  Scratch scratch;
  const auto a = scratch.path + "/a/step-00000005", b = scratch.path + "/b/step-00000006",
             mean = scratch.path + "/mean";
  save(scratch.path + "/a", state(gpt(), DType::f32, 5), 2);
  save(scratch.path + "/b", other_state(DType::f32, {"momentum"}, 6), 1);
  const checkpoint::Reader first(a), second(b);
  checkpoint::average({&first, &second}, mean, {3, {}, {}, {}}, {});
  EXPECT_EQ(checkpoint::Reader(mean).state().optimizer, second.state().optimizer);
  for (const auto& p : checkpoint::parameters_of(gpt()))
    EXPECT_EQ(stored(mean, Kind::state("momentum"), p), stored(b, Kind::state("momentum"), p)) << p.name;
}

TEST(OptimizerStates, OfOneCheckpointAreOnlyThere) {
  Scratch scratch;
  save(scratch.path + "/a", state(gpt(), DType::f32, 5), 2);
  save(scratch.path + "/b", other_state(DType::f32, {"momentum", "v"}), 1);
  const checkpoint::Reader a(scratch.path + "/a/step-00000005"), b(scratch.path + "/b/step-00000005");
  std::map<std::string, std::string> problems;
  for (const auto& t : checkpoint::compare(a, b, checkpoint::Contents::all, 2)) problems[t.path] = t.problem;
  EXPECT_EQ(problems.size(), 4 * checkpoint::parameters_of(gpt()).size());
  for (const auto& [path, problem] : problems)
    EXPECT_EQ(problem, path.starts_with("/optimizer/m/")          ? "only the first has it"
                       : path.starts_with("/optimizer/momentum/") ? "only the second has it"
                                                                  : "")
        << path;
}

// A manifest says nothing of AdamW, so that checkpoints stay as they were.
TEST(OptimizerStates, OfAdamWAreNotNamed) {
  const auto adamw = checkpoint::state_to_json(state(gpt(), DType::f32, 5));
  EXPECT_FALSE(adamw.contains("optimizer"));
  EXPECT_EQ(checkpoint::state_from_json(adamw, "it").optimizer, checkpoint::StoredOptimizer());
  EXPECT_EQ(checkpoint::state_to_json(other_state(DType::f32, {"momentum"}))["optimizer"].dump(),
            R"({"name":"other","states":["momentum"]})");
}

TEST(OptimizerStates, WithNamesThatAreNoneAreRefused) {
  Scratch scratch;
  save(scratch.path, other_state(DType::f32, {"momentum"}), 1);
  const auto folder = scratch.path + "/step-00000005";
  const auto told = [&](const nlohmann::json& optimizer) {
    edit_manifest(folder, [&](nlohmann::json& j) { j["optimizer"] = optimizer; });
    return refusal_of(folder);
  };
  const nlohmann::json good{{"name", "other"}, {"states", {"momentum"}}};
  EXPECT_EQ(told(good), "");
  auto many = nlohmann::json::array();
  for (int i = 0; i < 17; ++i) many.push_back(fmt::format("s{}", i));
  for (const auto& states : std::vector<nlohmann::json>{
           {"../model"}, {""}, {"master"}, {"momentum", "momentum"}, {5}, many, {std::string(65, 's')}}) {
    const auto refusal = told({{"name", "other"}, {"states", states}});
    EXPECT_NE(refusal.find("is no optimizer with the names of its states"), std::string::npos) << states << refusal;
  }
  for (const auto& broken :
       std::vector<nlohmann::json>{{{"name", "a b"}, {"states", {"momentum"}}},
                                   {{"name", "other"}},
                                   {{"states", {"momentum"}}},
                                   {{"name", "other"}, {"states", {"momentum"}}, {"dtype", "f16"}},
                                   {{"name", "other"}, {"states", {"momentum"}}, {"dtype", 16}},
                                   {{"name", "other"}, {"states", {"momentum"}}, {"dtype", "bf16"}},
                                   {{"name", "other"}, {"states", "momentum"}},
                                   "other"})
    EXPECT_NE(told(broken), "") << broken;
  const auto missing = told({{"name", "other"}, {"states", {"momentum", "more"}}});
  EXPECT_NE(missing.find("/optimizer/more"), std::string::npos) << missing;
}
