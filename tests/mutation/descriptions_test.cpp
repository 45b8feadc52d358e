// Damaged plans, profiles, settings and model descriptions: refused, or something that could have been written.
#include "tests/inspect/synthetic_trace.h"
#include "tests/mutation/harness.h"
#include "tests/scratch.h"

#include "libtrain/engine/config.h"
#include "libtrain/plan/communication_time.h"
#include "libtrain/plan/links/profile.h"
#include "libtrain/plan/links/profile_compare.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/problems.h"
#include "libtrain/plan/spec/presets.h"
#include "tools/inspect/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::spit;

namespace {

plan::Plan sample_plan() {
  plan::Plan p;
  p.model = plan::preset("llama-nano");
  p.model.vocabulary = 257, p.model.lanes = 1;
  p.topology = plan::Topology({{plan::Axis::data, 3}});
  p.zero = 3;
  p.global_batch = 16, p.micro_batch = 2, p.sequence = 32, p.local_accumulation = 2;
  p.dtype = base::DType::bf16;
  plan::predict(p);
  return p;
}

plan::CommSeries series(const std::string& operation) {
  plan::CommSeries s{"data", operation, "f32", 3, 2, {}, {}, 0.03};
  for (std::int64_t bytes = 1024; bytes <= 1 << 20; bytes *= 4) {
    plan::CommPoint p;
    p.bytes = bytes, p.count = bytes / 4;
    for (int r = 0; r < 6; ++r)
      p.repeats.push_back((1e-6 + static_cast<double>(bytes) / 1e9) * (1 + 0.001 * (r % 5 - 2)));
    p.seconds = base::median(p.repeats);
    p.interval = base::median_interval(p.repeats);
    p.p95 = 1.1 * p.seconds, p.p99 = 1.2 * p.seconds;
    p.calls = 60, p.slowest_rank = 3, p.slowest_share = 0.4;
    s.points.push_back(p);
  }
  s.fit = plan::fit_link(s.samples());
  return s;
}

plan::Profile sample_profile() {
  plan::Profile p{"2026-11-21T12:00:00Z",
                  "0.1.0",
                  "mpi",
                  "Open MPI v4.1.4",
                  "cpu",
                  "avx512",
                  8,
                  2,
                  {"n1", "n2"},
                  {series("all_gather"), series("ordered_reduce_scatter")},
                  {}};
  p.local.push_back({"memory.copy", "256 MiB", "B/s", 4, 4e10, {3.9e10, 4.1e10}, {3.9e10, 4e10, 4.1e10}});
  return p;
}

// Whether a number that a plan or profile computes makes sense to a reader.
bool sound(double v) { return std::isfinite(v) && v >= 0; }

}  // namespace

TEST(Descriptions, Plans) {
  Scratch scratch;
  const auto path = scratch.path + "/plan.json", original = plan::to_json(sample_plan());
  mutation::run({"plan", [&](mutation::Random& random) { return mutation::mutate_json(original, random); },
                 [&](const std::string& content) -> std::string {
                   auto p = plan::plan_from_json(content, path);
                   const auto printed = plan::to_json(p);
                   if (plan::to_json(plan::plan_from_json(printed, path)) != printed)
                     return "printed, it reads as another plan";
                   spit(path, content);
                   inspect::report_on(path, {});
                   plan::predict(p);  // the programs use this prediction, whatever the file predicts
                   if (!sound(p.flops) || p.parameters <= 0 || p.memory.total() <= 0)
                     return "a prediction that overflows";
                   for (const auto& ranks : p.traffic)
                     for (const auto& t : ranks.operations)
                       if (t.bytes < 0 || t.calls < 0) return "traffic that overflows";
                   return "";
                 }});
}

TEST(Descriptions, Traces) {
  Scratch scratch;
  const auto path = scratch.path + "/trace.json",
             original = trainyard::testing::trace_of({plan::PipelineSchedule::interleaved, 2, 2, 2});
  mutation::run({"trace", [&](mutation::Random& random) { return mutation::mutate_json(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   inspect::Options options;
                   inspect::report_on(path, options);
                   options.trace = inspect::Options::Of::step;
                   const auto report = inspect::report_on(path, options);
                   report.drawing();
                   const double idle = report.json["timeline"]["idle_fraction"];
                   return std::isfinite(idle) ? "" : "an idle fraction that is no number";
                 }});
}

TEST(Descriptions, Profiles) {
  Scratch scratch;
  const auto path = scratch.path + "/profile.json";
  const auto sample = sample_profile();
  const auto original = plan::to_json(sample);
  const auto plan = sample_plan();
  mutation::run({"profile", [&](mutation::Random& random) { return mutation::mutate_json(original, random); },
                 [&](const std::string& content) -> std::string {
                   const auto p = plan::profile_from_json(content, path);
                   const auto printed = plan::to_json(p);
                   if (plan::to_json(plan::profile_from_json(printed, path)) != printed)
                     return "printed, it reads as another profile";
                   spit(path, content);
                   inspect::report_on(path, {});
                   for (const auto& t : plan::communication_times(plan, p))
                     if (!sound(t.seconds)) return "a time that overflows";
                   for (const auto& c : plan::compare(sample, p).changes)
                     if (!std::isfinite(c.change)) return "a change that overflows";
                   return "";
                 }});
}

TEST(Descriptions, Settings) {
  Scratch scratch;
  const auto path = scratch.path + "/run.toml";
  engine::RunConfig defaults;
  auto fields = engine::fields_of(defaults);
  const auto original = base::print_fields(fields);
  mutation::run({"settings", [&](mutation::Random& random) { return mutation::mutate_toml(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   engine::RunConfig c, again;
                   auto f = engine::fields_of(c), g = engine::fields_of(again);
                   base::read_toml(f, path);
                   spit(path, base::print_fields(f));
                   base::read_toml(g, path);
                   for (std::size_t i = 0; i < f.size(); ++i)
                     if (f[i].get() != g[i].get() &&
                         std::strtod(f[i].get().c_str(), nullptr) != std::strtod(g[i].get().c_str(), nullptr))
                       return "printed, it reads as another " + f[i].name;  // -0 is 0
                   return "";
                 }});
}

TEST(Descriptions, Models) {
  Scratch scratch;
  const auto path = scratch.path + "/model.toml";
  auto preset = plan::preset("llama-nano");
  preset.vocabulary = 257, preset.lanes = 2;
  const auto original = base::print_fields(plan::fields_of(preset));
  mutation::run({"model description", [&](mutation::Random& random) { return mutation::mutate_toml(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   const auto m = plan::load_model(path);
                   if (const auto wrong = plan::problems(m); !wrong.empty())
                     throw base::InputError(fmt::format("{}: {}", path, wrong.front()));
                   if (plan::model_from_json(plan::model_to_json(m), path, "") != m)
                     return "written down, it reads as another model";
                   return plan::parameter_count(m) > 0 ? "" : "a count that overflows";
                 }});
}
