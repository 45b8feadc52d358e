// Weights into their arenas, then forward passes.
#include "libtrain/engine/evaluator.h"

#include "kernels/cast/cast.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/plan/accesses.h"
#include "libtrain/plan/activations.h"

namespace trainyard::engine {

CategoryBytes evaluation_memory(const plan::Plan& p) {
  using tensor::Category;
  const auto states = plan::state_bytes(plan::UnitTable(p.model, p.topology), p.states());
  CategoryBytes bytes{};
  const auto at = [&](Category c) -> std::int64_t& { return bytes[static_cast<std::size_t>(c)]; };
  at(Category::parameters) = states.parameters;
  at(Category::gathered_units) = states.gathered_units;
  at(Category::activations) = plan::activation_bytes(p.model, p.micro(), plan::Pass::evaluate);
  at(Category::workspace) = plan::workspace_bytes(p.model, p.micro(), plan::Pass::evaluate);
  return bytes;
}

Evaluator::Evaluator(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches)
    : plan_(plan), settings_(settings), world_(world), set_(plan.model, plan.topology),
      memory_(evaluation_memory(plan), settings.device),
      compute_(compute_exec(settings.device, memory_[tensor::Category::workspace], plan.threads)),
      decoder_(plan.model), context_{set_,
                                     plan_.states(),
                                     plan_.reduction,
                                     world_,
                                     *compute_,
                                     communication(),
                                     memory_[tensor::Category::parameters],
                                     memory_[tensor::Category::gathered_units],
                                     memory_[tensor::Category::gradients],
                                     memory_[tensor::Category::unit_gradients],
                                     memory_[tensor::Category::optimizer],
                                     memory_[tensor::Category::communication_staging]},
      store_(context_), leases_(plan::leases_of(plan::evaluation_accesses(plan.model))),
      saved_(memory_[tensor::Category::activations]) {
  batches.work_on(*compute_);
}

// As ~Trainer: what was issued works on the arenas until it is done.
Evaluator::~Evaluator() { drain(communication(), *compute_); }

// Through host memory, so that one path serves every dtype and device.
void Evaluator::read_pieces(const std::string& checkpoint) {
  checkpoint::Reader reader(checkpoint, checkpoint::Reader::Check::as_needed);
  const auto host = tensor::Exec::caller(nullptr, plan_.threads);
  std::vector<float> read;
  std::vector<char> working;
  for (int u = 0; u < context_.units(); ++u) {
    const auto& layout = context_.layout(u);
    const auto own = store_.weights().own_piece(u);
    read.resize(static_cast<std::size_t>(layout.piece));
    working.resize(static_cast<std::size_t>(layout.piece * base::size_of(own.dtype)));
    reader.read_piece(checkpoint::Kind::model, context_.unit(u), world_.topology, world_.rank, read.data());
    const base::View narrow(working.data(), own.dtype, {layout.piece});
    kernels::cast(*host, base::View::of(read.data(), {layout.piece}), narrow);
    tensor::copy(*compute_, narrow, own);
    compute_->synchronize();
  }
}

void Evaluator::load(const std::string& checkpoint) {
  on_every_rank(world_, communication(), [&] { read_pieces(checkpoint); });
  store_.weights().pieces_changed();
}

MicroLoss Evaluator::micro(const model::MicroBatch& batch) {
  store_.begin_evaluation(leases_);
  model::Step step{*compute_, &store_, batch, plan_.dtype, settings_.seed, plan::Pass::evaluate};
  decoder_.evaluate(step, saved_);
  return {step.loss_sum, static_cast<double>(step.target_count)};
}

}  // namespace trainyard::engine
