// Records of all ranks: gathered and evaluated.
#include "libtrain/engine/rank_record.h"

#include "libtrain/base/index.h"
#include "libtrain/engine/agreement.h"

#include <algorithm>

namespace trainyard::engine {

namespace {

constexpr std::int64_t record_width = sizeof(RankRecord) / sizeof(double);

}  // namespace

std::vector<RankRecord> records_of_all(const RankRecord& mine, World& world, tensor::Exec& communication) {
  auto sent = mine;
  std::vector<RankRecord> all(base::size(world.size));
  world.control->all_gather(communication, base::View::of(reinterpret_cast<double*>(&sent), {record_width}),
                            base::View::of(reinterpret_cast<double*>(all.data()), {record_width * world.size}));
  host_call_over(communication).wait();
  return all;
}

bool any_stops(const std::vector<RankRecord>& all) {
  return std::any_of(all.begin(), all.end(), [](const RankRecord& r) { return r.stop != 0; });
}

bool any_failed(const std::vector<RankRecord>& all) {
  return std::any_of(all.begin(), all.end(), [](const RankRecord& r) { return r.failed != 0; });
}

bool all_wrote(const std::vector<RankRecord>& all, std::int64_t step) {
  return std::all_of(all.begin(), all.end(),
                     [step](const RankRecord& r) { return r.written_step == static_cast<double>(step); });
}

void add_slowest(const std::vector<RankRecord>& all, StepMetrics& m) {
  double slowest = -1;
  for (const auto& r : all) {
    m.peak_bytes = std::max(m.peak_bytes, static_cast<std::int64_t>(r.peak_bytes));
    m.expert_rounds = std::max(m.expert_rounds, static_cast<std::int64_t>(r.expert_rounds));
    if (r.disk_wait >= 0) m.disk_wait_seconds = std::max(m.disk_wait_seconds.value_or(0), r.disk_wait);
    if (r.compute <= slowest) continue;
    slowest = r.compute;
    m.compute_seconds = r.compute;
    m.communication_seconds = r.communication;
    m.hidden_communication_seconds = std::max(0.0, r.communication - r.exposed);
  }
}

}  // namespace trainyard::engine
