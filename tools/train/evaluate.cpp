// Runs an evaluation from flags, and prints its table.
#include "tools/train/evaluate.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/text.h"
#include "libtrain/data/translation/scores.h"
#include "libtrain/engine/evaluate.h"
#include "tools/common/checks.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/train/metric.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace trainyard::tools {

namespace {

bool is_masked(const engine::Evaluation& e) { return e.objective == "masked"; }
bool has_pairs(const engine::Evaluation& e) { return e.objective == "pairs"; }
bool restores(const engine::Evaluation& e) { return e.mask_span > 0; }

std::string hidden_text(const engine::Evaluation& e) {
  if (restores(e))
    return fmt::format("spans of {:.4g} tokens on average, at a rate of {:.4g}", e.mask_span, e.mask_rate);
  return fmt::format("{}, chosen at a rate of {}", e.mask_words == "on" ? "words" : "tokens", e.mask_rate);
}

nlohmann::ordered_json to_json(const std::vector<MetricScore>& scores) {
  nlohmann::ordered_json out;
  for (const auto& s : scores) {
    auto& of = out[s.metric] = {{"score", s.score}, {"pairs", s.pairs}, {"signature", s.signature}};
    for (const auto& l : s.of_languages) of["languages"][l.languages] = {{"score", l.score}, {"pairs", l.pairs}};
  }
  return out;
}

// The lines of scores in the table of an evaluation.
std::string to_text(const std::vector<MetricScore>& scores) {
  std::string out;
  for (const auto& s : scores) {
    out += fmt::format("{:<16}{:.2f} of {} pairs, {}\n", s.metric, s.score, s.pairs, s.signature);
    for (const auto& l : s.of_languages)
      out += fmt::format("  {:<14}{:.2f} of {} pairs\n", base::one_line(l.languages), l.score, l.pairs);
  }
  return out;
}

nlohmann::ordered_json to_json(const engine::Evaluation& e) {
  const auto known = [&](auto value) {
    return e.unmeasured > 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  const auto finite = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nlohmann::ordered_json(); };
  nlohmann::ordered_json out{
      {"checkpoint", base::text_of_path(e.checkpoint)},
      {"step", e.step},
      {"data", base::text_of_path(e.data)},
      {"split", e.split},
      {"dtype", e.dtype},
      {"sequence", e.sequence},
      {"document_mask", e.document_mask},
      {"objective", e.objective},
      {"answers_only", e.answers_only},
      {"mask_rate", is_masked(e) || restores(e) ? nlohmann::ordered_json(e.mask_rate) : nlohmann::ordered_json()},
      {"mask_words", is_masked(e) ? nlohmann::ordered_json(e.mask_words) : nlohmann::ordered_json()},
      {"sequences", e.sequences},
      {"split_tokens", e.split_tokens},
      {"tokens", e.tokens},
      {"bytes", known(e.bytes)},
      {"loss", e.loss},
      {"perplexity", finite(e.perplexity())},
      {"bits_per_byte", finite(e.bits_per_byte())}};
  if (e.source_sequence > 0) out["source_sequence"] = e.source_sequence;
  if (e.gates)
    for (const auto& g : e.gates->layers)
      out["experts"].push_back({{"layer", g.layer}, {"choices", g.choices}, {"dropped_share", g.dropped_share}});
  if (restores(e)) out["mask_span"] = e.mask_span;
  if (e.streamed)
    out["streamed_weights"] = {{"bytes", e.streamed->read},
                               {"predicted_bytes", e.streamed->predicted},
                               {"first_step_bytes", e.streamed->first_step},
                               {"later_step_bytes", e.streamed->later_step},
                               {"block_bytes", e.streamed->block_bytes},
                               {"wait_seconds", e.streamed->wait_seconds},
                               {"memory_bytes", e.measured.total()},
                               {"predicted_memory_bytes", e.predicted.total()}};
  return out;
}

std::string streamed_text(const engine::StreamedWeights& s) {
  return fmt::format("{} bytes read of the checkpoint, predicted {}, difference {}; {:.2f} s waited for them", s.read,
                     s.predicted, s.read - s.predicted, s.wait_seconds);
}

std::string memory_text(const engine::Evaluation& e) {
  const auto measured = e.measured.total(), predicted = e.predicted.total();
  return fmt::format("{} bytes of arenas, predicted {}, difference {}", measured, predicted, measured - predicted);
}

std::string gates_text(const engine::GateMetrics& gates) {
  double least = gates.fullest;
  for (const auto& g : gates.layers) least = std::min(least, g.emptiest);
  return fmt::format("loads from {:.2f} to {:.2f} of an even share; {:.2g} % of the choices dropped", least,
                     gates.fullest, 100 * gates.dropped_share);
}

std::string to_text(const engine::Evaluation& e) {
  const auto row = [](const char* name, const std::string& value) { return fmt::format("{:<16}{}\n", name, value); };
  const auto bits = e.bits_per_byte();
  return row("checkpoint", fmt::format("{} (step {}, computed in {})", base::one_line(e.checkpoint), e.step, e.dtype)) +
         row("data",
             fmt::format("{}: {} sequence{} of {}{} tokens of the {} split", base::one_line(e.data), e.sequences,
                         e.sequences == 1 ? "" : "s",
                         e.source_sequence > 0 ? fmt::format("{} + ", e.source_sequence) : "", e.sequence, e.split)) +
         row("tokens", fmt::format("{} {}, of {} in the split", e.tokens,
                                   is_masked(e)     ? "hidden and predicted"
                                   : e.answers_only ? "predicted in answers"
                                                    : "predicted",
                                   e.split_tokens)) +
         (is_masked(e) || restores(e) ? row("hidden", hidden_text(e)) : "") +
         (e.unmeasured > 0 ? "" : row("bytes", fmt::format("{}", e.bytes))) +
         row("loss", fmt::format("{:.6g}", e.loss)) + row("perplexity", fmt::format("{:.6g}", e.perplexity())) +
         row("bits per byte", std::isfinite(bits) ? fmt::format("{:.6g}", bits)
                              : e.unmeasured > 0  ? fmt::format("not known: {}", e.unmeasured_why)
                                                  : "-") +
         (e.gates ? row("experts", gates_text(*e.gates)) : "") +
         (e.streamed ? row("weights", streamed_text(*e.streamed)) + row("memory", memory_text(e)) : "");
}

void refuse_training_flags(const std::vector<base::Field>& fields) {
  std::vector<std::string> wrong;
  for (const auto& f : fields)
    if (f.source == base::from_flag &&
        (!engine::evaluation_settings().contains(f.name) || (f.name == "plan" && f.get() == engine::auto_plan)))
      wrong.push_back(f.name == "plan" ? "--plan auto" : "--" + f.name);
  if (!wrong.empty())
    throw base::UsageError(fmt::format("{} {} for training: an evaluation does not use {}", fmt::join(wrong, ", "),
                                       wrong.size() == 1 ? "is" : "are", wrong.size() == 1 ? "it" : "them"),
                           fmt::format("leave {} out, or train without --evaluate", wrong.size() == 1 ? "it" : "them"));
}

}  // namespace

EvaluateFlags::EvaluateFlags(CLI::App& app) : app_(app) {
  app.add_option("--evaluate", checkpoint_, "instead of training: loss of a checkpoint or a run")
      ->type_name("CHECKPOINT")
      ->group("Evaluating");
  app.add_option("--evaluate-split", split_, "read this split: validation or train [validation]")
      ->check(one_of({"validation", "train"}))
      ->group("Evaluating")
      ->type_name("TEXT");
  app.add_option("--evaluate-sequences", sequences_, "read the first N sequences of it; 0: all [0]")
      ->check(in_range(base::Range<std::int64_t>{0, std::int64_t{1} << 40}))
      ->group("Evaluating")
      ->type_name("N");
  app.add_option("--metric", metrics_, "bleu, chrf, chrf++ of targets written for pairs")
      ->check(one_of(data::translation::metric_names()))
      ->delimiter(',')
      ->group("Evaluating")
      ->type_name("NAME,...");
  app.add_flag("--stream-weights", stream_weights_, "read weights layer by layer, and keep none")->group("Evaluating");
  app.add_flag("--json", json_, "print the evaluation as JSON")->group("Evaluating");
}

bool EvaluateFlags::asked() const { return app_.get_option("--evaluate")->count() > 0; }

void EvaluateFlags::check() const {
  for (const char* mine : {"--evaluate-split", "--evaluate-sequences", "--metric", "--stream-weights", "--json"})
    if (!asked() && app_.get_option(mine)->count() > 0)
      throw base::UsageError(fmt::format("{} is only for --evaluate CHECKPOINT", mine),
                             "add --evaluate CHECKPOINT, or leave it out");
  if (!metrics_.empty() && stream_weights_)
    throw base::UsageError("--metric writes targets with weights that are kept in memory",
                           "leave --stream-weights out");
  auto metrics = metrics_;
  std::sort(metrics.begin(), metrics.end());
  if (const auto twice = std::adjacent_find(metrics.begin(), metrics.end()); twice != metrics.end())
    throw base::UsageError(fmt::format("--metric names {} twice", *twice), "name each metric once");
  for (const char* other : {"--dry-run", "--memory-report"})
    if (asked() && app_.get_option(other)->count() > 0)
      throw base::UsageError(fmt::format("{} is for training: it does not go with --evaluate", other), "leave it out");
}

base::ExitCode EvaluateFlags::run(const engine::RunConfig& config, const std::vector<base::Field>& fields,
                                  Launch& launch) const {
  std::optional<Progress> progress;
  launch.on_every_rank([&] {
    refuse_training_flags(fields);
    const auto mode = progress_mode(config.progress);
    if (launch.world().rank == 0) progress.emplace("evaluate", mode);
  });
  engine::EvaluateConfig c;
  c.checkpoint = checkpoint_, c.split = split_, c.sequences = sequences_, c.run = config,
  c.stream_weights = stream_weights_;
  for (const auto& f : fields)
    if (f.source != base::from_default) c.given.insert(f.name);
  auto& world = launch.world();
  double begun = base::steady_seconds();
  std::int64_t first = 0;  // sequences of a set's first report, which took the time to start as well
  double first_seconds = 0;
  const auto watch = [&](std::int64_t done, std::int64_t all, double loss) {
    const double seconds = base::steady_seconds() - begun;
    const auto so_far = loss > 0 ? fmt::format("  loss so far {:.4f}", loss) : "";
    if (first == 0) first = done, first_seconds = seconds;
    const double a_sequence = (seconds - first_seconds) / static_cast<double>(std::max<std::int64_t>(1, done - first));
    progress->show(
        fmt::format("sequence {}/{}{}{}", done, all, so_far,
                    done == first && done < all
                        ? ""
                        : fmt::format("  {} left", duration_text(a_sequence * static_cast<double>(all - done)))),
        done == all ? Progress::Update::last : Progress::Update::passing);
    if (done == all) first = 0, begun = base::steady_seconds();  // another set may follow
  };
  bool is_first = true;
  const auto show = [&](const engine::Evaluation& result, const std::vector<MetricScore>& scores) {
    auto json = to_json(result);
    if (!scores.empty()) json["metrics"] = to_json(scores);
    print(json_ ? json.dump() + "\n" : (is_first ? "" : "\n") + to_text(result) + to_text(scores));
    is_first = false;
  };
  if (metrics_.empty()) {
    engine::evaluate_sets(c, world, watch, [&](const engine::Evaluation& result) { show(result, {}); });
    return base::ExitCode::done;
  }
  // All losses first, because only they are watched: ranks that end their pairs early wait for the others.
  const auto results = engine::evaluate_sets(c, world, watch);
  const bool any = std::any_of(results.begin(), results.end(), has_pairs);
  for (const auto& result : results) {
    std::vector<MetricScore> scores;
    if (has_pairs(result) || !any)  // without any, this refuses
      scores = metric_scores(result, config, metrics_, sequences_, world, [&](std::int64_t done, std::int64_t all) {
        progress->show(fmt::format("pair {}/{}", done, all),
                       done == all ? Progress::Update::last : Progress::Update::passing);
      });
    if (world.rank == 0) show(result, scores);
  }
  return base::ExitCode::done;
}

}  // namespace trainyard::tools
