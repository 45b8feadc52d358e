// Names of measured passes, and lines through them.
#include "libtrain/plan/measured_blocks.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/dtype.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/plan/model_file/model_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <sstream>

namespace trainyard::plan {

namespace {

const char* word_of(BlockPass pass) {
  switch (pass) {
    case BlockPass::forward: return "forward";
    case BlockPass::step: return "step";
    case BlockPass::selective: return "step.selective";
    case BlockPass::full: return "step.full";
    case BlockPass::inputs: return "inputs";
  }
  return "";
}

// Of what a block computes. How many layers there are does not matter to it, nor the vocabulary to a layer. Lanes
// change an order of sums, and hardly a time.
std::string checksum_of(const Segment& s) {
  auto model = s.model;
  model.name.clear(), model.layers = 1, model.lanes = 1;
  if (s.part == Part::layers) model.vocabulary = 0;
  const auto text = model_to_json(model).dump();
  return fmt::format("{:08x}", base::crc32c(text.data(), text.size()));
}

constexpr const char* with_calls = "calls";

std::string kind_of(const Segment& s, const MicroShape& m, BlockCalls calls) {
  return fmt::format("{}{} {}", calls == BlockCalls::made ? fmt::format("{} ", with_calls) : "", base::name_of(m.dtype),
                     checksum_of(s));
}

double distance(double a, double b) { return std::abs(std::log2(a / b)); }

// On the line through the two nearest of several sizes, which does not fall; in proportion to a single one.
double on_line(const std::map<std::int64_t, double>& sizes, std::int64_t batch) {
  const auto b = static_cast<double>(batch);
  if (sizes.size() == 1) return sizes.begin()->second * b / static_cast<double>(sizes.begin()->first);
  auto next = sizes.lower_bound(batch);
  if (next != sizes.end() && next->first == batch) return next->second;
  if (next == sizes.begin()) ++next;
  if (next == sizes.end()) --next;
  const auto before = std::prev(next);
  const auto x = static_cast<double>(before->first), y = static_cast<double>(next->first);
  const double slope = std::max(0.0, (next->second - before->second) / (y - x));
  return std::max(before->second + slope * (b - x), sizes.begin()->second * std::min(1.0, b / x) / 2);
}

}  // namespace

const char* block_word(Part part) {
  return part == Part::input ? "embedding" : part == Part::layers ? "layers" : "head";
}

std::string block_rate_name(Part part, BlockPass pass) {
  return fmt::format("block.{}.{}", block_word(part), word_of(pass));
}

std::string block_rate_shape(const Segment& s, const MicroShape& m, BlockCalls calls) {
  return fmt::format("b{} s{} t{}{} e{} {}", m.batch, m.sequence, m.tensor, m.sequence_parallel ? " sp" : "",
                     m.experts.across(), kind_of(s, m, calls));
}

std::optional<MeasuredBlocks::BatchShape> MeasuredBlocks::parsed(const std::string& text) {
  BatchShape out;
  std::istringstream words(text);
  const auto number = [&](const std::string& word, char letter) {
    return word.size() < 2 || word[0] != letter ? 0 : base::parsed_number<std::int64_t>(word.substr(1)).value_or(0);
  };
  std::string batch, sequence, tensor, next;
  words >> batch >> sequence >> tensor >> next;
  if (next == "sp") out.layout.sequence_parallel = true, words >> next;
  std::string calls, dtype, checksum;
  words >> dtype;
  if (dtype == with_calls) calls = dtype + " ", words >> dtype;
  words >> checksum;
  out.batch = number(batch, 'b'), out.layout.sequence = number(sequence, 's');
  out.layout.tensor = static_cast<int>(number(tensor, 't')), out.layout.experts = static_cast<int>(number(next, 'e'));
  const auto possible = [](std::int64_t n) { return n >= 1 && n <= (1 << 20); };
  if (!possible(out.batch) || out.layout.sequence < 1 || !possible(out.layout.tensor) ||
      !possible(out.layout.experts) || std::int64_t{out.layout.tensor} * out.layout.experts > (1 << 20) ||
      checksum.empty())
    return {};
  out.kind = fmt::format("{}{} {}", calls, dtype, checksum);
  return out;
}

MeasuredBlocks::MeasuredBlocks(const Profile& profile) {
  for (const auto& rate : profile.local)
    if (rate.name.starts_with("block.") && rate.unit == "s")
      if (const auto shape = parsed(rate.shape))
        by_block_[rate.name + " " + shape->kind][shape->layout][shape->batch] = rate.value;
}

std::optional<double> MeasuredBlocks::seconds(const Segment& s, const MicroShape& m, BlockPass pass,
                                              const Estimated& estimated, BlockCalls calls) const {
  const auto block = by_block_.find(block_rate_name(s.part, pass) + " " + kind_of(s, m, calls));
  if (block == by_block_.end()) return {};
  const Layout wanted{m.sequence, m.tensor, m.sequence_parallel, m.experts.across()};
  if (const auto same = block->second.find(wanted); same != block->second.end()) return on_line(same->second, m.batch);
  const auto far = [&](const Layout& o) {
    return distance(o.tensor, wanted.tensor) + distance(o.experts, wanted.experts) +
           distance(static_cast<double>(o.sequence), static_cast<double>(wanted.sequence)) +
           (o.sequence_parallel == wanted.sequence_parallel ? 0 : 0.1);
  };
  const auto nearest = std::min_element(block->second.begin(), block->second.end(),
                                        [&](const auto& a, const auto& b) { return far(a.first) < far(b.first); });
  const auto& o = nearest->first;
  if (calls == BlockCalls::made && (o.tensor != wanted.tensor || o.experts != wanted.experts)) return {};
  auto there = m;
  there.sequence = o.sequence, there.tensor = o.tensor, there.sequence_parallel = o.sequence_parallel;
  there.experts.tensor = o.tensor, there.experts.parts = o.experts * o.tensor;
  return on_line(nearest->second, m.batch) * estimated(m) / estimated(there);
}

}  // namespace trainyard::plan
