// RunState: everything about a run at the end of a step that is not a tensor.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/plan/model_config.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace trainyard::checkpoint {

// What a checkpoint holds of each parameter: all that a run goes on from, or its weights alone (`--only model`), with
// which another run may begin.
enum class Contents { all, model };

struct RunState {
  std::int64_t step = 0;  // completed optimizer steps
  std::int64_t samples_seen = 0, tokens_seen = 0;
  std::uint64_t seed = 0;
  base::DType dtype = base::DType::f32;  // working dtype: f32 or bf16
  Contents contents = Contents::all;
  plan::ModelConfig model;                             // vocabulary resolved
  nlohmann::json identity = nlohmann::json::object();  // what a resume compares (decision 14)
  nlohmann::json plan = nlohmann::json::object();      // the layout that wrote it; it may say anything, and no more is
                                                       // taken from it than expert_parts_of (manifest_checks.h)
  nlohmann::json versions = nlohmann::json::object();  // of this program and of the libraries it used
  nlohmann::json provenance = nlohmann::json::object();  // who, where, when, from which data
  std::string isa, device_kind = "cpu";
  std::string writer;  // the start that writes it (base::FolderLock::name), alike on all ranks: only the sidecars have
                       // it, because equal runs give equal manifests
};

nlohmann::json state_to_json(const RunState& state);
// Unknown keys are ignored. InputError, beginning with `where`, for a missing or ill-typed one.
RunState state_from_json(const nlohmann::json& json, const std::string& where);

}  // namespace trainyard::checkpoint
