// Arguments of the dispatch rounds as plain data, and their arithmetic, for CPU and GPU.
#pragma once

#include "kernels/mat.h"

#include <cstdint>

namespace trainyard::kernels {

// Assigns the groups of one destination: `round` and the rows `used` in it so far.
struct RoundWalk {
  std::int64_t room, round = 0, used = 0;
  // Assigns the next group, whole, to the current round, or to the next round if the current one lacks room.
  TRAINYARD_ANYWHERE void take(std::int64_t rows, std::int32_t* place) {
    if (used + rows > room) ++round, used = 0;
    place[0] = static_cast<std::int32_t>(round), place[1] = static_cast<std::int32_t>(used);
    used += rows;
  }
};

struct ExpertRoundsArgs {
  const std::int32_t* groups;
  std::int64_t held, destinations, room;  // held: groups of one destination, which are neighbours
  std::int32_t* places;
  std::int32_t* rounds;  // may be null
};

struct ExpertRoundArgs {
  const std::int32_t *groups, *places, *sources;
  std::int64_t held, destinations, room, from, round, rows;
  std::int32_t *sent, *tokens, *here, *back;
};

// round_has sets what the destination is sent about group g, and returns whether g goes in this round. put_row sets the
// indices of its row i.
TRAINYARD_ANYWHERE inline bool round_has(const ExpertRoundArgs& a, std::int64_t g) {
  const bool has = a.places[2 * g] == a.round;
  a.sent[2 * g] = has ? static_cast<std::int32_t>(a.from * a.room + a.places[2 * g + 1]) : 0;
  a.sent[2 * g + 1] = has ? a.groups[2 * g + 1] : -1;
  return has;
}
TRAINYARD_ANYWHERE inline void put_row(const ExpertRoundArgs& a, std::int64_t g, std::int64_t i) {
  const std::int64_t compact = a.groups[2 * g] + i, row = g / a.held * a.room + a.places[2 * g + 1] + i;
  a.here[row] = static_cast<std::int32_t>(compact);
  a.tokens[row] = a.sources[compact];
  a.back[compact] = static_cast<std::int32_t>(row);
}

}  // namespace trainyard::kernels
