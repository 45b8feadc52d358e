// Reports: the plan as text, tables of predicted and measured memory and traffic, and the file that holds them.
#pragma once

#include "libtrain/checkpoint/run_state.h"
#include "libtrain/comm/world.h"
#include "libtrain/engine/memory.h"
#include "libtrain/engine/rank_record.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/size_table.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/plan/blocks/expert_rounds.h"
#include "libtrain/plan/dispatch_rounds.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::engine {

struct Validations {
  std::int64_t count = 0, sequences = 0;  // number of validations, and sequences of each
};

// A table of what this rank sends, by group and operation: announced bytes, measured bytes (since the ledgers were
// reset), difference. Announced are the calls of steps with one dispatch round a pass, of validations, and of the
// further dispatch rounds that were counted.
SizeTable traffic_table(const plan::Plan& plan, const World& world, std::span<const plan::BatchSizes::Steps> steps,
                        const Validations& validations, std::span<const plan::FurtherRounds> rounds = {});

// A table of this rank's memory by category: predicted, measured, and what the process took outside the arenas. With
// pipeline stages the title names the rank. Further rows then have the arenas of each stage, on its rank that used most
// (RankRecord). of_others: resident bytes of this process that are other ranks' memory (tensor/shared_memory.h), taken
// while those ranks lived.
SizeTable memory_report(const RankMemory& memory, const RunSetup& setup, int rank, const std::vector<RankRecord>& all,
                        std::int64_t of_others);

// Writes OUTPUT/report.txt: the tables, and what the run read (reading_text). A file of that name that is no report is
// kept. Any failure is only a warning: the run is done, and its checkpoint is published.
void write_report(const std::string& output, const std::vector<SizeTable>& tables, const std::string& reading);

// A table of what a GPU's rank copied to its host and back in its steps, because of offloaded states.
SizeTable link_table(const plan::Plan& plan, int rank, params::OffloadedStates& measured,
                     std::span<const plan::BatchSizes::Steps> steps);
// A table of what this rank has on disk, and what its steps read from there and wrote to there.
SizeTable disk_table(const plan::Plan& plan, int rank, params::OffloadedStates& measured,
                     std::span<const plan::BatchSizes::Steps> steps);

// One line: ranks, replicas and what they share, ZeRO stage, recomputation, threads, dtype, and how a step is divided.
// A dry run and every start print it.
std::string parallel_layout_text(const plan::Plan& plan);

// The parallel layout that wrote a checkpoint, as the checkpoint's plan records it: "2 x 2 tensor with sequence
// parallelism, ZeRO 1, 4 lanes", or "4 stages (1f1b) x 2 x 4 tensor, ZeRO 1, 4 lanes". Without tensor parallelism and
// stages it is "ZeRO 3, 4 lanes". What the plan does not record is left out.
std::string checkpoint_layout(const checkpoint::RunState& state);

std::string plan_text(const plan::Plan& plan, const std::string& output, base::Sizes sizes);

}  // namespace trainyard::engine
