// The windows of a run, held against what it asks for.
#include "libtrain/engine/run_windows.h"

#include "libtrain/base/error.h"

#include <fmt/format.h>

namespace trainyard::engine {

RunWindows::RunWindows(const RunConfig& config, const RunSetup& setup)
    : training(config.data, setup.index, setup.index.train, setup.plan.sequence, setup.mask, data::Order::keyed,
               config.seed) {
  if (config.validate_every > 0)
    validation.emplace(config.data, setup.index, setup.index.validation, setup.plan.sequence, setup.mask,
                       data::Order::as_stored, config.seed);
  if (setup.masking) {
    training.hide(*setup.masking);
    if (validation) validation->hide(*setup.masking);
  }
  if (training.count() == 0)
    throw base::InputError(fmt::format("{} holds no window of {} tokens", config.data, setup.plan.sequence + 1),
                           "give more text, or a shorter --sequence");
  if (validation && validation->count() < static_cast<std::uint64_t>(config.validation_sequences))
    throw base::InputError(fmt::format("the validation split holds {} sequences, --validation-sequences asks for {}",
                                       validation->count(), config.validation_sequences),
                           "lower --validation-sequences, or make shards with a larger --validation");
}

}  // namespace trainyard::engine
