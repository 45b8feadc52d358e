// Best fit in two dimensions: a tree over the room on one side finds the most room on the other.
#include "libtrain/data/pair_packing.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <utility>

namespace trainyard::data {

namespace {

// For each number below a limit a value, and the first number from some number on whose value is large enough.
class FirstWithValue {
 public:
  explicit FirstWithValue(std::int64_t limit) : leaves_(std::bit_ceil(base::size(limit))), most_(2 * leaves_, 0) {}
  void set(std::int64_t number, std::int64_t value) {
    auto node = leaves_ + base::size(number);
    most_[node] = value;
    while (node /= 2) {
      const auto larger = std::max(most_[2 * node], most_[2 * node + 1]);
      if (most_[node] == larger) return;
      most_[node] = larger;
    }
  }
  // The least number that is not below `from` and has a value of `least` or more; -1: there is none.
  std::int64_t from(std::int64_t from, std::int64_t least) const {
    auto node = leaves_ + base::size(from);
    while (most_[node] < least) {
      while (node % 2 == 1) node /= 2;  // a right child has no sibling behind it; the root ends this, too
      if (node == 0) return -1;
      ++node;
    }
    while (node < leaves_) node = 2 * node + (most_[2 * node] >= least ? 0 : 1);
    return static_cast<std::int64_t>(node - leaves_);
  }

 private:
  std::size_t leaves_;
  std::vector<std::int64_t> most_;
};

// Rows that have room on both sides.
class OpenRows {
 public:
  explicit OpenRows(std::int64_t scarce) : of_room_(base::size(scarce + 1)), most_(scarce + 1) {}

  struct Row {
    std::int64_t other, row;  // room on the other side
    auto operator<=>(const Row&) const = default;
  };

  void add(std::int64_t scarce, std::int64_t other, std::int64_t row) {
    if (scarce < 1 || other < 1) return;
    auto& rows = base::at(of_room_, scarce);
    rows.insert({other, row});
    most_.set(scarce, rows.rbegin()->other);
  }
  struct Found {
    std::int64_t scarce, other, row;  // row -1: none has the room
  };
  // Takes out the best row for a pair.
  Found take(std::int64_t scarce, std::int64_t other) {
    const auto room = most_.from(scarce, other);
    if (room < 0) return {0, 0, -1};
    auto& rows = base::at(of_room_, room);
    const auto found = *rows.lower_bound({other, -1});
    rows.erase(found);
    most_.set(room, rows.empty() ? 0 : rows.rbegin()->other);
    return {room, found.other, found.row};
  }

 private:
  std::vector<std::set<Row>> of_room_;  // by room on the scarce side
  FirstWithValue most_;                 // of each, the most room on the other side
};

struct Sums {
  std::int64_t source = 0, target = 0;
};

Sums checked_sums(std::span<const PairLength> lengths, const RowShape& shape) {
  if (shape.source < 1 || shape.target < 1)
    throw base::UsageError(
        fmt::format("a row of {} source and {} target tokens holds no pair", shape.source, shape.target),
        "1 or more of each");
  Sums sums;
  for (std::size_t p = 0; p < lengths.size(); ++p) {
    const auto& length = lengths[p];
    if (length.source < 1 || length.target < 1)
      throw base::InputError(fmt::format("pair {} has {} source and {} target tokens", p, length.source, length.target),
                             "both sides of a pair have tokens");
    if (length.source > shape.source || length.target > shape.target)
      throw base::InputError(fmt::format("pair {} has {} source and {} target tokens, and a row {} and {}", p,
                                         length.source, length.target, shape.source, shape.target),
                             "longer rows, or leave such pairs out of the set: pairs are never cut");
    sums.source += length.source, sums.target += length.target;
  }
  return sums;
}

std::int64_t rows_of(std::int64_t tokens, std::int64_t row) { return (tokens + row - 1) / row; }

// Compares a / b and c / d.
bool is_larger(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<__int128>(a) * d > static_cast<__int128>(c) * b;
}

}  // namespace

std::span<const std::int64_t> PairRows::row(std::int64_t r) const {
  const auto from = base::at(first, r);
  return std::span(pairs).subspan(base::size(from), base::size(base::at(first, r + 1) - from));
}

std::int64_t least_rows(std::span<const PairLength> lengths, const RowShape& shape) {
  const auto sums = checked_sums(lengths, shape);
  return std::max(rows_of(sums.source, shape.source), rows_of(sums.target, shape.target));
}

PairRows pack_pairs(std::span<const PairLength> lengths, const RowShape& shape) {
  const auto sums = checked_sums(lengths, shape);
  const bool by_source = !is_larger(sums.target, shape.target, sums.source, shape.source);
  // Sums of both shares of a row in units of 1 / (S T), so that they are whole numbers.
  std::vector<std::pair<__int128, std::int64_t>> order;
  order.reserve(lengths.size());
  for (std::int64_t p = 0; p < std::ssize(lengths); ++p) {
    const auto& length = lengths[base::size(p)];
    order.emplace_back(
        -(static_cast<__int128>(length.source) * shape.target + static_cast<__int128>(length.target) * shape.source),
        p);
  }
  std::sort(order.begin(), order.end());
  OpenRows open(by_source ? shape.source : shape.target);
  std::vector<std::int64_t> row_of(lengths.size());
  std::int64_t rows = 0;
  for (const auto& [share, p] : order) {
    const auto& length = lengths[base::size(p)];
    const auto scarce = by_source ? length.source : length.target, other = by_source ? length.target : length.source;
    auto found = open.take(scarce, other);
    if (found.row < 0)
      found = {by_source ? shape.source : shape.target, by_source ? shape.target : shape.source, rows++};
    base::at(row_of, p) = found.row;
    open.add(found.scarce - scarce, found.other - other, found.row);
  }
  // Rows get new numbers by their first pairs.
  PairRows out;
  std::vector<std::int64_t> place(base::size(rows), -1), next;
  for (auto& row : row_of) {
    auto& number = base::at(place, row);
    if (number < 0) number = std::ssize(next), next.push_back(0);
    row = number;
    ++base::at(next, row);
  }
  for (auto& count : next) {
    const auto begin = out.first.back();
    out.first.push_back(begin + count);
    count = begin;
  }
  out.pairs.resize(lengths.size());
  for (std::int64_t p = 0; p < std::ssize(row_of); ++p) base::at(out.pairs, base::at(next, base::at(row_of, p))++) = p;
  return out;
}

void fill_pair_row(std::span<const PairLength> pairs, const RowShape& shape, const PairRowPtrs& out) {
  std::int64_t source = 0, target = 0;
  const auto number = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  for (const auto& pair : pairs) {
    const auto source_end = source + pair.source, target_end = target + pair.target;
    TRAINYARD_ASSERT(source_end <= shape.source && target_end <= shape.target, "{} and {} tokens in a row of {} and {}",
                     source_end, target_end, shape.source, shape.target);
    for (auto s = source; s < source_end; ++s) {
      out.source_positions[s] = number(s - source);
      out.source_begin[s] = number(source), out.source_end[s] = number(source_end);
    }
    for (auto t = target; t < target_end; ++t) {
      out.target_positions[t] = number(t - target);
      out.target_begin[t] = number(target), out.target_end[t] = number(target_end);
      out.memory_begin[t] = number(source), out.memory_end[t] = number(source_end);
      out.weights[t] = 1;
    }
    source = source_end, target = target_end;
  }
  for (; source < shape.source; ++source) {
    out.source_positions[source] = 0;
    out.source_begin[source] = number(source), out.source_end[source] = number(source + 1);
  }
  for (; target < shape.target; ++target) {
    out.target_positions[target] = 0;
    out.target_begin[target] = number(target), out.target_end[target] = number(target + 1);
    out.memory_begin[target] = number(shape.source - 1), out.memory_end[target] = number(shape.source);
    out.weights[target] = 0;
  }
}

void shift_targets(std::span<const PairLength> pairs, const RowShape& shape, std::int32_t start,
                   const std::int32_t* targets, std::int32_t* inputs) {
  std::int64_t at = 0;
  for (const auto& pair : pairs) {
    TRAINYARD_ASSERT(at + pair.target <= shape.target, "{} targets in a row of {}", at + pair.target, shape.target);
    inputs[at] = start;
    std::copy_n(targets + at, pair.target - 1, inputs + at + 1);
    at += pair.target;
  }
  std::fill(inputs + at, inputs + shape.target, start);
}

}  // namespace trainyard::data
