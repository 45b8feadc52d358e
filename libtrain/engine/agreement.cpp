// Carries results and errors between ranks as small JSON texts.
#include "libtrain/engine/agreement.h"

#include "libtrain/base/error.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace trainyard::engine {

namespace {

using nlohmann::json;

json outcome_of(const std::function<std::string()>& work) {
  try {
    return {{"text", work()}};
  } catch (const base::Error& e) {
    return {{"code", static_cast<int>(e.code())}, {"what", e.what()}, {"hint", e.hint()}};
  } catch (const std::exception& e) {
    return {{"code", 1}, {"what", e.what()}, {"hint", ""}};
  }
}

void throw_if_error(const json& outcome, const std::string& prefix) {
  if (!outcome.contains("code")) return;
  throw base::Error(static_cast<base::ExitCode>(outcome["code"].get<int>()), prefix + outcome["what"].get<std::string>(), outcome["hint"].get<std::string>());
}

std::string broadcast_text(World& world, tensor::Exec& exec, std::string text, int root) {
  std::int64_t length = static_cast<std::int64_t>(text.size());
  world.control->broadcast(exec, base::View::of(&length, {1}), root);
  exec.synchronize();
  text.resize(static_cast<std::size_t>(length));
  if (length > 0) {
    world.control->broadcast(exec, base::View(text.data(), base::DType::u8, {length}), root);
    exec.synchronize();
  }
  return text;
}

}  // namespace

std::string on_rank_zero(World& world, tensor::Exec& exec, const std::function<std::string()>& work) {
  json outcome;
  if (world.rank == 0) outcome = outcome_of(work);
  if (world.size > 1) outcome = json::parse(broadcast_text(world, exec, world.rank == 0 ? outcome.dump() : "", 0));
  throw_if_error(outcome, "");
  return outcome["text"].get<std::string>();
}

void on_every_rank(World& world, tensor::Exec& exec, const std::function<void()>& work) {
  const auto outcome = outcome_of([&] { work(); return std::string(); });
  if (world.size == 1) return throw_if_error(outcome, "");
  const std::int64_t failed = outcome.contains("code") ? world.rank : world.size;
  std::vector<std::int64_t> all(static_cast<std::size_t>(world.size));
  world.control->all_gather(exec, base::View::of(&failed, {1}), base::View::of(all.data(), {world.size}));
  exec.synchronize();
  for (int r = 0; r < world.size; ++r) {
    if (all[static_cast<std::size_t>(r)] == world.size) continue;
    throw_if_error(json::parse(broadcast_text(world, exec, world.rank == r ? outcome.dump() : "", r)), fmt::format("rank {}: ", r));
  }
}

}  // namespace trainyard::engine
