// Tests the attention of models as files describe it, and what is refused.
#include "libtrain/base/error.h"
#include "libtrain/plan/attention_text.h"
#include "libtrain/plan/blocks/attention.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/model_config.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace trainyard::plan {
namespace {

ModelConfig read(const std::string& attention, const std::string& model = "layers = 6\ncontext = 4096\n") {
  const testing::Scratch folder;
  testing::spit(folder.path + "/m.toml", model + "[attention]\n" + attention);
  return load_model(folder.path + "/m.toml");
}

std::string refusal(const std::string& attention) {
  try {
    read(attention);
  } catch (const base::Error& e) {
    return e.what();
  }
  return "";
}

TEST(AttentionOfAModel, IsReadFromItsTable) {
  const auto m = read(
      "layout = \"dense, sliding x2, bigbird\"\nblock = 32\nwindow = 4\nrandom = 2\nper-head = \"on\"\nseed = "
      "9223372036854775807\n");
  EXPECT_EQ(m.attention.layout, (std::vector<std::string>{"dense", "sliding", "sliding", "bigbird"}));
  EXPECT_EQ(m.attention.block, 32);
  EXPECT_EQ(m.attention.seed, 9223372036854775807u);
  EXPECT_EQ(layer_model(m, 5).attention.layout, std::vector<std::string>{"sliding"}) << "again from the first";
  EXPECT_EQ(alike_layers(m, 1, 6), 2);
  EXPECT_EQ(alike_layers(m, 4, 6), 1);
  EXPECT_EQ(model_from_json(model_to_json(m), "it", ""), m);
  EXPECT_EQ(read("layout = \"variable\"\nlocal = [1, 2]\nglobal-blocks = \"0, 3:5\"\n").attention.local,
            (std::vector<std::int64_t>{1, 2}));
}

// However long a valid description is, what is written of it can be read back.
TEST(AttentionOfAModel, LongDescriptionsComeBack) {
  auto m = preset("gpt2-nano");
  m.vocabulary = 257, m.layers = 10000, m.context = 1 << 20;
  m.attention.layout = std::vector<std::string>(10000, "longformer");
  m.attention.block = 128;
  for (int i = 0; i < 4096; ++i)
    m.attention.global_blocks += fmt::format("{}{}:{}", i == 0 ? "" : ", ", 1000000 + i, 1000001 + i);
  EXPECT_EQ(model_from_json(model_to_json(m), "it", ""), m);
  for (const auto& problem : problems(m)) ADD_FAILURE() << problem;
  m.attention.global_blocks += std::string(128 << 10, ' ');
  ASSERT_EQ(problems(m).size(), 1u);
  EXPECT_NE(problems(m)[0].find("more than 131072"), std::string::npos) << problems(m)[0];
}

TEST(AttentionOfAModel, IsNotSaidWhereItIsDense) {
  auto m = preset("gpt2-nano");
  EXPECT_EQ(model_to_json(m).dump().find("attention_l"), std::string::npos);
  m.attention.layout = {"sliding"};
  EXPECT_NE(model_to_json(m).dump().find("\"attention_layout\":\"sliding\""), std::string::npos);
}

TEST(AttentionOfAModel, IsRefusedWithWhatWouldBeRight) {
  const struct {
    const char *text, *says;
  } table[] = {
      {"layout = \"sliding x9000, dense x1001\"\n", "more than 10000 words"},
      {"window = 5\n", "attention-window is read by the layouts bigbird, longformer, sliding"},
      {"layout = \"sliding\"\nlocal = 2\n", "attention-local is read by the layouts fixed, variable"},
      {"layout = \"sliding\"\nblock = 48\n", "attention-block 48 must be 16, 32, 64 or 128"},
      {"layout = \"slding\"\n", "slding is not known"},
      {"layout = \"sliding x0\"\n", "the number after x must lie between 1 and 10000"},
      {"layout = \"sliding x7\"\n", "names 7 layers of 6"},
      {"layout = \"fixed\"\nlocal = [2, 3]\n", "lists 2 window sizes"},
      {"layout = \"fixed\"\nglobal = 5\n", "attention-global 5"},
      {"layout = \"fixed\"\npatterns = 5\nper-head = \"on\"\n", "has room for only 4 different runs of 1"},
      {"layout = \"fixed\"\npatterns = 2\n", "set attention-per-head on"},
      {"layout = \"fixed\"\nper-head = \"on\"\n", "nothing differs between heads"},
      {"layout = \"fixed\"\nhorizontal = \"on\"\n", "which a causal model forbids"},
      {"layout = \"bigbird\"\nrandom = 0\nshared-draws = \"on\"\n", "nothing is drawn"},
      {"layout = \"longformer\"\nglobal-blocks = \"3-5\"\n", "names no blocks"},
      {"window-tokens = [1, 2, 3, 4, 5, 6, 7]\n", "attention-window-tokens lists 7 layers of 6"},
      {"window-tokens = [64, -1]\n", "window-tokens -1 must lie between 0 and 1073741824"},
      {"softcap = -1\n", "softcap -1 must lie between 0 and 1000000"},
  };
  EXPECT_EQ(refusal("causal = \"off\"\nlayout = \"fixed\"\nhorizontal = \"on\"\n"), "") << "it sees both ways";
  EXPECT_EQ(refusal("layout = \"longformer\"\nglobal-blocks = \"\"\n"), "") << "a list without blocks";
  EXPECT_EQ(refusal("layout = \"longformer\"\nglobal-blocks = []\n"), "") << "the same as a list of TOML";
  EXPECT_EQ(read("layout = [\"longformer x2\", \"variable\"]\nglobal-blocks = [0, \"3:5\"]\n").attention,
            read("layout = \"longformer x2, variable\"\nglobal-blocks = \"0, 3:5\"\n").attention);
  EXPECT_NE(refusal("layout = [\"longformer\"]\nglobal-blocks = [0.5]\n"), "");
  const auto none = read("layout = \"longformer\"\nglobal-blocks = \"\"\n");
  EXPECT_EQ(none.attention.global_blocks, "");
  EXPECT_EQ(model_from_json(model_to_json(none), "it", ""), none);
  for (const auto& t : table) EXPECT_NE(refusal(t.text).find(t.says), std::string::npos) << t.text << refusal(t.text);
  try {
    read("layout = \"sliding\"\nblock = 16\n", "context = 1000000\n");
    FAIL() << "62500 blocks a side";
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("62500 blocks of 16"), std::string::npos) << e.what();
  }
}

// Scores cost the share of blocks that the layout has of dense attention's blocks.
TEST(AttentionOfAModel, CostsWhatItsBlocksCost) {
  auto m = read("layout = \"sliding\"\nwindow = 4\n", "layers = 1\nhidden = 64\ncontext = 4096\nvocabulary = 256\n");
  m.lanes = 1;
  auto dense = m;
  dense.attention = {};
  const double n = 64, blocks = 4 * n - 6;
  EXPECT_EQ(block_count(m, 4096), 250);
  EXPECT_DOUBLE_EQ(density(m, 4096), blocks / (n * (n + 1) / 2));
  EXPECT_DOUBLE_EQ(density(dense, 4096), 1);
  const double saved = step_flops(dense, 1, 4096, Recompute::none) - step_flops(m, 1, 4096, Recompute::none);
  EXPECT_NEAR(saved, 3 * 4096.0 * 4 * 4096 * 64 * (1 - density(m, 4096)), 1e-6 * saved);
}

TEST(AttentionOfAModel, HasWindowsAndACapOfItsTable) {
  const auto m = read("window-tokens = \"64, 0\"\nsoftcap = 50\n");
  EXPECT_EQ(m.attention.window_tokens, (std::vector<std::int64_t>{64, 0}));
  EXPECT_EQ(m.attention.softcap, 50);
  EXPECT_EQ(layer_model(m, 4).attention.window_tokens, std::vector<std::int64_t>{64}) << "again from the first";
  EXPECT_EQ(layer_model(m, 5).attention.window_tokens, std::vector<std::int64_t>{0});
  EXPECT_EQ(alike_layers(m, 0, 6), 1);
  EXPECT_EQ(model_from_json(model_to_json(m), "it", ""), m);
  const auto plain = model_to_json(read("")).dump();
  EXPECT_EQ(plain.find("window_tokens"), std::string::npos) << plain;
  EXPECT_EQ(plain.find("softcap"), std::string::npos) << plain;
  EXPECT_EQ(attention_text(m, 4096), "a window of 64 tokens in 3 layers; scores capped at 50");
  EXPECT_EQ(attention_text(read("layout = \"sliding\"\nwindow-tokens = 32\n"), 4096).substr(0, 21),
            "sliding in 6 layers: ");
  EXPECT_EQ(read("window-tokens = 5000\n").attention.window_tokens[0], 5000) << "longer than the context";
}

// Counts pairs one by one. Of a layout it counts blocks that have a pair within the window.
TEST(AttentionOfAModel, CostsWhatItsWindowsLeave) {
  const std::int64_t T = 200;
  for (const bool causal : {true, false})
    for (const std::int64_t window : {0, 1, 2, 16, 17, 64, 199, 200, 1000})
      for (const char* layout : {"dense", "longformer"}) {
        ModelConfig m = preset("gpt2-nano");
        m.context = T, m.attention.causal = causal, m.attention.layout = {layout}, m.attention.block = 16;
        m.attention.window_tokens = {window};
        const auto sees = [&](std::int64_t i, std::int64_t j) {
          return (!causal || j <= i) && (window == 0 || std::abs(i - j) < window);
        };
        double near = 0, all = 0;
        for (std::int64_t i = 0; i < T; ++i)
          for (std::int64_t j = 0; j < T; ++j) near += sees(i, j) ? 1 : 0, all += !causal || j <= i ? 1 : 0;
        double share = near / all;
        if (is_sparse(m)) {
          const auto blocks = block_layout(m, 0, T);
          double kept = 0;
          for (std::int64_t r = 0; r < blocks.n; ++r)
            for (const auto c : blocks.row(0, r)) {
              bool any = false;
              for (std::int64_t i = 16 * r; i < 16 * r + 16; ++i)
                for (std::int64_t j = 16 * c; j < 16 * c + 16; ++j) any = any || std::abs(i - j) < window;
              kept += any || window == 0 || window >= T ? 1 : 0;
            }
          share = std::min(share, kept / (causal ? 13 * 14 / 2 : 13 * 13));
        }
        EXPECT_NEAR(computed_share(m, T), share, 1e-12) << layout << " " << window << causal;
      }
  auto m = read("window-tokens = 512\n", "layers = 1\nhidden = 64\ncontext = 4096\nvocabulary = 256\n");
  m.lanes = 1;
  auto dense = m;
  dense.attention = {};
  const double saved = step_flops(dense, 1, 4096, Recompute::none) - step_flops(m, 1, 4096, Recompute::none);
  EXPECT_NEAR(saved, 3 * 4096.0 * 4 * 4096 * 64 * (1 - computed_share(m, 4096)), 1e-6 * saved);
}

// Fused kernels skip what no window reaches. Kernels apart compute it and mask it.
TEST(AttentionOfAModel, KernelsComputeWhatTheirWindowsReach) {
  auto m = read("window-tokens = 512\n", "layers = 1\nhidden = 64\ncontext = 8192\nvocabulary = 256\n");
  auto dense = m;
  dense.attention = {};
  const MicroShape shape{{1, 8192}, {base::DType::bf16, 1}};
  const auto keys = [&](const ModelConfig& model, AttentionKernels kernels) {
    const auto work = AttentionKind().work(model, shape, kernels);
    return kernels == AttentionKernels::fused ? work.forward.attention.at(0) : work.forward.products.at(2);
  };
  const auto fused = keys(m, AttentionKernels::fused), all = keys(dense, AttentionKernels::fused);
  EXPECT_EQ(all.cols, (8192 + 128) / 2);
  EXPECT_NEAR(static_cast<double>(fused.cols), 512 * (1 - 256.0 / 8192) + 64, 2);  // its window, and half a tile more
  EXPECT_EQ(keys(m, AttentionKernels::apart).cols, keys(dense, AttentionKernels::apart).cols);
}

}  // namespace
}  // namespace trainyard::plan
