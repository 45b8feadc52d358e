// Damaged attention layouts, in files and in models: refused, or something that a person could have written.
#include "tests/mutation/harness.h"
#include "tests/scratch.h"

#include "libtrain/base/error.h"
#include "libtrain/io/layout_file.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/spec/block_layout.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/layer_model.h"
#include "tools/inspect/layout.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace {

// The file has no checksums, so another value may be accepted. But nothing crashes or hangs, and what is accepted is
// complete.
void judge_files(const std::string& golden) {
  Scratch scratch;
  const auto original = slurp(fmt::format("{}/tests/golden/layouts/{}", ROOT, golden)),
             path = scratch.path + "/" + golden;
  mutation::run({"layout file " + golden,
                 [&](mutation::Random& random) { return mutation::mutate_bytes(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   const auto map = io::read_layout_file(path);
                   if (std::ssize(map.present) != map.heads * map.n * map.n) return "an array of another size";
                   if (std::any_of(map.present.begin(), map.present.end(), [](auto v) { return v > 1; }))
                     return "neither zeros nor ones";
                   const auto report = inspect::layout_report(path, {});
                   return report.drawing().empty() ? "no drawing" : "";
                 }});
}

}  // namespace

TEST(Layouts, Files) { judge_files("heads.h5"); }
TEST(Layouts, FilesInChunks) { judge_files("chunks.h5"); }

TEST(Layouts, InModels) {
  Scratch scratch;
  const auto path = scratch.path + "/model.toml";
  const std::string original =
      "layers = 3\nhidden = 32\nheads = 2\nkv-heads = 2\ncontext = 128\nattention-layout = \"file, "
      "sliding\"\nattention-block = "
      "32\nattention-window = 2\nattention-file-blocks = \"0;0 1;0:3;1 3|0;1;2;0:4\"\n";
  mutation::run({"layout in a model", [&](mutation::Random& random) { return mutation::mutate_toml(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   const auto m = plan::load_model(path);
                   if (plan::model_from_json(plan::model_to_json(m), path, "") != m)
                     return "written down, it reads as another model";
                   for (std::int64_t layer = 0; layer < std::min<std::int64_t>(m.layers, 3); ++layer) {
                     const auto seen = plan::layer_model(m, layer);
                     if (!plan::is_sparse(seen)) continue;
                     const auto l = plan::block_layout(seen, layer, plan::longest_sequence(m));
                     if (inspect::counts_of({}, l).above_diagonal > 0) return "a query that sees a later block";
                   }
                   return "";
                 }});
}
