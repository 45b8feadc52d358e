// The differences between two checkpoints and the mean of several, compared with plain loops.
#include "tests/checkpoint/layouts.h"

#include "libtrain/checkpoint/average.h"
#include "libtrain/checkpoint/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace sample;
using checkpoint::Kind;
using trainyard::base::DType;

namespace {

// The sample run on one rank with some values changed by change(kind, shard of the first flat group).
void save_changed(const std::string& folder, const checkpoint::RunState& s,
                  const std::function<void(Kind, float*)>& change) {
  Rank rank(s, 0, 1);
  for (auto kind : {Kind::model, Kind::state("m"), Kind::state("v")})
    change(kind, static_cast<float*>(rank.shards.views.at(kind).front().data));
  checkpoint::write_rank(folder, s, rank.shards, {});
  checkpoint::publish(folder, s, plan::Topology({{plan::Axis::data, 1}}), 3);
}

std::vector<float> tensor(const std::string& path, Kind kind, const checkpoint::ParameterEntry& p) {
  std::vector<float> values(static_cast<std::size_t>(p.count));
  checkpoint::Reader(path).read_tensor(kind, p.name, 0, p.count, values.data());
  return values;
}

std::map<std::string, checkpoint::TensorDifference> differences_of(
    const std::string& a, const std::string& b, int threads = 2,
    checkpoint::Contents what = checkpoint::Contents::all) {
  std::map<std::string, checkpoint::TensorDifference> out;
  for (const auto& t : checkpoint::compare(checkpoint::Reader(a), checkpoint::Reader(b), what, threads))
    out[t.path] = t;
  return out;
}

constexpr const char* table = "/model/embedding.tokens.weight";  // the first tensor of the first flat group, 131 x 24

}  // namespace

TEST(Compare, EqualAcrossCutsAndVersions) {
  Scratch scratch;
  const auto s = state(gpt(), DType::f32, 5);
  save(scratch.path + "/a", s, 3);
  save_layout(scratch.path + "/b", s, grid_layout(gpt(), 2, 2),
              plan::Topology({{plan::Axis::data, 2}, {plan::Axis::tensor, 2}}));
  const auto found = differences_of(scratch.path + "/a/step-00000005", scratch.path + "/b/step-00000005");
  EXPECT_EQ(found.size(), 3 * checkpoint::parameters_of(gpt()).size());
  for (const auto& [path, t] : found) {
    EXPECT_TRUE(t.equal()) << path;
    EXPECT_EQ(t.largest_absolute, 0) << path;
    EXPECT_NEAR(t.cosine, 1, 1e-12) << path;
  }
}

TEST(Compare, SaysHowMuchAndWhere) {
  Scratch scratch;
  const auto s = state(gpt(), DType::f32, 5);
  save(scratch.path + "/a", s, 2);
  float was = 0, other = 0;
  save_changed(scratch.path + "/b", s, [&](Kind kind, float* values) {
    if (kind == Kind::state("m")) values[30] = std::numeric_limits<float>::quiet_NaN();
    if (kind != Kind::model) return;
    was = values[50], other = values[77];
    values[50] += 3;
    values[77] *= -1;  // a relative difference of 2, the largest there is
  });
  const auto found = differences_of(scratch.path + "/a/step-00000005", scratch.path + "/b/step-00000005");
  std::int64_t unequal = 0;
  for (const auto& [path, t] : found) unequal += t.equal() ? 0 : 1;
  EXPECT_EQ(unequal, 2);
  const auto& t = found.at(table);
  EXPECT_EQ(t.different, 2);
  EXPECT_EQ(t.elements, 131 * 24);
  EXPECT_DOUBLE_EQ(t.largest_absolute, std::fabs(static_cast<double>(was + 3) - static_cast<double>(was)));
  EXPECT_EQ(t.absolute_at, 50);
  EXPECT_DOUBLE_EQ(t.largest_relative, 2);
  EXPECT_EQ(t.relative_at, 77);
  EXPECT_NE(other, 0);
  EXPECT_EQ(checkpoint::index_of(t.shape, 77), (std::vector<std::int64_t>{3, 5}));
  const auto p = checkpoint::Reader(scratch.path + "/a/step-00000005").manifest().parameters.front();
  const auto a = tensor(scratch.path + "/a/step-00000005", Kind::model, p),
             b = tensor(scratch.path + "/b/step-00000005", Kind::model, p);
  double dot = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    dot += x * y, aa += x * x, bb += y * y;
  }
  EXPECT_NEAR(t.cosine, dot / std::sqrt(aa * bb), 1e-12);
  const auto& nan = found.at("/optimizer/m/embedding.tokens.weight");
  EXPECT_EQ(nan.different, 1);
  EXPECT_TRUE(std::isinf(nan.largest_absolute) && std::isinf(nan.largest_relative));
  EXPECT_EQ(nan.absolute_at, 30);
}

TEST(Compare, OtherShapesAndNamesAreNoEquals) {
  Scratch scratch;
  auto wide = gpt();
  wide.context = 18;
  save(scratch.path + "/a", state(gpt(), DType::f32, 5), 1);
  save(scratch.path + "/b", state(wide, DType::f32, 5), 2);
  save(scratch.path + "/c", state(llama(), DType::f32, 5), 2);
  auto found = differences_of(scratch.path + "/a/step-00000005", scratch.path + "/b/step-00000005");
  EXPECT_NE(found.at("/model/embedding.positions.weight").problem.find("[18, 24]"), std::string::npos);
  EXPECT_TRUE(found.at(table).equal());
  found = differences_of(scratch.path + "/a/step-00000005", scratch.path + "/c/step-00000005");
  EXPECT_EQ(found.at("/model/embedding.positions.weight").problem, "only the first has it");
  EXPECT_EQ(found.at("/model/head.weight").problem, "only the second has it");
}

// What one of the two checkpoints lacks is reported, unless only the weights were asked for.
TEST(Compare, AWholeCheckpointAndItsWeightsAlone) {
  Scratch scratch;
  const auto from = scratch.path + "/step-00000005", weights = scratch.path + "/weights";
  save(scratch.path, state(gpt(), DType::f32, 5), 2);
  checkpoint::reshard(checkpoint::Reader(from), weights, {1, {}, {}, {}, checkpoint::Contents::model}, {});
  const auto parameters = checkpoint::parameters_of(gpt()).size();
  for (const bool swapped : {false, true}) {
    const auto found = swapped ? differences_of(weights, from) : differences_of(from, weights);
    EXPECT_EQ(found.size(), 3 * parameters);
    for (const auto& [path, t] : found) {
      if (path.starts_with("/model")) EXPECT_TRUE(t.equal()) << path;
      else EXPECT_EQ(t.problem, swapped ? "only the second has it" : "only the first has it") << path;
    }
  }
  const auto found = differences_of(from, weights, 2, checkpoint::Contents::model);
  EXPECT_EQ(found.size(), parameters);
  for (const auto& [path, t] : found) EXPECT_TRUE(t.equal()) << path;
  EXPECT_EQ(differences_of(weights, weights).size(), parameters);
}

TEST(Compare, DamageIsNoDifference) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 5), 1);
  const auto folder = scratch.path + "/step-00000005", file = folder + "/rank-00000.h5";
  const checkpoint::Reader reader(folder);
  auto bytes = slurp(file);
  bytes[static_cast<std::size_t>(reader.manifest().files.at("rank-00000.h5").payloads.at("/optimizer/v").offset)] ^= 1;
  spit(file, bytes);
  EXPECT_THROW(checkpoint::compare(reader, reader, checkpoint::Contents::all, 2), base::InputError);
}

// The mean is computed in f64 and rounded once; moments and counters come from the last checkpoint.
TEST(Average, IsTheMeanOfTheWeights) {
  for (auto dtype : {DType::f32, DType::bf16, DType::f16}) {
    Scratch scratch;
    save(scratch.path + "/a", state(gpt(), DType::bf16, 5), 3);  // other dtype, layout, step: its master counts
    save(scratch.path + "/b", state(gpt(), dtype, 7), 1);
    save_changed(scratch.path + "/c", state(gpt(), DType::f32, 6), [](Kind kind, float* values) {
      for (int i = 0; i < 131 * 24; ++i) values[i] *= kind == Kind::model ? 7.0f : -1.0f;
    });
    const std::vector<std::string> from{scratch.path + "/a/step-00000005", scratch.path + "/c/step-00000006",
                                        scratch.path + "/b/step-00000007"};
    const checkpoint::Reader a(from[0]), c(from[1]), b(from[2]);
    const auto mean = scratch.path + "/mean";
    checkpoint::ReshardOptions o;
    o.threads = 3;
    checkpoint::average({&a, &c, &b}, mean, {4, {}, {}, {}}, o);
    checkpoint::Reader reader(mean);
    reader.verify_all();
    EXPECT_EQ(reader.state().step, 7);
    EXPECT_EQ(reader.state().dtype, dtype);
    EXPECT_EQ(reader.manifest().ranks, 4);
    EXPECT_EQ(reader.state().provenance["average_of"].size(), 3u);
    for (const auto& p : reader.manifest().parameters) {
      const auto x = tensor(from[0], Kind::master, p), y = tensor(from[1], Kind::master, p),
                 z = tensor(from[2], Kind::master, p);
      auto expected = x;
      for (std::size_t i = 0; i < x.size(); ++i)
        expected[i] = static_cast<float>(
            (static_cast<double>(x[i]) + static_cast<double>(y[i]) + static_cast<double>(z[i])) / 3.0);
      EXPECT_EQ(tensor(mean, Kind::master, p), expected) << p.name;
      for (auto& v : expected) v = rounded(v, dtype);
      EXPECT_EQ(tensor(mean, Kind::model, p), expected) << p.name;
      for (auto kind : {Kind::state("m"), Kind::state("v")})
        EXPECT_EQ(tensor(mean, kind, p), tensor(from[2], kind, p)) << p.name;
    }
  }
}

// Checkpoints of weights alone have a mean too, which has only weights.
TEST(Average, OfWeightsAlone) {
  Scratch scratch;
  const auto a = scratch.path + "/step-00000005", b = scratch.path + "/weights", mean = scratch.path + "/mean";
  save(scratch.path, state(gpt(), DType::bf16, 5), 2);
  checkpoint::reshard(checkpoint::Reader(a), b, {1, DType::f32, {}, {}, checkpoint::Contents::model}, {});
  const checkpoint::Reader first(a), second(b);
  const auto result = checkpoint::average({&first, &second}, mean, {3, {}, {}, {}}, {});
  checkpoint::Reader reader(mean);
  std::int64_t elements = 0;
  for (const auto& p : reader.manifest().parameters) elements += p.count;
  EXPECT_EQ(result.bytes_read, 2 * 4 * elements);  // a master and f32 weights, without padding
  reader.verify_all();
  EXPECT_EQ(reader.tensors().size(), reader.manifest().parameters.size());
  for (const auto& p : reader.manifest().parameters)
    EXPECT_EQ(tensor(mean, Kind::model, p), tensor(a, Kind::master, p)) << p.name;  // the mean of equal weights
  EXPECT_THROW(
      checkpoint::average({&first, &second}, scratch.path + "/all", {3, {}, {}, {}, checkpoint::Contents::all}, {}),
      base::UsageError);
}

TEST(Average, RefusesOtherShapes) {
  Scratch scratch;
  auto wide = gpt();
  wide.ffn = 48;
  save(scratch.path + "/a", state(gpt(), DType::f32, 5), 1);
  save(scratch.path + "/b", state(wide, DType::f32, 5), 1);
  const checkpoint::Reader a(scratch.path + "/a/step-00000005"), b(scratch.path + "/b/step-00000005");
  try {
    checkpoint::average({&a, &b}, scratch.path + "/mean", {}, {});
    FAIL() << "not refused";
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("layers.00.ffn.up.weight [48, 24]"), std::string::npos) << e.what();
  }
  EXPECT_FALSE(fs::exists(scratch.path + "/mean.partial"));
}
