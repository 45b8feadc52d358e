// Sums and maxima over the segments of a part.
#include "libtrain/plan/cost/activations.h"

#include "libtrain/base/index.h"
#include "libtrain/base/memo.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

namespace trainyard::plan {

std::int64_t stream_bytes(const ModelConfig& m, const MicroShape& s) {
  return base::aligned(s.own_rows() * m.hidden * s.element_bytes());
}

std::int64_t hidden_bytes(const ModelConfig& m, const Items& chunk, const MicroShape& s, Pass pass) {
  if (!has_encoder(m)) return stream_bytes(m, s);
  const auto held = held_streams(m, chunk);
  const auto elements = s.own_source_rows() * m.hidden;
  const auto source = base::aligned(elements * s.element_bytes());
  return (held.source ? source : 0) + (held.target ? stream_bytes(m, s) : 0) + (held.memory ? source : 0) +
         (held.memory && pass == Pass::train ? base::aligned(elements * base::size_of(s.accumulation())) : 0);
}

namespace {

StackBytes on_stack(const BlockKind& kind, const ModelConfig& m, const MicroShape& s, Recompute recompute) {
  if (recompute == Recompute::selective) return kind.selective_bytes(m, s);
  const auto bytes = kind.saved_bytes(m, s);
  if (recompute == Recompute::layers) return {stream_bytes(m, s), stream_bytes(m, s) + bytes, bytes};
  return {bytes, bytes, 0};
}

// What the blocks so far save. A block runs above what the blocks before it keep.
class Stack {
 public:
  explicit Stack(std::int64_t elsewhere) : elsewhere_(elsewhere) {}
  void add(Part part, std::int64_t times, const StackBytes& bytes) {
    const auto there = part == Part::layers ? std::min(elsewhere_, times) : 0, here = times - there;
    elsewhere_ -= there;
    if (there > 0) all_.most = std::max(all_.most, all_.kept + bytes.most - bytes.kept);
    if (here > 0) all_.most = std::max(all_.most, all_.kept + (here - 1) * bytes.kept + bytes.most);
    all_.kept += here * bytes.kept;
    all_.passing = std::max(all_.passing, bytes.passing);
  }
  const StackBytes& all() const { return all_; }

 private:
  std::int64_t elsewhere_;  // inputs of the first layers that are not on the stack
  StackBytes all_{0, 0, 0};
};

}  // namespace

StackBytes saved_bytes(const ModelPart& part, const MicroShape& shape, const Recomputation& recompute,
                       std::int64_t elsewhere) {
  const auto s = part.own_shape(shape);
  Stack stack(elsewhere);
  for (const auto& segment : segments(part, recompute))
    if (segment.times > 0)
      stack.add(segment.part, segment.times,
                on_stack(*segment.kind, segment.model, segment.shape(s), segment.recompute));
  return stack.all();
}

std::int64_t activation_bytes(const ModelPart& part, const MicroShape& shape, Pass pass,
                              const Recomputation& recompute) {
  const auto s = part.own_shape(shape);
  const auto& m = part.model;
  std::int64_t hidden = 0;
  for (const auto& chunk : part.chunks) hidden = std::max(hidden, hidden_bytes(m, chunk, s, pass));
  if (pass == Pass::train) return hidden + saved_bytes(part, s, recompute).most;
  std::int64_t most = 0;
  for (const auto& segment : segments(part))
    most = std::max(most, segment.kind->evaluation_bytes(segment.model, segment.shape(s)));
  return hidden + most;
}

std::int64_t SlotBytes::total(const std::vector<int>& slots) const {
  std::int64_t bytes = passing;
  for (std::size_t c = 0; c < slots.size(); ++c) bytes += slots[c] * of_chunk[c];
  return bytes;
}

namespace {

StackBytes evaluated(const BlockKind& kind, const ModelConfig& m, const MicroShape& s, Recompute recompute) {
  if (recompute == Recompute::selective) return kind.selective_evaluation_bytes(m, s);
  const auto bytes = kind.evaluation_bytes(m, s);
  if (recompute == Recompute::layers) return {0, bytes, bytes};
  return {bytes, bytes, 0};
}

// Bytes of one block.
struct BlockBytes {
  std::array<StackBytes, recomputations.size()> saved = {}, evaluated = {};  // as SlotCounter::Blocks
  std::int64_t training_workspace = 0, evaluation_workspace = 0;
};

BlockBytes bytes_of_block(const Segment& segment, const MicroShape& s) {
  BlockBytes out;
  const auto& kind = *segment.kind;
  const auto& m = segment.model;
  for (const auto form : recomputations) {
    if (form != Recompute::none && segment.part != Part::layers) continue;
    const auto i = static_cast<std::size_t>(form);
    out.saved.at(i) = on_stack(kind, m, s, form);
    out.evaluated.at(i) = evaluated(kind, m, s, form);
  }
  out.evaluation_workspace = kind.forward_workspace_bytes(m, s, Pass::evaluate);
  out.training_workspace =
      std::max(kind.forward_workspace_bytes(m, s, Pass::train), kind.backward_workspace_bytes(m, s));
  return out;
}

// The thread keeps the last ones, because layouts with the same blocks are many.
std::shared_ptr<const BlockBytes> known_bytes(const Segment& segment, const MicroShape& s) {
  constexpr std::size_t most = 1 << 13;
  using Key = std::tuple<std::shared_ptr<const ModelConfig>, const BlockKind*, MicroShape>;
  thread_local base::Memo<Key, std::shared_ptr<const BlockBytes>> known(most);
  Key key{segment.owner, segment.kind, s};
  if (auto before = known.find(key)) return *std::move(before);
  return known.keep(std::move(key), std::make_shared<const BlockBytes>(bytes_of_block(segment, s)));
}

}  // namespace

SlotCounter::SlotCounter(const ModelPart& part, const MicroShape& shape)
    : layers_(layer_count(part)), chunks_(part.chunks.size()) {
  const auto s = part.own_shape(shape);
  for (const auto& chunk : part.chunks) hidden_.push_back(hidden_bytes(part.model, chunk, s, Pass::train));
  for (const auto& segment : segments(part)) {
    if (segment.times == 0) continue;
    const auto bytes = known_bytes(segment, segment.shape(s));
    base::at(chunks_, segment.chunk).emplace_back(Blocks{segment.part, segment.times, bytes->saved, bytes->evaluated});
  }
}

// Validation passes use the slots, too. They may need more, if an evaluation's capacity gives experts more places.
SlotBytes SlotCounter::with(const Recomputation& recompute, const std::vector<int>& slots,
                            const std::vector<std::int64_t>& elsewhere) const {
  const bool several = std::accumulate(slots.begin(), slots.end(), 0) > 1;
  SlotBytes out;
  std::int64_t before = 0;  // layers of the blocks so far
  for (const auto& chunk : chunks_) {
    Stack stack(elsewhere.empty() ? 0 : elsewhere[out.of_chunk.size()]);
    StackBytes evaluation{0, 0, 0};
    const auto add = [&](const Blocks& blocks, Recompute form, std::int64_t times) {
      const auto i = static_cast<std::size_t>(form);
      stack.add(blocks.part, times, blocks.saved.at(i));
      const auto& bytes = blocks.evaluated.at(i);
      evaluation.kept = std::max(evaluation.kept, several ? bytes.kept : bytes.most);
      evaluation.passing = std::max(evaluation.passing, bytes.passing);
    };
    for (const auto& blocks : chunk) {
      if (blocks.part != Part::layers) {
        add(blocks, Recompute::none, blocks.times);
        continue;
      }
      for (const auto& run : recompute.runs(before, blocks.times, layers_)) add(blocks, run.form, run.layers);
      before += blocks.times;
    }
    const auto& saved = stack.all();
    out.of_chunk.push_back(hidden_[out.of_chunk.size()] + std::max(several ? saved.kept : saved.most, evaluation.kept));
    if (several) out.passing = std::max({out.passing, saved.passing, evaluation.passing});
  }
  return out;
}

SlotBytes slot_bytes(const ModelPart& part, const MicroShape& shape, const Recomputation& recompute,
                     const std::vector<int>& slots, const std::vector<std::int64_t>& elsewhere) {
  return SlotCounter(part, shape).with(recompute, slots, elsewhere);
}

namespace {

std::int64_t largest_workspace(const ModelPart& part, const MicroShape& shape, Pass pass) {
  const auto s = part.own_shape(shape);
  std::int64_t most = 0;
  for (const auto& segment : segments(part)) {
    const auto bytes = known_bytes(segment, segment.shape(s));
    most = std::max(most, pass == Pass::train ? bytes->training_workspace : bytes->evaluation_workspace);
  }
  return most;
}

}  // namespace

std::int64_t workspace_bytes(const ModelPart& part, const MicroShape& s, Pass pass) {
  const auto evaluation = largest_workspace(part, s, Pass::evaluate);
  return attention_list_bytes(part, s.sequence) +
         (pass == Pass::train ? std::max(evaluation, largest_workspace(part, s, pass)) : evaluation);
}

std::int64_t tensor_staging_elements(const ModelConfig& m, const MicroShape& s) {
  return s.tensor > 1 ? Widths(m, s.tensor).partials * std::max(s.rows(), s.source_rows()) * m.hidden : 0;
}

std::int64_t tensor_staging_bytes(const ModelConfig& m, const MicroShape& s) {
  return base::aligned(tensor_staging_elements(m, s) * base::size_of(s.accumulation()));
}

}  // namespace trainyard::plan
