// The windows of a run, compared with what the run asks for.
#include "libtrain/engine/run_windows.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace trainyard::engine {

namespace {

// Reads at most `most` windows in their order, until one has a target that counts. That is the first, except in data
// that cannot teach. InputError if none of these has one; `what` is the name of the data.
void require_target(data::WindowDataset& windows, const std::string& what, std::uint64_t most) {
  const auto T = windows.sequence();
  std::vector<std::int32_t> i32(4 * base::size(T));
  std::vector<std::uint8_t> weights(base::size(T));
  const data::WindowPtrs window{i32.data(), i32.data() + T, i32.data() + 2 * T, i32.data() + 3 * T, weights.data()};
  for (std::uint64_t w = 0; w < std::min(most, windows.count()); ++w) {
    windows.fill(w, window);
    if (std::any_of(weights.begin(), weights.end(), [](auto weight) { return weight != 0; })) return;
  }
  throw nothing_counts(windows.count() > most ? fmt::format("the first {} windows of {}", most, what) : what,
                       windows.hides());
}

// The folder of the shards. InputError if they hold no window.
const std::string& folder_with_windows(const RunSetup& setup) {
  if (data_use_of(setup).windows > 0) return setup.config.data;
  std::int64_t longest = 0;
  for (const auto& shard : setup.index.train) longest = std::max(longest, shard.tokens);
  throw base::InputError(
      fmt::format("{} holds no window of {} tokens: {} shard has {}", setup.config.data, setup.plan.sequence + 1,
                  setup.index.train.size() == 1 ? "its only" : "its largest", base::counted(longest, "token")),
      longest > 1 ? base::text("give more text, or at most $sequence {}", longest - 1) : "give more text");
}

}  // namespace

RunWindows::RunWindows(const RunSetup& setup)
    : training(folder_with_windows(setup), setup.index, setup.index.train,
               {.sequence = setup.plan.sequence,
                .mask = setup.mask,
                .order = data::Order::keyed,
                .seed = setup.config.seed}) {
  if (setup.config.validate_every > 0)
    validation.emplace(setup.config.data, setup.index, setup.index.validation,
                       data::WindowDataset::Windows{.sequence = setup.plan.sequence,
                                                    .mask = setup.mask,
                                                    .order = data::Order::as_stored,
                                                    .seed = setup.config.seed});
  if (setup.masking) {
    training.hide(*setup.masking);
    if (validation) validation->hide(*setup.masking);
  }
  if (setup.mask == data::DocumentMask::off && !setup.masking) return;  // all targets count
  require_target(training, setup.config.data, 1000);
  if (validation)
    require_target(*validation, "the validation split of " + setup.config.data,
                   static_cast<std::uint64_t>(setup.validation_sequences));
}

base::InputError nothing_counts(const std::string& what, bool hides) {
  if (hides)
    return base::InputError(
        fmt::format("no target of {} counts: all tokens are ends of documents, which are never hidden", what),
        "give text with words in it");
  return base::InputError(fmt::format("no target of {} counts: every one begins a document", what),
                          base::text("$document-mask off, or longer documents"));
}

plan::DataUse data_use_of(const RunSetup& setup) {
  std::vector<std::int64_t> tokens;
  for (const auto& shard : setup.index.train) tokens.push_back(shard.tokens);
  return plan::data_use(tokens, setup.plan.sequence);
}

std::string reading_text(const RunSetup& setup, std::int64_t steps, std::int64_t samples) {
  const auto use = data_use_of(setup);
  auto text = plan::data_use_text(use, setup.plan.sequence);
  if (const auto epochs = plan::epochs_text(use, steps, samples); !epochs.empty()) text += "; " + epochs;
  if (setup.validation_sequences > 0)
    text += fmt::format("; a validation reads {}", base::counted(setup.validation_sequences, "sequence"));
  return text;
}

}  // namespace trainyard::engine
