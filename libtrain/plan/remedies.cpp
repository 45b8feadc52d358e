// Tries other layouts of a plan.
#include "libtrain/plan/remedies.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/evaluation.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/offload_choice.h"
#include "libtrain/plan/recompute_choice.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

namespace trainyard::plan {

namespace {

struct Remedy {
  std::string flags;
  std::int64_t bytes = 0;
  bool alone = true;  // a single change
};

struct Degrees {
  int tensor, pipeline;
};

// What a remedy is for, and whose kernels compute it.
struct Purpose {
  Pass pass;
  Kernels kernels;

  bool allows(const Plan& plan) const { return decision_problems(plan, {}, kernels).empty(); }
};

Plan with(Plan plan, const Degrees& d) {
  plan.tensor = d.tensor, plan.pipeline = d.pipeline;
  plan.topology = topology_of(plan, plan.topology.world());
  return plan;
}
Plan with_tensor(const Plan& plan, int tensor) { return with(plan, {tensor, plan.pipeline}); }
Plan with_pipeline(const Plan& plan, int stages) { return with(plan, {plan.tensor, stages}); }

// The bytes that a plan would need; nothing if it is not legal. For an evaluation, every replica has one micro-batch.
std::optional<std::int64_t> price(const Plan& plan, const Purpose& purpose) {
  auto other = plan;
  if (purpose.pass == Pass::evaluate)
    other.global_batch = other.micro_batch * other.topology.size(Axis::data), other.batch_ramp = {};
  if (!purpose.allows(other)) return {};
  other.stages = stages_of(other);
  return (purpose.pass == Pass::train ? largest_memory(other) : largest_evaluation_memory(other)).total();
}

// Twice, four times ... as many tensor-parallel ranks as the plan has, as long as they are legal.
std::vector<int> more_tensor_ranks(const Plan& plan, const Purpose& purpose) {
  std::vector<int> out;
  const auto most = std::min<std::int64_t>(plan.topology.world(), ranges::tensor.high);
  for (auto t = std::int64_t{2} * plan.tensor; t <= most && plan.topology.world() % (t * plan.pipeline) == 0; t *= 2) {
    const int tensor = static_cast<int>(t);
    if (!purpose.allows(with_tensor(plan, tensor))) break;
    out.push_back(tensor);
  }
  return out;
}

// The same for pipeline stages. A list of a partition, and virtual stages, fit only the number of stages that they
// have.
std::vector<int> more_stages(const Plan& plan, const Purpose& purpose) {
  std::vector<int> out;
  for (auto p = std::int64_t{2} * plan.pipeline;
       p <= plan.topology.world() && p <= ranges::pipeline.high && plan.topology.world() % (p * plan.tensor) == 0;
       p *= 2) {
    const int stages = static_cast<int>(p);
    if (plan.virtual_stages > 1 || !purpose.allows(with_pipeline(plan, stages))) break;
    out.push_back(stages);
  }
  return out;
}

// More replicas that divide the experts, as far as the numbers of experts allow.
Plan with_experts_over(const Plan& plan, int degree) {
  auto other = plan;
  other.expert_parallel = degree;
  other.topology = topology_of(other, plan.topology.world());
  return other;
}
int most_parts_of_experts(const Plan& plan) {
  std::int64_t common = plan.topology.size(Axis::data);
  for (const auto count : plan.model.experts.count) common = std::gcd(common, count / plan.tensor);
  return static_cast<int>(common);
}
std::vector<int> more_parts_of_experts(const Plan& plan, const Purpose& purpose) {
  std::vector<int> out;
  if (!has_experts(plan.model)) return out;
  const auto common = most_parts_of_experts(plan);
  for (auto e = std::int64_t{plan.expert_parallel} + 1; e <= common; ++e)
    if (common % e == 0 && purpose.allows(with_experts_over(plan, static_cast<int>(e))))
      out.push_back(static_cast<int>(e));
  return out;
}

// A half, a quarter ... of the stages: then more replicas share each flat group that a stage holds whole.
std::vector<int> fewer_stages(const Plan& plan) {
  std::vector<int> out;
  for (int p = plan.pipeline; p % 2 == 0 && plan.virtual_stages == 1;) out.push_back(p /= 2);
  return out;
}

// What recomputes more of some layer.
std::vector<Recomputation> further_recomputations(const Plan& plan) {
  std::vector<Recomputation> out;
  for (const auto form : recomputations)
    if (form >= plan.recompute.most() && plan.recompute != form) out.emplace_back(form);
  return out;
}

// The least recomputation that fits, else the recomputation that needs least.
std::optional<Remedy> recompute_remedy(const Plan& plan, const Purpose& purpose) {
  std::optional<Remedy> least;
  for (const auto& recompute : further_recomputations(plan)) {
    auto other = plan;
    other.recompute = recompute;
    const auto bytes = price(other, purpose);
    if (!bytes || (least && least->bytes <= *bytes)) continue;
    least = {base::text("$recompute {}", recomputation_text(recompute)), *bytes};
    if (*bytes <= plan.device_memory) break;
  }
  return least;
}

// Single changes. Of tensor-parallel degrees, expert-parallel degrees and numbers of stages, only one is listed: the
// smallest that fits, or the largest if none fits.
std::vector<Remedy> single_remedies(const Plan& plan, const Purpose& purpose) {
  std::vector<Remedy> out;
  const bool trains = purpose.pass == Pass::train;
  const auto add = [&](const std::string& flags, const Plan& other) {
    if (const auto bytes = price(other, purpose)) out.push_back({flags, *bytes});
  };
  for (int zero = plan.zero + 1; zero <= 3; ++zero) {
    auto other = plan;
    other.zero = zero;
    add(base::text("$zero {}", zero), other);
  }
  if (plan.micro_batch > 1) {
    auto other = plan;
    other.micro_batch = 1;
    add(base::text("$micro-batch 1"), other);
  }
  if (plan.zero == 3 && plan.gathered_layers > 1) {
    auto other = plan;
    other.gathered_layers = 1;
    add(base::text("$gathered-layers 1"), other);
  }
  if (trains)
    if (const auto recompute = recompute_remedy(plan, purpose)) out.push_back(*recompute);
  if (trains && plan.pipeline_schedule == PipelineSchedule::zero_bubble) {
    auto other = plan;  // it goes with no recomputation
    other.pipeline_schedule = PipelineSchedule::one_f_one_b, other.recompute = Recompute::layers;
    add(base::text("$pipeline-schedule 1f1b $recompute full"), other);
  }
  if (trains && plan.breadth_first(plan.batch())) {
    auto other = plan;
    other.accumulation_order = AccumulationOrder::depth;
    add(base::text("$accumulation-order depth"), other);
  }
  if (trains && plan.dtype == base::DType::f32) {
    auto other = plan;
    other.dtype = base::DType::bf16;
    add(base::text("$dtype bf16"), other);
  }
  const auto add_first = [&](const char* setting, const std::vector<int>& degrees,
                             Plan (*with_degree)(const Plan&, int)) {
    std::optional<Remedy> last;
    for (const int degree : degrees) {
      const auto bytes = price(with_degree(plan, degree), purpose);
      if (!bytes) continue;
      last = {fmt::format("{} {}", base::setting_name(setting), degree), *bytes};
      if (*bytes <= plan.device_memory) break;
    }
    if (last) out.push_back(*last);
  };
  add_first("tensor-parallel", more_tensor_ranks(plan, purpose), with_tensor);
  add_first("expert-parallel", more_parts_of_experts(plan, purpose), with_experts_over);
  add_first("pipeline-parallel", more_stages(plan, purpose), with_pipeline);
  add_first("pipeline-parallel", fewer_stages(plan), with_pipeline);
  if (plan.tensor > 1 && !plan.sequence_parallel) {
    auto other = plan;
    other.sequence_parallel = true;
    add(base::setting_name("sequence-parallel"), other);
  }
  if (const auto ranks = plan.topology.world(); ranks <= ranges::ranks.high / 2) {
    auto other = plan;
    other.topology = topology_of(plan, 2 * ranks);
    add(fmt::format("{} ranks", 2 * ranks), other);
  }
  return out;
}

// Other tensor-parallel and pipeline-parallel degrees for the same ranks. Degrees that leave most replicas come first.
std::vector<Degrees> other_degrees(const Plan& plan) {
  std::vector<Degrees> out;
  const int world = plan.topology.world();
  for (int t = 1; t <= world && ranges::tensor.holds(t); ++t)
    for (int p = 1; world % t == 0 && p <= world / t && p <= item_count(plan.model); ++p)
      if (world / t % p == 0 && ranges::pipeline.holds(p) && (t != plan.tensor || p != plan.pipeline) &&
          (p == plan.pipeline || plan.virtual_stages == 1))
        out.push_back({t, p});
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.tensor * a.pipeline < b.tensor * b.pipeline; });
  return out;
}

// Combinations of changes that keep the run's identity. First a higher ZeRO stage, fewer gathered layers, recomputation
// and more expert parallelism together, then other tensor-parallel and pipeline-parallel degrees, then all of these.
// Returns the first that fits, else the one that needs least. `before`: flags of what the plan has changed already.
std::optional<Remedy> joint_remedy(const Plan& plan, const Purpose& purpose, const std::vector<std::string>& before) {
  auto work = std::int64_t{1} << 19;  // budget in items times parts, the cost of balancing them: a second or so
  std::optional<Remedy> least;
  struct Change {
    Degrees degrees;
    int zero, gathered_layers;
    Recomputation recompute;
    bool share = false;  // the experts, over as many ranks as they allow
  };
  const auto fits_with = [&](const Change& c) {
    auto flags = before;
    if (c.zero > plan.zero) flags.push_back(base::text("$zero {}", c.zero));
    if (c.gathered_layers < plan.gathered_layers) flags.push_back(base::text("$gathered-layers {}", c.gathered_layers));
    if (c.recompute != plan.recompute) flags.push_back(base::text("$recompute {}", recomputation_text(c.recompute)));
    if (c.degrees.tensor != plan.tensor) flags.push_back(base::text("$tensor-parallel {}", c.degrees.tensor));
    if (c.degrees.pipeline != plan.pipeline) flags.push_back(base::text("$pipeline-parallel {}", c.degrees.pipeline));
    const bool same_degrees = c.degrees.tensor == plan.tensor && c.degrees.pipeline == plan.pipeline;
    auto other = with(plan, c.degrees);
    if (c.share) {
      other = with_experts_over(other, most_parts_of_experts(other));
      if (other.expert_parallel <= plan.expert_parallel) return false;
      flags.push_back(base::text("$expert-parallel {}", other.expert_parallel));
    }
    work -= item_count(plan.model) * c.degrees.pipeline * plan.virtual_stages;
    if (work < 0 || flags.empty() || (same_degrees && flags.size() < 2)) return false;
    other.zero = c.zero, other.gathered_layers = c.gathered_layers, other.recompute = c.recompute;
    const auto bytes = price(other, purpose);
    if (!bytes || (least && least->bytes <= *bytes)) return false;
    least = {fmt::format("{}", fmt::join(flags, " ")), *bytes, flags.size() == 1};
    return *bytes <= plan.device_memory;
  };
  const auto fits = [&](Change change) {
    if (fits_with(change)) return true;
    change.share = true;
    return has_experts(plan.model) && fits_with(change);
  };
  const auto with_others = [&](const Degrees& degrees) {
    std::vector<Recomputation> all{plan.recompute};
    if (purpose.pass == Pass::train)
      for (const auto& further : further_recomputations(plan)) all.push_back(further);
    for (const auto& recompute : all) {
      for (int zero = plan.zero; zero <= 3; ++zero)
        if (fits({degrees, zero, plan.gathered_layers, recompute})) return true;
      if (plan.gathered_layers > 1 && fits({degrees, 3, 1, recompute})) return true;
    }
    return false;
  };
  if (with_others({plan.tensor, plan.pipeline})) return least;
  const auto others = other_degrees(plan);
  for (const auto& degrees : others)
    if (fits({degrees, plan.zero, plan.gathered_layers, plan.recompute})) return least;
  for (const auto& degrees : others)
    if (with_others(degrees)) return least;
  return least;
}

// The same, and where nothing of it fits, the same with a micro-batch of 1.
std::optional<Remedy> joint_remedy(const Plan& plan, const Purpose& purpose) {
  auto found = joint_remedy(plan, purpose, {});
  if ((found && found->bytes <= plan.device_memory) || plan.micro_batch == 1) return found;
  auto small = plan;
  small.micro_batch = 1;
  const auto other = joint_remedy(small, purpose, {base::text("$micro-batch 1")});
  return other && (!found || other->bytes < found->bytes) ? other : found;
}

// The fewest ranks, by doubling, that fit with ZeRO 3, with recomputation where it is needed, and with a batch that
// gives each rank work.
std::optional<Remedy> more_ranks_remedy(const Plan& plan, const Purpose& purpose) {
  auto other = plan;
  other.zero = 3;
  for (auto ranks = std::int64_t{2} * plan.topology.world(); ranks <= ranges::ranks.high; ranks *= 2) {
    other.topology = topology_of(other, static_cast<int>(ranks));
    const auto least_batch = other.micro_batch * other.local_accumulation * other.topology.size(Axis::data);
    other.global_batch = std::max(plan.global_batch, least_batch);
    other.batch_ramp = plan.batch_ramp.start < least_batch ? BatchRamp() : plan.batch_ramp;
    for (const auto& recompute : {plan.recompute, Recomputation(Recompute::layers)}) {
      other.recompute = recompute;
      const auto bytes = price(other, purpose);
      if (!bytes) return {};
      if (*bytes > plan.device_memory) continue;
      auto flags = fmt::format("{} ranks", ranks);
      if (plan.zero != 3) flags += base::text(" $zero 3");
      if (recompute != plan.recompute) flags += base::text(" $recompute {}", recomputation_text(recompute));
      if ((other.global_batch != plan.global_batch || other.batch_ramp != plan.batch_ramp) &&
          purpose.pass == Pass::train)
        flags += base::text(" $global-batch {}", global_batch_text({other.global_batch, other.batch_ramp}));
      return Remedy{flags, *bytes, false};
    }
  }
  return {};
}

// The least that lies elsewhere so that these ranks fit: of the plan, else with ZeRO 3, else with recomputation, too.
std::optional<Remedy> offload_remedy(const Plan& plan, const Purpose& purpose) {
  if (purpose.pass == Pass::evaluate) return {};
  auto other = plan;
  std::vector<std::string> flags;
  const auto fits = [&]() -> std::optional<Remedy> {
    if (!purpose.allows(other)) return {};
    const auto offload = fitting_offload(other, plan.device_memory);
    const auto bytes = memory_with(other, offload);
    if (bytes > plan.device_memory || !offload.any()) return {};
    auto all = flags;
    all.push_back(base::text("$offload {}", offload_text(offload)));
    if (offload.uses(Place::disk)) all.push_back(base::text("$offload-dir FOLDER"));
    return Remedy{fmt::format("{}", fmt::join(all, " ")), bytes, flags.empty()};
  };
  if (auto remedy = fits()) return remedy;
  if (plan.zero < 3) {
    other.zero = 3, flags.push_back(base::text("$zero 3"));
    if (auto remedy = fits()) return remedy;
  }
  if (plan.recompute == Recompute::layers || !may_recompute(plan, Recompute::layers)) return {};
  other.recompute = Recompute::layers, flags.push_back(base::text("$recompute full"));
  return fits();
}

// What is left to do if no layout fits.
std::string last_remedy(const Plan& plan, std::int64_t reserve, std::string_view limit) {
  const auto setting = base::setting_name(limit);
  if (reserve < plan.device_memory)
    return fmt::format("a smaller model, or a device with more memory and a higher {}", setting);
  auto alone = plan.micro();
  alone.threads = 1;
  const bool has_threads = plan.device == base::DeviceKind::cpu && plan.threads > 1 &&
                           reserve_bytes(alone, plan.topology, plan.virtual_stages) < plan.device_memory;
  return base::text("a higher {}{}: the reserve outside the arenas alone is {}, whatever the model", setting,
                    has_threads ? base::text(" or fewer $threads") : "", base::size_text(reserve));
}

}  // namespace

std::string remedies(const Plan& plan, Pass pass, std::string_view limit, Kernels kernels) {
  const Purpose purpose{pass, kernels};
  std::vector<std::string> fitting, nearer;
  auto least_alone = std::numeric_limits<std::int64_t>::max();  // of these, the one that needs least
  const auto memory = pass == Pass::train ? plan.memory : largest_evaluation_memory(plan);
  const auto need = memory.total();
  const auto nears = [&](const Remedy& r) { return r.bytes < need - need / 100; };
  const auto needs = [](const Remedy& r) { return fmt::format("{} would need {}", r.flags, base::size_text(r.bytes)); };
  for (const auto& r : single_remedies(plan, purpose)) {
    if (r.bytes <= plan.device_memory) fitting.push_back(needs(r) + " and fits");
    else if (nears(r)) nearer.push_back(needs(r)), least_alone = std::min(least_alone, r.bytes);
  }
  if (!fitting.empty()) return fmt::format("{}", fmt::join(fitting, "; "));
  const auto joint = joint_remedy(plan, purpose);
  if (joint && joint->bytes <= plan.device_memory)
    return needs(*joint) + " and fits" + (joint->alone ? "" : "; none of these alone is enough");
  const auto offload = offload_remedy(plan, purpose);
  if (const auto ranks = more_ranks_remedy(plan, purpose))
    return needs(*ranks) + " and fits; " +
           (offload ? needs(*offload) + " and fits"
                    : fmt::format("on {} nothing does", base::counted(plan.topology.world(), "rank")));
  if (offload) return needs(*offload) + " and fits";
  if (joint && nears(*joint) && joint->bytes < least_alone) nearer.push_back(needs(*joint));
  const auto last = last_remedy(plan, memory.reserve, limit);
  return nearer.empty() ? last : fmt::format("{}; less memory, but not enough: {}", last, fmt::join(nearer, "; "));
}

}  // namespace trainyard::plan
