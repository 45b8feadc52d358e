// Checks shapes and types, dispatches, and assigns groups to dispatch rounds on the CPU.
#include "kernels/expert_rounds/expert_rounds.h"

#include "kernels/check.h"
#include "kernels/expert_rounds/expert_rounds_args.h"
#include "kernels/gpu_kernels.h"

#include <algorithm>

namespace trainyard::kernels {

namespace {

void require_integers(const char* operation, std::initializer_list<NamedView> operands) {
  for (const auto& o : operands) require_type(o.view, base::DType::i32, operation, o.name);
}

void require_rounds(base::ConstView groups, base::ConstView places, std::int64_t destinations, std::int64_t room) {
  TRAINYARD_ASSERT(groups.cols() == 2 && groups.dense() && places.count() == groups.count() && places.dense(),
                   "groups of {} numbers, places of {}", groups.count(), places.count());
  TRAINYARD_ASSERT(destinations >= 1 && groups.rows() % destinations == 0 && room >= 1,
                   "{} groups for {} destinations, {} rows each", groups.rows(), destinations, room);
}

void walk_groups(const ExpertRoundsArgs& a) {
  std::int64_t most = 1;
  for (std::int64_t d = 0; d < a.destinations; ++d) {
    RoundWalk walk{a.room};
    for (std::int64_t g = d * a.held; g < (d + 1) * a.held; ++g) walk.take(a.groups[2 * g + 1], a.places + 2 * g);
    most = std::max(most, walk.round + 1);
  }
  if (a.rounds != nullptr) *a.rounds = static_cast<std::int32_t>(most);
}

void fill_round(const ExpertRoundArgs& a) {
  const auto room = a.destinations * a.room;
  std::fill(a.tokens, a.tokens + room, -1);
  std::fill(a.here, a.here + room, -1);
  std::fill(a.back, a.back + a.rows, -1);
  for (std::int64_t g = 0; g < a.held * a.destinations; ++g)
    if (round_has(a, g))
      for (std::int64_t i = 0; i < a.groups[2 * g + 1]; ++i) put_row(a, g, i);
}

}  // namespace

void expert_rounds(tensor::Exec& exec, base::ConstView groups, std::int64_t destinations, std::int64_t room,
                   base::View places, base::View rounds) {
  require_integers("expert_rounds", {{"groups", groups}, {"places", places}, {"rounds", rounds}});
  require_rounds(groups, places, destinations, room);
  const ExpertRoundsArgs args{.groups = groups.ptr<std::int32_t>(),
                              .held = groups.rows() / destinations,
                              .destinations = destinations,
                              .room = room,
                              .places = places.ptr<std::int32_t>(),
                              .rounds = rounds ? rounds.ptr<std::int32_t>() : nullptr};
  exec.run([&exec, args] {
    if (exec.on_gpu())
      return tensor::require_gpu(gpu_kernels().expert_rounds(args, exec.stream()), "expert_rounds on the GPU");
    walk_groups(args);
  });
}

void expert_round(tensor::Exec& exec, const ExpertRound& of, base::ConstView groups, base::ConstView places,
                  base::ConstView sources, const RoundRows& rows) {
  require_integers("expert_round", {{"groups", groups},
                                    {"places", places},
                                    {"sources", sources},
                                    {"rows.sent", rows.sent},
                                    {"rows.tokens", rows.tokens},
                                    {"rows.here", rows.here},
                                    {"rows.back", rows.back}});
  require_rounds(groups, places, of.destinations, of.room);
  const auto room = of.destinations * of.room;
  TRAINYARD_ASSERT(rows.sent.count() == groups.count() && rows.tokens.count() == room && rows.here.count() == room &&
                       rows.back.count() == sources.count(),
                   "{}, {}, {} and {} numbers for {} groups, {} rows of a buffer and {} of a gate", rows.sent.count(),
                   rows.tokens.count(), rows.here.count(), rows.back.count(), groups.rows(), room, sources.count());
  const ExpertRoundArgs args{.groups = groups.ptr<std::int32_t>(),
                             .places = places.ptr<std::int32_t>(),
                             .sources = sources.ptr<std::int32_t>(),
                             .held = groups.rows() / of.destinations,
                             .destinations = of.destinations,
                             .room = of.room,
                             .from = of.from,
                             .round = of.round,
                             .rows = sources.count(),
                             .sent = rows.sent.ptr<std::int32_t>(),
                             .tokens = rows.tokens.ptr<std::int32_t>(),
                             .here = rows.here.ptr<std::int32_t>(),
                             .back = rows.back.ptr<std::int32_t>()};
  exec.run([&exec, args] {
    if (exec.on_gpu())
      return tensor::require_gpu(gpu_kernels().expert_round(args, exec.stream()), "expert_round on the GPU");
    fill_round(args);
  });
}

}  // namespace trainyard::kernels
