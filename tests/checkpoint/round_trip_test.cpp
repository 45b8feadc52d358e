// Checkpoints written on r ranks and read on s: every element, for GPT-2 and Llama, in every dtype of weights. Also
// state, retention, and the choice of a checkpoint.
#include "tests/checkpoint/layouts.h"

#include <gtest/gtest.h>

#include <limits>

#include <cmath>

using namespace sample;
using trainyard::base::DType;
using trainyard::base::InputError;

TEST(RoundTrip, EveryCutReadsOnEveryOther) {
  for (const auto& model : {gpt(), llama()})
    for (auto dtype : {DType::f32, DType::bf16, DType::f16})
      for (int r : {1, 2, 3, 4, 6, 7}) {
        if (dtype == DType::f16 && r != 3) continue;  // its elements lie where those of bf16 lie
        Scratch scratch;
        save(scratch.path, state(model, dtype, 5), r);
        checkpoint::Reader reader(scratch.path + "/step-00000005");
        reader.verify_all();
        for (int s : {1, 2, 3, 4, 6, 7}) EXPECT_EQ(differences(reader, s), 0) << model.name << " " << r << " to " << s;
      }
}

TEST(RoundTrip, PayloadsOfManyBlocks) {
  auto model = gpt();
  model.hidden = 96, model.ffn = 1500, model.heads = 4, model.kv_heads = 4, model.vocabulary = 5000;
  for (auto dtype : {DType::f32, DType::bf16, DType::f16}) {
    Scratch scratch;
    save(scratch.path, state(model, dtype, 5), 2);
    checkpoint::Reader reader(scratch.path + "/step-00000005");
    ASSERT_GT(reader.manifest().files.at("rank-00000.h5").payloads.at("/optimizer/m").blocks.size(), 2u);
    reader.verify_all();
    EXPECT_EQ(differences(reader, 3), 0);
  }
}

TEST(RoundTrip, NormsAreThoseOfTheStoredValues) {
  for (auto dtype : {DType::f32, DType::bf16, DType::f16}) {
    Scratch scratch;
    save(scratch.path, state(gpt(), dtype, 5), 2);
    const auto first = checkpoint::Reader(scratch.path + "/step-00000005").tensors().front();
    EXPECT_EQ(first.path, "/model/embedding.tokens.weight");
    double sum = 0;
    for (std::int64_t i = 0; i < 131 * 24; ++i)
      sum += std::pow(static_cast<double>(value(first.kind, first.name, i, dtype)), 2);
    EXPECT_NEAR(first.norm, std::sqrt(sum), 1e-12 * std::sqrt(sum)) << trainyard::base::name_of(dtype);
  }
}

// The number of skipped steps is there only where steps were skipped, so that other manifests stay as they were.
TEST(RoundTrip, SkippedStepsComeBack) {
  Scratch scratch;
  auto s = state(gpt(), DType::f16, 5);
  EXPECT_FALSE(checkpoint::state_to_json(s).contains("skipped_steps"));
  s.skipped_steps = 2;
  save(scratch.path, s, 2);
  const auto folder = scratch.path + "/step-00000005";
  EXPECT_EQ(checkpoint::Reader(folder).state().skipped_steps, 2);
  edit_manifest(folder, [](nlohmann::json& j) { j["skipped_steps"] = 6; });
  try {
    checkpoint::Reader reader(folder);
    ADD_FAILURE() << "more steps are skipped than done";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("6 steps of 5 steps are skipped"), std::string::npos) << e.what();
  }
}

// Likewise the loss scale.
TEST(RoundTrip, ALossScaleComesBack) {
  Scratch scratch;
  auto s = state(gpt(), DType::f16, 5);
  EXPECT_FALSE(checkpoint::state_to_json(s).contains("loss_scale"));
  s.loss_scale = checkpoint::StoredLossScale{4096, 17, 2, 1};
  save(scratch.path, s, 2);
  const auto folder = scratch.path + "/step-00000005";
  EXPECT_EQ(checkpoint::Reader(folder).state().loss_scale, s.loss_scale);
  for (const auto& [key, value] : std::vector<std::pair<const char*, nlohmann::json>>{
           {"scale", 3},
           {"scale", 0},
           {"scale", std::int64_t{1} << 33},
           {"scale", "big"},
           {"clean_steps", -1},
           {"hysteresis", 0},
           {"skips_in_a_row", -1},
           {"skips_in_a_row", std::numeric_limits<std::int64_t>::max()}}) {
    edit_manifest(folder, [&, key = key, value = value](nlohmann::json& j) {
      j["loss_scale"] = {{"scale", 4096}, {"clean_steps", 17}, {"hysteresis", 2}, {"skips_in_a_row", 1}};
      j["loss_scale"][key] = value;
    });
    try {
      checkpoint::Reader reader(folder);
      ADD_FAILURE() << key << " " << value;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("loss_scale"), std::string::npos) << e.what();
    }
  }
}

// Likewise the window of outliers, with all digits.
TEST(RoundTrip, AnOutlierWindowComesBack) {
  Scratch scratch;
  auto s = state(gpt(), DType::f32, 5);
  EXPECT_FALSE(checkpoint::state_to_json(s).contains("outlier_window"));
  s.outlier_window = checkpoint::StoredOutlierWindow{{0.1, 1.0 / 3, 5e-324}, {2, 1e300, -1e-17}, 4};
  save(scratch.path, s, 2);
  const auto folder = scratch.path + "/step-00000005";
  EXPECT_EQ(checkpoint::Reader(folder).state().outlier_window, s.outlier_window);
  for (const auto& [key, value] :
       std::vector<std::pair<const char*, nlohmann::json>>{{"gradient_norms", {1, 2}},
                                                           {"gradient_norms", {1, 2, -3}},
                                                           {"gradient_norms", 3},
                                                           {"losses", {1, 2, "big"}},
                                                           {"losses", {1, 2, nullptr}},
                                                           {"losses", {1, 2, 3, 4}},
                                                           {"losses", std::vector<double>(1025, 1)},
                                                           {"skips_in_a_row", -1},
                                                           {"skips_in_a_row", 1025}}) {
    edit_manifest(folder, [&, key = key, value = value](nlohmann::json& j) {
      j["outlier_window"] = {{"gradient_norms", {1, 2, 3}}, {"losses", {1, 2, 3}}, {"skips_in_a_row", 0}};
      j["outlier_window"][key] = value;
    });
    try {
      checkpoint::Reader reader(folder);
      ADD_FAILURE() << key << " " << value;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("outlier_window"), std::string::npos) << e.what();
    }
  }
}

TEST(RoundTrip, StateComesBack) {
  Scratch scratch;
  auto s = state(llama(), DType::bf16, 12);
  s.model.dropout_attention = 0.1;
  save(scratch.path, s, 2);
  const auto got = checkpoint::Reader(scratch.path + "/step-00000012").state();
  EXPECT_EQ(got.step, 12);
  EXPECT_EQ(got.seed, s.seed);
  EXPECT_EQ(got.model, s.model);
  EXPECT_EQ(checkpoint::state_to_json(got), checkpoint::state_to_json(s));
}

TEST(RoundTrip, FingerprintsAndNormsDoNotDependOnTheCut) {
  std::vector<checkpoint::TensorInfo> first;
  for (int r : {1, 3, 4, 7}) {
    Scratch scratch;
    save(scratch.path, state(gpt(), DType::f32, 1), r);
    const auto tensors = checkpoint::Reader(scratch.path + "/step-00000001").tensors();
    if (first.empty()) first = tensors;
    ASSERT_EQ(tensors.size(), first.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(tensors[i].fingerprint, first[i].fingerprint) << tensors[i].path;
      EXPECT_EQ(tensors[i].norm, first[i].norm) << tensors[i].path;
    }
  }
  double sum = 0;
  for (std::int64_t i = 0; i < 131 * 24; ++i)
    sum += std::pow(static_cast<double>(value(checkpoint::Kind::model, "embedding.tokens.weight", i, DType::f32)), 2);
  EXPECT_EQ(first[0].path, "/model/embedding.tokens.weight");
  EXPECT_NEAR(first[0].norm, std::sqrt(sum), 1e-9);
}

TEST(RoundTrip, RankFilesAreEquallyLarge) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::bf16, 1), 7);
  std::uintmax_t least = ~std::uintmax_t{0}, most = 0;
  for (int r = 0; r < 7; ++r) {
    const auto size = fs::file_size(scratch.path + "/step-00000001/" + checkpoint::rank_name(r) + ".h5");
    least = std::min(least, size);
    most = std::max(most, size);
  }
  EXPECT_LT(static_cast<double>(most - least), 0.05 * static_cast<double>(least));
}

TEST(RoundTrip, NothingButTheNamedFilesIsLeft) {
  Scratch scratch;
  fs::create_directories(scratch.path + "/step-00000003.partial");
  for (const char* name : {"rank-00009.h5", "rank-00009.index", "rank-00001.index.partial", "ranks.index.partial"})
    spit(scratch.path + "/step-00000003.partial/" + name, "left over");
  save(scratch.path, state(gpt(), DType::f32, 3), 2);
  std::vector<std::string> names;
  for (const auto& e : fs::recursive_directory_iterator(scratch.path))
    names.push_back(fs::relative(e.path(), scratch.path).string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"latest", "step-00000003", "step-00000003/checkpoint.h5",
                                             "step-00000003/manifest.json", "step-00000003/rank-00000.h5",
                                             "step-00000003/rank-00001.h5", "step-00000003/ranks.index"}));
  EXPECT_EQ(slurp(scratch.path + "/latest"), "step-00000003\n");
}

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const auto& f : checkpoint::list(folder)) steps.push_back(f.step);
  return steps;
}

TEST(Keeping, RemovesTheOldestAndNeverTheNewest) {
  Scratch scratch;
  for (int step : {10, 20, 30, 40}) save(scratch.path, state(gpt(), DType::f32, step), 1, 2);
  EXPECT_EQ(steps_in(scratch.path), (std::vector<std::int64_t>{40, 30}));
  save(scratch.path, state(gpt(), DType::f32, 15), 1, 2);  // a run that went back
  EXPECT_EQ(steps_in(scratch.path), (std::vector<std::int64_t>{40, 15}));
  save(scratch.path, state(gpt(), DType::f32, 50), 1, 0);
  EXPECT_EQ(steps_in(scratch.path), (std::vector<std::int64_t>{50, 40, 15}));
}

TEST(Keeping, TheSameStepIsReplaced) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 10), 3);
  save(scratch.path, state(gpt(), DType::bf16, 10), 2);
  checkpoint::Reader reader(scratch.path + "/step-00000010");
  EXPECT_EQ(reader.manifest().ranks, 2);
  EXPECT_EQ(differences(reader, 1), 0);
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch.path), {}), 2);  // step-00000010 and latest
}

TEST(Finding, FallsBackOverDamagedOnes) {
  Scratch scratch;
  EXPECT_FALSE(checkpoint::find_latest_whole(scratch.path + "/absent", checkpoint::Verify::everything));
  for (int step : {10, 20, 30}) save(scratch.path, state(gpt(), DType::f32, step), 2);
  auto manifest = slurp(scratch.path + "/step-00000030/manifest.json");
  manifest[manifest.size() / 2] ^= 1;
  spit(scratch.path + "/step-00000030/manifest.json", manifest);
  const auto rank = scratch.path + "/step-00000020/rank-00001.h5";
  auto bytes = slurp(rank);
  bytes[bytes.size() - 1000] ^= 1;
  spit(rank, bytes);
  EXPECT_EQ(checkpoint::find_latest_whole(scratch.path, checkpoint::Verify::metadata).step, 20);
  const auto found = checkpoint::find_latest_whole(scratch.path, checkpoint::Verify::everything);
  EXPECT_EQ(found.step, 10);
  ASSERT_EQ(found.refused.size(), 2u);
  EXPECT_NE(found.refused[0].find("step-00000030"), std::string::npos);
  EXPECT_NE(found.refused[1].find("rank-00001.h5"), std::string::npos);
}

TEST(Finding, IgnoresPartialsAndStrangers) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 7), 1);
  fs::copy(scratch.path + "/step-00000007", scratch.path + "/step-00000009.partial");
  fs::copy(scratch.path + "/step-00000007", scratch.path + "/step-nine");
  fs::create_directory(scratch.path + "/abandoned-step-00000011");
  spit(scratch.path + "/step-00000012", "a file");
  EXPECT_EQ(steps_in(scratch.path), (std::vector<std::int64_t>{7}));
  checkpoint::remove_stale_partials(scratch.path);
  EXPECT_FALSE(fs::exists(scratch.path + "/step-00000009.partial"));
  EXPECT_TRUE(fs::exists(scratch.path + "/step-00000007"));
}

TEST(Publishing, RefusesMissingOrForeignSidecars) {
  Scratch scratch;
  const auto s = state(gpt(), DType::f32, 4);
  checkpoint::write_rank(scratch.path, s, Rank(s, 0, 2).shards, {});
  EXPECT_THROW(checkpoint::publish(scratch.path, s, plan::Topology({{plan::Axis::data, 2}}), 3), InputError);
  EXPECT_FALSE(fs::exists(scratch.path + "/step-00000004.partial"));
  checkpoint::write_rank(scratch.path, s, Rank(s, 0, 3).shards, {});
  checkpoint::write_rank(scratch.path, s, Rank(s, 1, 2).shards, {});
  EXPECT_THROW(checkpoint::publish(scratch.path, s, plan::Topology({{plan::Axis::data, 2}}), 3), InputError);
}

// An index that an earlier attempt joined does not describe what the ranks have written since.
TEST(Publishing, AnIndexOfAnEarlierAttemptIsMadeAnew) {
  Scratch scratch, other;
  save(other.path, state(llama(), DType::f32, 4), 2);
  const auto s = state(gpt(), DType::f32, 4);
  for (int r = 0; r < 2; ++r) checkpoint::write_rank(scratch.path, s, Rank(s, r, 2).shards, {});
  for (const char* name : {"ranks.index", "manifest.json"})
    fs::copy(other.path + "/step-00000004/" + name, scratch.path + "/step-00000004.partial/" + name);
  checkpoint::write_rank(scratch.path, s, Rank(s, 1, 2).shards, {});  // once more
  checkpoint::publish(scratch.path, s, plan::Topology({{plan::Axis::data, 2}}), 3);
  checkpoint::Reader reader(scratch.path + "/step-00000004");
  reader.verify_all();
  EXPECT_EQ(differences(reader, 1), 0);
}

// A rank's index must belong to its sidecar, else nothing is published.
TEST(Publishing, AnIndexThatIsNotOfItsSidecarIsRefused) {
  const auto s = state(gpt(), DType::f32, 4);
  for (int damage = 0; damage < 3; ++damage) {
    Scratch scratch;
    for (int r = 0; r < 2; ++r) checkpoint::write_rank(scratch.path, s, Rank(s, r, 2).shards, {});
    const auto path = scratch.path + "/step-00000004.partial/rank-00001.index";
    auto bytes = slurp(path);
    bytes.back() ^= 1;
    if (damage == 0) spit(path, bytes);
    else if (damage == 1) spit(path, bytes.substr(1));
    else fs::remove(path);
    try {
      checkpoint::publish(scratch.path, s, plan::Topology({{plan::Axis::data, 2}}), 3);
      ADD_FAILURE() << "an index of something else was published: " << damage;
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find("rank-00001.index"), std::string::npos) << e.what();
    }
    EXPECT_TRUE(fs::is_empty(scratch.path)) << damage;
  }
}

// If no lock keeps two runs apart, each one finds the other's part.
TEST(Publishing, PartsOfTwoRunsAreNotMixed) {
  Scratch scratch;
  auto mine = state(gpt(), DType::f32, 4), other = mine;
  mine.writer = "process 1 on a";
  other.writer = "process 2 on b";
  checkpoint::write_rank(scratch.path, mine, Rank(mine, 0, 2).shards, {});
  checkpoint::write_rank(scratch.path, other, Rank(other, 1, 2).shards, {});
  try {
    checkpoint::publish(scratch.path, mine, plan::Topology({{plan::Axis::data, 2}}), 3);
    ADD_FAILURE() << "parts of two runs were published";
  } catch (const base::EnvironmentError& e) {
    for (const auto& name : {mine.writer, other.writer})
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
  }
  EXPECT_FALSE(fs::exists(scratch.path + "/step-00000004"));
  checkpoint::discard_partial(scratch.path, mine);
  EXPECT_TRUE(fs::exists(scratch.path + "/step-00000004.partial/rank-00001.h5")) << "another run's part was removed";
  edit_sealed(scratch.path + "/step-00000004.partial/rank-00001.json",
              [](nlohmann::json& j) { j["format"] = "trainyard.checkpoint.rank/1"; });
  checkpoint::discard_partial(scratch.path, mine);
  EXPECT_TRUE(fs::exists(scratch.path + "/step-00000004.partial/rank-00001.h5")) << "an older build's part was removed";
  checkpoint::write_rank(scratch.path, mine, Rank(mine, 1, 2).shards, {});
  checkpoint::publish(scratch.path, mine, plan::Topology({{plan::Axis::data, 2}}), 3);
  EXPECT_EQ(checkpoint::Reader(scratch.path + "/step-00000004").state().writer, "")
      << "equal runs write equal manifests";
}

TEST(Reading, AnotherModelIsRefused) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 4), 2);
  checkpoint::Reader reader(scratch.path + "/step-00000004");
  std::vector<float> out(100000);
  auto other = gpt();
  other.ffn = 48;
  const auto wide = plan::flat_groups(other)[2];
  EXPECT_THROW(reader.read_shard(checkpoint::Kind::state("m"), wide, plan::Topology(), 0, out.data()), InputError);
  const auto strange = plan::flat_groups(llama())[1];
  EXPECT_THROW(reader.read_shard(checkpoint::Kind::state("m"), strange, plan::Topology(), 0, out.data()), InputError);
}

// At a byte a second every write has to wait, so each write asks whether the bound still holds. Without a bound no
// write asks.
TEST(Writing, TheRateIsBounded) {
  const auto s = state(gpt(), DType::f32, 4);
  Rank rank(s, 0, 1);
  for (const std::int64_t rate : {1, 0}) {
    Scratch scratch;
    int asked = 0;
    checkpoint::write_rank(scratch.path, s, rank.shards, {rate, [&] { return ++asked > 0; }});
    EXPECT_EQ(asked >= 3, rate == 1) << asked;  // weights and both moments
    EXPECT_EQ(asked == 0, rate == 0) << asked;
  }
}
