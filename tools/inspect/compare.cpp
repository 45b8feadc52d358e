// Compares runs step by step. Equal runs have equal bits, so the comparison is bitwise.
#include "tools/inspect/compare.h"

#include "libtrain/base/error.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/recorded_layout.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/report.h"
#include "libtrain/engine/run_folder.h"
#include "tools/inspect/text.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <fmt/ranges.h>
#include <set>

namespace trainyard::inspect {

namespace {

// Compares bits; any two NaNs are equal.
bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

std::optional<Difference> difference(const Sample& a, const Sample& b) {
  // A value that one of the two did not record is no difference: older versions wrote less.
  if (a.loss && b.loss && !same_bits(*a.loss, *b.loss)) return Difference{a.step, "loss", *a.loss, *b.loss};
  if (a.gradient_norm && b.gradient_norm && !same_bits(*a.gradient_norm, *b.gradient_norm))
    return Difference{a.step, "gradient norm", *a.gradient_norm, *b.gradient_norm};
  if (a.validation_loss && b.validation_loss && !same_bits(*a.validation_loss, *b.validation_loss))
    return Difference{a.step, "validation loss", *a.validation_loss, *b.validation_loss};
  return {};
}

const Sample* at_step(const History& h, std::int64_t step) {
  const auto found = std::lower_bound(h.samples.begin(), h.samples.end(), step,
                                      [](const Sample& s, std::int64_t wanted) { return s.step < wanted; });
  return found != h.samples.end() && found->step == step ? &*found : nullptr;
}

// The last step up to `most` that all runs have, with a loss if there is one; -1 if they have none in common.
std::int64_t last_of_all(const std::vector<NamedHistory>& runs, std::int64_t most) {
  std::int64_t last = -1;
  for (auto s = runs[0].history.samples.rbegin(); s != runs[0].history.samples.rend(); ++s) {
    const auto all = [&](const auto& has) {
      return std::all_of(runs.begin(), runs.end(), [&](const NamedHistory& r) {
        const auto* there = at_step(r.history, s->step);
        return there != nullptr && has(*there);
      });
    };
    if (s->step > most || !all([](const Sample&) { return true; })) continue;
    if (all([](const Sample& there) { return there.loss.has_value(); })) return s->step;
    last = std::max(last, s->step);
  }
  return last;
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return absent;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double speed_of(const History& h) {
  std::vector<double> all;
  for (const auto& s : h.samples) all.push_back(s.tokens_per_second);
  return median(std::move(all));
}

// The shortest ends of the paths that distinguish the runs.
std::vector<std::string> short_names(const std::vector<std::string>& paths) {
  std::vector<std::vector<std::string>> parts;
  std::size_t longest = 0;
  for (const auto& given : paths) {
    auto path = std::filesystem::absolute(given).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    if (path.filename() == "metrics.jsonl") path = path.parent_path();
    auto& mine = parts.emplace_back();
    for (const auto& part : path) mine.push_back(part.string());
    longest = std::max(longest, mine.size());
  }
  std::vector<std::string> names;
  for (std::size_t depth = 1; depth <= longest; ++depth) {
    names.clear();
    for (const auto& p : parts)
      names.push_back(fmt::format(
          "{}", fmt::join(p.end() - std::ssize(p) +
                              std::max<std::ptrdiff_t>(0, std::ssize(p) - static_cast<std::ptrdiff_t>(depth)),
                          p.end(), "/")));
    if (std::set<std::string>(names.begin(), names.end()).size() ==
        std::set<std::vector<std::string>>(parts.begin(), parts.end()).size())
      break;
  }
  if (std::set<std::string>(names.begin(), names.end()).size() == names.size())
    return names;  // otherwise a name occurs twice
  for (std::size_t i = 0; i < names.size(); ++i) names[i] += fmt::format(" ({})", i + 1);
  return names;
}

std::string signed_number(double v) { return v == 0 ? "0" : fmt::format("{:+.3g}", v); }

std::string sentence(const std::string& a, const std::string& b, const Comparison& c) {
  if (c.last < 0) return fmt::format("{} and {} have no step in common", a, b);
  if (!c.at)
    return fmt::format("{} and {} are equal for all {}, bit for bit", a, b, base::counted(c.common, "common step"));
  return fmt::format("{} and {} first differ at step {}: {} {} and {}, {}", a, b, c.at->step, c.at->key, c.at->first,
                     c.at->second, signed_number(c.at->second - c.at->first));
}

// Reasons why two runs may differ. The step of their checkpoints is no reason, since it can differ within one run; the
// table shows it.
struct Reasons {
  std::vector<engine::FieldDifference> fields;
  std::string first_layout, second_layout;  // set if the layouts differ
};
Reasons reasons_of(const NamedHistory& a, const NamedHistory& b) {
  Reasons r;
  if (!a.state || !b.state) return r;
  r.fields = engine::differences(*a.state, *b.state);
  std::erase_if(r.fields, [](const auto& d) { return d.name == "step"; });
  const auto layout = [](const checkpoint::RunState& s) {
    const auto ranks = checkpoint::recorded_layout(s).ranks;
    return (ranks ? base::counted(*ranks, "rank") + ", " : "") + engine::checkpoint_layout(s);
  };
  if (layout(*a.state) != layout(*b.state)) r.first_layout = layout(*a.state), r.second_layout = layout(*b.state);
  return r;
}

std::string text_of(const Reasons& r, const std::string& a, const std::string& b) {
  std::string out;
  for (const auto& d : r.fields) out += fmt::format("  {}\n", base::one_line(engine::text_of(d, a, b)));
  if (!r.first_layout.empty())
    out += fmt::format("  layout: {} has {}; {} has {}\n", a, r.first_layout, b, r.second_layout);
  return out;
}

nlohmann::json json_of(const Reasons& r) {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& d : r.fields) out.push_back({{"name", d.name}, {"first", d.first}, {"second", d.second}});
  if (!r.first_layout.empty())
    out.push_back({{"name", "layout"}, {"first", r.first_layout}, {"second", r.second_layout}});
  return out;
}

// The state of a run's newest readable checkpoint. A metrics file belongs to its folder's run only if it is called
// metrics.jsonl.
std::optional<checkpoint::RunState> state_of(const std::string& metrics) {
  const std::filesystem::path file(metrics);
  if (file.filename() != "metrics.jsonl") return {};
  const auto folder = file.has_parent_path() ? file.parent_path().string() : std::string(".");
  try {
    for (const auto& held : checkpoint::list(engine::checkpoints_folder(folder))) try {
        return checkpoint::read_state(held.path);
      } catch (const base::Error&) {  // damaged: an older checkpoint has the same settings
      }
  } catch (const base::Error&) {  // metrics are compared without it
  }
  return {};
}

nlohmann::json json_of(const Comparison& c) {
  nlohmann::json j{{"common_steps", c.common},
                   {"last_common_step", nullptr},
                   {"equal", c.last >= 0 && !c.at},
                   {"first_difference", nullptr}};
  if (c.last >= 0) j["last_common_step"] = c.last;
  if (c.at)
    j["first_difference"] = {{"step", c.at->step},
                             {"key", c.at->key},
                             {"first", number_or_null(c.at->first)},
                             {"second", number_or_null(c.at->second)}};
  return j;
}

}  // namespace

std::vector<NamedHistory> read_histories(const std::vector<std::string>& paths) {
  const auto names = short_names(paths);
  std::vector<NamedHistory> runs;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto file = metrics_file(paths[i], "comparing");
    if (std::filesystem::path(file).extension() != ".jsonl")
      throw base::InputError(fmt::format("{} is no metrics file", file),
                             "several paths are compared: give the folders of runs, or metrics files");
    runs.push_back({names[i], paths[i], read_history(file), state_of(file)});
    if (runs.back().history.samples.empty())
      throw base::InputError(fmt::format("{} holds no line of metrics", file), "train writes one after every step");
  }
  return runs;
}

Comparison compare(const History& a, const History& b) {
  Comparison c;
  for (auto x = a.samples.begin(), y = b.samples.begin(); x != a.samples.end() && y != b.samples.end();) {
    if (x->step != y->step) {
      ++(x->step < y->step ? x : y);
      continue;
    }
    ++c.common;
    c.last = x->step;
    if (!c.at) c.at = difference(*x, *y);
    ++x, ++y;
  }
  return c;
}

Report comparison_report(const std::vector<NamedHistory>& runs, Across across) {
  Report report;
  std::vector<Curve> curves;
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  std::vector<Comparison> all;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    curves.push_back({curve_of(runs[i].history, across, &Sample::loss), static_cast<char>('A' + i)});
    all.push_back(compare(runs[0].history, runs[i].history));
    last = std::min(last, all.back().last);
  }
  last = last_of_all(runs, last);
  report.json = {{"kind", "comparison"}, {"across", label_of(across)}, {"runs", nlohmann::json::array()}};
  report.json["last_common_step"] = last >= 0 ? nlohmann::json(last) : nlohmann::json();
  std::vector<std::vector<std::string>> rows;
  const auto loss_at = [&](const History& h) {
    const auto* s = last >= 0 ? at_step(h, last) : nullptr;
    return s != nullptr && s->loss ? *s->loss : absent;
  };
  const double first = loss_at(runs[0].history), first_speed = speed_of(runs[0].history);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& h = runs[i].history;
    const auto validation = curve_of(h, Across::step, &Sample::validation_loss);
    const auto* newest = latest_loss(h);
    const double common = loss_at(h), speed = speed_of(h), latest = newest == nullptr ? absent : *newest->loss;
    rows.push_back(
        {std::string(1, curves[i].letter), runs[i].name, human_count(h.samples.back().step), number_text(latest),
         last < 0 ? "-" : number_text(common), last < 0 || i == 0 ? "-" : signed_number(common - first),
         validation.empty() ? "-" : number_text(validation.back().y),
         std::isfinite(speed) ? base::count_rate_text(speed, "tokens/s") : "-",
         i == 0 || !(first_speed > 0) || !std::isfinite(speed) ? "-" : fmt::format("{:.2f}x", speed / first_speed)});
    nlohmann::json j{{"name", base::text_of_path(runs[i].name)},
                     {"path", base::text_of_path(runs[i].path)},
                     {"steps", h.samples.back().step},
                     {"loss", number_or_null(latest)},
                     {"loss_at_last_common_step", number_or_null(common)},
                     {"difference", number_or_null(common - first)},
                     {"median_tokens_per_second", number_or_null(speed)},
                     {"not_finite", not_finite(h)}};
    if (!validation.empty()) j["validation_loss"] = validation.back().y;
    if (runs[i].state) j["layout"] = j["cut"] = engine::checkpoint_layout(*runs[i].state);  // cut: former name
    if (i > 0) j["against_first"] = json_of(all[i]);
    if (i > 0) j["against_first"]["reasons"] = json_of(reasons_of(runs[0], runs[i]));
    report.json["runs"].push_back(std::move(j));
  }
  report.text = fmt::format("loss of {} runs\n", runs.size());
  const auto chart = draw(curves, tools::terminal_columns(), 18, tools::glyphs_of_terminal(), label_of(across));
  report.text += chart.empty() ? fmt::format("  no run has losses over {} to draw\n", label_of(across)) : chart;
  const auto heading = last < 0 ? std::string(">at") : fmt::format(">at {}", last);
  report.text += fmt::format(
      "\n{}\n",
      tools::table({"", "run", ">steps", ">loss", heading, ">difference", ">validation", ">speed", ">"}, rows));
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const auto first = base::one_line(runs[0].name), second = base::one_line(runs[i].name);
    report.text += sentence(first, second, all[i]) + "\n" + text_of(reasons_of(runs[0], runs[i]), first, second);
  }
  return report;
}

}  // namespace trainyard::inspect
