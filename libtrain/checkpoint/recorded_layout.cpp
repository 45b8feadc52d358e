// Reads the plan of a checkpoint.
#include "libtrain/checkpoint/recorded_layout.h"

#include "libtrain/plan/model_file/field_json.h"
#include "libtrain/plan/parallel_layout.h"

namespace trainyard::checkpoint {

RecordedLayout recorded_layout(const RunState& state) {
  const auto& plan = state.plan;
  const auto value = [&](const char* key) {
    return plan.is_object() ? plan.value(key, nlohmann::json()) : nlohmann::json();
  };
  const auto number = [&](const char* key) -> std::optional<std::int64_t> {
    const auto found = value(key);
    return found.is_number_integer() ? std::optional(found.get<std::int64_t>()) : std::nullopt;
  };
  RecordedLayout out{.ranks = number("ranks"),
                     .zero = number("zero"),
                     .tensor = number("tensor").value_or(1),
                     .expert_parallel = number("expert_parallel").value_or(1),
                     .pipeline = number("pipeline").value_or(1),
                     .virtual_stages = number("virtual_stages").value_or(1),
                     .sequence_parallel = value("sequence_parallel") == true,
                     .pipeline_schedule = {}};
  for (const auto& [name, schedule] : plan::schedule_names())
    if (value("schedule") == plan::with_underscores(name)) out.pipeline_schedule = name;
  if (value("gradient_sums") == base::name_of(base::DType::bf16)) out.gradient_sums = base::DType::bf16;
  out.zero_group = number("zero_group").value_or(0);
  return out;
}

}  // namespace trainyard::checkpoint
