// The schedules of the literature.
#include "libtrain/plan/schedule/pipeline.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/memo.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trainyard::plan {

namespace {

// The passes of one kind, in order. Groups of micro-batches pass through one chunk after the other. With several chunks
// a group has as many micro-batches as there are stages, else all.
std::vector<StageWork> in_groups(StageWork::Kind kind, std::int64_t micros, int stages, int chunks) {
  std::vector<StageWork> out;
  const auto group = chunks == 1 ? micros : stages;
  for (std::int64_t first = 0; first < micros; first += group)
    for (int c = 0; c < chunks; ++c)
      for (auto m = first; m < first + group; ++m)
        out.push_back({kind, m, kind == StageWork::Kind::forward ? c : chunks - 1 - c});
  return out;
}

std::vector<StageWork> by_turns(std::int64_t micros, int stages, int chunks, std::int64_t warm_up) {
  const auto forward = in_groups(StageWork::Kind::forward, micros, stages, chunks),
             backward = in_groups(StageWork::Kind::backward, micros, stages, chunks);
  std::vector<StageWork> out(forward.begin(), forward.begin() + warm_up);
  for (auto f = base::size(warm_up), b = std::size_t{0}; b < backward.size(); ++b) {
    if (f < forward.size()) out.push_back(forward[f++]);
    out.push_back(backward[b]);
  }
  return out;
}

// Stage s delays the weight gradients of a micro-batch by s backward passes. Its warm-up is s micro-batches shorter
// than the first stage's, so it keeps equally many. Where it would wait for the last gradients, it has work left.
std::vector<StageWork> zero_bubble(std::int64_t micros, int stages, int stage) {
  std::vector<StageWork> out;
  std::int64_t forward = 0, inputs = 0, weights = 0;
  for (; forward < std::min<std::int64_t>(stages - stage - 1, micros); ++forward)
    out.push_back({StageWork::Kind::forward, forward});
  while (inputs < micros) {
    if (forward < micros) out.push_back({StageWork::Kind::forward, forward++});
    out.push_back({StageWork::Kind::input_gradients, inputs++});
    if (inputs - weights > stage) out.push_back({StageWork::Kind::weight_gradients, weights++});
  }
  while (weights < micros) out.push_back({StageWork::Kind::weight_gradients, weights++});
  return out;
}

}  // namespace

std::vector<StageWork> stage_work(PipelineSchedule schedule, std::int64_t micros, int stages, int chunks, int stage) {
  TRAINYARD_ASSERT(micros >= 0 && stages >= 1 && stage >= 0 && stage < stages && chunks >= 1 &&
                       (chunks == 1 || schedule == PipelineSchedule::interleaved),
                   "stage {} of {}, {} chunks, {} micro-batches", stage, stages, chunks, micros);
  const auto all = micros * chunks;
  switch (schedule) {
    case PipelineSchedule::naive: return by_turns(micros, stages, 1, 0);
    case PipelineSchedule::gpipe: return by_turns(micros, stages, 1, all);
    case PipelineSchedule::one_f_one_b:
      return by_turns(micros, stages, 1, std::min<std::int64_t>(stages - stage - 1, all));
    case PipelineSchedule::interleaved: {
      // Makes the order for full groups, then leaves out the micro-batches that do not exist. An order without deadlock
      // keeps that property when entries are left out; a small last group by itself may deadlock.
      const auto whole = (micros + stages - 1) / stages * stages;
      const auto warm_up = chunks == 1 ? stages - stage - 1 : 2 * (stages - stage - 1) + (chunks - 1) * stages;
      auto out = by_turns(whole, stages, chunks, std::min<std::int64_t>(warm_up, whole * chunks));
      std::erase_if(out, [&](const StageWork& w) { return w.micro >= micros; });
      return out;
    }
    case PipelineSchedule::zero_bubble: return zero_bubble(micros, stages, stage);
  }
  return {};
}

std::vector<StageWork> breadth_first_work(std::int64_t micros, std::int64_t blocks) {
  TRAINYARD_ASSERT(micros >= 0 && blocks >= 1, "{} micro-batches, {} blocks", micros, blocks);
  std::vector<StageWork> out;
  for (std::int64_t b = 0; b < blocks; ++b)
    for (std::int64_t m = 0; m < micros; ++m) out.push_back({StageWork::Kind::forward, m, 0, b});
  for (auto b = blocks; b-- > 0;)
    for (std::int64_t m = 0; m < micros; ++m) out.push_back({StageWork::Kind::backward, m, 0, b});
  return out;
}

std::vector<int> most_in_flight(PipelineSchedule schedule, std::int64_t micros, int stages, int chunks, int stage) {
  if (chunks == 1 && schedule == PipelineSchedule::gpipe) return {static_cast<int>(micros)};
  // The number in flight saturates: a list of so many micro-batches reaches the same maximum as any longer list.
  const auto listed = std::min(micros, std::int64_t{4} * stages);
  constexpr std::size_t most_known = 1 << 12;
  using Key = std::tuple<PipelineSchedule, std::int64_t, int, int, int>;
  thread_local base::Memo<Key, std::vector<int>> known(most_known);
  const Key key{schedule, listed, stages, chunks, stage};
  if (auto before = known.find(key)) return *std::move(before);
  std::vector<int> now(base::size(chunks), 0), most = now;
  for (const auto& w : stage_work(schedule, listed, stages, chunks, stage)) {
    const auto c = base::size(w.chunk);
    if (w.kind == StageWork::Kind::forward) most[c] = std::max(most[c], ++now[c]);
    else if (w.kind != StageWork::Kind::input_gradients) --now[c];
  }
  return known.keep(key, std::move(most));
}

}  // namespace trainyard::plan
