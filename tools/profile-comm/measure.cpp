// Derives groups from options, and makes a profile of measurements.
#include "tools/profile-comm/measure.h"

#include "kernels/dispatch.h"
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/comm/core_share.h"
#include "libtrain/io/layout_file.h"
#include "libtrain/plan/communication_time.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/prediction.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/lanes.h"
#include "libtrain/profile/block_work.h"
#include "libtrain/profile/collective.h"
#include "libtrain/tensor/gpu.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trainyard::tools {

namespace {

struct Request {
  std::vector<plan::GroupFamily> families;
  profile::SweepOptions sweep;
  std::optional<profile::CeilingOptions> local;
};

void require_ranks(const plan::Plan& p, const ProfileOptions& o, int world) {
  const int ranks = p.topology.world();
  if (ranks != world)
    throw base::InputError(fmt::format("{} is for {} ranks, {} were started", o.plan, ranks, world),
                           fmt::format("start {} ranks (mpirun -n {} profile-comm ..., or --backend threads --ranks "
                                       "{}), make another plan, or measure one rank's own ceilings with --local",
                                       ranks, ranks, ranks));
}

void follow_plan(const plan::Plan& p, const ProfileOptions& o, Request& r) {
  r.families = plan::groups_of(p.topology);
  if (!o.operations.empty()) return;
  // Each of the plan's groups makes other calls; only these are measured.
  const auto used = [&](const std::string& operation, const std::string* group) {
    return std::any_of(p.traffic.begin(), p.traffic.end(), [&](const plan::RankTraffic& ranks) {
      return std::any_of(ranks.operations.begin(), ranks.operations.end(), [&](const plan::Traffic& t) {
        const auto as = plan::measured_as(t.group, t.operation);
        return as.operation == operation && (group == nullptr || as.group == *group);
      });
    });
  };
  std::erase_if(r.sweep.operations, [&](const std::string& name) { return !used(name, nullptr); });
  for (const auto& family : r.families)
    for (const auto& name : r.sweep.operations)
      if (!used(name, &family.name)) r.sweep.left_out.emplace_back(family.name, name);
}

profile::CeilingOptions ceilings_of(const ProfileOptions& o, const Launched& launched, const plan::Plan* plan,
                                    int fair_threads) {
  profile::CeilingOptions c;
  c.model = plan != nullptr ? plan->model : plan::load_model(o.model, io::read_layout_file);
  if (plan::has_encoder(c.model))
    throw base::UsageError(
        fmt::format("{} has an encoder, and blocks of such models are not measured", base::one_line(c.model.name)),
        "a model without an encoder, of the same width: its layers have the same products");
  if (o.vocabulary > 0) c.model.vocabulary = o.vocabulary;
  if (c.model.vocabulary == 0)
    c.model.vocabulary = c.model.positions == plan::Positions::rotary ? 128256 : 50257;  // as in published models
  if (c.model.lanes == 0) c.model.lanes = plan::default_lanes(c.model, launched.device.kind);
  c.tensor = plan != nullptr ? plan->tensor : 1;
  c.micro_batch = plan != nullptr ? plan->micro_batch : o.micro_batch;
  c.sequence = o.sequence > 0 ? o.sequence : plan != nullptr ? plan->sequence : c.model.context;
  c.dtypes = plan != nullptr ? std::vector{plan->dtype} : o.sweep.dtypes;
  c.threads = o.threads > 0 ? o.threads : plan != nullptr ? plan->threads : base::team_threads(0, fair_threads);
  c.device = launched.device;
  c.disk_bytes = base::parse_bytes(o.disk_bytes, "--disk-bytes");
  if (c.disk_bytes > 0)
    c.disk_folder = !o.disk.empty() ? o.disk : o.output.empty() || o.output == "-" ? "." : base::parent_of(o.output);
  if (!o.blocks.empty())
    c.blocks = profile::blocks_of_text(o.blocks, "--blocks", c.model, c.sequence, launched.ranks.size);
  if (o.blocks != "auto")
    if (const auto why = profile::left_out_of_blocks(c); !why.empty())
      throw base::UsageError(
          fmt::format("--blocks {} does not fit {}: {}", base::one_line(o.blocks), base::one_line(c.model.name), why),
          "other numbers, or auto");
  c.confidence = o.sweep.confidence;
  c.storage_folders = o.storage_folders;
  c.together = &launched.ranks;
  return c;
}

// The request of this rank; throws if it is invalid.
Request request_of(const Launched& launched, const ProfileOptions& o, const std::string& plan_text, int fair_threads) {
  const int world = launched.ranks.size;
  Request r;
  r.sweep = o.sweep;
  std::optional<plan::Plan> plan;
  if (!o.plan.empty()) plan = plan::plan_from_json(plan_text, o.plan);
  if (plan && (world > 1 || !o.local)) require_ranks(*plan, o, world);
  if (world > 1) {
    if (plan) follow_plan(*plan, o, r);
    else if (!o.groups.empty()) r.families = plan::parse_groups(o.groups, world);
    else r.families = o.blocks.empty() ? std::vector{plan::whole_world(world)} : plan::equal_groups(world);
  } else if (!o.groups.empty()) {
    plan::parse_groups(o.groups, world);  // throws an error: one rank has no peers
  }
  const bool links = !r.families.empty() && !r.sweep.operations.empty();
  if (!links && !o.plot.empty())
    throw base::UsageError("--plot: there are no links to draw", "measure with several ranks");
  if (links && !o.local && !o.storage_folders.empty())
    throw base::UsageError("--storage measures folders of a rank, and this measures links only", "add --local");
  if (!links) r.families.clear();
  if (o.local || !links) r.local = ceilings_of(o, launched, plan ? &*plan : nullptr, fair_threads);
  return r;
}

Request agreed_request(Launched& launched, const ProfileOptions& o) {
  auto& ranks = launched.ranks;
  const auto prints = profile::from_all(ranks, fingerprint(o));
  for (std::size_t r = 1; r < prints.size(); ++r)
    if (prints[r] != prints[0])
      throw profile::AgreedError(base::ExitCode::usage,
                                 fmt::format("rank {} was started with other options than rank 0", r),
                                 "all ranks measure the same sizes, groups and operations");
  const auto plan_text = profile::from_rank_zero(
      ranks, [&] { return o.plan.empty() ? "" : base::read_file(o.plan, base::largest_description); });
  const int fair_threads = comm::threads_of_rank(*ranks.control, *ranks.caller);
  Request r;
  profile::on_all(ranks, [&] { r = request_of(launched, o, plan_text, fair_threads); });
  if (!o.plan.empty() && ranks.rank == 0)
    if (const auto edited = plan::edited_text(plan::plan_from_json(plan_text, o.plan), o.plan); !edited.empty())
      base::log_warning("{}", edited);
  return r;
}

// Divides the budget. Beside links, a rank's own ceilings get a third of it, with blocks two thirds, or what they need
// at least. On a busy machine the least passes over links may take half of that. Without links, a budget that is too
// short is refused before anything is measured. With links the sweep refuses it, because it knows after one pass how
// long everything takes.
void share_budget(Launched& launched, Request& r) {
  const double given = r.sweep.budget_seconds;
  if (!r.local) return;
  const bool links = !r.families.empty();
  r.local->least_seconds = profile::least_ceiling_seconds(launched.ranks, *r.local);
  const double least = std::accumulate(r.local->least_seconds.begin(), r.local->least_seconds.end(), 0.0);
  if (!links && least > given)
    throw profile::AgreedError(
        base::ExitCode::usage,
        fmt::format("a budget of {:g} s is too short: a rank's own ceilings with {} take about {}", given,
                    base::one_line(r.local->model.name), base::duration_text(least)),
        fmt::format("--budget {:.0f}s, a smaller --model or --sequence, or a smaller --disk-bytes",
                    std::ceil(least * 2)));  // estimates on a busy machine vary
  const double share = (r.local->blocks.empty() ? 1 : 2) / 3.0;
  r.local->budget_seconds = links ? std::max(share * given, least) : given;
  if (!links) return;
  const double local = r.local->budget_seconds;
  r.sweep.budget_seconds = given - local, r.sweep.elsewhere_seconds = local;
  r.sweep.borrowed_seconds = std::max(0.0, std::min(local / 2, local - least));
}

// What the sweep took beyond its share is missing here. All ranks have the same, since they measure blocks together.
void lend_budget(profile::Ranks& ranks, Request& r, double swept) {
  std::vector<double> lent{std::max(0.0, swept - r.sweep.budget_seconds)};
  profile::largest(ranks, lent);
  r.local->budget_seconds -= std::min(lent[0], r.sweep.borrowed_seconds);
}

std::vector<std::string> nodes_of(profile::Ranks& ranks) {
  std::vector<std::string> nodes;
  for (const auto& name : profile::from_all(ranks, base::host_name()))
    if (std::find(nodes.begin(), nodes.end(), name) == nodes.end()) nodes.push_back(name);
  return nodes;
}

}  // namespace

std::string describe(Launched& launched, const ProfileOptions& o) {
  const auto r = agreed_request(launched, o);
  std::string out;
  for (const auto& s : profile::planned(r.families, r.sweep))
    out += fmt::format("{:<12} {} of {} ranks  {:<22} {:<4} {} sizes from {} to {} bytes\n", s.group,
                       s.groups == 1 ? "1 group" : fmt::format("{} groups", s.groups), s.ranks, s.operation, s.type,
                       s.points.size(), s.points.front().bytes, s.points.back().bytes);
  if (r.local)
    for (const auto& c : profile::ceilings(*r.local, ""))
      out += fmt::format("{:<28} {:<24} {} thread{}\n", c.name, c.shape, c.threads, c.threads == 1 ? "" : "s");
  return launched.ranks.rank == 0 ? out : "";
}

std::optional<plan::Profile> measure(Launched& launched, const ProfileOptions& o, const MeasureListener& listener,
                                     comm::Ledger& rounds) {
  auto& ranks = launched.ranks;
  auto r = agreed_request(launched, o);
  share_budget(launched, r);
  if (ranks.rank == 0 && ranks.size == 1)
    listener.note(
        "one process without ranks has no links: only its own ceilings are measured (for links: mpirun -n 2 "
        "profile-comm, or --backend threads)");
  if (ranks.rank == 0 && r.local && cores_were_contended())
    listener.note("other programs compete for the cores: these are rates of a machine that is shared");
  if (ranks.rank == 0)
    for (const auto& name : r.sweep.operations)
      for (const auto d : r.sweep.dtypes)
        if (!r.families.empty() && !profile::offers(name, d))
          listener.note(fmt::format("{} adds f32 only: not measured in {}", name, base::name_of(d)));
  plan::Profile p;
  p.measured_at = base::utc_now();
  p.version = "0.1.0";
  p.backend = launched.ranks.kind, p.library = launched.library;
  p.device = launched.device.kind == base::DeviceKind::cuda ? tensor::gpu_info(launched.device.index).name : "cpu";
  p.isa = kernels::name_of(kernels::active_isa());
  p.ranks = ranks.size;
  p.threads = r.local ? r.local->threads : 1;
  p.cores = comm::cores_of_machine(*ranks.control, *ranks.caller);
  p.nodes = nodes_of(ranks);
  if (!r.families.empty()) {
    profile::SweepListener passes;
    passes.on_pass = [&](int pass, double seconds, int open, int points) {
      listener.progress(fmt::format(
          "pass {}, {} of {} points known to {}, {} of {} used", pass, points - open, points, o.confidence,
          duration_text(seconds),
          duration_text(r.sweep.budget_seconds + (seconds > r.sweep.budget_seconds ? r.sweep.borrowed_seconds : 0))));
    };
    const double begin = ranks.clock->now();
    p.communication = profile::sweep(ranks, r.families, r.sweep, passes, rounds);
    if (r.local) lend_budget(ranks, r, ranks.clock->now() - begin);
  }
  if (r.local)
    p.local = profile::measure_ceilings(
        ranks, *r.local,
        [&](const plan::LocalRate& rate) { listener.progress(fmt::format("{} {}", rate.name, rate.shape)); }, rounds);
  if (ranks.rank != 0) return std::nullopt;
  return p;
}

}  // namespace trainyard::tools
