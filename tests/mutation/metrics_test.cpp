// Damaged metrics: inspect names the line, and a resume keeps only what was in the file.
#include "tests/mutation/harness.h"
#include "tests/scratch.h"

#include "libtrain/base/error.h"
#include "libtrain/engine/metrics.h"
#include "tools/inspect/experts.h"
#include "tools/inspect/report.h"

#include <gtest/gtest.h>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

TEST(Metrics, Lines) {
  Scratch scratch;
  const auto path = scratch.path + "/metrics.jsonl";
  std::vector<std::string> lines;
  for (int step = 1; step <= 12; ++step) {
    engine::StepMetrics m;
    m.step = step, m.loss = 5.0 / step, m.gradient_norm = 0.5, m.tokens_seen = 1000 * step, m.peak_bytes = 1 << 20;
    if (step % 4 == 0) m.validation_loss = 5.1 / step;
    if (step % 2 == 0) m.gates.emplace().layers.resize(2);
    lines.push_back(engine::to_json_line(m));
  }
  mutation::run({"metrics",
                 [&](mutation::Random& random) {
                   auto out = lines;
                   auto& line = out[mutation::below(random, out.size())];
                   const auto m = mutation::mutate_json(line, random);
                   line = m.content;
                   std::erase(line, '\n');
                   std::string text;
                   for (const auto& l : out) text += l + "\n";
                   return mutation::below(random, 4) == 0 ? mutation::mutate_bytes(text, random)
                                                          : mutation::Mutation{text, m.what};
                 },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   bool refused = false;
                   try {
                     inspect::report_on(scratch.path + "/metrics.jsonl", {});
                   } catch (const base::InputError& e) {
                     refused = true;
                     if (std::string(e.what()).find("metrics.jsonl line ") == std::string::npos)
                       return std::string("no line is named: ") + e.what();
                   }
                   try {
                     const auto report = inspect::experts_report(path);
                     report.drawing();
                   } catch (const base::InputError&) {
                     // No line with experts is left, or a line is damaged.
                   }
                   { engine::MetricsFile file(path, 7); }
                   const auto kept = slurp(path);
                   if (!content.starts_with(kept) || (!kept.empty() && kept.back() != '\n'))
                     return "a resume keeps what was not there";
                   { engine::MetricsFile file(path, 7); }
                   if (slurp(path) != kept) return "a second resume cuts again";
                   if (refused) throw base::InputError("metrics.jsonl: refused by inspect");
                   return "";
                 }});
}
