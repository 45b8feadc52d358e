// Compares the settings of each rank with the settings of rank 0.
#include "libtrain/engine/same_settings.h"

#include "kernels/dispatch.h"
#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/agreement.h"

#include <nlohmann/json.hpp>

namespace trainyard::engine {

NamedSettings shared_settings(const RunConfig& config) {
  auto c = config;
  NamedSettings settings;
  for (const auto& f : fields_of(c))
    if (!f.has(base::FieldTrait::per_rank)) settings.emplace_back(f.name, f.get());
  settings.emplace_back("plan", c.plan == auto_plan ? auto_plan : "a file's, or none");
  return settings;
}

void require_same(const NamedSettings& mine, World& world, tensor::Exec& exec) {
  if (world.size == 1) return;
  const auto first = nlohmann::json::parse(on_rank_zero(world, exec, [&] {
    auto all = nlohmann::json::object();
    for (const auto& [name, value] : mine) all[name] = base::text_of_path(value);
    return all.dump();
  }));
  on_every_rank(world, exec, [&] {
    const auto shown = [](const std::string& value) { return value.empty() ? "not set" : value; };
    std::string differences;
    for (const auto& [name, value] : mine)
      if (const auto expected = first.value(name, base::text_of_path(value)); base::text_of_path(value) != expected)
        differences += fmt::format("{}{} is {}, on rank 0 {}", differences.empty() ? "" : "; ",
                                   name.starts_with("TRAINYARD_") ? name : base::setting_name(name),
                                   shown(base::text_of_path(value)), shown(expected));
    if (!differences.empty())
      throw base::UsageError(
          differences,
          base::text("all ranks need the same flags, file of $config and TRAINYARD_ variables; mpirun passes "
                     "a variable on only with -x NAME"));
  });
}

const char* instructions_of(base::DType dtype) {
  const auto isa = kernels::active_isa();
  return kernels::name_of(dtype == base::DType::bf16 ? isa : kernels::base_of(isa));
}

void require_same_instructions(base::DType dtype, World& world, tensor::Exec& exec) {
  if (world.size == 1) return;
  const auto first = on_rank_zero(world, exec, [&] { return std::string(instructions_of(dtype)); });
  on_every_rank(world, exec, [&] {
    if (const std::string mine = instructions_of(dtype); mine != first)
      throw base::EnvironmentError(
          fmt::format(
              "the kernels of this rank use {}, but on rank 0 they use {}: results would have the bits of neither",
              mine, first),
          "set TRAINYARD_ISA on all nodes to the most that each of them has (baseline, avx2, avx512, avx512bf16 or "
          "amx), or choose nodes of one kind");
  });
}

}  // namespace trainyard::engine
