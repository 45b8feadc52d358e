// The passes over points, what a rank does in one visit, and when enough is known.
#include "libtrain/profile/sweep.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/profile/collective.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>

namespace trainyard::profile {

namespace {

constexpr double visit_seconds = 2e-3;  // of timed calls in a visit, if the next two limits allow it
constexpr int fewest_samples = 3, most_samples = 256;
constexpr double gpu_batch_seconds = 1e-4;  // of GPU calls between two waits
constexpr std::size_t kept_samples = 4096;  // times of single calls of a point; its p95 and p99 come from them

base::DType dtype_of(const plan::CommSeries& s) { return base::dtype_from_name(s.type); }

// A point while its measurements come in.
struct Open {
  std::size_t series, point, family;
  double call_seconds = 0;  // as last measured
  std::vector<double> calls;
  std::int64_t timed = 0;
  double slowest = 0, wrong = 0;  // calls in which this rank was slowest; wrong elements of all ranks
  bool known = false;
};

class Sweep {
 public:
  Sweep(Ranks& ranks, const std::vector<plan::GroupFamily>& families, const SweepOptions& options,
        const SweepListener& listener, comm::Ledger& rounds)
      : ranks_(ranks), families_(families), options_(options), listener_(listener), rounds_(rounds),
        out_(planned(families, options)) {
    std::size_t family = 0;
    for (std::size_t s = 0; s < out_.size(); ++s) {
      while (families_[family].name != out_[s].group) ++family;
      for (std::size_t p = 0; p < out_[s].points.size(); ++p) points_.push_back({s, p, family, 0, {}, 0, 0, 0, false});
    }
    join_groups();
  }

  std::vector<plan::CommSeries> run() {
    begin_ = now();
    pass(Kind::warming);
    double before = agreed_elapsed();
    // The first pass opens connections, so a later pass may take a quarter of its time, but not less.
    refuse_short_budget(before + least_passes * before / 4, before + least_passes * longest_pass(before), before);
    for (int done = 0;; ++done) {
      const double elapsed = agreed_elapsed(), last = elapsed - before;
      if (done == 1)
        refuse_short_budget(elapsed + (least_passes - 1) * last, elapsed + (least_passes - 1) * last, last);
      if (done >= least_passes && (open() == 0 || elapsed + last > options_.budget_seconds)) break;
      pause_until(options_.budget_seconds * options_.spread * done / settled_repeats);
      before = agreed_elapsed();
      pass(Kind::measuring);
      if (ranks_.rank == 0 && listener_.on_pass)
        listener_.on_pass(done + 1, now() - begin_, open(), static_cast<int>(points_.size()));
    }
    finish();
    return std::move(out_);
  }

 private:
  enum class Kind { warming, measuring };

  double now() const { return ranks_.clock->now(); }

  void join_groups() {
    for (const auto& family : families_) {
      comms_.emplace_back();
      on_all(ranks_, [&] {
        for (const auto& group : family.groups)
          if (std::find(group.begin(), group.end(), ranks_.rank) != group.end())
            comms_.back() = ranks_.between(family.name, group);
      });
    }
  }

  int open() const {
    return static_cast<int>(std::count_if(points_.begin(), points_.end(), [](const Open& p) { return !p.known; }));
  }

  double agreed_elapsed() {
    std::vector<double> elapsed{now() - begin_};
    largest(ranks_, elapsed);
    return elapsed[0];
  }

  void pause_until(double elapsed) const {
    const double left = elapsed - (now() - begin_);
    if (left > 0) ranks_.clock->sleep(left);
  }

  // The longest that a measuring pass may take, predicted from the first calls: the time of the warming pass, and the
  // repeats of each visit.
  double longest_pass(double warming) const {
    double seconds = warming;
    for (const auto& p : points_) seconds += std::max(visit_seconds, fewest_samples * p.call_seconds) + p.call_seconds;
    return seconds;
  }

  // The suggested budget has room for the longest prediction, and for a busier machine. So it is not refused as well.
  void refuse_short_budget(double least, double most, double pass_seconds) const {
    if (least <= options_.budget_seconds + options_.borrowed_seconds) return;
    const double wanted = most * 2, elsewhere = options_.elsewhere_seconds;
    throw AgreedError(
        base::ExitCode::usage,
        fmt::format("a budget of {:g} s is too short: {}one pass over {} points takes {}, and {} are needed for "
                    "confidence intervals",
                    options_.budget_seconds + elsewhere,
                    elsewhere > 0 ? fmt::format("the rank itself takes {}, ",
                                                base::duration_text(elsewhere - options_.borrowed_seconds))
                                  : "",
                    points_.size(), base::duration_text(pass_seconds), least_passes),
        base::text("$budget {:.0f}s, a lower $max-bytes, a larger $factor, or fewer $operations and $groups",
                   std::ceil(elsewhere > 0 ? std::max(1.5 * wanted, wanted + 2 * elsewhere) : wanted)));
  }

  void pass(Kind kind) {
    std::int64_t most = 8;
    for (const auto& p : points_)
      if (!p.known) most = std::max(most, out_[p.series].points[p.point].bytes);
    std::optional<Buffers> buffers;
    on_all(ranks_, [&] { buffers.emplace(ranks_.exec->device(), most); });
    std::vector<std::size_t> order(points_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random_);  // the same on every rank
    for (const auto i : order)
      if (!points_[i].known) visit(points_[i], *buffers, kind);
  }

  void visit(Open& p, const Buffers& buffers, Kind kind) {
    const auto& series = out_[p.series];
    const auto& point = series.points[p.point];
    rounds_.begin(series.operation.c_str(), 0);
    std::optional<Collective> mine;
    std::vector<double> seen{0, 0};  // seconds of the first call, wrong elements
    if (comms_[p.family]) {
      mine.emplace(series.operation, *comms_[p.family], *ranks_.exec, dtype_of(series), Size{point.bytes, point.count},
                   buffers);
      mine->prepare();
    }
    together();
    if (mine) {
      seen[0] = timed_calls(*mine, 1);
      seen[1] = static_cast<double>(mine->wrong());
    }
    auto wrong = seen[1];
    if (kind == Kind::warming) {
      largest(ranks_, seen);
      p.call_seconds = std::max(seen[0], 1e-9);
    } else {
      wrong += measure(p, mine);
    }
    std::vector<double> all{wrong};
    sums(ranks_, all);
    p.wrong += all[0];
    rounds_.end(0, 0);
  }

  // Does the timed calls of a visit. Returns the wrong elements of this rank after the last of them.
  double measure(Open& p, std::optional<Collective>& mine) {
    const bool repeatable = out_[p.series].operation != "all_reduce";  // in place: its result is its next input
    const int batch =
        ranks_.exec->on_gpu() ? std::clamp(static_cast<int>(gpu_batch_seconds / p.call_seconds), 1, 1000) : 1;
    const int n = std::clamp(static_cast<int>(visit_seconds / (p.call_seconds * batch)), fewest_samples, most_samples);
    std::vector<double> own(base::size(n), 0);
    if (mine) {
      if (repeatable) mine->prepare();
      else mine->clear();
      ranks_.exec->synchronize();
    }
    together();
    if (mine) {
      double before = now();
      for (auto& t : own) t = timed_calls(*mine, batch, before) / batch;
    }
    auto slowest = own;
    largest(ranks_, slowest);
    take(p, own, slowest, batch);
    if (!mine) {
      if (!repeatable) together();
      return 0;
    }
    if (!repeatable) {
      mine->prepare();
      together();
      mine->call();
      ranks_.exec->synchronize();
    }
    return static_cast<double>(mine->wrong());
  }

  double timed_calls(Collective& c, int calls) {
    double before = now();
    return timed_calls(c, calls, before);
  }
  // Seconds from `before` until the calls are over; sets `before` to that end.
  double timed_calls(Collective& c, int calls, double& before) {
    for (int i = 0; i < calls; ++i) c.call();
    ranks_.exec->synchronize();
    const double after = now(), seconds = after - before;
    before = after;
    return seconds;
  }

  void take(Open& p, const std::vector<double>& own, const std::vector<double>& slowest, int batch) {
    auto& point = out_[p.series].points[p.point];
    point.repeats.push_back(base::median(slowest));
    p.call_seconds = point.repeats.back();
    for (std::size_t i = 0; i < own.size(); ++i) {
      p.slowest += own[i] > 0 && own[i] == slowest[i];
      if (p.calls.size() < kept_samples) p.calls.push_back(slowest[i]);
      else if (const auto at = random_() % static_cast<std::uint64_t>(p.timed + static_cast<std::int64_t>(i) + 1);
               at < kept_samples)
        p.calls[at] = slowest[i];
    }
    p.timed += static_cast<std::int64_t>(own.size());
    point.calls += static_cast<std::int64_t>(own.size()) * batch;
    if (static_cast<int>(point.repeats.size()) < settled_repeats) return;
    const auto interval = base::median_interval(point.repeats);
    p.known = (interval.high - interval.low) / 2 <= options_.confidence * base::median(point.repeats);
  }

  void finish() {
    std::vector<double> slowest;
    for (const auto& p : points_) slowest.push_back(p.slowest);
    std::vector<double> all(slowest.size() * base::size(ranks_.size));
    if (ranks_.size > 1)
      ranks_.control->all_gather(*ranks_.caller,
                                 base::View::of(slowest.data(), {static_cast<std::int64_t>(slowest.size())}),
                                 base::View::of(all.data(), {static_cast<std::int64_t>(all.size())}));
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const auto& p = points_[i];
      auto& point = out_[p.series].points[p.point];
      point.seconds = base::median(point.repeats);
      point.interval = base::median_interval(point.repeats);
      point.p95 = base::quantile(p.calls, 0.95), point.p99 = base::quantile(p.calls, 0.99);
      point.wrong = static_cast<std::int64_t>(p.wrong);
      for (int r = 0; r < ranks_.size; ++r) {
        const double share = all[base::size(r) * points_.size() + i] / static_cast<double>(p.timed);
        if (share > point.slowest_share) point.slowest_rank = r, point.slowest_share = share;
      }
    }
    if (ranks_.rank != 0) return;
    for (auto& s : out_) {
      const auto samples = s.samples();
      s.fit = plan::fit_link(samples);
      s.noise_floor = plan::noise_floor(samples);
    }
  }

  void together() {
    if (ranks_.size > 1) ranks_.control->barrier(*ranks_.caller);
  }

  Ranks& ranks_;
  const std::vector<plan::GroupFamily>& families_;
  const SweepOptions& options_;
  const SweepListener& listener_;
  comm::Ledger& rounds_;
  std::vector<plan::CommSeries> out_;
  std::vector<Open> points_;
  std::vector<std::unique_ptr<comm::Communicator>> comms_;  // this rank's group in each family; null: none
  std::mt19937_64 random_{20};
  double begin_ = 0;
};

}  // namespace

std::vector<plan::CommSeries> planned(const std::vector<plan::GroupFamily>& families, const SweepOptions& o) {
  std::vector<plan::CommSeries> out;
  for (const auto& family : families)
    for (const auto& operation : o.operations)
      for (const auto dtype : o.dtypes) {
        if (std::find(o.left_out.begin(), o.left_out.end(), std::pair(family.name, operation)) != o.left_out.end())
          continue;
        if (!offers(operation, dtype) || (!plan::adds(operation) && dtype != o.dtypes.front())) continue;
        plan::CommSeries s;
        s.group = family.name, s.operation = operation, s.type = base::name_of(dtype);
        s.ranks = family.size(), s.groups = static_cast<int>(family.groups.size());
        for (auto bytes = o.min_bytes; bytes <= o.max_bytes; bytes *= o.factor) {
          const auto size = shape_of(operation, s.ranks, dtype, bytes);
          if (!s.points.empty() && s.points.back().bytes >= size.bytes) continue;
          s.points.emplace_back();
          s.points.back().bytes = size.bytes, s.points.back().count = size.count;
        }
        out.push_back(std::move(s));
      }
  return out;
}

std::vector<plan::CommSeries> sweep(Ranks& ranks, const std::vector<plan::GroupFamily>& families,
                                    const SweepOptions& options, const SweepListener& listener, comm::Ledger& rounds) {
  return Sweep(ranks, families, options, listener, rounds).run();
}

}  // namespace trainyard::profile
