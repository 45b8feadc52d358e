// Branch and bound over layouts.
#include "libtrain/plan/search.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/offload_choice.h"
#include "libtrain/plan/recompute_choice.h"
#include "libtrain/plan/schedule/partition.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

namespace trainyard::plan {

namespace {

constexpr std::int64_t largest_micro_batch = 128;
constexpr int most_virtual_stages = 8;

std::vector<std::int64_t> divisors(std::int64_t n, std::int64_t most) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 1; i <= std::min(n, most); ++i)
    if (n % i == 0) out.push_back(i);
  return out;
}

// A layout without what the bound does not depend on: ZeRO and local accumulation.
struct PassShape {
  Plan plan;
  double bound = 0;
};

// What the layouts of a PassShape differ in.
struct Variant {
  int zero = 0;
  std::int64_t local_accumulation = 1;
  int zero_group = 0, reduction_node = 1;
  bool changes_topology = false;
};

class Search {
 public:
  Search(const Plan& plan, const SearchSpace& space, StepTimer& timer, const SearchLimits& limits, Kernels kernels)
      : plan_(plan), space_(space), timer_(timer), limits_(limits), kernels_(kernels) {}

  SearchResult run() {
    list_shapes();
    std::vector<const PassShape*> order;
    for (const auto& shape : shapes_) order.push_back(&shape);
    std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return a->bound < b->bound; });
    for (const auto* shape : order) {
      if (limits_.first && !out_.best.empty()) break;
      const auto variants = variants_of(shape->plan);
      out_.counts.layouts += std::ssize(variants);
      if (shape->bound >= worst()) out_.counts.slower += std::ssize(variants);
      else
        for (const auto& variant : variants) judge(with(shape->plan, variant));
    }
    return std::move(out_);
  }

 private:
  // Seconds that a layout must stay below.
  double worst() const {
    return out_.best.size() < limits_.top ? std::numeric_limits<double>::infinity() : out_.best.back().time.seconds;
  }

  void list_shapes() {
    const std::int64_t world = plan_.topology.world();
    for (const auto t : space_.tensor ? divisors(world, ranges::tensor.high) : std::vector<std::int64_t>{plan_.tensor})
      for (const auto p :
           space_.pipeline ? divisors(world / t, std::min<std::int64_t>(ranges::pipeline.high, item_count(plan_.model)))
                           : std::vector<std::int64_t>{plan_.pipeline}) {
        if (world % (t * p) != 0) continue;
        auto plan = plan_;
        plan.tensor = static_cast<int>(t), plan.pipeline = static_cast<int>(p);
        for (const auto e : expert_degrees(plan, world / t / p)) {
          plan.expert_parallel = static_cast<int>(e);
          for (const int node : expert_nodes(plan)) {
            plan.expert_ranks_per_node = node;
            plan.topology = topology_of(plan, static_cast<int>(world));
            list_batches(plan);
          }
        }
      }
  }

  std::vector<std::int64_t> expert_degrees(const Plan& plan, std::int64_t replicas) const {
    if (!space_.experts || !has_experts(plan.model)) return {plan.expert_parallel};
    auto common = replicas;
    for (const auto count : plan.model.experts.count)
      if (count > 1) common = std::gcd(common, std::max<std::int64_t>(1, count / plan.tensor));
    return divisors(common, common);
  }

  // Hierarchical only where the experts' ranks are of several nodes with several ranks each.
  std::vector<int> expert_nodes(const Plan& plan) const {
    if (!space_.expert_nodes) return {plan.expert_ranks_per_node};
    const int here = timer_.machine().devices_per_node / plan.tensor;
    if (here > 1 && plan.expert_parallel > here && plan.expert_parallel % here == 0) return {1, here};
    return {1};
  }

  void list_batches(Plan plan) {
    const std::int64_t replicas = plan.topology.size(Axis::data);
    if (plan.global_batch % replicas != 0 && space_.micro_batch) return;
    const auto of_rank = std::max<std::int64_t>(1, plan.global_batch / replicas);
    for (const auto b :
         space_.micro_batch ? divisors(of_rank, largest_micro_batch) : std::vector<std::int64_t>{plan.micro_batch}) {
      plan.micro_batch = b;
      for (const auto& [schedule, chunks] : schedules(plan)) {
        plan.pipeline_schedule = schedule, plan.virtual_stages = chunks;
        if (space_.sequence_parallel) plan.sequence_parallel = false;
        add_shape(plan);
        if (!space_.sequence_parallel || plan.tensor == 1) continue;
        plan.sequence_parallel = true;
        add_shape(plan);
      }
    }
  }

  std::vector<std::pair<PipelineSchedule, int>> schedules(const Plan& plan) const {
    std::vector<std::pair<PipelineSchedule, int>> out;
    const auto add = [&](PipelineSchedule schedule, int chunks) {
      if ((space_.schedule || schedule == plan.pipeline_schedule) &&
          (space_.virtual_stages || chunks == plan.virtual_stages))
        out.emplace_back(schedule, chunks);
    };
    add(PipelineSchedule::one_f_one_b, 1);
    if (plan.pipeline > 1) {
      for (int chunks = 2; chunks <= most_virtual_stages && plan.pipeline * chunks <= item_count(plan.model); ++chunks)
        add(PipelineSchedule::interleaved, chunks);
      add(PipelineSchedule::zero_bubble, 1);
    }
    // What flags ask is judged, and refused with its reason, also where no free choice goes with it.
    if (out.empty()) out.emplace_back(plan.pipeline_schedule, plan.virtual_stages);
    return out;
  }

  void add_shape(Plan& plan) {
    if (space_.recompute) plan.recompute = undecided_recomputation(plan);
    if (listed_parts_differ(plan)) return;
    if (!divides_model(plan) || !set_stages(plan)) {
      const auto variants = std::ssize(variants_of(plan));
      out_.counts.layouts += variants, out_.counts.refused += variants;
      if (out_.refusal.empty())
        if (const auto wrong = decision_problems(plan, {}, kernels_); !wrong.empty()) refuse(as_one(wrong));
      return;
    }
    shapes_.push_back({plan, timer_.at_least(plan)});
  }

  bool listed_parts_differ(const Plan& plan) const {
    const int parts = listed_parts(plan.partition);
    return parts > 0 && parts != plan.pipeline * plan.virtual_stages;
  }

  // What the descriptions of blocks rely on. decision_problems checks everything later.
  static bool divides_model(const Plan& plan) {
    const auto& m = plan.model;
    const auto t = plan.tensor;
    return m.heads % t == 0 && m.kv_heads % t == 0 && m.ffn % t == 0 && m.stored_vocabulary() % t == 0 &&
           (!plan.sequence_parallel || plan.micro_batch * plan.sequence % t == 0) &&
           plan.pipeline * plan.virtual_stages <= item_count(m);
  }

  // Whether the partition makes so many stages: a pattern may match too few items.
  bool set_stages(Plan& plan) {
    const auto key = std::tuple(plan.pipeline, plan.virtual_stages, plan.recompute.full, plan.recompute.selective);
    auto known = stages_.find(key);
    try {
      if (known == stages_.end()) known = stages_.emplace(key, stages_of(plan)).first;
    } catch (const base::UsageError& e) {
      refuse({e.what(), e.hint()});
      return false;
    }
    plan.stages = known->second;
    return true;
  }

  // The data-parallel ranks of a node, if there are several in each of several nodes; else 0.
  int replicas_of_node(const Plan& plan) const {
    const int here = timer_.machine().devices_per_node / plan.tensor, replicas = plan.topology.size(Axis::data);
    return plan.expert_parallel == 1 && here > 1 && here < replicas && replicas % here == 0 ? here : 0;
  }

  // With each choice of what stays inside a node.
  void add_with_nodes(std::vector<Variant>& out, const Plan& shape, Variant variant) const {
    const int here = replicas_of_node(shape);
    const bool groups = here > 0 && variant.zero == 3 && space_.zero_group,
               nodes = here > 0 && shape.reduction == Reduction::ordered && space_.reduction_nodes;
    for (int i = 0; i < 4; ++i) {
      const bool group = i / 2 == 1, node = i % 2 == 1;
      if ((group && !groups) || (node && !nodes)) continue;
      variant.zero_group = group ? here : shape.zero_group;
      variant.reduction_node = node ? here : shape.reduction_ranks_per_node;
      variant.changes_topology = group || node;
      out.push_back(variant);
    }
  }

  std::vector<Variant> variants_of(const Plan& shape) const {
    std::vector<Variant> out;
    const int replicas = shape.topology.size(Axis::data);
    // One replica reduces nothing: accumulating locally saves it no time and no memory.
    const auto micros = replicas > 1 ? shape.global_batch / shape.micro_batch / replicas : 1;
    for (int zero = 0; zero <= (replicas > 1 ? 3 : 0); ++zero) {
      Variant variant{.zero = shape.zero, .local_accumulation = shape.local_accumulation};
      if (space_.zero) variant.zero = zero;
      else if (zero > 0) break;
      for (const auto all : {std::int64_t{1}, std::max<std::int64_t>(1, micros)}) {
        if (space_.local_accumulation) variant.local_accumulation = all;
        add_with_nodes(out, shape, variant);
        if (!space_.local_accumulation || micros <= 1) break;
      }
    }
    return out;
  }

  static Plan with(Plan plan, const Variant& variant) {
    plan.zero = variant.zero, plan.local_accumulation = variant.local_accumulation;
    plan.zero_group = variant.zero_group, plan.reduction_ranks_per_node = variant.reduction_node;
    if (variant.changes_topology) plan.topology = topology_of(plan, plan.topology.world());
    return plan;
  }

  void refuse(const Problem& problem) {
    if (out_.refusal.empty()) out_.refusal = problem.message, out_.refusal_hint = problem.hint;
  }

  void judge(Plan plan) {
    try {
      judge_with_rates(std::move(plan));
    } catch (const base::InputError& e) {  // the machine lacks a rate that this layout needs
      ++out_.counts.refused;
      refuse({e.what(), e.hint()});
      if (out_.missing_rate.empty()) out_.missing_rate = e.what(), out_.missing_rate_hint = e.hint();
    }
  }

  void judge_with_rates(Plan plan) {
    if (is_known_not_to_fit(plan)) {
      ++out_.counts.too_large;
      return;
    }
    if (const auto wrong = decision_problems(plan, {}, kernels_); !wrong.empty()) {
      ++out_.counts.refused;
      refuse(as_one(wrong));
      return;
    }
    // Without recomputation it takes least time, so what is slower then needs no memory. As long as nothing is slower,
    // what does not fit needs no time.
    std::optional<StepTime> time;
    const bool any_time = worst() == std::numeric_limits<double>::infinity();
    if (any_time && !plan.offload.any()) {
      timer_.require_rates(plan);
    } else if (timer_.passes(plan) >= worst() || (time = timer_.time(plan))->seconds >= worst()) {
      ++out_.counts.slower;
      return;
    }
    const auto recompute = plan.recompute;
    const auto offload = plan.offload;
    const auto gathered = plan.gathered_layers;
    const auto bytes = fit(plan);
    if (!bytes) {
      ++out_.counts.too_large;
      return;
    }
    if (!time || plan.recompute != recompute || plan.offload != offload || plan.gathered_layers != gathered)
      time = timer_.time(plan);
    ++out_.counts.timed;
    if (time->seconds >= worst()) return;
    const auto place = std::upper_bound(out_.best.begin(), out_.best.end(), time->seconds,
                                        [](double s, const FoundPlan& f) { return s < f.time.seconds; });
    out_.best.insert(place, {std::move(plan), *time, *bytes});
    if (out_.best.size() > limits_.top) out_.best.pop_back();
  }

  bool is_known_not_to_fit(const Plan& plan) const {
    if (limits_.needed == nullptr || limits_.device_bytes == 0) return false;
    const auto found = limits_.needed->bytes.find(NeededMemory::key_of(plan));
    return found != limits_.needed->bytes.end() && found->second > limits_.device_bytes;
  }

  // Bytes that some rank needs at least, whatever is recomputed: the textbook's states of an average stage. 0 where
  // they may lie elsewhere, and for optimizers whose states the textbook does not know.
  double states_alone(const Plan& plan) const {
    if (!needs_textbook_states(plan, space_)) return 0;
    const int replicas = plan.topology.size(Axis::data);
    const auto states = [&](std::int64_t parameters, int held_alike) {
      return model_state_bytes(parameters / plan.tensor / plan.pipeline, held_alike, plan.zero, plan.dtype,
                               plan.gradient_dtype, *plan.states().optimizer);
    };
    return states(parameters_ - of_experts_, replicas) +
           states(of_experts_ / plan.expert_parallel, replicas / plan.expert_parallel);
  }

  // The bytes of a rank with as little recomputed, and elsewhere, as fits. nullopt: nothing fits.
  std::optional<std::int64_t> fit(Plan& plan) {
    const auto limit = limits_.device_bytes > 0 ? limits_.device_bytes : std::numeric_limits<std::int64_t>::max();
    if (states_alone(plan) > static_cast<double>(limit)) return {};
    PlanMemory memory(plan);
    auto least = std::numeric_limits<std::int64_t>::max();
    const auto fits = [&](PlanMemory& of, const Recomputation& recompute) -> std::optional<std::int64_t> {
      const auto bytes = of.largest(recompute).total();
      least = std::min(least, bytes);
      if (bytes > limit) return {};
      if (limits_.host_bytes > 0 && of.most_on_host(recompute) > limits_.host_bytes) return {};
      return bytes;
    };
    if (const auto bytes = fits(memory, plan.recompute)) return bytes;
    auto full = plan;
    if (space_.recompute && may_recompute(plan, Recompute::layers)) {
      full.recompute = Recompute::layers;
      if (fits(memory, Recompute::layers) || fits(memory, all_but_the_last(plan))) {
        plan.recompute = fitting_recomputation(plan, memory, limit);
        plan.stages = stages_of(plan);
        return fits(memory, plan.recompute);
      }
    }
    // What lies elsewhere costs less than that nothing is hidden.
    if (!space_.offload && space_.gathered_layers && plan.gathered_layers > 1 && plan.zero >= 2) {
      full.gathered_layers = 1;
      PlanMemory fewer(full);
      if (fits(fewer, full.recompute)) {
        if (full.recompute == Recomputation(Recompute::layers))
          full.recompute = fitting_recomputation(full, fewer, limit);
        full.stages = stages_of(full);
        const auto bytes = fits(fewer, full.recompute);
        plan = std::move(full);  // which `fewer` refers to
        return bytes;
      }
    }
    if (!space_.offload) {
      if (limits_.needed != nullptr) limits_.needed->bytes[NeededMemory::key_of(plan)] = least;
      return {};
    }
    full.offload = fitting_offload(full, limit, limits_.host_bytes);
    if (!decision_problems(full, {}, kernels_).empty()) return {};
    full.stages = stages_of(full);
    PlanMemory elsewhere(full);
    const auto bytes = fits(elsewhere, full.recompute);
    if (bytes) plan = std::move(full);
    return bytes;
  }

  const Plan& plan_;
  const SearchSpace& space_;
  StepTimer& timer_;
  const SearchLimits& limits_;
  Kernels kernels_;
  std::int64_t of_experts_ = expert_parameter_count(plan_.model),
               parameters_ = parameter_count(plan_.model);  // logical, each counted once
  std::vector<PassShape> shapes_;
  std::map<std::tuple<int, int, double, double>, Stages> stages_;
  SearchResult out_;
};

}  // namespace

const std::vector<SearchSetting>& search_settings() {
  static const std::vector<SearchSetting> all{{"zero", &SearchSpace::zero},
                                              {"zero-group", &SearchSpace::zero_group},
                                              {"reduction-ranks-per-node", &SearchSpace::reduction_nodes},
                                              {"tensor-parallel", &SearchSpace::tensor},
                                              {"sequence-parallel", &SearchSpace::sequence_parallel},
                                              {"pipeline-parallel", &SearchSpace::pipeline},
                                              {"pipeline-schedule", &SearchSpace::schedule},
                                              {"virtual-stages", &SearchSpace::virtual_stages},
                                              {"expert-parallel", &SearchSpace::experts},
                                              {"expert-ranks-per-node", &SearchSpace::expert_nodes},
                                              {"micro-batch", &SearchSpace::micro_batch},
                                              {"local-accumulation", &SearchSpace::local_accumulation},
                                              {"recompute", &SearchSpace::recompute},
                                              {"gathered-layers", &SearchSpace::gathered_layers},
                                              {"offload", &SearchSpace::offload}};
  return all;
}

bool needs_textbook_states(const Plan& plan, const SearchSpace& space) {
  return !space.offload && !plan.offload.any() && !has_adapter(plan.model) && plan.optimizer == default_optimizer &&
         plan.moment_dtype == base::DType::f32 && plan.ema == 0 && plan.master == MasterFormat::f32;
}

SearchResult search(const Plan& plan, const SearchSpace& space, StepTimer& timer, const SearchLimits& limits,
                    Kernels kernels) {
  return Search(plan, space, timer, limits, kernels).run();
}

}  // namespace trainyard::plan
