// Uses the data, the model and the configuration of an installed tree: reads a shard set and takes the place of a block.
// usage: outside SHARD_SET
#include "libtrain/comm/mpi.h"
#include "libtrain/data/window_dataset.h"
#include "libtrain/engine/config.h"
#include "libtrain/model/assemble.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

using namespace trainyard;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const auto index = data::read_index(folder);
  data::WindowDataset set(folder, index, index.train, 8, data::DocumentMask::off, data::Order::as_stored, 1);
  std::vector<std::int32_t> t(4 * 8);
  std::vector<std::uint8_t> weights(8);
  set.fill(0, {t.data(), t.data() + 8, t.data() + 16, t.data() + 24, weights.data()});
  const std::string text(t.begin(), t.begin() + 8);
  int made = 0;
  model::register_block("ours", [&](const model::BlockSpec& spec) {
    ++made;
    return model::make_block("layer", spec);
  });
  const auto names = model::registered_blocks();
  auto config = plan::preset("gpt2-nano");
  config.vocabulary = index.vocabulary;
  const auto block = model::make_block("ours", {config, plan::BlockKind::layer, 0});
  const auto blocks = model::assemble(config);
  engine::RunConfig run;
  std::printf("%s %zu %zu %s\n", text.c_str(), names.size(), blocks.size(), run.model.c_str());
  const bool right = text == "Document" && made == 1 && block != nullptr && std::find(names.begin(), names.end(), "ours") != names.end() &&
                     blocks.size() == static_cast<std::size_t>(config.layers) + 2;
  return right ? 0 : 1;
}
