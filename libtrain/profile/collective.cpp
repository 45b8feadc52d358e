// Periodic test values: rank r holds values[(i + rank_shift * r) % period] at i. So a sum over ranks has the same
// period, and is made once.
#include "libtrain/profile/collective.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/random.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

namespace trainyard::profile {

namespace {

// Primes, so that no size of a piece hides a wrong place.
constexpr std::int64_t period = 4099, rank_shift = 977, peer_shift = 131;

double as_double(const char* at, base::DType t) {
  float v = 0;
  base::to_f32(t, at, 1, &v);
  return v;
}
void put(char* at, base::DType t, double value) {
  const auto v = static_cast<float>(value);
  base::from_f32(t, &v, 1, at);
}

// Whole numbers, of which more and more are zero until the sum over all ranks is exact in the digits of a narrow dtype.
// Or, if `rounding`, numbers of many magnitudes that round at every addition.
std::vector<char> make_values(base::DType t, int ranks, bool rounding) {
  const auto width = base::size_of(t);
  std::vector<char> out(base::size(period * width));
  for (std::uint32_t thin = 1;; thin *= 2) {
    double most = 0;
    for (std::int64_t i = 0; i < period; ++i) {
      const auto words = base::random_words(1, 2, static_cast<std::uint64_t>(i));
      const double v = rounding ? (1 + words[0] * 0x1p-32) *
                                      std::ldexp(words[2] % 2 == 0 ? 1 : -1, static_cast<int>(words[1] % 12) - 6)
                       : words[1] % thin == 0 ? words[0] % 7 + 1
                                              : 0;
      put(out.data() + i * width, t, v);
    }
    if (rounding || !base::is_narrow(t)) return out;
    for (std::int64_t i = 0; i < period; ++i) {
      double sum = 0;
      for (int r = 0; r < ranks; ++r) sum += as_double(out.data() + (i + rank_shift * r) % period * width, t);
      most = std::max(most, sum);
    }
    if (most <= std::ldexp(1, base::traits_of(t).digits)) return out;
  }
}

// The left-to-right sum over ranks in ascending order, with one rounding for each addition.
std::vector<char> make_sums(const std::vector<char>& values, base::DType t, int ranks) {
  const auto width = base::size_of(t);
  std::vector<char> out(values.size());
  for (std::int64_t i = 0; i < period; ++i) {
    auto sum = static_cast<float>(as_double(values.data() + i * width, t));
    for (int r = 1; r < ranks; ++r)
      sum += static_cast<float>(as_double(values.data() + (i + rank_shift * r) % period * width, t));
    put(out.data() + i * width, t, sum);
  }
  return out;
}

// Calls each(at, table offset, bytes) for runs of a periodic sequence that begins at element `start` of the table; `at`
// is a byte offset in the sequence.
template <class Each> void runs(std::int64_t start, std::int64_t count, std::int64_t width, const Each& each) {
  std::int64_t at = start % period;
  for (std::int64_t i = 0; i < count;) {
    const auto n = std::min(count - i, period - at);
    each(i * width, at * width, n * width);
    i += n, at = 0;
  }
}

void fill(char* to, const std::vector<char>& table, std::int64_t start, std::int64_t count, std::int64_t width) {
  runs(start, count, width, [&](std::int64_t at, std::int64_t from, std::int64_t n) {
    std::memcpy(to + at, table.data() + from, base::size(n));
  });
}

std::int64_t mismatches(const char* found, const std::vector<char>& table, std::int64_t start, std::int64_t count,
                        std::int64_t width) {
  std::int64_t wrong = 0;
  runs(start, count, width, [&](std::int64_t at, std::int64_t from, std::int64_t n) {
    if (std::memcmp(found + at, table.data() + from, base::size(n)) == 0) return;
    for (std::int64_t k = 0; k < n; k += width)
      wrong += std::memcmp(found + at + k, table.data() + from + k, base::size(width)) != 0;
  });
  return wrong;
}

// Made once for each dtype, number of ranks and `rounding`, by the thread that asks first.
std::shared_ptr<const Pattern> pattern_of(base::DType t, int ranks, bool rounding) {
  static std::mutex mutex;
  static std::map<std::tuple<base::DType, int, bool>, std::shared_ptr<const Pattern>> known;
  std::lock_guard lock(mutex);
  auto& p = known[{t, ranks, rounding}];
  if (!p) {
    auto values = make_values(t, ranks, rounding);
    auto sums = make_sums(values, t, ranks);
    p = std::make_shared<const Pattern>(Pattern{std::move(values), std::move(sums)});
  }
  return p;
}

bool in_place(const std::string& operation) { return operation == "all_reduce" || operation == "broadcast"; }

}  // namespace

const std::vector<std::string>& operation_names() {
  static const std::vector<std::string> names{"all_reduce", "all_gather", "reduce_scatter", "ordered_reduce_scatter",
                                              "all_to_all", "broadcast",  "exchange"};
  return names;
}
bool offers(const std::string& operation, base::DType dtype) {
  return operation != "ordered_reduce_scatter" || dtype == base::DType::f32;
}

Size shape_of(const std::string& operation, int ranks, base::DType dtype, std::int64_t bytes) {
  const auto width = base::size_of(dtype);
  const bool pieces = !in_place(operation) && operation != "exchange";
  const auto count = std::max<std::int64_t>(1, bytes / width / (pieces ? ranks : 1));
  return {count * width * (pieces ? ranks : 1), count};
}

Buffers::Buffers(base::Device device, std::int64_t largest_bytes)
    : arena_(tensor::Category::communication_staging, 3 * base::aligned(largest_bytes), device) {
  in = arena_.allocate_bytes(largest_bytes), out = arena_.allocate_bytes(largest_bytes),
  staging = arena_.allocate_bytes(largest_bytes);
  if (device.kind == base::DeviceKind::cuda) host_.resize(base::size(largest_bytes));
  host = host_.empty() ? nullptr : host_.data();
}

Collective::Collective(std::string operation, comm::Communicator& comm, tensor::Exec& exec, base::DType dtype,
                       Size size, const Buffers& buffers)
    : operation_(std::move(operation)), comm_(comm), exec_(exec), dtype_(dtype), size_(size), in_(buffers.in),
      out_(buffers.out), staging_(buffers.staging), counts_(base::size(comm.size()), size.count),
      pattern_(pattern_of(dtype, comm.size(), operation_ == "ordered_reduce_scatter")), host_(buffers.host) {
  if (in_place(operation_)) out_ = in_;
}

base::View Collective::view(void* data, std::int64_t count) const {
  return base::View(data, dtype_, {count}, exec_.device());
}

void Collective::prepare() {
  const auto width = base::size_of(dtype_), all = size_.bytes / width, n = size_.count;
  const int me = comm_.rank(), ranks = comm_.size();
  char* to = exec_.on_gpu() ? host_ : static_cast<char*>(in_);
  const auto hand_over = [&](void* where) {
    if (!exec_.on_gpu()) return;
    tensor::copy(exec_, base::View(host_, base::DType::u8, {size_.bytes}),
                 base::View(where, base::DType::u8, {size_.bytes}, exec_.device()));
    exec_.synchronize();
  };
  if (!in_place(operation_) || (operation_ == "broadcast" && me != 0)) {  // nonsense: NaN in every format
    std::memset(exec_.on_gpu() ? host_ : static_cast<char*>(out_), 0xff, base::size(size_.bytes));
    hand_over(out_);
    if (operation_ == "broadcast") return;
  }
  if (operation_ == "all_to_all")
    for (int q = 0; q < ranks; ++q)
      fill(to + q * n * width, pattern_->values, rank_shift * me + peer_shift * q, n, width);
  else if (operation_ == "all_gather") fill(to, pattern_->values, rank_shift * me, n, width);
  else fill(to, pattern_->values, rank_shift * me, all, width);
  hand_over(in_);
}

void Collective::clear() { tensor::clear(exec_, base::View(in_, base::DType::u8, {size_.bytes}, exec_.device())); }

void Collective::call() {
  const auto all = size_.bytes / base::size_of(dtype_), n = size_.count;
  const int me = comm_.rank(), ranks = comm_.size();
  if (operation_ == "all_reduce") return comm_.all_reduce(exec_, view(in_, all), comm::Reduction::sum);
  if (operation_ == "all_gather") return comm_.all_gather(exec_, view(in_, n), view(out_, all));
  if (operation_ == "reduce_scatter") return comm_.reduce_scatter(exec_, view(in_, all), view(out_, n));
  if (operation_ == "ordered_reduce_scatter")
    return comm::ordered_reduce_scatter(comm_, exec_,
                                        {.in = view(in_, all),
                                         .staging = view(staging_, all),
                                         .sum = view(out_, n),
                                         .round = base::ReductionRound::first,
                                         .contributors = ranks});
  if (operation_ == "all_to_all") return comm_.all_to_all(exec_, view(in_, all), counts_, view(out_, all), counts_);
  if (operation_ == "broadcast") return comm_.broadcast(exec_, view(in_, all), 0);
  TRAINYARD_ASSERT(operation_ == "exchange", "{}", operation_);
  const comm::Transfer transfers[] = {{comm::Transfer::Kind::send, (me + 1) % ranks, view(in_, all)},
                                      {comm::Transfer::Kind::receive, (me + ranks - 1) % ranks, view(out_, all)}};
  comm_.exchange(exec_, transfers);
}

std::int64_t Collective::wrong() {
  const auto width = base::size_of(dtype_), all = size_.bytes / width, n = size_.count;
  const int me = comm_.rank(), ranks = comm_.size();
  const char* found = static_cast<const char*>(out_);
  if (exec_.on_gpu()) {
    tensor::copy(exec_, base::View(out_, base::DType::u8, {size_.bytes}, exec_.device()),
                 base::View(host_, base::DType::u8, {size_.bytes}));
    exec_.synchronize();
    found = host_;
  }
  if (operation_ == "all_reduce") return mismatches(found, pattern_->sums, 0, all, width);
  if (operation_ == "reduce_scatter" || operation_ == "ordered_reduce_scatter")
    return mismatches(found, pattern_->sums, me * n, n, width);
  if (operation_ == "broadcast") return mismatches(found, pattern_->values, 0, all, width);
  if (operation_ == "exchange")
    return mismatches(found, pattern_->values, rank_shift * ((me + ranks - 1) % ranks), all, width);
  std::int64_t wrong = 0;
  for (int q = 0; q < ranks; ++q)
    wrong += mismatches(found + q * n * width, pattern_->values,
                        rank_shift * q + (operation_ == "all_to_all" ? peer_shift * me : 0), n, width);
  return wrong;
}

}  // namespace trainyard::profile
