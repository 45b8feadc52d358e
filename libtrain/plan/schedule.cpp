// The one-stage program.
#include "libtrain/plan/schedule.h"

#include "libtrain/base/error.h"

namespace trainyard::plan {

const char* name_of(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::ask: return "ask";
    case Action::Kind::agree: return "agree";
    case Action::Kind::load: return "load";
    case Action::Kind::forward: return "forward";
    case Action::Kind::backward: return "backward";
    case Action::Kind::reduce: return "reduce";
    case Action::Kind::idle: return "idle";
    case Action::Kind::update: return "update";
  }
  return "";
}

std::vector<Action> actions(const Plan& p, int rank) {
  TRAINYARD_ASSERT(p.schedule == "one-stage", "schedule '{}'", p.schedule);
  return one_stage(p.batch(), p.topology.coordinate(rank, Axis::data));
}

std::vector<Action> one_stage(const BatchPlan& batch, int data_rank) {
  std::vector<Action> out;
  out.push_back({Action::Kind::ask, 0, -1, -1});
  for (std::int64_t round = 0; round < batch.rounds(); ++round) {
    out.push_back({Action::Kind::agree, round, -1, -1});
    const auto group = batch.fold_group_of(data_rank, round);
    if (group < 0) {
      out.push_back({Action::Kind::idle, round, -1, -1});
      continue;
    }
    for (auto m = batch.first_micro(group); m < batch.end_micro(group); ++m) {
      out.push_back({Action::Kind::load, round, group, m});
      out.push_back({Action::Kind::forward, round, group, m});
      if (m + 1 == batch.end_micro(group) && round + 1 < batch.rounds())
        out.push_back({Action::Kind::ask, round + 1, -1, -1});
      out.push_back({Action::Kind::backward, round, group, m});
    }
  }
  out.push_back({Action::Kind::reduce, -1, -1, -1});
  out.push_back({Action::Kind::update, -1, -1, -1});
  return out;
}

}  // namespace trainyard::plan
