// Uses an installed library: reads a shard set, trains a model with a branch of its own, and compares the plan with the
// run. usage: outside SHARD_SET RUN_FOLDER
#include "low_rank.h"

#include "libtrain/data/window_dataset.h"
#include "libtrain/engine/run.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

using namespace trainyard;

namespace {

bool reads(const std::string& folder) {
  const auto index = data::read_index(folder);
  data::WindowDataset set(folder, index, index.train,
                          {.sequence = 8, .mask = data::DocumentMask::off, .order = data::Order::as_stored, .seed = 1});
  std::vector<std::int32_t> t(4 * 8);
  std::vector<std::uint8_t> weights(8);
  set.fill(0, {t.data(), t.data() + 8, t.data() + 16, t.data() + 24, weights.data()});
  return std::string(t.begin(), t.begin() + 8) == "Document";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string set = argv[1], run = argv[2];
  if (!reads(set)) return 1;

  low_rank::register_branch();
  std::ofstream(run + ".toml") << "layers = 2\nhidden = 32\ncontext = 16\nbranches = \"attention,low_rank,ffn\"\n";
  engine::RunConfig config;
  config.model = run + ".toml", config.data = set, config.output = run;
  config.steps = 3, config.global_batch = 4, config.sequence = 16, config.device = "cpu";
  auto world = engine::solo_world();
  engine::SignalWatcher signals;
  const auto result = engine::run(config, world, signals, {}, 1);
  bool exact = result.step == 3 && result.loss.value_or(0) > 0;
  for (const auto& row : result.memory_report.rows)
    if (row.verdict.empty()) exact = exact && row.predicted == row.measured;
  std::printf("step %lld, loss %.3f, %s\n", static_cast<long long>(result.step), result.loss.value_or(0),
              exact ? "memory as predicted" : "memory is NOT as predicted");
  return exact ? 0 : 1;
}
