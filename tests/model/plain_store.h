// PlainStore: the simplest parameter store, for tests of blocks. It has whole weights and whole gradients, and records
// every call.
#pragma once

#include "libtrain/base/random.h"
#include "libtrain/params/store.h"
#include "libtrain/plan/blocks/inventory.h"
#include "tests/model/test_place.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <vector>

namespace trainyard::test {

// Each flat group is laid out by plan::layout(flat group, 1), with weights in the working dtype. Each occurrence has
// gradients of its own, in f32 (f64 for f64). open() fills a gradient with NaN, because a block must overwrite it. So
// an element that the block did not write shows.
class PlainStore : public params::ParameterStore {
 public:
  struct Call {
    enum Kind { acquire, give_back, open, commit } kind;
    plan::Occurrence occurrence;
    bool operator==(const Call&) const = default;
  };

  static constexpr int most_occurrences = 4;  // of a table: of tokens 3, of relative positions one in each layer
  enum class Fill { nan, nothing };           // what open() leaves in a gradient

  PlainStore(const plan::ModelConfig& model, base::DType dtype, std::uint64_t seed, Fill fill = Fill::nan)
      : PlainStore(model, dtype, seed, plan::Topology(), 0, fill) {}
  // The store of one rank of a topology: the parts of the parameters that this rank holds.
  PlainStore(const plan::ModelConfig& model, base::DType dtype, std::uint64_t seed, const plan::Topology& topology,
             int rank, Fill fill = Fill::nan)
      : flat_groups(plan::flat_groups(model)), dtype_(dtype), fill_(fill) {
    gradient_dtype_ = dtype == base::DType::f64 ? base::DType::f64 : base::DType::f32;
    for (const auto& flat_group : flat_groups) {
      layouts.push_back(plan::layout(flat_group, topology));
      const auto n = static_cast<std::size_t>(layouts.back().padded);
      master.emplace_back(n, 0.0);
      weights_.emplace_back(n * 8);
      for (auto& gradients : gradients_) gradients.emplace_back(n * 8);
      for (std::size_t p = 0; p < flat_group.parameters.size(); ++p) {
        const auto& parameter = flat_group.parameters[p];
        double* out = master.back().data() + layouts.back().offsets[p];
        std::vector<float> values(static_cast<std::size_t>(parameter.count()),
                                  parameter.init.kind == plan::Init::Kind::ones ? 1.0f : 0.0f);
        if (parameter.init.kind == plan::Init::Kind::normal)
          base::fill_normal(values.data(), parameter.count(), seed, parameter.name, 0, parameter.init.stddev);
        for (const auto& [held, whole] : places(parameter, topology, rank))
          if (whole < parameter.count()) out[held] = values[static_cast<std::size_t>(whole)];
      }
    }
    publish();
  }

  // For each element of a parameter that a rank holds: its flat index in the rank's part, and its flat index in the
  // whole.
  static std::vector<std::pair<std::int64_t, std::int64_t>> places(const plan::Parameter& parameter,
                                                                   const plan::Topology& topology, int rank) {
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    const auto part = plan::held_part(parameter, topology, rank);
    const bool flat = part.extent.size() == 1;
    const auto rows = flat ? 1 : part.extent[0], cols = part.extent.back();
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c)
        out.emplace_back(r * cols + c,
                         ((flat ? 0 : part.start[0]) + r) * parameter.stored.back() + part.start.back() + c);
    return out;
  }

  // Rounds the double master values into weights of the working dtype.
  void publish() {
    for (std::size_t u = 0; u < flat_groups.size(); ++u) {
      for (std::size_t i = 0; i < master[u].size(); ++i) put(weights_[u].host.data(), dtype_, i, master[u][i]);
      weights_[u].push();
    }
  }
  // Copies the gradients to the host; call it once the work on them is done.
  void pull() {
    for (auto& gradients : gradients_)
      for (auto& g : gradients) g.pull();
  }

  // One element of a parameter's gradient: the sum over occurrences in declaration order.
  double gradient_of(int flat_group, int slot, std::int64_t index) const {
    double sum = 0;
    for (int occurrence = 0; occurrence < most_occurrences; ++occurrence)
      if (committed.count({flat_group, occurrence})) sum += occurrence_gradient(flat_group, occurrence, slot, index);
    return sum;
  }
  double occurrence_gradient(int flat_group, int occurrence, int slot, std::int64_t index) const {
    const auto at = static_cast<std::size_t>(
        layouts[static_cast<std::size_t>(flat_group)].offsets[static_cast<std::size_t>(slot)] + index);
    const char* p =
        gradients_.at(static_cast<std::size_t>(occurrence))[static_cast<std::size_t>(flat_group)].host.data();
    return gradient_dtype_ == base::DType::f64 ? reinterpret_cast<const double*>(p)[at]
                                               : reinterpret_cast<const float*>(p)[at];
  }
  // The bytes of every committed gradient, for comparisons of bits.
  std::vector<char> gradient_bits() const {
    std::vector<char> all;
    for (const auto& gradients : gradients_)
      for (std::size_t u = 0; u < flat_groups.size(); ++u) {
        const auto bytes = master[u].size() * static_cast<std::size_t>(base::size_of(gradient_dtype_));
        all.insert(all.end(), gradients[u].host.begin(),
                   gradients[u].host.begin() + static_cast<std::ptrdiff_t>(bytes));
      }
    return all;
  }

  std::vector<plan::FlatGroup> flat_groups;
  std::vector<plan::FlatLayout> layouts;
  std::vector<std::vector<double>> master;  // per flat group, flat
  std::vector<Call> calls;
  std::map<std::pair<int, int>, int> committed;  // (flat group, occurrence) -> times
  int held = 0, opened = 0;

 protected:
  void acquire(plan::Occurrence occurrence) override {
    calls.push_back({Call::acquire, occurrence});
    ++held;
  }
  void give_back(plan::Occurrence occurrence) override {
    calls.push_back({Call::give_back, occurrence});
    --held;
  }
  base::View weight(plan::Occurrence occurrence, int slot) override {
    return view(weights_, occurrence.flat_group, slot, dtype_);
  }
  void open(plan::Occurrence occurrence, int) override {
    calls.push_back({Call::open, occurrence});
    ++opened;
    if (fill_ == Fill::nothing) return;
    auto& g =
        gradients_.at(static_cast<std::size_t>(occurrence.index))[static_cast<std::size_t>(occurrence.flat_group)];
    const auto& flat_group = flat_groups[static_cast<std::size_t>(occurrence.flat_group)];
    for (std::size_t p = 0; p < flat_group.parameters.size(); ++p)
      for (std::int64_t i = 0; i < layouts[static_cast<std::size_t>(occurrence.flat_group)].count(p); ++i)
        put(g.host.data(), gradient_dtype_,
            static_cast<std::size_t>(layouts[static_cast<std::size_t>(occurrence.flat_group)].offsets[p] + i),
            std::numeric_limits<double>::quiet_NaN());
    g.push();
  }
  base::View gradient(plan::Occurrence occurrence, int, int slot) override {
    return view(gradients_.at(static_cast<std::size_t>(occurrence.index)), occurrence.flat_group, slot,
                gradient_dtype_);
  }
  void commit(plan::Occurrence occurrence, int) override {
    calls.push_back({Call::commit, occurrence});
    --opened;
    ++committed[{occurrence.flat_group, occurrence.index}];
  }

 private:
  static void put(char* data, base::DType dtype, std::size_t i, double value) {
    if (dtype == base::DType::f64) reinterpret_cast<double*>(data)[i] = value;
    else if (dtype == base::DType::f32) reinterpret_cast<float*>(data)[i] = static_cast<float>(value);
    else reinterpret_cast<base::bf16*>(data)[i] = base::bf16(static_cast<float>(value));
  }
  base::View view(std::vector<Twin>& memory, int flat_group, int slot, base::DType dtype) {
    const auto u = static_cast<std::size_t>(flat_group), s = static_cast<std::size_t>(slot);
    const auto& shape = layouts.at(u).shapes.at(s);
    char* p = memory[u].there() + layouts[u].offsets[s] * base::size_of(dtype);
    return shape.size() == 1 ? base::View(p, dtype, {shape[0]}, test_device())
                             : base::View(p, dtype, {shape.at(0), shape.at(1)}, test_device());
  }

  base::DType dtype_, gradient_dtype_;
  Fill fill_;
  std::vector<Twin> weights_;
  std::array<std::vector<Twin>, most_occurrences> gradients_;
};

}  // namespace trainyard::test
