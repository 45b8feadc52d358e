// Compares the memory of every layout that one setup could have.
#include "libtrain/engine/auto_plan.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/memory.h"
#include "libtrain/plan/cost/memory.h"
#include "libtrain/plan/recompute_choice.h"
#include "libtrain/tensor/gpu.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>

namespace trainyard::engine {

namespace {

constexpr auto unknown = std::numeric_limits<std::int64_t>::max();

std::int64_t bytes_of(const plan::Plan& plan) { return plan::memory_with(plan, plan.recompute); }

plan::Plan with(plan::Plan plan, int zero, const plan::Recomputation& recompute) {
  plan.zero = zero, plan.recompute = recompute;
  return plan;
}

// The number in a variable of Slurm; 0 if it is not set (or says 0, which means all).
std::int64_t counted_by(const char* variable) {
  const char* text = std::getenv(variable);
  std::int64_t n = 0;
  if (text != nullptr) std::from_chars(text, text + std::string_view(text).size(), n);
  return std::max<std::int64_t>(0, n);
}

// Memory of this machine: what it has, or what the job has asked for (sbatch --mem), if that is less.
std::int64_t memory_of_the_job() {
  constexpr std::int64_t mebibyte = 1 << 20;
  auto asked = counted_by("SLURM_MEM_PER_NODE");
  if (asked == 0) asked = counted_by("SLURM_MEM_PER_CPU") * counted_by("SLURM_CPUS_ON_NODE");
  const auto machine = machine_memory_bytes();
  if (asked == 0 || asked > unknown / mebibyte) return machine;
  return machine == 0 ? asked * mebibyte : std::min(machine, asked * mebibyte);
}

std::int64_t memory_here(const Place& place, int ranks_on_node) {
  if (place.device.kind != base::DeviceKind::cuda) return memory_for_a_rank(memory_of_the_job(), ranks_on_node);
  return memory_for_a_rank(tensor::gpu_info(place.device.index).total_bytes, place.share.ranks);
}

// What was open of it: the ZeRO stage, too, or the recomputation alone.
std::string words_of_layout(const plan::ParallelLayout& layout, bool with_stage) {
  if (!with_stage) return plan::recomputation_text(layout.recompute);
  const auto recomputed = plan::recomputed_text(layout.recompute);
  return fmt::format("ZeRO {}{}{}", layout.zero, recomputed.empty() ? "" : ", ", recomputed);
}

}  // namespace

std::int64_t memory_for_a_rank(std::int64_t machine_bytes, int ranks_on_node) {
  return machine_bytes / 10 * 9 / std::max(1, ranks_on_node);
}

plan::Plan fitting_plan(const plan::Plan& plan, Open open, std::int64_t bytes) {
  if (bytes == 0) return with(plan, open.zero ? 0 : plan.zero, plan.recompute);
  std::optional<plan::Plan> least;
  for (const auto form : plan::recomputations)
    for (int zero = open.zero ? 0 : plan.zero; zero <= (open.zero ? 3 : plan.zero); ++zero) {
      if (open.recompute ? form < plan.recompute.most() : form != plan.recompute.most()) continue;
      if (open.recompute && !plan::may_recompute(plan, form)) continue;
      auto other = with(plan, zero, plan.recompute);
      if (open.recompute) other.recompute = plan::fewest_recomputed(other, form, bytes);
      if (bytes_of(other) <= bytes) return other;
      if (!least || bytes_of(other) < bytes_of(*least)) least = std::move(other);
    }
  return least.value_or(plan);
}

std::optional<std::int64_t> memory_of_every_rank(World& world, tensor::Exec& exec, const Place& place,
                                                 int ranks_on_node) {
  std::int64_t memory = unknown;
  on_every_rank(world, exec, [&] {
    if (const auto here = memory_here(place, ranks_on_node); here > 0) memory = here;
  });
  world.control->all_reduce(exec, base::View::of(&memory, {1}), comm::Reduction::min);
  exec.synchronize();
  return memory == unknown ? std::nullopt : std::optional(memory);
}

Open open_in(const RunConfig& config) {
  const bool by_plan = config.plan == auto_plan;
  return {.zero = by_plan && config.from_plan.open.zero,
          .recompute = config.recompute_auto || (by_plan && config.from_plan.open.recompute)};
}

AutoLayout auto_layout(const RunSetup& setup, Open open, const std::string& memory_limit,
                       std::optional<std::int64_t> of_ranks) {
  const bool of_plan = setup.config.plan == auto_plan;
  const auto asked = of_plan ? base::text("$plan auto") : base::text("$recompute auto");
  const auto words = [&](const plan::ParallelLayout& layout) { return words_of_layout(layout, of_plan); };
  const auto& plan = setup.plan;
  const auto memory = of_ranks.value_or(unknown),
             limit =
                 memory_limit.empty() ? unknown : base::parse_bytes(memory_limit, base::setting_name("memory-limit")),
             bytes = std::min(memory, limit);
  const auto layout = fitting_plan(plan, open, bytes == unknown ? 0 : bytes);
  const auto need = bytes_of(layout);
  if (need > memory && limit >= memory && !setup.config.offload_auto)
    throw base::EnvironmentError(
        fmt::format("{}: {} needs the least memory, {} a rank, but a rank of this job may use only {}", asked,
                    words(layout), base::size_text(need), base::size_text(memory)),
        base::text("$offload auto, more ranks on more machines, more memory (sbatch --mem), or another run with a "
                   "smaller $micro-batch; to start all the same: $zero 3 $recompute full without {}",
                   asked));
  auto text = fmt::format("{}: {} on {}: {} a rank", asked, words(layout), base::counted(plan.topology.world(), "rank"),
                          base::size_text(need));
  text += bytes == unknown ? "; how much it may use is not known"
          : need > bytes   ? base::text(", the least without $offload; it may use {}", base::size_text(bytes))
                           : fmt::format(" of the {} that it may use", base::size_text(bytes));
  const auto first = fitting_plan(plan, open, 0);
  if (bytes_of(first) > need)
    text += fmt::format(" ({} would need {})", words(first), base::size_text(bytes_of(first)));
  return {.zero = layout.zero, .recompute = layout.recompute, .text = std::move(text)};
}

}  // namespace trainyard::engine
