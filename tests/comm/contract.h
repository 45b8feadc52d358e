// The contract that every communicator must keep. The tests of threads, MPI and NCCL run it over their worlds.
#pragma once

#include "libtrain/base/error.h"
#include "libtrain/comm/communicator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace trainyard::comm::contract {

using base::View;

// The contribution of rank r to element i. Its sign and magnitude are scattered, so that another order of additions
// gives other bits.
inline float contribution(int r, std::int64_t i) {
  auto h = static_cast<std::uint32_t>(r * 7919 + i + 1) * 2654435761u;
  h = (h ^ (h >> 15)) * 2246822519u;
  h ^= h >> 13;
  return std::ldexp(static_cast<float>(h >> 8) - 8388608.0f, static_cast<int>(h % 9) - 24);
}

template <class T> View view(std::vector<T>& v) { return View::of(v.data(), {static_cast<std::int64_t>(v.size())}); }
inline std::size_t z(std::int64_t i) { return static_cast<std::size_t>(i); }

inline void all_reduce(Communicator& c, tensor::Exec& exec, std::int64_t n) {
  SCOPED_TRACE("all_reduce of " + std::to_string(n));
  std::vector<std::int64_t> sums(z(n)), most(z(n)), least(z(n));
  std::vector<double> reals(z(n));
  std::vector<base::bf16> brains(z(n));
  std::vector<base::f16> halves(z(n));
  for (std::int64_t i = 0; i < n; ++i) {
    sums[z(i)] = (std::int64_t{1} << 40) * c.rank() + i;
    most[z(i)] = least[z(i)] = (c.rank() * 7 + i) % 5 - 2;
    reals[z(i)] = 0.5 * c.rank() + static_cast<double>(i);
    brains[z(i)] = base::bf16(static_cast<float>(c.rank() + 1));
    halves[z(i)] = base::f16(static_cast<float>(c.rank()) + 0x1p-4f * static_cast<float>(i % 7));
  }
  c.all_reduce(exec, view(sums), Reduction::sum);
  c.all_reduce(exec, view(most), Reduction::max);
  c.all_reduce(exec, view(least), Reduction::min);
  c.all_reduce(exec, view(reals), Reduction::sum);
  c.all_reduce(exec, view(brains), Reduction::sum);
  c.all_reduce(exec, view(halves), Reduction::sum);
  exec.synchronize();
  const std::int64_t pairs = c.size() * (c.size() - 1) / 2;
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t high = -9, low = 9;
    for (int r = 0; r < c.size(); ++r)
      high = std::max(high, (r * 7 + i) % 5 - 2), low = std::min(low, (r * 7 + i) % 5 - 2);
    ASSERT_EQ(sums[z(i)], (std::int64_t{1} << 40) * pairs + c.size() * i);
    ASSERT_EQ(most[z(i)], high);
    ASSERT_EQ(least[z(i)], low);
    ASSERT_EQ(reals[z(i)], 0.5 * static_cast<double>(pairs) + static_cast<double>(c.size() * i));
    ASSERT_EQ(static_cast<float>(brains[z(i)]), static_cast<float>(pairs + c.size()));
    ASSERT_EQ(static_cast<float>(halves[z(i)]),
              static_cast<float>(pairs) + 0x1p-4f * static_cast<float>(c.size() * (i % 7)));
  }
}

inline void all_gather(Communicator& c, tensor::Exec& exec, std::int64_t n) {
  SCOPED_TRACE("all_gather of " + std::to_string(n));
  std::vector<float> in(z(n)), out(z(n * c.size()), -1), in_place(z(n * c.size()), -1);
  for (std::int64_t i = 0; i < n; ++i) in[z(i)] = in_place[z(c.rank() * n + i)] = contribution(c.rank(), i);
  const auto before = c.ledger().totals()["all_gather"].sent_bytes;
  c.all_gather(exec, view(in), view(out));
  c.all_gather(exec, View::of(in_place.data() + c.rank() * n, {n}), view(in_place));
  exec.synchronize();
  EXPECT_EQ(c.ledger().totals()["all_gather"].sent_bytes - before, z(2 * (c.size() - 1) * n * 4));
  for (int r = 0; r < c.size(); ++r)
    for (std::int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(out[z(r * n + i)], contribution(r, i));
      ASSERT_EQ(in_place[z(r * n + i)], contribution(r, i));
    }
}

inline void reduce_scatter(Communicator& c, tensor::Exec& exec, std::int64_t n) {
  SCOPED_TRACE("reduce_scatter of " + std::to_string(n));
  std::vector<double> in(z(n * c.size())), out(z(n), -1);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<double>(i) + 1000.0 * c.rank();
  c.reduce_scatter(exec, view(in), view(out));
  exec.synchronize();
  for (std::int64_t i = 0; i < n; ++i)
    ASSERT_EQ(out[z(i)], static_cast<double>(c.size() * (c.rank() * n + i)) + 500.0 * c.size() * (c.size() - 1));
}

// Rank r sends (r + 2 p) % 4 * n elements to rank p, so some counts are zero.
inline void all_to_all(Communicator& c, tensor::Exec& exec, std::int64_t n) {
  SCOPED_TRACE("all_to_all of " + std::to_string(n));
  const auto count = [&](int from, int to) { return (from + 2 * to) % 4 * n; };
  const auto value = [](int from, int to, std::int64_t i) {
    return from * 100000 + to * 10000 + static_cast<std::int32_t>(i);
  };
  std::vector<std::int64_t> sends, receives;
  std::vector<std::int32_t> send, receive;
  std::int64_t sent = 0;
  for (int p = 0; p < c.size(); ++p) {
    sends.push_back(count(c.rank(), p));
    receives.push_back(count(p, c.rank()));
    for (std::int64_t i = 0; i < sends.back(); ++i) send.push_back(value(c.rank(), p, i));
    receive.resize(receive.size() + z(receives.back()), -1);
    if (p != c.rank()) sent += 4 * sends.back();
  }
  const auto before = c.ledger().totals()["all_to_all"].sent_bytes;
  c.all_to_all(exec, view(send), sends, view(receive), receives);
  exec.synchronize();
  EXPECT_EQ(c.ledger().totals()["all_to_all"].sent_bytes - before, z(sent));
  std::size_t at = 0;
  for (int p = 0; p < c.size(); ++p)
    for (std::int64_t i = 0; i < receives[z(p)]; ++i) ASSERT_EQ(receive[at++], value(p, c.rank(), i));
}

inline void broadcast(Communicator& c, tensor::Exec& exec, std::int64_t n) {
  for (int root = 0; root < c.size(); ++root) {
    std::vector<std::uint8_t> data(z(n), static_cast<std::uint8_t>(c.rank() == root ? 40 + root : 255));
    c.broadcast(exec, view(data), root);
    exec.synchronize();
    for (auto byte : data) ASSERT_EQ(byte, 40 + root);
  }
}

// A ring: two messages to the right, distinguished by their order, and one to the left. A single rank sends to itself.
inline void exchange(Communicator& c, tensor::Exec& exec, std::int64_t n) {
  SCOPED_TRACE("exchange of " + std::to_string(n));
  const int right = (c.rank() + 1) % c.size(), left = (c.rank() + c.size() - 1) % c.size();
  if (right == left && c.size() > 1) {  // with two ranks both neighbours are one rank, so message order decides
    std::vector<float> out(z(n), static_cast<float>(c.rank())), in(z(n), -1);
    const std::vector<Transfer> pair{{Transfer::Kind::send, right, view(out)},
                                     {Transfer::Kind::receive, left, view(in)}};
    c.exchange(exec, pair);
    exec.synchronize();
    for (auto v : in) ASSERT_EQ(v, static_cast<float>(left));
    return;
  }
  std::vector<float> first(z(n), 10.0f + static_cast<float>(c.rank())),
      second(z(2 * n), 20.0f + static_cast<float>(c.rank()));
  std::vector<float> a(z(n), -1), b(z(2 * n), -1);
  const std::vector<Transfer> list{{Transfer::Kind::send, right, view(first)},
                                   {Transfer::Kind::receive, left, view(a)},
                                   {Transfer::Kind::receive, left, view(b)},
                                   {Transfer::Kind::send, right, view(second)}};
  c.exchange(exec, list);
  exec.synchronize();
  for (auto v : a) ASSERT_EQ(v, 10.0f + static_cast<float>(left));
  for (auto v : b) ASSERT_EQ(v, 20.0f + static_cast<float>(left));
}

// More messages than a group of NCCL takes; the sizes of neighbours differ, and some are empty.
inline void many_messages(Communicator& c, tensor::Exec& exec) {
  constexpr std::int64_t count = 2500;
  const int right = (c.rank() + 1) % c.size(), left = (c.rank() + c.size() - 1) % c.size();
  std::vector<std::vector<float>> out, in;
  for (std::int64_t i = 0; i < count; ++i) {
    out.emplace_back(z(i % 4), static_cast<float>(c.rank() * count + i));
    in.emplace_back(z(i % 4), -1.0f);
  }
  std::vector<Transfer> transfers;
  for (std::int64_t i = 0; i < count; ++i) transfers.push_back({Transfer::Kind::send, right, view(out[z(i)])});
  for (std::int64_t i = 0; i < count; ++i) transfers.push_back({Transfer::Kind::receive, left, view(in[z(i)])});
  c.exchange(exec, transfers);
  exec.synchronize();
  for (std::int64_t i = 0; i < count; ++i)
    for (const auto v : in[z(i)]) ASSERT_EQ(v, static_cast<float>(left * count + i)) << "message " << i;
}

// Compares several rounds of the ordered reduction with a scalar left-to-right sum. The last round is uneven.
// `reduction_positions` may give ranks positions in the reduction order that differ from their ranks.
inline void ordered(Communicator& c, tensor::Exec& exec, std::int64_t n, bool in_place,
                    const std::vector<int>& reduction_positions = {}) {
  SCOPED_TRACE("ordered_reduce_scatter of " + std::to_string(n));
  const int ranks = c.size();
  const std::vector<int> rounds = in_place ? std::vector<int>{ranks} : std::vector<int>{ranks, ranks, (ranks + 1) / 2};
  const int own_position = reduction_positions.empty() ? c.rank() : reduction_positions[z(c.rank())];
  const auto value = [&](std::size_t round, int reduction_position, std::int64_t i) {
    return contribution(reduction_position + static_cast<int>(round) * ranks, i);
  };
  std::vector<float> in(z(n * ranks)), staging(z(n * ranks)), apart(z(n), NAN);
  const auto sum = in_place ? View::of(in.data() + c.rank() * n, {n}) : view(apart);
  const auto before = c.ledger().totals()["ordered_reduce_scatter"];
  std::uint64_t sent = 0;
  for (std::size_t t = 0; t < rounds.size(); ++t) {
    for (std::int64_t i = 0; i < n * ranks; ++i) in[z(i)] = value(t, own_position, i);
    const bool mine = own_position < rounds[t];
    sent += mine ? static_cast<std::uint64_t>((ranks - 1) * n * 4) : 0;
    ordered_reduce_scatter(c, exec,
                           {.in = mine ? view(in) : View{},
                            .staging = view(staging),
                            .sum = sum,
                            .round = t == 0 ? base::ReductionRound::first : base::ReductionRound::next,
                            .contributors = rounds[t],
                            .reduction_positions = reduction_positions});
    exec.synchronize();
  }
  const auto after = c.ledger().totals()["ordered_reduce_scatter"];
  EXPECT_EQ(after.sent_bytes - before.sent_bytes, sent);
  EXPECT_EQ(after.calls - before.calls, rounds.size()) << "entered once, also in a group of one rank";
  std::int64_t sensitive = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto logical = c.rank() * n + i;
    volatile float in_order = 0, swapped = 0;
    for (std::size_t t = 0; t < rounds.size(); ++t)
      for (int r = 0; r < rounds[t]; ++r) {
        in_order = t == 0 && r == 0 ? value(t, r, logical) : in_order + value(t, r, logical);
        const int other = t == 0 && ranks > 2 ? (r < 1 ? r : r == 1 ? 2 : r == 2 ? 1 : r) : r;
        swapped = t == 0 && r == 0 ? value(t, other, logical) : swapped + value(t, other, logical);
      }
    const float expected = in_order, found = *(sum.ptr<float>() + i), wrong = swapped;
    ASSERT_EQ(std::memcmp(&found, &expected, 4), 0) << "element " << i << ": " << found << " for " << expected;
    sensitive += std::memcmp(&wrong, &expected, 4) != 0;
  }
  if (ranks > 2 && n > 50) {
    EXPECT_GT(sensitive, 0) << "the data must show an exchanged order";
  }
}

inline void everything(Communicator& c, tensor::Exec& exec) {
  many_messages(c, exec);
  for (std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5}, std::int64_t{333}, std::int64_t{20011}}) {
    all_reduce(c, exec, n);
    all_gather(c, exec, n);
    reduce_scatter(c, exec, n);
    all_to_all(c, exec, n);
    broadcast(c, exec, n);
    exchange(c, exec, n);
    c.barrier(exec);
    if (n == 0) continue;
    std::vector<int> reduction_positions;
    for (int r = 0; r < c.size(); ++r) reduction_positions.push_back((2 * c.size() - r - 2) % c.size());
    for (const bool in_place : {false, true}) {
      ordered(c, exec, n, in_place);
      ordered(c, exec, n, in_place, reduction_positions);
    }
  }
  exec.synchronize();
}

}  // namespace trainyard::comm::contract
