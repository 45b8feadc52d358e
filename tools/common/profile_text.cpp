// Writes the tables of a profile.
#include "tools/common/profile_text.h"

#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::tools {

namespace {

double gigabytes(std::int64_t bytes, double seconds) { return static_cast<double>(bytes) / seconds / 1e9; }
double half_width(const plan::CommPoint& p) { return (p.interval.high - p.interval.low) / 2 / p.seconds * 100; }

std::string series_title(const plan::CommSeries& s) {
  return fmt::format("{} {} on {}: {} of {} ranks", base::one_line(s.operation), base::one_line(s.type),
                     base::one_line(s.group), s.groups == 1 ? "1 group" : fmt::format("{} groups at once", s.groups),
                     s.ranks);
}

std::string local_text(const std::string& unit, double v) {
  return unit == "s" ? base::duration_text(v) : base::rate_text(v, unit);
}

std::string bytes_text(std::int64_t bytes, base::Sizes sizes) {
  return sizes == base::Sizes::exact ? std::to_string(bytes) : base::binary_size_text(bytes);
}

std::string series_table(const plan::CommSeries& s, base::Sizes sizes) {
  std::string out = fmt::format(
      "# {}\n#{:>11} {:>11} {:>5} {:>11} {:>5} {:>11} {:>11} {:>8} {:>8} {:>12} {:>6}\n#{:>11} {:>11} {:>5} {:>11} "
      "{:>5} {:>11} {:>11} {:>8} {:>8} {:>12} {:>6}\n",
      series_title(s), "size", "count", "type", "time", "+-", "p95", "p99", "algbw", "busbw", "slowest", "#wrong",
      sizes == base::Sizes::exact ? "(B)" : "", "(elements)", "", "(us)", "(%)", "(us)", "(us)", "(GB/s)", "(GB/s)",
      "(rank, %)", "");
  for (const auto& p : s.points) {
    const double rate = gigabytes(p.bytes, p.seconds);
    out += fmt::format(
        "{:>12} {:>11} {:>5} {:>11.2f} {:>5.1f} {:>11.2f} {:>11.2f} {:>8.3f} {:>8.3f} {:>6} {:>4.0f}% {:>6}\n",
        bytes_text(p.bytes, sizes), p.count, s.type, p.seconds * 1e6, half_width(p), p.p95 * 1e6, p.p99 * 1e6, rate,
        rate * plan::bus_factor(s.operation, s.ranks), p.slowest_rank, p.slowest_share * 100, p.wrong);
  }
  const auto unsure =
      std::count_if(s.points.begin(), s.points.end(), [](const plan::CommPoint& p) { return half_width(p) > 100; });
  if (unsure > 0)
    out += fmt::format(
        "# {} above 100 %: {} repeats differ by more than their median; measure with a longer --budget, or without "
        "other work on the machine\n",
        unsure == 1 ? "one +- is" : fmt::format("{} of +- are", unsure), unsure == 1 ? "its" : "their");
  return out +
         fmt::format("# fit: {}\n# held-out error {:.1f} % of sizes, {:.1f} % of repeats, noise floor {:.1f} %\n\n",
                     fit_text(s.fit, sizes), s.fit.held_out_error * 100, s.fit.held_out_repeats_error * 100,
                     s.noise_floor * 100);
}

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

std::string fit_text(const plan::LinkFit& fit, base::Sizes sizes) {
  std::string out;
  for (const auto& s : fit.segments) {
    out += fmt::format(
        "{}from {} {:.3g} us", out.empty() ? "" : "; ",
        sizes == base::Sizes::exact ? fmt::format("{} B", s.from_bytes) : base::binary_size_text(s.from_bytes),
        s.latency_seconds * 1e6);
    if (s.seconds_per_byte > 0) out += " + bytes / " + base::rate_text(1 / s.seconds_per_byte, "B/s");
  }
  return out;
}

std::string profile_table(const plan::Profile& p, base::Sizes sizes) {
  std::string out =
      fmt::format("# {} rank{} on {} node{} ({}{}{}), {}, {}\n", p.ranks, p.ranks == 1 ? "" : "s", p.nodes.size(),
                  p.nodes.size() == 1 ? "" : "s", base::one_line(p.backend), p.library.empty() ? "" : ": ",
                  base::one_line(p.library), base::one_line(p.device), base::one_line(p.measured_at));
  for (const auto& s : p.communication) out += series_table(s, sizes);
  if (p.local.empty()) return out;
  out += fmt::format("# local ceilings, {}\n#{:<31} {:<26} {:>7} {:>18}   {}\n",
                     p.ranks == 1 ? "one process" : "the slowest of all ranks at once", "name", "shape", "threads",
                     "median", "90 % of repeats");
  for (const auto& r : p.local)
    out += fmt::format("{:<32} {:<26} {:>7} {:>18}   {} to {}\n", base::one_line(r.name), base::one_line(r.shape),
                       r.threads, local_text(r.unit, r.value), local_text(r.unit, r.interval.low),
                       local_text(r.unit, r.interval.high));
  return out;
}

std::string profile_csv(const plan::Profile& p) {
  std::string out;
  if (!p.communication.empty()) {
    out +=
        "group,ranks,groups,operation,type,bytes,count,time_us,time_us_low,time_us_high,p95_us,p99_us,algbw_gb_s,busbw_"
        "gb_s,fit_us,calls,slowest_rank,slowest_share,wrong\n";
    for (const auto& s : p.communication)
      for (const auto& q : s.points) {
        const double rate = gigabytes(q.bytes, q.seconds);
        out += fmt::format(
            "{},{},{},{},{},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{:.6g},{},{},{:.4g},{}\n",
            quoted(s.group), s.ranks, s.groups, s.operation, s.type, q.bytes, q.count, q.seconds * 1e6,
            q.interval.low * 1e6, q.interval.high * 1e6, q.p95 * 1e6, q.p99 * 1e6, rate,
            rate * plan::bus_factor(s.operation, s.ranks), s.fit.seconds(q.bytes) * 1e6, q.calls, q.slowest_rank,
            q.slowest_share, q.wrong);
      }
  }
  if (p.local.empty()) return out;
  out += "name,shape,threads,unit,value,value_low,value_high\n";
  for (const auto& r : p.local)
    out += fmt::format("{},{},{},{},{:.6g},{:.6g},{:.6g}\n", quoted(r.name), quoted(r.shape), r.threads, r.unit,
                       r.value, r.interval.low, r.interval.high);
  return out;
}

std::string comparison_text(const plan::ProfileComparison& c, double most) {
  std::string out;
  const auto slower = plan::regressions(c, most);
  const auto value = [](const plan::ProfileChange& x, double v) { return local_text(x.unit, v); };
  for (const auto& x : slower)
    out += fmt::format("slower   {:<52} {:>14} -> {:>14}  {:+.1f} %\n", x.what, value(x, x.before), value(x, x.after),
                       x.change * 100);
  auto faster = c.changes;
  std::erase_if(faster, [&](const plan::ProfileChange& x) { return x.change > -most; });
  const auto beyond = std::count_if(c.changes.begin(), c.changes.end(),
                                    [&](const plan::ProfileChange& x) { return x.change > most && !x.outside; });
  out += fmt::format(
      "{} of {} figures are slower by more than {:g} % and outside the interval; {} more are slower by that, but "
      "inside it; {} are faster by as much\n",
      slower.size(), c.changes.size(), most * 100, beyond, faster.size());
  if (!c.judgements.empty()) {
    out += fmt::format("\nfits of the first on the second\n{:<44} {:>9} {:>9} {:>7} {:>10}\n", "", "error", "noise",
                       "ratio", "coverage");
    double error = 0, noise = 0, inside = 0, repeats = 0;
    for (const auto& j : c.judgements) {
      out += fmt::format("{:<44} {:>7.1f} % {:>7.1f} % {:>7.2f} {:>8.1f} %\n", j.what, j.error * 100, j.noise * 100,
                         j.noise > 0 ? j.error / j.noise : 0, j.coverage * 100);
      error += j.error, noise += j.noise, inside += j.coverage * static_cast<double>(j.repeats),
          repeats += static_cast<double>(j.repeats);
    }
    const auto n = static_cast<double>(c.judgements.size());
    out += fmt::format("{:<44} {:>7.1f} % {:>7.1f} % {:>7.2f} {:>8.1f} %  of {:.0f} repeats\n", "all", error / n * 100,
                       noise / n * 100, noise > 0 ? error / noise : 0, inside / repeats * 100, repeats);
  }
  if (!c.missing.empty()) out += fmt::format("\nmeasured in the first only: {}\n", fmt::join(c.missing, "; "));
  return out;
}

}  // namespace trainyard::tools
