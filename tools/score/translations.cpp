// Reads translations beside their references, adds up what their lines give, and prints scores.
#include "tools/score/translations.h"

#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/translation/lines.h"
#include "libtrain/data/translation/resampling.h"
#include "libtrain/data/translation/scores.h"
#include "libtrain/engine/build_info.h"
#include "tools/common/checks.h"
#include "tools/common/program.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace trainyard::score {
namespace {

namespace translation = data::translation;
using nlohmann::ordered_json;
using translation::Interval;
using translation::Metric;

constexpr std::int64_t suspicious_lines = 100;  // as many lines that end with " ." look tokenized

// What the lines of one text give for one metric.
struct Sums {
  std::vector<std::int64_t> all, lines;  // lines: of each line, if texts are resampled
  void add(translation::LineScorer& scorer, std::string_view hypothesis, std::span<const std::string_view> references,
           bool keep) {
    const auto width = translation::integers_of(scorer.rule().metric);
    std::vector<std::int64_t> line(width);
    scorer.add(hypothesis, references, line);
    all.resize(width);
    for (std::size_t i = 0; i < width; ++i) all[i] += line[i];
    if (keep) lines.insert(lines.end(), line.begin(), line.end());
  }
};

struct Scored {
  translation::LineScorer scorer;
  Sums own = {}, baseline = {};
};

struct Compared {
  double score = 0, p_value = 1;
};

struct Result {
  Metric metric = Metric::bleu;
  double score = 0;
  std::optional<translation::BleuScore> bleu = {};
  std::optional<Interval> interval = {};
  std::optional<Compared> baseline = {};
  std::string signature = {};
};

class TranslationScoring {
 public:
  explicit TranslationScoring(const TranslationOptions& options) : options_(options) {
    for (const auto& name : options.metrics)
      scored_.push_back(
          {translation::LineScorer({translation::metric_of(name), translation::bleu_tokenizer_of(options.tokenizer)})});
    if (options.confidence > 0) resamples_ = translation::Resamples{options.confidence, options.seed};
  }

  void run() {
    read();
    std::string out;
    for (const auto& scored : scored_) {
      const auto result = result_of(scored);
      out += options_.json ? json_of(result).dump() + "\n" : text_of(result) + "\n";
    }
    tools::print(out);
  }

 private:
  void read() {
    std::vector<std::string> paths{options_.input};
    paths.insert(paths.end(), options_.references.begin(), options_.references.end());
    if (!options_.baseline.empty()) paths.push_back(options_.baseline);
    translation::ParallelLines texts(paths);
    std::vector<std::string> lines;
    std::vector<std::string_view> references(options_.references.size());
    std::int64_t tokenized = 0;
    while (texts.next(lines)) {
      std::copy_n(lines.begin() + 1, references.size(), references.begin());
      if (lines.front().ends_with(" .")) ++tokenized;
      for (auto& s : scored_) {
        s.own.add(s.scorer, lines.front(), references, resamples_.has_value());
        if (!options_.baseline.empty()) s.baseline.add(s.scorer, lines.back(), references, resamples_.has_value());
      }
    }
    lines_ = texts.number();
    const bool has_bleu = std::any_of(scored_.begin(), scored_.end(),
                                      [](const auto& s) { return s.scorer.rule().metric == Metric::bleu; });
    if (has_bleu && tokenized >= suspicious_lines)
      base::log_warning(
          "{} lines of {} end with a space and a full stop. Score text as people read it: other scores "
          "of BLEU are of such text",
          tokenized, texts.name(0));
  }

  Result result_of(const Scored& s) const {
    const auto metric = s.scorer.rule().metric;
    Result out{.metric = metric, .score = translation::score_of(metric, s.own.all)};
    if (metric == Metric::bleu) out.bleu = translation::bleu_of(s.own.all);
    out.signature =
        translation::signature_of(s.scorer.rule(), std::ssize(options_.references), resamples_,
                                  "trainyard-" + engine::build_versions().at("trainyard").get<std::string>());
    if (!resamples_) return out;
    const auto scores = translation::resampled_scores(metric, s.own.lines, *resamples_);
    out.interval = translation::interval_of(scores);
    if (options_.baseline.empty()) return out;
    const auto others = translation::resampled_scores(metric, s.baseline.lines, *resamples_);
    const auto other = translation::score_of(metric, s.baseline.all);
    out.baseline = Compared{other, translation::p_value_of(scores, others, out.score - other)};
    return out;
  }

  static std::string text_of(const Result& r) {
    auto out = fmt::format("{} {:.2f}", translation::title_of(r.metric), r.score);
    if (r.interval)
      out += fmt::format(", 95 % in {:.2f} to {:.2f} (mean {:.2f} +- {:.2f})", r.interval->low, r.interval->high,
                         r.interval->mean, r.interval->half_width());
    if (r.baseline)
      out += fmt::format(", {:+.2f} to the baseline's {:.2f} (p {:.4f})", r.score - r.baseline->score,
                         r.baseline->score, r.baseline->p_value);
    if (r.bleu)
      out += fmt::format(", precisions {:.1f}/{:.1f}/{:.1f}/{:.1f}, brevity penalty {:.3f}, ratio {:.3f}, {} for {}",
                         r.bleu->precisions[0], r.bleu->precisions[1], r.bleu->precisions[2], r.bleu->precisions[3],
                         r.bleu->brevity_penalty, r.bleu->ratio(), base::counted(r.bleu->hypothesis_words, "word"),
                         base::count_text(r.bleu->reference_words));
    return out + ", " + r.signature;
  }

  ordered_json json_of(const Result& r) const {
    ordered_json out{{"metric", translation::title_of(r.metric)}, {"score", r.score}};
    if (r.bleu) {
      out["precisions"] = r.bleu->precisions;
      out["brevity_penalty"] = r.bleu->brevity_penalty;
      out["ratio"] = r.bleu->ratio();
      out["hypothesis_words"] = r.bleu->hypothesis_words;
      out["reference_words"] = r.bleu->reference_words;
      out["matched_ngrams"] = r.bleu->matched;
      out["all_ngrams"] = r.bleu->all;
    }
    out["lines"] = lines_;
    if (r.interval)
      out["confidence"] = {{"mean", r.interval->mean},
                           {"half_width", r.interval->half_width()},
                           {"low", r.interval->low},
                           {"high", r.interval->high}};
    if (r.baseline)
      out["baseline"] = {{"input", base::text_of_path(options_.baseline)},
                         {"score", r.baseline->score},
                         {"difference", r.score - r.baseline->score},
                         {"p_value", r.baseline->p_value}};
    out["signature"] = r.signature;
    return out;
  }

  const TranslationOptions& options_;
  std::vector<Scored> scored_;
  std::optional<translation::Resamples> resamples_;
  std::int64_t lines_ = 0;
};

bool is_given(const CLI::App& app, const std::string& flag) { return app.count(flag) > 0; }

}  // namespace

void add_translation_options(CLI::App& app, TranslationOptions& o) {
  using tools::in_range;
  const char* const group = "Translations";
  app.add_option("--references", o.references,
                 "score translations without a model: the lines of --input [standard input] are compared with those of "
                 "this file; of several files, each has one reference of a line")
      ->expected(1, -1)
      ->type_name("FILE...")
      ->group(group);
  app.add_option("--metric", o.metrics,
                 "bleu; chrf, of characters (chrF2); chrf++, also of words (chrF2++); or several [bleu,chrf]")
      ->delimiter(',')
      ->check(tools::one_of(translation::metric_names()))
      ->type_name("NAME,...")
      ->group(group);
  app.add_option("--bleu-tokenizer", o.tokenizer,
                 "the words that BLEU counts: 13a, intl (punctuation of all scripts), zh (Chinese), char (each "
                 "character), none (words between spaces) [13a]")
      ->check(tools::one_of(translation::bleu_tokenizer_names()))
      ->type_name("NAME")
      ->group(group);
  app.add_option("--confidence", o.confidence,
                 "resamples of the lines; prints the interval that holds 95 % of their scores. 1000 is usual")
      ->check(in_range(base::Range<std::int64_t>{2, 1'000'000}))
      ->type_name("N")
      ->group(group);
  app.add_option("--seed", o.seed, "with --confidence: seed of the resamples [12345]")
      ->check(tools::any_seed())
      ->type_name("N")
      ->group(group);
  app.add_option(
         "--baseline", o.baseline,
         "with --confidence: another system's translations, scored on the same resamples. Prints the difference, "
         "and how probable it is between equally good systems")
      ->type_name("FILE")
      ->group(group);
}

void check_mode(const CLI::App& app, const TranslationOptions& o) {
  if (!is_given(app, "--references")) {
    for (const char* flag : {"--metric", "--bleu-tokenizer", "--confidence", "--seed", "--baseline"})
      if (is_given(app, flag))
        throw base::UsageError(fmt::format("{} needs --references", flag),
                               "score --references FILE --input FILE compares translations");
    for (const char* flag : {"--checkpoint", "--input"})
      if (!is_given(app, flag))
        throw base::UsageError(fmt::format("{} is required", flag),
                               "score --checkpoint DIR --input FILE; or, of translations without a model, score "
                               "--references FILE --input FILE (score --help)");
    return;
  }
  for (const char* flag : {"--checkpoint", "--tokenizer", "--threads", "--stream-weights", "--batch", "--no-bos"})
    if (is_given(app, flag))
      throw base::UsageError(fmt::format("{} is of no use beside --references", flag),
                             flag == std::string_view("--tokenizer")
                                 ? "--bleu-tokenizer chooses the words that BLEU counts"
                                 : "translations are compared with --references alone, without a model: leave it out");
  for (const char* flag : {"--seed", "--baseline"})
    if (is_given(app, flag) && !is_given(app, "--confidence"))
      throw base::UsageError(fmt::format("{} needs --confidence", flag), "--confidence 1000 is usual");
  auto metrics = o.metrics;
  std::sort(metrics.begin(), metrics.end());
  if (const auto twice = std::adjacent_find(metrics.begin(), metrics.end()); twice != metrics.end())
    throw base::UsageError(fmt::format("--metric names {} twice", *twice), "name each metric once");
  if (is_given(app, "--bleu-tokenizer") && std::find(metrics.begin(), metrics.end(), "bleu") == metrics.end())
    throw base::UsageError(fmt::format("--bleu-tokenizer {} is of no use without the metric bleu", o.tokenizer),
                           "--metric bleu; chrF counts characters");
}

void score_translations(const TranslationOptions& options) { TranslationScoring(options).run(); }

}  // namespace trainyard::score
