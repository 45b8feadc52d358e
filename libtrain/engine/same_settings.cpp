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

namespace {

// "--seed is 2, on rank 0 1; ..." for each of `mine` that has another value in `first`; "" if there is none.
std::string other_values(const NamedSettings& mine, const nlohmann::json& first) {
  const auto shown = [](const std::string& value) { return value.empty() ? "not set" : value; };
  std::string out;
  for (const auto& [name, value] : mine) {
    const auto text = base::text_of_path(value), expected = first.value(name, text);
    if (text != expected)
      out +=
          fmt::format("{}{} is {}, on rank 0 {}", out.empty() ? "" : "; ",
                      name.starts_with("TRAINYARD_") ? name : base::setting_name(name), shown(text), shown(expected));
  }
  return out;
}

nlohmann::json by_name(const NamedSettings& settings) {
  auto all = nlohmann::json::object();
  for (const auto& [name, value] : settings) all[name] = base::text_of_path(value);
  return all;
}

NamedSettings naming_files(const RunConfig& c) { return {{"model", c.model}, {"data", c.data}, {"plan", c.plan}}; }

}  // namespace

std::string file_settings(const RunConfig& config) { return by_name(naming_files(config)).dump(); }

void throw_other_content(const std::string& content, const RunConfig& config,
                         const std::string& settings_of_rank_zero) {
  const auto other = other_values(naming_files(config), nlohmann::json::parse(settings_of_rank_zero));
  if (!other.empty())
    throw base::UsageError(fmt::format("{}, and the content is not the same: {}", other, content),
                           base::text("give all ranks the same $model, $data and $plan; other paths may name copies"));
  throw base::InputError(fmt::format("this rank reads another {} than rank 0", content),
                         "is the folder shared, and did a file change while the job started?");
}

void require_same(const NamedSettings& mine, World& world, tensor::Exec& exec) {
  if (world.size == 1) return;
  const auto first = nlohmann::json::parse(on_rank_zero(world, exec, [&] { return by_name(mine).dump(); }));
  on_every_rank(world, exec, [&] {
    const auto differences = other_values(mine, first);
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
