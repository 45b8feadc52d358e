// A store of streamed weights in a world of one rank.
#include "tools/generate/streamed_store.h"

#include "libtrain/plan/schedule/accesses.h"

#include <vector>

namespace trainyard::generate {

namespace {

plan::StateShape shape_of_rank() {
  plan::StateShape shape;
  shape.working = base::DType::f32;
  return shape;
}

}  // namespace

struct StreamedStore::Parts {
  Parts(const checkpoint::Reader& reader, const plan::ModelConfig& m)
      : model(m), part(model), set(part, plan::Topology()), shape(shape_of_rank()),
        gathered(tensor::Category::gathered_weights,
                 plan::SlotPlan(set.table, shape.gathered_layers).bytes(base::size_of(shape.working))),
        none(tensor::Category::parameters, 0),
        compute(tensor::Exec::caller(nullptr, 1)), context{{world, *compute, *compute},
                                                           set,
                                                           shape,
                                                           plan::Reduction::ordered,
                                                           {none, gathered, none, none, none, none}},
        source(set, world.topology, 0), store(context, &source),
        leases(plan::leases_of(plan::evaluation_accesses(part))) {
    source.open(reader);
  }

  plan::ModelConfig model;
  plan::ModelPart part;  // refers to `model`
  plan::FlatGroupSet set;
  plan::StateShape shape;
  tensor::Arena gathered, none;
  std::unique_ptr<tensor::Exec> compute;
  comm::World world;  // of one rank
  params::StoreContext context;
  engine::CheckpointWeights source;
  params::WeightStore store;
  std::vector<plan::Occurrence> leases;
  bool checked = false;
};

StreamedStore::StreamedStore(const checkpoint::Reader& reader, const plan::ModelConfig& model)
    : parts_(std::make_unique<Parts>(reader, model)) {}
StreamedStore::~StreamedStore() = default;

params::ParameterStore& StreamedStore::store() { return parts_->store; }

void StreamedStore::begin_pass() { parts_->store.begin_evaluation(parts_->leases); }

void StreamedStore::end_pass() {
  if (!parts_->checked) parts_->source.sums().require();
  parts_->checked = true;
}

}  // namespace trainyard::generate
