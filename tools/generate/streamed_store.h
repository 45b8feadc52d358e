// StreamedStore: a parameter store that keeps no weights and reads them from the checkpoint in every pass.
#pragma once

#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/checkpoint_weights.h"
#include "libtrain/params/weight_store.h"
#include "libtrain/plan/spec/model_config.h"

#include <memory>

namespace trainyard::generate {

// In f32, for one rank. Two layers are in memory at a time, and what lies outside the layers, such as the tables.
class StreamedStore {
 public:
  StreamedStore(const checkpoint::Reader& reader, const plan::ModelConfig& model);
  ~StreamedStore();
  params::ParameterStore& store();
  void begin_pass();
  // After a pass, and before its result is used. The first time it throws InputError if what was read is not what was
  // saved.
  void end_pass();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace trainyard::generate
