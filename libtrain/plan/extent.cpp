// Generous sums of everything that a rank holds and sends.
#include "libtrain/plan/extent.h"

#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

// What experts add: `parameters` to the elements of all layers together; `widths` for each row of a micro-batch, and
// `once`, to the elements of a layer or of its largest scratch; `exchanges` to what expert-parallel ranks send for a
// row of a layer.
struct ExpertExtent {
  double parameters = 0, widths = 0, once = 0, exchanges = 0;
};

ExpertExtent expert_extent(const Plan& p) {
  const auto& m = p.model;
  const bool shared = p.expert_parallel > 1 || p.tensor > 1;
  if (!has_experts(m)) return {};
  const auto& e = m.experts;
  const double hidden = number(m.hidden), width = number(expert_width(m)), layers = number(expert_layers(m)),
               beside = number(e.shared) * width;
  double all = 0, most = 0;
  for (const auto count : e.count) all += number(count), most = std::max(most, number(count));
  if (e.count.size() == 1) all *= layers;
  // Each of an expert's six tensors starts at 64 bytes. The flat group of a layer's experts is padded like any other.
  const double expert = 3 * hidden * width + 16 * (hidden + width) + 128;
  // Whatever the capacity, experts have at most the chosen rows. In slots of one size, each expert has at most all
  // tokens. In dispatch rounds, each rank has a buffer or all tokens.
  const auto buffer =
      number(p.expert_parallel) * (1 + number(p.expert_capacity_buffer) / number(p.micro_batch * p.sequence));
  const auto chosen = shared ? most + number(e.top_k) + 2 * buffer : number(e.top_k);
  return {all * (expert + hidden + 1) + layers * (3 * hidden * beside + 16 * (hidden + beside) + 256),
          chosen * (4 * hidden + 4 * width + 8) + 2 * most + 8 * beside + 16 * hidden, most * (hidden + 64),
          shared ? 64 * chosen * (hidden + 1) : 0};
}

}  // namespace

Extent extent(const Plan& p) {
  const auto& m = p.model;
  const auto experts = expert_extent(p);
  const double layers = number(m.layers), hidden = number(m.hidden), ffn = number(m.ffn),
               vocabulary = number(m.vocabulary) + 128, context = number(m.context + m.position_offset);
  // Rows of attention may be wider than hidden states. With norms, queries and keys are there twice.
  const double wide = std::max(hidden, number(m.query_width()));
  const double ranks = number(p.topology.world()),
               rows = number(p.micro_batch) * (number(std::max(p.sequence, p.source_sequence)) + 128),
               micros = number(p.global_batch) / number(p.micro_batch) + 1;
  // Elements, with the padding of each flat group to shards and of each of its tensors.
  const double parameters = hidden * hidden +
                            layers * (4 * hidden * wide + 3 * hidden * ffn + 16 * (wide + ffn) + 1024) +
                            (2 * vocabulary + context + number(m.segments)) * hidden +
                            (2 * layers + 6) * 64 * (ranks + 64) + experts.parameters;
  // two gradients, parameters, slots, moments, snapshot, staging: below 48 bytes an element
  const double states = 64 * parameters;
  // elements for each row: of what a layer saves, and of its largest scratch
  const double widths = 24 * wide + 8 * ffn + 64 + experts.widths;
  // A pipeline stage may have nearly all layers.
  const double chunks = number(p.virtual_stages);
  double in_flight = chunks;
  if (p.pipeline_schedule == PipelineSchedule::gpipe || p.breadth_first(p.batch()))
    in_flight = number(p.batch().places());
  else if (p.pipeline > 1) in_flight = (chunks + 1) * number(p.pipeline) + chunks;
  const double activations = in_flight * (8 * (rows * widths + experts.once) + 64 * 64) * (layers + 8);
  const double team = number(p.threads) * 8 *
                      (16 * (number(p.sequence) + 256) * (wide + 64) + (1 << 20));  // of attention, for each thread
  const double head = 4096 * 16 * vocabulary + 16 * rows * hidden + 16 * 4096 * 4096, tables = 16 * rows * (wide + 16);
  // Micro-batches of the busiest rank. Each has at most three gathers and a reduction. Tensor-parallel ranks exchange
  // some rows of hidden states for each branch, in forward and backward, and a few numbers of each rank for each row.
  const double micros_of_one =
                   micros * number(p.tensor) * number(p.pipeline) / ranks + number(p.local_accumulation) + 1,
               exchanges = p.tensor > 1 ? 256 * rows * (wide + 16 * number(p.tensor) + 64) * (layers + 4) : 0,
               messages = p.pipeline > 1 ? 32 * number(p.virtual_stages) * rows * hidden : 0;
  return {states + activations + team + head + tables + 0x1p40,
          micros_of_one * (16 * parameters + exchanges + messages + rows * experts.exchanges * layers)};
}

}  // namespace trainyard::plan
