// Generous sums of everything that a rank holds and sends.
#include "libtrain/plan/extent.h"

namespace trainyard::plan {

Extent extent(const Plan& p) {
  const auto& m = p.model;
  const auto number = [](auto n) { return static_cast<double>(n); };
  const double layers = number(m.layers), hidden = number(m.hidden), ffn = number(m.ffn),
               vocabulary = number(m.vocabulary) + 128, context = number(m.context);
  const double ranks = number(p.topology.world()), rows = number(p.micro_batch) * (number(p.sequence) + 128),
               micros = number(p.global_batch) / number(p.micro_batch) + 1;
  // Elements, with what rounding up to pieces adds to each unit and to each of its tensors.
  const double parameters = layers * (4 * hidden * hidden + 3 * hidden * ffn + 16 * (hidden + ffn) + 1024) +
                            (2 * vocabulary + context) * hidden + (layers + 4) * 64 * (ranks + 64);
  const double states =
      64 * parameters;  // two gradients, parameters, slots, moments, snapshot, staging: below 48 bytes an element
  const double widths =
      16 * hidden + 8 * ffn + 64;  // of what a layer saves, and of its largest scratch, a row, in elements
  const double activations = 8 * rows * widths * (layers + 8) + 64 * 32 * (layers + 8);
  const double team = number(p.threads) * 8 *
                      (16 * (number(p.sequence) + 256) * (hidden + 64) + (1 << 20));  // of attention, each thread
  const double head = 4096 * 16 * vocabulary + 16 * 4096 * 4096, tables = 16 * rows * (hidden + 16);
  // Micro-batches of the busiest rank: of each at most three gathers and a reduction, and what tensor ranks exchange:
  // some rows of the stream for each branch, there and back, and a few numbers of each rank for each row.
  const double micros_of_one = micros * number(p.tensor) * number(p.pipeline) / ranks + number(p.fold) + 1,
               exchanges = p.tensor > 1 ? 256 * rows * (hidden + 16 * number(p.tensor) + 64) * (layers + 4) : 0,
               messages = p.pipeline > 1 ? 32 * number(p.virtual_stages) * rows * hidden : 0;
  double in_flight = 1;  // slots of each chunk, which together have no more layers than the model
  if (p.pipeline_schedule == PipelineSchedule::gpipe) in_flight = number(p.batch().places());
  else if (p.pipeline > 1) in_flight = 4 * number(p.pipeline) * number(p.virtual_stages);
  return {states + activations * in_flight + team + head + tables + 0x1p40,
          micros_of_one * (16 * parameters + exchanges + messages)};
}

}  // namespace trainyard::plan
