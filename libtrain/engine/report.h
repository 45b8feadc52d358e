// Reports: the plan as text, memory and traffic announced against measured, and the file that holds them.
#pragma once

#include "libtrain/checkpoint/run_state.h"
#include "libtrain/comm/world.h"
#include "libtrain/engine/memory.h"
#include "libtrain/engine/rank_record.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/size_table.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/plan/expert_rounds.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::engine {

struct Validations {
  std::int64_t count = 0, sequences = 0;  // how many, and sequences of each
};

// A table of what this rank sends: group and operation, announced, measured (since the ledgers were reset), difference.
// Announced are a step's calls with one round of experts a pass, and those of the further rounds that were counted.
SizeTable traffic_table(const plan::Plan& plan, const World& world, std::int64_t steps, const Validations& validations,
                        std::span<const plan::FurtherRounds> rounds = {});

// A table of the categories of this rank: predicted, measured, and what the process took beside them; where there are
// stages it says of which rank it is, and has the arenas of each stage, of its rank that used most (RankRecord).
// of_others: bytes of other ranks' memory in what this process has (tensor/shared_memory.h), while they were there.
SizeTable memory_report(const RankMemory& memory, const RunSetup& setup, int rank, const std::vector<RankRecord>& all,
                        std::int64_t of_others);

// OUTPUT/report.txt: the tables, and what the run read (reading_text). A file of that name that is not a report is
// kept; whatever goes wrong is a warning: the run is done, and its checkpoint published.
void write_report(const std::string& output, const SizeTable& memory, const SizeTable& traffic,
                  const std::string& reading);

// One line: ranks, replicas and what they share, ZeRO stage, recomputation, threads, dtype, and how a step is divided.
// A dry run says it, and every start.
std::string parallel_layout_text(const plan::Plan& plan);

// Of a checkpoint, what its plan says of the layout that wrote it: "2 x 2 tensor and its rows, ZeRO 1, 4 lanes", "4
// stages (1f1b) x 2 x 4 tensor, ZeRO 1, 4 lanes", or "ZeRO 3, 4 lanes" with neither; what it does not say is left out.
std::string checkpoint_layout(const checkpoint::RunState& state);

std::string plan_text(const plan::Plan& plan, const std::string& output, base::Sizes sizes);

}  // namespace trainyard::engine
