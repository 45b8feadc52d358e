// From an ordinal to a window of tokens.
#include "libtrain/data/window_dataset.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/random.h"

#include <algorithm>

namespace trainyard::data {

namespace {

std::int64_t at_least_one(std::int64_t sequence) {
  if (sequence < 1)
    throw base::UsageError(fmt::format("a sequence of {} tokens: windows have at least 1", sequence),
                           "the context of the model, or less");
  return sequence;
}

}  // namespace

WindowDataset::WindowDataset(const std::string& folder, const SetIndex& index, const std::vector<ShardEntry>& split,
                             const Windows& w)
    : sequence_(at_least_one(w.sequence)), mask_(w.mask), order_(w.order), seed_(w.seed), answers_only_(w.answers_only),
      shards_(folder, index, split, w.open, {w.field, w.value}), buffer_(base::size(w.sequence + 1)) {
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    const auto tokens = shards_[i].tokens(), windows = tokens > 0 ? (tokens - 1) / sequence_ : 0;
    longest = std::max(longest, tokens);
    first_window_.push_back(first_window_.back() + static_cast<std::uint64_t>(windows));
  }
  if (count() > 0) return;
  throw base::InputError(
      fmt::format("{}: {} of the split, the longest of {} tokens, and none holds a window of {}", folder,
                  base::counted(static_cast<std::int64_t>(split.size()), "shard"), longest, sequence_ + 1),
      "a shorter sequence, or more text");
}

void WindowDataset::fill_as(std::uint64_t ordinal, std::uint64_t sample, const WindowPtrs& out) {
  const auto epoch = ordinal / count();
  auto window = ordinal % count();
  if (order_ == Order::keyed) window = base::Permutation(count(), seed_, epoch)(window);
  const auto shard =
      base::size(std::upper_bound(first_window_.begin(), first_window_.end(), window) - first_window_.begin() - 1);
  auto& reader = shards_.to_read(shard);
  const auto first = static_cast<std::int64_t>(window - first_window_[shard]) * sequence_;
  reader.read(first, sequence_ + 1, buffer_.data());
  std::copy_n(buffer_.begin(), sequence_, out.tokens);
  std::copy_n(buffer_.begin() + 1, sequence_, out.targets);
  if (mask_ == DocumentMask::off) {
    for (std::int64_t t = 0; t < sequence_; ++t)
      out.positions[t] = static_cast<std::int32_t>(t), out.document_start[t] = 0, out.weights[t] = 1;
    if (out.key_end != nullptr) std::fill_n(out.key_end, sequence_, static_cast<std::int32_t>(sequence_));
  } else {
    fill_documents(reader.documents(), first, out);
  }
  if (answers_only_) leave_answers(reader.answers(), first, out);
  if (!masking_) return;
  const bool stored = order_ == Order::as_stored;
  mask_tokens(*masking_, stored ? MaskDraws::of_evaluation(window) : MaskDraws::of_training(seed_, sample), sequence_,
              out);
}

void WindowDataset::leave_answers(std::span<const AnswerSpan> answers, std::int64_t first,
                                  const WindowPtrs& out) const {
  auto next = std::lower_bound(answers.begin(), answers.end(), first + 1,
                               [](const auto& span, auto at) { return span.end <= at; });
  for (std::int64_t t = 0; t < sequence_; ++t) {
    const auto target = first + t + 1;
    if (next != answers.end() && next->end <= target) ++next;
    if (next == answers.end() || target < next->begin) out.weights[t] = 0;
  }
}

void WindowDataset::fill_documents(std::span<const std::uint64_t> documents, std::int64_t first,
                                   const WindowPtrs& out) const {
  // Where the next document begins.
  auto next = std::upper_bound(documents.begin(), documents.end(), static_cast<std::uint64_t>(first));
  std::int32_t start = 0;
  for (std::int64_t t = 0; t < sequence_; ++t) {
    while (next != documents.end() && *next == static_cast<std::uint64_t>(first + t))
      start = static_cast<std::int32_t>(t), ++next;
    out.document_start[t] = start;
    out.positions[t] = static_cast<std::int32_t>(t) - start;
    out.weights[t] = next != documents.end() && *next == static_cast<std::uint64_t>(first + t + 1) ? 0 : 1;
  }
  if (out.key_end == nullptr) return;
  auto end = static_cast<std::int32_t>(sequence_);
  for (auto t = sequence_ - 1; t >= 0; --t) {
    out.key_end[t] = end;
    if (out.document_start[t] == t) end = static_cast<std::int32_t>(t);
  }
}

}  // namespace trainyard::data
