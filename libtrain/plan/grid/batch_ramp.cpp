// The steps of a ramp, and reading its text.
#include "libtrain/plan/grid/batch_ramp.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/plan/grid/ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace trainyard::plan {

namespace {

constexpr std::string_view samples_unit = "samples", tokens_unit = "tokens";

// A whole number, which may have an exponent. Doubles hold every one of ranges::ramp_length exactly.
std::optional<std::int64_t> ramp_length_of(std::string_view text) {
  const auto value = base::parsed_number<double>(text);
  const base::Range<double> range{static_cast<double>(ranges::ramp_length.low),
                                  static_cast<double>(ranges::ramp_length.high)};
  if (!value || !range.holds(*value) || *value != std::floor(*value)) return {};
  return static_cast<std::int64_t>(*value);
}

std::optional<std::int64_t> ramp_size_of(std::string_view text) {
  const auto value = base::parsed_number<std::int64_t>(text);
  return value && ranges::global_batch.holds(*value) ? value : std::nullopt;
}

// Takes what stands before the first `mark`; nothing if there is none.
std::optional<std::string_view> taken_before(std::string_view& text, char mark) {
  const auto at = text.find(mark);
  if (at == std::string_view::npos) return {};
  const auto out = text.substr(0, at);
  text.remove_prefix(at + 1);
  return out;
}

bool taken_from_end(std::string_view& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.remove_suffix(end.size());
  return true;
}

std::int64_t increments_of(const GlobalBatch& b) { return (b.end - b.ramp.start - 1) / b.ramp.increment + 1; }

}  // namespace

BatchRamp BatchRamp::in_samples(std::int64_t sequence) const {
  if (unit == Unit::samples || sequence < 1) return *this;
  return {start, increment, (length - 1) / sequence + 1, Unit::samples};
}

std::string global_batch_text(const GlobalBatch& b) {
  const auto& r = b.ramp;
  if (!r.grows()) return fmt::format("{}", b.end);
  return fmt::format("{}:{}{}/{}{}", r.start, b.end,
                     r.increment == r.start ? std::string() : fmt::format(":{}", r.increment), r.length,
                     r.unit == BatchRamp::Unit::tokens ? tokens_unit : samples_unit);
}

GlobalBatch ramp_of_text(const std::string& text, const std::string& spelled) {
  const auto refuse = [&](const std::string& why, const std::string& hint) -> base::UsageError {
    return base::UsageError(fmt::format("{} {}: {}", spelled, base::excerpt(text), why), hint);
  };
  constexpr const char* form = "START:END/N or START:END:INCREMENT/N, for example 16:512/10e6tokens";
  std::string_view length = text;
  const auto sizes = taken_before(length, '/');
  if (!sizes) throw refuse("over how many samples or tokens the batch grows is missing", form);
  const bool in_tokens = taken_from_end(length, tokens_unit);
  if (!in_tokens) taken_from_end(length, samples_unit);
  const auto long_enough = ramp_length_of(length);
  if (!long_enough)
    throw refuse(fmt::format("what follows / is not a whole number from {} to {}, of samples or tokens",
                             ranges::ramp_length.low, ranges::ramp_length.high),
                 form);
  std::vector<std::int64_t> numbers;
  auto rest = *sizes;
  for (bool more = true; more;) {
    const auto part = taken_before(rest, ':');
    more = part.has_value();
    const auto number = ramp_size_of(part.value_or(rest));
    if (!number || numbers.size() == 3)
      throw refuse(fmt::format("before / there must be two or three whole numbers from {} to {}",
                               ranges::global_batch.low, ranges::global_batch.high),
                   form);
    numbers.push_back(*number);
  }
  if (numbers.size() < 2) throw refuse("the size that the batch grows to is missing", form);
  const GlobalBatch out{numbers[1],
                        {.start = numbers[0],
                         .increment = numbers.size() == 3 ? numbers[2] : numbers[0],
                         .length = *long_enough,
                         .unit = in_tokens ? BatchRamp::Unit::tokens : BatchRamp::Unit::samples}};
  require_ramp(out, spelled);
  return out;
}

void require_ramp(const GlobalBatch& b, const std::string& spelled) {
  const auto& r = b.ramp;
  if (r == BatchRamp()) return;
  const auto refuse = [&](const std::string& why, const std::string& hint) {
    throw base::UsageError(fmt::format("{} {}: {}", spelled, global_batch_text(b), why), hint);
  };
  if (!ranges::global_batch.holds(r.start) || !ranges::global_batch.holds(r.increment) ||
      !ranges::global_batch.holds(b.end) || !ranges::ramp_length.holds(r.length))
    refuse(fmt::format("sizes must lie between {} and {}, and the length between {} and {}", ranges::global_batch.low,
                       ranges::global_batch.high, ranges::ramp_length.low, ranges::ramp_length.high),
           "for example 16:512/10e6tokens");
  if (b.end <= r.start)
    refuse(fmt::format("the batch does not grow from {} to {}", r.start, b.end),
           fmt::format("a larger size than {}, or one size alone", r.start));
  if (increments_of(b) > ranges::most_increments)
    refuse(fmt::format("{} increments are more than {}", increments_of(b), ranges::most_increments),
           "a larger increment: START:END:INCREMENT/N");
}

BatchSizes::BatchSizes(const GlobalBatch& b, std::int64_t completed, std::int64_t samples) {
  const auto& r = b.ramp;
  if (!r.grows()) {
    levels_.push_back({completed, samples, b.end});
    return;
  }
  TRAINYARD_ASSERT(r.unit == BatchRamp::Unit::samples, "a ramp over {} tokens, which counts samples", r.length);
  require_ramp(b, "a global batch of");
  // Increment k is made by the first step that begins with k/n of the ramp's samples consumed, or more.
  const auto n = increments_of(b);
  while (true) {
    const auto made = samples >= r.length ? n : samples * n / r.length,
               size = made == n ? b.end : r.start + made * r.increment;
    levels_.push_back({completed, samples, size});
    if (made == n) return;
    const auto next = ((made + 1) * r.length + n - 1) / n, steps = (next - samples + size - 1) / size;
    completed += steps, samples += steps * size;
  }
}

const BatchSizes::Level& BatchSizes::at(std::int64_t completed) const {
  const auto behind = std::upper_bound(levels_.begin(), levels_.end(), completed,
                                       [](std::int64_t step, const Level& level) { return step < level.completed; });
  return behind == levels_.begin() ? levels_.front() : *(behind - 1);
}

bool BatchSizes::within(std::int64_t completed, std::int64_t most) const {
  const auto& level = at(completed);
  return level.samples <= most && completed - level.completed <= (most - level.samples) / level.size;
}

std::vector<BatchSizes::Steps> BatchSizes::steps_of_sizes(std::int64_t completed, std::int64_t last) const {
  std::vector<Steps> out;
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    const auto from = i == 0 ? completed : std::max(completed, levels_[i].completed),
               to = i + 1 == levels_.size() ? last : std::min(last, levels_[i + 1].completed);
    if (from < to) out.push_back({levels_[i].size, to - from});
  }
  return out;
}

}  // namespace trainyard::plan
