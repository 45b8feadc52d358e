// A run's folder with the checkpoint of a small model, for the tests of generate.
#pragma once

#include "libtrain/checkpoint/rank_writer.h"
#include "libtrain/checkpoint/saved_shards.h"
#include "tests/model/small_model.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace trainyard::test {

inline plan::ModelConfig tiny() {
  auto m = small_gpt2();
  m.vocabulary = 257, m.context = 16;
  return m;
}

inline plan::ModelConfig tiny_llama() {
  auto m = small_llama();
  m.vocabulary = 257, m.context = 16;
  return m;
}

// A run's folder with one checkpoint, of step 3, written by one rank.
struct SavedRun {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("trainyard-generate-{}", getpid());
  PlainStore store;

  // The weights are initial values times 8, which give far from uniform logits.
  explicit SavedRun(const plan::ModelConfig& model = tiny(), double factor = 8) : store(model, base::DType::f32, 21) {
    std::filesystem::remove_all(folder);
    for (auto& flat_group : store.master)
      for (auto& x : flat_group) x *= factor;
    store.publish();
    std::vector<std::vector<float>> flat;
    for (const auto& flat_group : store.master) flat.emplace_back(flat_group.begin(), flat_group.end());
    std::vector<std::vector<float>> zeros = flat;
    for (auto& z : zeros) std::fill(z.begin(), z.end(), 0.0f);
    checkpoint::RankShards shards;
    shards.rank = 0, shards.ranks = 1;
    for (std::size_t u = 0; u < flat.size(); ++u) {
      const auto n = static_cast<std::int64_t>(flat[u].size());
      shards.views[checkpoint::Kind::model].push_back(base::View::of(flat[u].data(), {n}));
      shards.views[checkpoint::Kind::state("m")].push_back(base::View::of(zeros[u].data(), {n}));
      shards.views[checkpoint::Kind::state("v")].push_back(base::View::of(zeros[u].data(), {n}));
    }
    shards.boxes = checkpoint::boxes_of_shards(model, plan::Topology(), 0);
    checkpoint::RunState state;
    state.step = 3, state.model = model, state.isa = "any";
    state.provenance["tokenizer"] = "bytes";
    const auto where = (folder / "checkpoints").string();
    checkpoint::write_rank(where, state, shards, {});
    checkpoint::publish(where, state, plan::Topology({{plan::Axis::data, 1}}), 3);
  }
  ~SavedRun() { std::filesystem::remove_all(folder); }
};

}  // namespace trainyard::test
