// The virtual view as h5dump and h5ls show it: whole logical tensors, whatever the layout; NaN where a rank file is
// missing.
#include "tests/checkpoint/layouts.h"

#include "libtrain/checkpoint/view.h"
#include "libtrain/io/hdf5_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <sstream>

using namespace sample;
using checkpoint::Kind;
using trainyard::base::DType;

namespace {

std::string output_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  std::string text;
  char buffer[4096];
  while (const auto n = std::fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, n);
  ::pclose(pipe);
  return text;
}

// The numbers between DATA { and }, without indices.
std::vector<double> dumped(const std::string& file, const std::string& dataset) {
  const auto text = output_of("h5dump -y -w 0 -m %.9g -d '" + dataset + "' " + file);
  const auto from = text.find("DATA {"), to = text.find('}', from);
  std::vector<double> numbers;
  if (from == std::string::npos) return numbers;
  auto body = text.substr(from + 6, to - from - 6);
  for (char& c : body)
    if (c == ',') c = ' ';
  std::istringstream in(body);
  for (std::string word; in >> word;) numbers.push_back(std::strtod(word.c_str(), nullptr));
  return numbers;
}

bool has_tools() { return output_of("h5dump --version").find("h5dump") != std::string::npos; }

}  // namespace

TEST(View, H5dumpShowsWholeTensors) {
  if (!has_tools()) GTEST_SKIP() << "h5dump is not installed";
  for (auto dtype : {DType::f32, DType::bf16, DType::f16})
    for (int ranks : {1, 3, 7}) {
      Scratch scratch;
      const auto s = state(gpt(), dtype, 5);
      save(scratch.path, s, ranks);
      const auto file = scratch.path + "/step-00000005/checkpoint.h5";
      for (auto kind : checkpoint::kinds_of(dtype))
        for (const char* name :
             {"embedding.tokens.weight", "layers.01.attention.q.weight", "layers.00.ffn.up.bias", "head.norm.weight"}) {
          const auto numbers = dumped(file, std::string(checkpoint::path_of(kind)) + "/" + name);
          std::int64_t count = 0;
          for (const auto& flat_group : plan::flat_groups(s.model))
            for (const auto& p : flat_group.parameters)
              if (p.name == name) count = p.count();
          ASSERT_EQ(static_cast<std::int64_t>(numbers.size()), count) << name << " on " << ranks;
          std::int64_t wrong = 0;
          for (std::int64_t i = 0; i < count; ++i)
            wrong += static_cast<float>(numbers[static_cast<std::size_t>(i)]) != value(kind, name, i, dtype);
          EXPECT_EQ(wrong, 0) << checkpoint::path_of(kind) << "/" << name << " on " << ranks;
        }
    }
}

TEST(View, H5lsListsLogicalShapes) {
  if (!has_tools()) GTEST_SKIP() << "h5ls is not installed";
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::bf16, 5), 4);
  const auto listing = output_of("h5ls -r " + scratch.path + "/step-00000005/checkpoint.h5");
  for (const char* line :
       {"/model/embedding.tokens.weight Dataset {131, 24}",
        "/optimizer/master/layers.00.ffn.up.weight Dataset {40, 24}",
        "/optimizer/v/embedding.positions.weight Dataset {17, 24}", "/optimizer/m/head.norm.bias Dataset {24}"})
    EXPECT_NE(listing.find(line), std::string::npos) << line << "\n" << listing;
}

TEST(View, AMissingRankFileShowsAsNaN) {
  if (!has_tools()) GTEST_SKIP() << "h5dump is not installed";
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 5), 2);
  fs::remove(scratch.path + "/step-00000005/rank-00001.h5");
  const auto numbers = dumped(scratch.path + "/step-00000005/checkpoint.h5", "/model/embedding.tokens.weight");
  ASSERT_EQ(numbers.size(), 131u * 24u);
  EXPECT_FALSE(std::isnan(numbers.front()));
  EXPECT_TRUE(std::isnan(numbers.back()));
}

TEST(View, NamesAreRelativeSoTheFolderCanMove) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 5), 2);
  fs::rename(scratch.path + "/step-00000005", scratch.path + "/elsewhere");
  const auto file = trainyard::io::Hdf5File::open(scratch.path + "/elsewhere/checkpoint.h5");
  EXPECT_EQ(file.text("/", "format"), "trainyard.checkpoint/2");
  EXPECT_EQ(file.integer("/", "step"), 5);
  EXPECT_EQ(file.text("/model/embedding.tokens.weight", "alias"), "head.weight");
  EXPECT_TRUE(file.info("/model/embedding.tokens.weight").is_virtual);
  std::vector<float> got(131 * 24);
  file.read_dataset("/model/embedding.tokens.weight", DType::f32, 0, 131 * 24, got.data());
  EXPECT_EQ(got.back(), value(Kind::model, "embedding.tokens.weight", 131 * 24 - 1, DType::f32));
  EXPECT_EQ(checkpoint::Reader(scratch.path + "/elsewhere").tensors().front().aliases.front(), "head.weight");
}

TEST(View, IsMadeOnDemand) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 5), 2);
  const auto folder = scratch.path + "/step-00000005";
  auto manifest = checkpoint::Reader(folder).manifest();
  manifest.files.erase(checkpoint::view_name);
  spit(folder + "/manifest.json", checkpoint::manifest_text(manifest));
  const auto before = slurp(folder + "/checkpoint.h5");
  fs::remove(folder + "/checkpoint.h5");
  checkpoint::Reader(folder).verify_all();
  checkpoint::make_view(folder);
  checkpoint::Reader reader(folder);
  EXPECT_TRUE(reader.manifest().files.contains(checkpoint::view_name));
  EXPECT_EQ(fs::file_size(folder + "/checkpoint.h5"), before.size());
}

// A manifest that this build cannot judge stays as it is, whatever is wrong with it.
TEST(View, OfNoManifestOfOursIsNotMade) {
  Scratch scratch;
  save(scratch.path, state(gpt(), DType::f32, 5), 2);
  const auto folder = scratch.path + "/step-00000005", path = folder + "/manifest.json";
  const auto whole = slurp(path);
  const std::vector<std::function<void(nlohmann::json&)>> edits = {
      [](auto& j) { j["format"] = "trainyard.checkpoint/3"; }, [](auto& j) { j.erase("files"); },
      [](auto& j) { j["files"] = 7; }, [](auto& j) { j["ranks"] = 3; }};
  for (const auto& edit : edits) {
    spit(path, whole);
    edit_manifest(folder, edit);
    const auto edited = slurp(path);
    EXPECT_THROW(checkpoint::make_view(folder), base::InputError);
    EXPECT_EQ(slurp(path), edited);
  }
}

TEST(View, CountsItsBoxes) {
  checkpoint::Manifest m;
  m.state = state(gpt(), DType::f32, 1);
  m.ranks = 1;
  m.boxes = {checkpoint::boxes_of_shards(m.state.model, plan::Topology(), 0)};
  EXPECT_EQ(checkpoint::boxes_in_view(m),
            3 * static_cast<std::int64_t>(checkpoint::parameters_of(m.state.model).size()));
}
