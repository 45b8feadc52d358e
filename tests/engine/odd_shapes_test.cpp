// Shapes with gaps between weights (widths that end between 64-byte starts, biases beside SwiGLU), and grouped heads.
// They train in both dtypes, with the same bits on every layout and in the predicted memory.
#include "tests/engine/reports.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

using testing::ParallelLayout;
using testing::SmallRun;

struct OddShape {
  const char *name, *lines;
};

constexpr const char* common =
    "layers = 2\ncontext = 16\nnorm = \"rms\"\npositions = \"rotary\"\nactivation = \"swiglu\"\ntied = \"off\"\n";
const OddShape shapes[] = {
    {"between-starts", "hidden = 260\nheads = 10\nkv-heads = 5\nffn = 90\nbiases = \"off\"\n"},
    {"biases", "hidden = 64\nheads = 4\nkv-heads = 2\nffn = 96\nbiases = \"on\"\n"},
    {"biases-and-odd", "hidden = 30\nheads = 5\nkv-heads = 1\nffn = 37\nbiases = \"on\"\n"},
    {"odd-gpt",
     "hidden = 33\nheads = 3\nkv-heads = 1\nffn = 35\nnorm = \"layer\"\npositions = \"learned\"\nactivation = "
     "\"gelu-tanh\"\n"},
};

std::string lines_of(const OddShape& shape) {  // a key may be given once
  std::string out = shape.lines, key;
  std::istringstream lines(common);
  for (std::string line; std::getline(lines, line);)
    if (out.find(line.substr(0, line.find(' ')) + " =") == std::string::npos) out += line + "\n";
  return out;
}

TEST(OddShapes, TrainWithTheSameBitsOnEveryCut) {
  SmallRun runs;
  for (const auto& shape : shapes)
    for (const char* dtype : {"f32", "bf16"}) {
      auto config = runs.config(fmt::format("{}-{}", shape.name, dtype));
      config.model = runs.model(shape.name, lines_of(shape));
      config.steps = 3;
      config.global_batch = 4;
      std::string expected;
      for (const auto& layout :
           {ParallelLayout{1, 0, 2, dtype}, ParallelLayout{4, 2, 1, dtype}, ParallelLayout{3, 3, 1, dtype, "full"}}) {
        auto c = config;
        c.output += fmt::format("-{}", layout.ranks);
        const auto result = runs.run(c, layout);
        const auto bits = runs.bits(c, result);
        if (layout.ranks == 1) expected = bits;
        EXPECT_EQ(bits, expected) << shape.name << " " << dtype << " on " << layout.ranks << " ranks";
        EXPECT_GT(result.loss.value(), 1);
        testing::expect_no_difference(runs.reports(),
                                      fmt::format("{} {} on {} ranks", shape.name, dtype, layout.ranks));
      }
    }
}

}  // namespace
}  // namespace trainyard
