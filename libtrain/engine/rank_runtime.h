// RankRuntime: what one rank computes a plan with: its part of the model, arenas, Execs, collectives and virtual
// stages. A training (trainer.h) and an evaluation (evaluator.h) are programs over it.
#pragma once

#include "libtrain/engine/batches.h"
#include "libtrain/engine/current_action.h"
#include "libtrain/engine/memory.h"
#include "libtrain/engine/stage_link.h"
#include "libtrain/engine/stage_passes.h"
#include "libtrain/engine/world.h"
#include "libtrain/model/attention_lists.h"
#include "libtrain/model/expert_collectives.h"
#include "libtrain/model/offloaded_inputs.h"
#include "libtrain/model/tensor_collectives.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/evaluation.h"
#include "libtrain/plan/offload_folders.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace trainyard::engine {

// Asserts that the plan is predicted and that the batches are the plan's, and requires the plan's layout of the world
// (require_layout). Returns the plan.
const plan::Plan& require_fit(const plan::Plan& plan, const World& world, const Batches& batches);

// Where states are that do not stay in memory.
struct StatePlaces {
  plan::Residence weights = plan::Residence::kept;        // of an evaluation
  std::vector<plan::OffloadFolder> offload_folders = {};  // of a training whose plan has states on disk
};

// Members are built in this order and refer to one another. World and batches must outlive it.
struct RankRuntime {
  // The plan must be predicted (plan::predict). Reserves on `device` the arenas that a training or an evaluation needs
  // (`pass`). `world` must have joined its neighbours (join_neighbours) if the plan has pipeline stages.
  RankRuntime(const plan::Plan& plan, base::Device device, World& world, Batches& batches, plan::Pass pass,
              const StatePlaces& places = {});
  RankRuntime(const RankRuntime&) = delete;
  RankRuntime& operator=(const RankRuntime&) = delete;
  ~RankRuntime();  // waits for work that was issued, which uses the arenas until it is done

  // Call it once `chunks` are made. Links them with the neighbouring stages, if there are any.
  void link_stages();
  // The passes of micro-batches through `chunks`, with the weights of `store` and random numbers keyed by `seed`.
  StagePasses passes(params::ParameterStore& store, std::uint64_t seed);

  plan::Plan plan;
  plan::Pass pass;
  World& world;
  Batches& batches;
  int stage;             // of this rank
  plan::ModelPart part;  // of plan.model
  plan::FlatGroupSet set;
  RankMemory memory;
  std::unique_ptr<tensor::Exec> compute;
  tensor::Exec& communication;  // of one rank alone: `compute`
  model::AttentionLists lists;
  std::unique_ptr<params::OffloadedStates> offloaded;  // none: all states and inputs of layers are in memory
  std::unique_ptr<model::OffloadedInputs> inputs;      // of recomputed layers; none: all are in memory
  params::StoreContext context;
  model::TensorCollectives collectives;
  model::ExpertCollectives experts;
  std::optional<tensor::Arena> passing;  // shared by all slots of `chunks`
  std::vector<Chunk> chunks;             // the virtual stages; the program over the runtime makes them
  std::optional<StageLink> link;         // none: there is one stage
  CurrentAction now;
};

}  // namespace trainyard::engine
