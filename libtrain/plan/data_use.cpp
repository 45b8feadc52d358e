// Counts windows, and puts counts into words.
#include "libtrain/plan/data_use.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"

#include <fmt/format.h>

namespace trainyard::plan {

namespace {

// Rounds so that only a whole share reads as whole: 99.99 % is not 100 %.
std::string share_text(double share) {
  if (share >= 0.9995 && share < 1) return "99.9 %";
  return fmt::format("{:.3g} %", 100 * share);
}

}  // namespace

DataUse data_use(std::span<const std::int64_t> shard_tokens, std::int64_t sequence) {
  DataUse use;
  for (const auto tokens : shard_tokens) {
    const auto windows = tokens > 0 ? (tokens - 1) / sequence : 0;
    use.windows += windows, use.tokens += tokens;
    if (windows > 0) use.in_windows += windows * sequence + 1;
  }
  return use;
}

std::string data_use_text(const DataUse& use, std::int64_t sequence) {
  return fmt::format("data: {} of {} tokens, with {} of the training tokens", base::counted(use.windows, "window"),
                     base::count_text(sequence + 1), share_text(use.share()));
}

std::string rows_text(const DataUse& use, std::int64_t source_sequence, std::int64_t sequence) {
  return fmt::format("data: {} of {} + {} tokens (sources and targets), with {} of the training tokens",
                     base::counted(use.windows, "row"), base::count_text(source_sequence), base::count_text(sequence),
                     share_text(use.share()));
}

std::string epochs_text(const DataUse& use, std::int64_t steps, std::int64_t samples) {
  if (use.windows == 0) return {};
  const double epochs = static_cast<double>(samples) / static_cast<double>(use.windows);
  const auto in = base::counted(steps, "step");
  if (epochs < 1) return fmt::format("{} read{} {} of them", in, steps == 1 ? "s" : "", share_text(epochs));
  return fmt::format("in {} each is read {} times (epochs)", in, base::number_text(epochs));
}

std::string left_out_text(const DataUse& use, std::int64_t sequence) {
  if (use.tokens == 0 || use.share() > 0.9) return {};
  if (use.share() == 0)
    return base::text("no shard has the {} tokens of a window: more text, or a shorter $sequence",
                      base::count_text(sequence + 1));
  return base::text(
      "{} of the training tokens lie in no window of {} tokens: a window ends with its shard; larger shards "
      "(shard-data --shard-tokens) or a shorter $sequence leave out less",
      share_text(1 - use.share()), base::count_text(sequence + 1));
}

}  // namespace trainyard::plan
