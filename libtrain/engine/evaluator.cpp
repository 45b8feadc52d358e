// Weights into their arenas, then forward passes.
#include "libtrain/engine/evaluator.h"

#include "kernels/cast/cast.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/plan/schedule/accesses.h"

#include <algorithm>

namespace trainyard::engine {

Evaluator::Evaluator(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches)
    : settings_(settings), r_(plan, settings.device, world, batches, plan::Pass::evaluate), store_(r_.context) {
  make_chunks();
  r_.link_stages();
}

// Communication that was issued uses the store until it is done.
Evaluator::~Evaluator() { drain(r_.communication, *r_.compute); }

void Evaluator::make_chunks() {
  for (int c = 0; c < r_.plan.stages.chunks(); ++c) {
    auto alone = r_.part;
    alone.chunks = {base::at(r_.part.chunks, c)};
    Chunk chunk;
    chunk.decoder = std::make_unique<model::Decoder>(r_.part, plan::Recompute::none, c);
    chunk.slots.push_back(std::make_unique<Slot>(r_.memory[tensor::Category::activations],
                                                 plan::activation_bytes(alone, r_.plan.micro(), plan::Pass::evaluate)));
    chunk.evaluation = plan::leases_of(plan::evaluation_accesses(r_.part, c));
    chunk.first = r_.plan.stages.part(r_.stage, c) == 0;
    r_.chunks.push_back(std::move(chunk));
  }
}

// Reads through host memory, so that one path serves every dtype and device.
void Evaluator::read_shards(checkpoint::Reader& reader, checkpoint::ReadSums& sums) {
  const auto host = tensor::Exec::caller(nullptr, r_.plan.threads);
  std::vector<float> read;
  std::vector<char> working;
  for (int u = 0; u < r_.context.flat_groups(); ++u) {
    const auto& layout = r_.context.layout(u);
    const auto own = store_.weights().own_shard(u);
    read.resize(base::size(layout.shard));
    working.resize(base::size(layout.shard * base::size_of(own.dtype)));
    reader.read_shard(checkpoint::Kind::model, r_.context.flat_group(u), r_.world.topology, r_.world.rank, read.data());
    if (!base::at(r_.context.set.borrowed, u))
      sums.add(checkpoint::Kind::model, r_.context.flat_group(u), r_.world.topology, r_.world.rank, read.data());
    const base::View narrow(working.data(), own.dtype, {layout.shard});
    kernels::cast(*host, base::View::of(read.data(), {layout.shard}), narrow);
    tensor::copy(*r_.compute, narrow, own);
    r_.compute->synchronize();
  }
}

void Evaluator::load(const std::string& checkpoint) {
  std::optional<checkpoint::Reader> reader;
  std::optional<checkpoint::ReadSums> sums;
  on_every_rank(r_.world, r_.communication, [&] {
    const auto read = [&] {
      reader.emplace(checkpoint, checkpoint::Reader::Check::as_needed);
      sums.emplace(*reader, r_.plan.threads);
      read_shards(*reader, *sums);
    };
    checkpoint::reading({checkpoint}, read, checkpoint::Seen::listed);
  });
  sums->add_ranks(*r_.world.control, r_.communication);
  on_every_rank(r_.world, r_.communication, [&] { sums->require(); });
  store_.weights().shards_changed();
}

void Evaluator::evaluate(std::span<const std::int64_t> micros, std::span<MicroLoss> losses, std::int64_t sequences,
                         const std::function<void(std::size_t)>& passed) {
  const auto passes = r_.passes(store_, settings_.seed);
  passes.evaluate(
      micros, losses,
      {[&](std::int64_t micro) -> const model::MicroBatch& { return r_.batches.validation(micro, sequences); },
       [&](std::span<const plan::Occurrence> leases) { store_.begin_evaluation(leases); }, passed});
}

}  // namespace trainyard::engine
