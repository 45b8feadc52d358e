// Builds a rank's run time from a plan.
#include "libtrain/engine/rank_runtime.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/engine/offload.h"
#include "libtrain/plan/cost/expert_nodes.h"

#include <algorithm>

namespace trainyard::engine {

using tensor::Category;

const plan::Plan& require_fit(const plan::Plan& plan, const World& world, const Batches& batches) {
  TRAINYARD_ASSERT(!plan.stages.boundaries.empty() && std::ssize(plan.stage_memory) == plan.pipeline,
                   "a plan that plan::predict has not filled: {} of {} stages", plan.stage_memory.size(),
                   plan.pipeline);
  require_layout(world, plan);
  const auto of = batches.batch();
  TRAINYARD_ASSERT(batches.sequence() == plan.sequence && of.micro_batch == plan.micro_batch &&
                       of.global_batch == plan.global_batch && of.ramp == plan.batch().ramp &&
                       of.local_accumulation == plan.local_accumulation,
                   "batches of {} sequences of {} tokens, {} in a micro-batch, {} micro-batches accumulated; the plan "
                   "has {} of {}, {}, {}",
                   of.global_batch, batches.sequence(), of.micro_batch, of.local_accumulation, plan.global_batch,
                   plan.sequence, plan.micro_batch, plan.local_accumulation);
  return plan;
}

RankRuntime::RankRuntime(const plan::Plan& of, base::Device device, World& w, Batches& b, plan::Pass what,
                         const StatePlaces& places)
    : plan(require_fit(of, w, b)), pass(what), world(w), batches(b), stage(plan.stage_of(world.rank)),
      part(plan.part_of_rank(world.rank)), set(part, plan.topology),
      memory(pass == plan::Pass::train ? plan.memory_of(world.rank).categories
                                       : plan::evaluation_memory(plan, stage, places.weights).categories,
             device),
      compute(compute_exec(device, memory[Category::workspace], plan.threads)),
      communication(world.size == 1 ? *compute : *world.communication), lists(part, plan.sequence, *compute),
      offloaded(pass == plan::Pass::train
                    ? offloaded_states(plan, world.rank, set, memory, *compute, places.offload_folders)
                    : nullptr),
      inputs(offloaded ? offloaded_inputs(plan, world.rank, offloaded.get(), memory, *compute) : nullptr),
      context{{world, *compute, communication},
              set,
              plan.states(),
              plan.reduction,
              {.parameters = memory[Category::parameters],
               .gathered = memory[Category::gathered_weights],
               .gradients = memory[Category::gradients],
               .micro_batch_gradients = memory[Category::micro_batch_gradients],
               .optimizer = memory[Category::optimizer],
               .staging = memory[Category::communication_staging]}},
      collectives(context, memory[Category::communication_staging], plan.model, plan.micro()),
      experts(context, memory[Category::communication_staging], plan.batch(), part.own_shape(plan.micro()),
              plan::expert_hop_bytes(part, plan.micro(), pass)) {
  if (plan.offload.of_states()) context.offloaded = offloaded.get();
  batches.work_on(*compute);
}

RankRuntime::~RankRuntime() { drain(communication, *compute); }

void RankRuntime::link_stages() {
  if (plan.pipeline == 1) return;
  TRAINYARD_ASSERT(world.neighbours != nullptr, "{} stages that have not joined their neighbours", plan.pipeline);
  std::vector<StageLink::Ends> ends;
  for (int c = 0; c < std::ssize(chunks); ++c) {
    const int of = plan.stages.part(stage, c);
    ends.push_back({plan::messages_before(plan.model, plan.stages, of, plan.micro()),
                    plan::messages_before(plan.model, plan.stages, of + 1, plan.micro())});
  }
  link.emplace(*world.neighbours, context, memory[Category::activations], std::move(ends), plan.model.hidden, pass);
}

StagePasses RankRuntime::passes(params::ParameterStore& store, std::uint64_t seed) {
  return {.plan = plan,
          .stage = stage,
          .seed = seed,
          .execs = context,
          .store = store,
          .collectives = collectives,
          .experts = experts,
          .lists = lists,
          .chunks = chunks,
          .link = link ? &*link : nullptr,
          .inputs = inputs.get(),
          .now = now};
}

}  // namespace trainyard::engine
