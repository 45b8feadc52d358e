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

Evaluator::Evaluator(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches,
                     plan::Residence weights)
    : settings_(settings), r_(plan, settings.device, world, batches, plan::Pass::evaluate, {.weights = weights}),
      source_(weights == plan::Residence::streamed
                  ? std::make_unique<CheckpointWeights>(r_.set, world.topology, world.rank)
                  : nullptr),
      store_(r_.context, source_.get(), &r_.memory[tensor::Category::save_snapshot]),
      gates_(gate_record_shape(r_.plan.model)) {
  if (gates_.rows > 0 && r_.compute->on_gpu())
    device_records_ = tensor::DeviceBuffer(r_.compute->device().index, gates_.count() * 8,
                                           "reserving memory for the records of gates");
  records_.resize(base::size(gates_.count()));
  if (const auto records = own_records()) tensor::clear(*r_.compute, records);
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
    chunk.decoder = std::make_unique<model::Decoder>(r_.part, plan::Recomputation(), c);
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
      if (source_) return source_->open(*reader);
      sums.emplace(*reader, r_.plan.threads);
      read_shards(*reader, *sums);
    };
    checkpoint::reading({checkpoint}, read, checkpoint::Seen::listed);
  });
  if (source_) {
    const auto stored = base::size_of(checkpoint::dtype_of(checkpoint::Kind::model, reader->state()));
    auto steps = predicted_.emplace(r_.part, r_.world.topology, r_.world.rank, r_.plan.gathered_layers, stored);
    first_step_ = steps.add(leases_of(1)), later_step_ = steps.add(leases_of(1));
    return;
  }
  sums->add_ranks(*r_.world.control, r_.communication);
  on_every_rank(r_.world, r_.communication, [&] { sums->require(); });
  store_.weights().shards_changed();
}

plan::LeaseOrder Evaluator::leases_of(std::int64_t micros) const {
  const plan::Pipeline pipeline{r_.plan.pipeline_schedule, r_.plan.pipeline, r_.plan.virtual_stages};
  return plan::evaluation_leases(r_.part, pipeline, r_.stage, micros);
}

// The weights of the passes to come are read ahead, also from one micro-batch to the next.
void Evaluator::announce(std::int64_t micros) {
  const auto leases = leases_of(micros);
  predicted_->add(leases);
  store_.begin_evaluations(leases);
}

// All reads that were announced are done. No loss has left the evaluator yet.
void Evaluator::check_sums() {
  checked_ = true;
  source_->sums().add_ranks(*r_.world.control, r_.communication);
  on_every_rank(r_.world, r_.communication, [&] { source_->sums().require(); });
}

StreamedWeights Evaluator::streamed() const {
  TRAINYARD_ASSERT(predicted_, "weights that are not streamed");
  std::vector<double> own, all;
  for (const auto bytes : {predicted_->bytes(), source_->bytes(), first_step_, later_step_, source_->block_bytes()})
    own.push_back(static_cast<double>(bytes));
  own.push_back(source_->wait_seconds);
  const auto width = std::ssize(own);
  all.resize(base::size(width * r_.world.size));
  r_.world.control->all_gather(r_.communication, base::View::of(own.data(), {width}),
                               base::View::of(all.data(), {width * r_.world.size}));
  r_.communication.synchronize();
  StreamedWeights sum;
  for (auto rank = all.begin(); rank != all.end(); rank += width) {
    const auto bytes = [&](int i) { return static_cast<std::int64_t>(rank[i]); };
    sum.predicted += bytes(0), sum.read += bytes(1), sum.first_step += bytes(2), sum.later_step += bytes(3);
    sum.block_bytes += bytes(4), sum.wait_seconds = std::max(sum.wait_seconds, rank[5]);
  }
  return sum;
}

base::View Evaluator::own_records() {
  if (gates_.rows == 0 || r_.world.topology.coordinate(r_.world.rank, plan::Axis::tensor) > 0) return {};
  auto* memory = device_records_ ? device_records_.data<std::int64_t>() : records_.data();
  return base::View(memory, base::DType::i64, {gates_.rows, gates_.width}, r_.compute->device());
}

// Ranks take micro-batches in rotation. The last ones may repeat a micro-batch of another rank (reduce_losses).
base::View Evaluator::records_of(std::int64_t micro) {
  const auto ranks = r_.world.topology.size(plan::Axis::data);
  return micro % ranks == r_.world.reduction_position() ? own_records() : base::View();
}

std::vector<std::int64_t> Evaluator::gate_records() {
  std::vector<std::int64_t> all(records_.size());
  if (gates_.rows == 0) return all;
  const auto here = base::View::of(all.data(), {gates_.rows, gates_.width});
  if (const auto own = own_records()) {
    tensor::copy(*r_.compute, own, here);
    r_.compute->synchronize();
  }
  r_.world.control->all_reduce(r_.communication, here, comm::Reduction::sum);
  r_.communication.synchronize();
  return all;
}

void Evaluator::evaluate(std::span<const std::int64_t> micros, std::span<MicroLoss> losses, std::int64_t sequences,
                         const std::function<void(std::size_t)>& passed) {
  const auto passes = r_.passes(store_, settings_.seed);
  if (source_) announce(static_cast<std::int64_t>(micros.size()));
  passes.evaluate(
      micros, losses,
      {[&](std::int64_t micro) -> const model::MicroBatch& { return r_.batches.validation(micro, sequences); },
       [&](std::span<const plan::Occurrence> leases) {
         if (!source_) store_.begin_evaluation(leases);
       },
       passed, [&](std::int64_t micro) { return records_of(micro); }});
  if (source_ && !checked_) check_sums();
}

}  // namespace trainyard::engine
