// BatchRamp: a global batch that grows while samples are consumed (McCandlish et al. 2018). Pure arithmetic, and its
// text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// The global batch begins with `start` sequences and grows by `increment` until it has its last size; the last
// increment may be smaller. Growth is even over the first `length` samples or tokens. It depends on nothing else: not
// on ranks, micro-batches or stops.
struct BatchRamp {
  enum class Unit { samples, tokens };
  std::int64_t start = 0;  // 0: there is no ramp
  std::int64_t increment = 0;
  std::int64_t length = 0;
  Unit unit = Unit::samples;

  bool grows() const { return start > 0; }
  // The same ramp counted in samples. A part of a sequence counts as a whole one.
  BatchRamp in_samples(std::int64_t sequence) const;
  bool operator==(const BatchRamp&) const = default;
};

// The setting: a number of sequences, or a ramp to that number.
struct GlobalBatch {
  std::int64_t end = 1;
  BatchRamp ramp = {};
  bool operator==(const GlobalBatch&) const = default;
};
// "512", "16:512/10000000tokens", "16:512:32/300000samples". The increment is left out where it is the start.
std::string global_batch_text(const GlobalBatch& batch);
// Reads START:END/N or START:END:INCREMENT/N, where N counts samples, or has the unit "samples" or "tokens". N may have
// an exponent: 10e6. UsageError, whose message begins with `spelled`, for anything else, also as require_ramp.
GlobalBatch ramp_of_text(const std::string& text, const std::string& spelled);
// UsageError if a ramp does not grow, has too many sizes, or a number that is out of range. Nothing without a ramp.
void require_ramp(const GlobalBatch& batch, const std::string& spelled);

// The size of each step of a run, and the samples before it: pure functions of the setting and of where the run goes
// on. Without a ramp all sizes are equal.
class BatchSizes {
 public:
  // The run goes on after `completed` steps, which have consumed `samples`. batch.ramp counts samples.
  explicit BatchSizes(const GlobalBatch& batch, std::int64_t completed = 0, std::int64_t samples = 0);
  // `completed` is a number of completed steps, and at least that of the constructor.
  std::int64_t size_after(std::int64_t completed) const { return at(completed).size; }  // of the step that follows
  std::int64_t samples_after(std::int64_t completed) const {
    const auto& level = at(completed);
    return level.samples + (completed - level.completed) * level.size;
  }
  bool within(std::int64_t completed, std::int64_t most_samples) const;  // samples_after(completed) <= most_samples
  // For each size, the steps of that size behind `completed` steps and up to step `last`.
  struct Steps {
    std::int64_t size = 0, count = 0;
  };
  std::vector<Steps> steps_of_sizes(std::int64_t completed, std::int64_t last) const;
  std::int64_t steps_before_end() const { return levels_.back().completed; }  // completed steps where growth ends

 private:
  struct Level {
    std::int64_t completed, samples, size;  // the first two: where the level begins
  };
  const Level& at(std::int64_t completed) const;
  std::vector<Level> levels_;  // ascending
};

}  // namespace trainyard::plan
