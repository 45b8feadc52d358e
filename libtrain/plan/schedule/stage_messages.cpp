// Rows and bytes of messages between stages.
#include "libtrain/plan/schedule/stage_messages.h"

#include "libtrain/base/aligned.h"
#include "libtrain/base/index.h"

#include <algorithm>

namespace trainyard::plan {

StageMessages::StageMessages(const ModelConfig& m, std::int64_t item, const MicroShape& s) {
  const auto passed = passed_streams(m, item);
  const auto tensor = [&](std::int64_t rows, base::DType dtype) {
    return Tensor{rows, dtype, rows * m.hidden * base::size_of(dtype)};
  };
  const auto hidden = tensor(passed.source ? s.own_source_rows() : s.own_rows(), s.dtype);
  activations_ = gradients_ = {hidden};
  if (!passed.memory) return;
  activations_.push_back(tensor(s.own_source_rows(), s.dtype));
  gradients_.push_back(tensor(s.own_source_rows(), s.accumulation()));
}

StageMessages messages_before(const ModelConfig& m, const Stages& stages, int part, const MicroShape& s) {
  if (part == 0 || part == stages.parts()) return {};
  return {m, base::at(stages.boundaries, part), s};
}

std::int64_t memory_bytes(const std::vector<StageMessages::Tensor>& tensors) {
  std::int64_t bytes = 0;
  for (const auto& tensor : tensors) bytes += base::aligned(tensor.bytes);
  return bytes;
}

std::int64_t message_buffer_bytes(const ModelConfig& m, const Stages& stages, int stage, const MicroShape& s,
                                  Pass pass) {
  std::int64_t arriving = 0, leaving = 0;
  for (int chunk = 0; chunk < stages.chunks(); ++chunk) {
    const auto before = messages_before(m, stages, stages.part(stage, chunk), s);
    arriving = std::max(arriving, memory_bytes(before.activations()));
    leaving = std::max(leaving, memory_bytes(before.gradients()));
  }
  return arriving + (pass == Pass::train ? leaving : 0);
}

}  // namespace trainyard::plan
