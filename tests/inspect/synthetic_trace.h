// A trace of a made-up step: the lists of a pipeline, with the times from their simulation.
#pragma once

#include "libtrain/base/trace_kinds.h"
#include "libtrain/engine/trace_file.h"
#include "libtrain/plan/schedule/simulate.h"

#include <string>
#include <vector>

namespace trainyard::testing {

struct Synthetic {
  plan::PipelineSchedule schedule = plan::PipelineSchedule::gpipe;
  int stages = 2, chunks = 1, micros = 3;
  std::int64_t steps = 1;
  double forward = 1e-3, input_gradients = 1e-3, weight_gradients = 1e-3;
  std::int64_t blocks = 0;  // of each stage, breadth first
};

inline plan::Simulated simulated(const Synthetic& s, const std::vector<std::vector<plan::Action>>& lists) {
  const std::vector<plan::PartCosts> costs(static_cast<std::size_t>(s.stages * s.chunks),
                                           {s.forward, s.input_gradients, s.weight_gradients, 0});
  return plan::simulate(lists, s.chunks, costs, 0, s.micros);
}

inline std::vector<std::vector<plan::Action>> lists_of(const Synthetic& s) {
  std::vector<std::vector<plan::Action>> lists;
  for (int stage = 0; stage < s.stages; ++stage)
    lists.push_back(plan::step_actions({s.micros, 1, 1, 1}, 0, {s.schedule, s.stages, s.chunks, s.blocks}, stage));
  return lists;
}

inline std::string trace_of(const Synthetic& s) {
  const auto lists = lists_of(s);
  const auto times = simulated(s, lists);
  auto of_ranks = nlohmann::ordered_json::array();
  for (int r = 0; r < s.stages; ++r) of_ranks.push_back({{"host", "n1"}, {"spans", 1}, {"left_out", 0}});
  auto out = engine::trace_head({{"model", "none"},
                                 {"device", "cpu"},
                                 {"schedule", "synthetic"},
                                 {"chunks", s.chunks},
                                 {"ranks", s.stages},
                                 {"stages", s.stages},
                                 {"data", 1},
                                 {"tensor", 1},
                                 {"micro_batches", s.micros},
                                 {"of_ranks", of_ranks}});
  const plan::Topology topology({{plan::Axis::pipe, s.stages}});
  for (int r = 0; r < s.stages; ++r) {
    const auto stage = static_cast<std::size_t>(r);
    std::vector<base::TraceSpan> spans;
    for (std::int64_t step = 1; step <= s.steps; ++step) {
      double now = static_cast<double>(step - 1) * (times.seconds + 1e-3);
      const double begin = now;
      std::size_t next = 0;
      const auto& work = times.stages[stage].work;
      for (const auto& a : lists[stage]) {
        double end = now;
        if (next < work.size() && work[next].kind == a.kind && work[next].micro == a.micro && a.slot >= 0) {
          now = begin + work[next].begin, end = begin + work[next].end;
          ++next;
        }
        spans.push_back({&base::traced::action,
                         plan::name_of(a.kind),
                         nullptr,
                         now,
                         end,
                         {step, a.round, a.place, a.micro, a.chunk, a.slot, a.block < 0 ? base::not_traced : a.block}});
        now = end;
      }
    }
    out += r > 0 ? ",\n" : "";
    out += engine::trace_events({{"compute", spans, 0}}, r, engine::rank_name(topology, r), {}, 0);
  }
  return out + engine::trace_tail;
}

}  // namespace trainyard::testing
