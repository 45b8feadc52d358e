// Evaluator: computes the losses of micro-batches with the weights of a checkpoint, on the pipeline stage of a rank.
// Its arenas have the sizes of plan::evaluation_memory.
#pragma once

#include "libtrain/checkpoint/read_sums.h"
#include "libtrain/engine/checkpoint_weights.h"
#include "libtrain/engine/gate_metrics.h"
#include "libtrain/engine/rank_runtime.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/params/weight_store.h"
#include "libtrain/plan/streamed_reads.h"
#include "libtrain/tensor/device_buffer.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace trainyard::engine {

// What all ranks together read of a checkpoint for streamed weights.
struct StreamedWeights {
  // Bytes of weights, as stored: predicted and read so far; and what one accumulation step reads, the first and others.
  std::int64_t predicted = 0, read = 0, first_step = 0, later_step = 0;
  std::int64_t block_bytes = 0;  // what was taken from files for them: whole blocks, each with its checksum
  double wait_seconds = 0;       // that the computation of a rank waited for them; the longest of all ranks
};

class Evaluator {
 public:
  // Uses only seed and device of `settings`. Plan, world and batches must fit together as for a Trainer, and world and
  // batches must outlive the evaluator. Call load() before evaluate().
  Evaluator(const plan::Plan& plan, const StepSettings& settings, World& world, Batches& batches,
            plan::Residence weights = plan::Residence::kept);
  ~Evaluator();

  // Loads the checkpoint's weights (/model) in the working dtype. Each rank reads its own shards and checks them while
  // reading. If any rank finds damage, all ranks throw InputError. Streamed weights are read by evaluate(), which may
  // throw such an error on one rank alone. Collective.
  void load(const std::string& checkpoint);
  // Computes losses[i], the loss of micro-batch micros[i]; only sequences [0, sequences) count. With several pipeline
  // stages only the last stage finds losses. Calls passed(i) once this rank is done with micros[i]. Collective.
  void evaluate(std::span<const std::int64_t> micros, std::span<MicroLoss> losses, std::int64_t sequences,
                const std::function<void(std::size_t place)>& passed);
  StreamedWeights streamed() const;  // until now; collective
  // The records of all gates until now, summed over all ranks (gate_record_shape). Each micro-batch counts once, with
  // the sequences that only fill it up. Collective.
  std::vector<std::int64_t> gate_records();
  bool finds_losses() const { return r_.stage + 1 == r_.plan.pipeline; }

  // For example "stage 1, forward of micro-batch 3". From any thread.
  std::string doing() const { return r_.now.text(r_.stage, r_.plan.pipeline, "gathering losses"); }

  tensor::Exec& communication() { return r_.communication; }
  const RankMemory& memory() const { return r_.memory; }

 private:
  void make_chunks();
  void read_shards(checkpoint::Reader& reader, checkpoint::ReadSums& sums);
  plan::LeaseOrder leases_of(std::int64_t micros) const;
  void announce(std::int64_t micros);
  void check_sums();
  base::View own_records();                   // empty where another tensor-parallel rank records
  base::View records_of(std::int64_t micro);  // empty for a micro-batch of another rank

  StepSettings settings_;
  RankRuntime r_;
  std::unique_ptr<CheckpointWeights> source_;  // of streamed weights, else null
  std::optional<plan::StreamedReads> predicted_;
  std::int64_t first_step_ = 0, later_step_ = 0;  // bytes that are predicted of one micro-batch
  bool checked_ = false;                          // that what the first evaluate() read is what was saved
  params::WeightStore store_;
  GateRecordShape gates_;
  std::vector<std::int64_t> records_;  // memory on a CPU
  tensor::DeviceBuffer device_records_;
};

}  // namespace trainyard::engine
