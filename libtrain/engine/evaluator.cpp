// Weights into their arenas, then forward passes.
#include "libtrain/engine/evaluator.h"

#include "kernels/cast/cast.h"
#include "libtrain/base/error.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/plan/schedule/accesses.h"
#include "libtrain/plan/evaluation.h"
#include "libtrain/plan/cost/expert_nodes.h"

#include <algorithm>

namespace trainyard::engine {

Evaluator::Evaluator(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches)
    : plan_(require_fit(plan, world, batches)), settings_(settings), world_(world), batches_(batches),
      part_(plan_.part_of_rank(world.rank)), set_(part_, plan.topology),
      memory_(plan::evaluation_memory(plan_, plan_.stage_of(world.rank)).categories, settings.device),
      compute_(compute_exec(settings.device, memory_[tensor::Category::workspace], plan.threads)),
      lists_(part_, plan.sequence, *compute_),
      chunks_(make_chunks()), context_{set_,
                                       plan_.states(),
                                       plan_.reduction,
                                       world_,
                                       *compute_,
                                       communication(),
                                       memory_[tensor::Category::parameters],
                                       memory_[tensor::Category::gathered_weights],
                                       memory_[tensor::Category::gradients],
                                       memory_[tensor::Category::micro_batch_gradients],
                                       memory_[tensor::Category::optimizer],
                                       memory_[tensor::Category::communication_staging]},
      store_(context_), collectives_(context_, plan_.model, plan_.micro()),
      experts_(context_, plan_.expert_capacity_buffer,
               plan::expert_hop_bytes(part_, plan_.micro(), plan::Pass::evaluate)) {
  if (plan_.pipeline > 1) {
    TRAINYARD_ASSERT(world.neighbours != nullptr, "{} stages that have not joined their neighbours", plan_.pipeline);
    const bool hears_before = std::any_of(chunks_.begin(), chunks_.end(), [](const Chunk& c) { return !c.first; });
    link_.emplace(*world.neighbours, context_, memory_[tensor::Category::activations], hears_before,
                  plan_.micro().own_rows(), plan_.model.hidden, plan::Pass::evaluate);
  }
  batches_.work_on(*compute_);
}

// As in ~Trainer: work that was issued uses the arenas until it is done.
Evaluator::~Evaluator() { drain(communication(), *compute_); }

std::vector<Chunk> Evaluator::make_chunks() {
  std::vector<Chunk> out;
  for (int c = 0; c < plan_.stages.chunks(); ++c) {
    auto alone = part_;
    alone.chunks = {part_.chunks[static_cast<std::size_t>(c)]};
    Chunk chunk;
    chunk.decoder = std::make_unique<model::Decoder>(part_, plan::Recompute::none, c);
    chunk.slots.push_back(std::make_unique<Slot>(memory_[tensor::Category::activations],
                                                 plan::activation_bytes(alone, plan_.micro(), plan::Pass::evaluate)));
    chunk.evaluation = plan::leases_of(plan::evaluation_accesses(part_, c));
    chunk.first = plan_.stages.part(plan_.stage_of(world_.rank), c) == 0;
    out.push_back(std::move(chunk));
  }
  return out;
}

// Reads through host memory, so that one path serves every dtype and device.
void Evaluator::read_shards(checkpoint::Reader& reader, checkpoint::ReadSums& sums) {
  const auto host = tensor::Exec::caller(nullptr, plan_.threads);
  std::vector<float> read;
  std::vector<char> working;
  for (int u = 0; u < context_.flat_groups(); ++u) {
    const auto& layout = context_.layout(u);
    const auto own = store_.weights().own_shard(u);
    read.resize(static_cast<std::size_t>(layout.shard));
    working.resize(static_cast<std::size_t>(layout.shard * base::size_of(own.dtype)));
    reader.read_shard(checkpoint::Kind::model, context_.flat_group(u), world_.topology, world_.rank, read.data());
    if (!context_.set.borrowed[static_cast<std::size_t>(u)])
      sums.add(checkpoint::Kind::model, context_.flat_group(u), world_.topology, world_.rank, read.data());
    const base::View narrow(working.data(), own.dtype, {layout.shard});
    kernels::cast(*host, base::View::of(read.data(), {layout.shard}), narrow);
    tensor::copy(*compute_, narrow, own);
    compute_->synchronize();
  }
}

void Evaluator::load(const std::string& checkpoint) {
  std::optional<checkpoint::Reader> reader;
  std::optional<checkpoint::ReadSums> sums;
  on_every_rank(world_, communication(), [&] {
    const auto read = [&] {
      reader.emplace(checkpoint, checkpoint::Reader::Check::as_needed);
      sums.emplace(*reader, plan_.threads);
      read_shards(*reader, *sums);
    };
    checkpoint::reading({checkpoint}, read, checkpoint::Seen::listed);
  });
  sums->add_ranks(*world_.control, communication());
  on_every_rank(world_, communication(), [&] { sums->require(); });
  store_.weights().shards_changed();
}

void Evaluator::evaluate(std::span<const std::int64_t> micros, std::span<MicroLoss> losses, std::int64_t sequences,
                         const std::function<void(std::size_t)>& passed) {
  const StagePasses passes{plan_,
                           plan_.stage_of(world_.rank),
                           settings_.seed,
                           context_,
                           store_,
                           collectives_,
                           experts_,
                           lists_,
                           chunks_,
                           link_ ? &*link_ : nullptr,
                           now_};
  passes.evaluate(
      micros, losses,
      {[&](std::int64_t micro) -> const model::MicroBatch& { return batches_.validation(micro, sequences); },
       [&](std::span<const plan::Occurrence> leases) { store_.begin_evaluation(leases); }, passed});
}

}  // namespace trainyard::engine
