// Sums and maxima over the segments of a part.
#include "libtrain/plan/cost/activations.h"

#include "libtrain/base/index.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>
#include <numeric>

namespace trainyard::plan {

std::int64_t stream_bytes(const ModelConfig& m, const MicroShape& s) {
  return base::aligned(s.own_rows() * m.hidden * s.element_bytes());
}

namespace {

StackBytes on_stack(const Segment& segment, const MicroShape& s) {
  const auto& m = segment.model;
  if (segment.recompute == Recompute::selective) return segment.kind->selective_bytes(m, s);
  const auto bytes = segment.kind->saved_bytes(m, s);
  if (segment.recompute == Recompute::layers) return {stream_bytes(m, s), stream_bytes(m, s) + bytes, bytes};
  return {bytes, bytes, 0};
}

// A block runs above what the blocks before it keep.
StackBytes saved_by(const std::vector<Segment>& blocks, const MicroShape& s, std::int64_t elsewhere) {
  StackBytes all{0, 0, 0};
  for (const auto& segment : blocks) {
    if (segment.times == 0) continue;
    const auto bytes = on_stack(segment, s);
    const auto there = segment.part == Part::layers ? std::min(elsewhere, segment.times) : 0,
               here = segment.times - there;
    elsewhere -= there;
    if (there > 0) all.most = std::max(all.most, all.kept + bytes.most - bytes.kept);
    if (here > 0) all.most = std::max(all.most, all.kept + (here - 1) * bytes.kept + bytes.most);
    all.kept += here * bytes.kept;
    all.passing = std::max(all.passing, bytes.passing);
  }
  return all;
}

}  // namespace

StackBytes saved_bytes(const ModelPart& part, const MicroShape& shape, const Recomputation& recompute,
                       std::int64_t elsewhere) {
  return saved_by(segments(part, recompute), part.own_shape(shape), elsewhere);
}

std::int64_t activation_bytes(const ModelPart& part, const MicroShape& shape, Pass pass,
                              const Recomputation& recompute) {
  const auto s = part.own_shape(shape);
  const auto& m = part.model;
  if (pass == Pass::train) return stream_bytes(m, s) + saved_bytes(part, s, recompute).most;
  std::int64_t most = 0;
  for (const auto& segment : segments(part)) most = std::max(most, segment.kind->evaluation_bytes(segment.model, s));
  return stream_bytes(m, s) + most;
}

std::int64_t SlotBytes::total(const std::vector<int>& slots) const {
  std::int64_t bytes = passing;
  for (std::size_t c = 0; c < slots.size(); ++c) bytes += slots[c] * of_chunk[c];
  return bytes;
}

namespace {

// What an evaluation of one block has in its chunk's slot (kept), and in the shared place of what is not kept
// (passing).
StackBytes evaluated(const Segment& segment, const MicroShape& s) {
  const auto bytes = segment.kind->evaluation_bytes(segment.model, s);
  if (segment.recompute == Recompute::none) return {bytes, bytes, 0};
  if (segment.recompute == Recompute::layers) return {0, bytes, bytes};
  return segment.kind->selective_evaluation_bytes(segment.model, s);
}

}  // namespace

// Validation passes use the slots, too. They may need more, if an evaluation's capacity gives experts more places.
SlotBytes slot_bytes(const ModelPart& part, const MicroShape& shape, const Recomputation& recompute,
                     const std::vector<int>& slots, const std::vector<std::int64_t>& elsewhere) {
  const auto s = part.own_shape(shape);
  const bool several = std::accumulate(slots.begin(), slots.end(), 0) > 1;
  SlotBytes out;
  std::vector<std::vector<Segment>> chunks(part.chunks.size());
  for (auto& segment : segments(part, recompute)) base::at(chunks, segment.chunk).push_back(std::move(segment));
  for (const auto& blocks : chunks) {
    const auto saved = saved_by(blocks, s, elsewhere.empty() ? 0 : elsewhere[out.of_chunk.size()]);
    auto kept = several ? saved.kept : saved.most, passing = several ? saved.passing : 0;
    for (const auto& segment : blocks) {
      const auto bytes = evaluated(segment, s);
      kept = std::max(kept, several ? bytes.kept : bytes.most);
      if (several) passing = std::max(passing, bytes.passing);
    }
    out.of_chunk.push_back(stream_bytes(part.model, s) + kept);
    out.passing = std::max(out.passing, passing);
  }
  return out;
}

namespace {

std::int64_t largest_workspace(const ModelPart& part, const MicroShape& shape, Pass pass) {
  const auto s = part.own_shape(shape);
  std::int64_t most = 0;
  for (const auto& segment : segments(part)) {
    most = std::max(most, segment.kind->forward_workspace_bytes(segment.model, s, pass));
    if (pass == Pass::train) most = std::max(most, segment.kind->backward_workspace_bytes(segment.model, s));
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
  return s.tensor > 1 ? Widths(m, s.tensor).partials * s.rows() * m.hidden : 0;
}

std::int64_t tensor_staging_bytes(const ModelConfig& m, const MicroShape& s) {
  return base::aligned(tensor_staging_elements(m, s) * base::size_of(s.accumulation()));
}

}  // namespace trainyard::plan
