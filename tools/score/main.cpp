// score: log-likelihoods of endings and of texts, and which endings a model prefers; BLEU and chrF of translations.
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "tools/common/checks.h"
#include "tools/common/program.h"
#include "tools/generate/loaded.h"
#include "tools/generate/output.h"
#include "tools/generate/questions.h"
#include "tools/score/summary.h"
#include "tools/score/translations.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>

namespace trainyard::generate {
namespace {

using nlohmann::ordered_json;

struct ScoreOptions : Options {
  std::string input;
  std::int64_t batch = 16;
};

constexpr std::size_t lines_at_once = 256;  // questions whose endings are sorted by length together

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

File open_input(const std::string& path) {
  if (path == "-") return {};
  File file(std::fopen(path.c_str(), "re"));
  if (!file)
    throw base::InputError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)),
                           "--input names a file with a question on each line; - is standard input");
  return file;
}

class Scoring {
 public:
  explicit Scoring(const ScoreOptions& options)
      : options_(options), file_(open_input(options.input)), loaded_(load_scorer(options, options.batch)),
        name_(options.input == "-" ? "standard input" : options.input) {}

  void run() {
    const double start = base::steady_seconds();
    bool more = true;
    while (more && !output_.gone()) {
      more = read();
      score();
      show_progress(start);
    }
    if (shows_progress()) fmt::print(stderr, "\r\033[K");
    if (number_ == 0)
      throw base::InputError(fmt::format("{}: holds no question", name_), "each line is a JSON object; score --help");
    if (cut_ > 0)
      base::log_warning("{} did not fit into the {} tokens that the model can see: {} end is kept{}",
                        base::counted(cut_, "context"), loaded_.scorer->room(), cut_ == 1 ? "its" : "their",
                        options_.json ? " (context_cut)" : "");
    const auto seconds = base::steady_seconds() - start;
    if (options_.json) output_.write(ordered_json{{"summary", json_summary()}}.dump() + "\n");
    else output_.write(summary_.text());
    if (shows_progress())
      fmt::print(stderr, "score: {} in {} ({:.0f} tokens/s)\n", base::counted(number_, "line"),
                 base::duration_text(seconds), static_cast<double>(tokens_) / seconds);
  }

 private:
  bool shows_progress() const { return isatty(STDERR_FILENO) == 1; }
  void show_progress(double start) const {
    if (!shows_progress()) return;
    const auto seconds = base::steady_seconds() - start;
    fmt::print(stderr, "\rscore: {} ({:.0f} tokens/s)\033[K", base::counted(number_, "line"),
               static_cast<double>(tokens_) / std::max(seconds, 1e-9));
  }

  // Reads up to lines_at_once questions. Returns whether there may be more.
  bool read() {
    questions_.clear();
    while (questions_.size() < lines_at_once) {
      const auto line = read_line(file_ ? file_.get() : stdin, name_);
      if (!line) return false;
      const auto where = fmt::format("{}, line {}", name_, ++line_);
      if (line->too_long) throw too_long_prompt(where);
      if (line->text.find_first_not_of(" \t\r") == std::string::npos) continue;
      questions_.push_back(
          question_of(line->text, where, *loaded_.tokenizer, loaded_.beginning, loaded_.scorer->room()));
      if (questions_.back().id.is_null()) questions_.back().id = line_;
      if (questions_.back().put) name_beginning();
      if (questions_.back().cut > 0) ++cut_;
    }
    return true;
  }

  // Says once what is put before contexts and texts.
  void name_beginning() {
    if (named_) return;
    named_ = true;
    const auto& before = loaded_.beginning;
    if (!before.reported.empty()) base::log_info("{}", before.reported);
    else
      base::log_info("{} is put before a text and before endings without a context. --no-bos leaves it out",
                     names_of(*loaded_.tokenizer, before.alone));
  }

  void score() {
    std::vector<ToScore> texts;
    for (const auto& q : questions_) texts.insert(texts.end(), q.parts.begin(), q.parts.end());
    if (texts.empty()) return;
    const auto scores = loaded_.scorer->score(texts);
    for (const auto& t : texts) tokens_ += static_cast<std::int64_t>(t.tokens.size());
    for (std::size_t at = 0; const auto& q : questions_) {
      const std::span<const Score> own(scores.data() + at, q.parts.size());
      at += q.parts.size(), ++number_;
      auto line = q.is_text ? text_line(q, own) : endings_line(q, own);
      if (options_.json && !output_.gone())
        output_.write(line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    }
  }

  static ordered_json heading(const Question& q) {
    ordered_json out{{"id", q.id}};
    if (!q.group.empty()) out["group"] = q.group;
    return out;
  }

  ordered_json text_line(const Question& q, std::span<const Score> scores) {
    double sum = 0;
    std::int64_t tokens = 0;
    for (const auto& s : scores) sum += s.sum(), tokens += static_cast<std::int64_t>(s.log_probabilities.size());
    summary_.add_text(q.group, sum, tokens, q.bytes);
    auto out = heading(q);
    out["log_likelihood"] = sum;
    out["tokens"] = tokens;
    if (q.bytes > 0) out["bytes"] = q.bytes;
    out["perplexity"] = std::exp(-sum / static_cast<double>(tokens));
    return out;
  }

  ordered_json endings_line(const Question& q, std::span<const Score> scores) {
    std::vector<double> sums, by_character;
    std::vector<bool> greedy;
    auto ids = ordered_json::array();
    for (std::size_t e = 0; e < scores.size(); ++e) {
      const auto& part = q.parts[e];
      sums.push_back(scores[e].sum());
      by_character.push_back(sums.back() / static_cast<double>(std::max<std::int64_t>(1, q.characters[e])));
      greedy.push_back(scores[e].likeliest == static_cast<std::int64_t>(scores[e].log_probabilities.size()));
      ids.push_back(
          std::vector<std::int32_t>(part.tokens.begin() + static_cast<std::ptrdiff_t>(part.first), part.tokens.end()));
    }
    const auto best = [](const std::vector<double>& of) { return std::max_element(of.begin(), of.end()) - of.begin(); };
    const auto choice = best(sums);
    const bool has_characters = std::all_of(q.characters.begin(), q.characters.end(), [](auto n) { return n > 0; });
    auto out = heading(q);
    if (q.cut > 0) out["context_cut"] = q.cut;
    out["log_likelihoods"] = sums;
    out["greedy"] = greedy;
    out["ids"] = ids;
    out["choice"] = choice;
    if (has_characters) out["choice_by_character"] = best(by_character);
    if (!q.answer) return summary_.add_unanswered(), out;
    out["answer"] = *q.answer;
    out["correct"] = choice == *q.answer;
    summary_.add_choice(q.group, choice == *q.answer,
                        has_characters ? std::optional(best(by_character) == *q.answer) : std::nullopt);
    return out;
  }

  ordered_json json_summary() const {
    return {{"checkpoint", loaded_.folder},
            {"step", loaded_.step},
            {"lines", number_},
            {"groups", summary_.json()},
            {"all", summary_.json_of_all()}};
  }

  const ScoreOptions& options_;
  File file_;
  LoadedScorer loaded_;
  std::string name_;
  Output output_;
  std::vector<Question> questions_;
  Summary summary_;
  bool named_ = false;  // what is put before texts
  std::int64_t line_ = 0, number_ = 0, tokens_ = 0, cut_ = 0;
};

void add_options(CLI::App& app, ScoreOptions& o) {
  using tools::in_range;
  const char *const model = "Model", *const input = "Questions";
  app.add_option("--checkpoint", o.checkpoint,
                 "folder of a checkpoint, or of a run, for its newest whole checkpoint; required without --references")
      ->type_name("DIR")
      ->group(model);
  app.add_option("--tokenizer", o.tokenizer, "bytes, or the path of a tokenizer's file [what the checkpoint recorded]")
      ->type_name("FILE")
      ->group(model);
  app.add_option("--threads", o.threads,
                 "most compute threads; 0: OMP_NUM_THREADS, else all cores. The scores do not depend on it [0]")
      ->check(in_range(base::Range<int>{0, 4096}))
      ->type_name("N")
      ->group(model);
  app.add_flag("--stream-weights", o.stream_weights,
               "for a model that is larger than memory: read the weights layer by layer in each pass, and keep none")
      ->group(model);
  app.add_option("--input", o.input,
                 "file with a JSON object on each line, or with --references a translation; - is standard input")
      ->type_name("FILE")
      ->group(input);
  app.add_option("--batch", o.batch, "endings and texts in a pass. The scores do not depend on it [16]")
      ->check(in_range(base::Range<std::int64_t>{1, 4096}))
      ->type_name("N")
      ->group(input);
  app.add_flag("--no-bos", o.no_begin,
               "put no token before contexts and texts, as never before token ids; see generate --help")
      ->group(input);
}

constexpr const char* lines =
    "Lines of --input: {\"context\": TEXT, \"endings\": [TEXT, ...], \"answer\": NUMBER} or\n"
    "{\"text\": TEXT}; of token ids {\"context_ids\": [...], \"endings_ids\": [[...], ...]}\n"
    "or {\"ids\": [...]}; in each also \"id\" and \"group\".";

}  // namespace
}  // namespace trainyard::generate

int main(int argc, char** argv) {
  using namespace trainyard;
  CLI::App app{"", "score"};
  tools::describe_program(app,
                          "Scores endings of contexts and whole texts by their log-likelihood in a trained model: "
                          "multiple-choice accuracy, perplexity. Scores translations by BLEU and chrF.",
                          "  echo '{\"text\": \"In the beginning\"}' | score --checkpoint run --input -\n"
                          "  echo '{\"context\": \"In\", \"endings\": [\" a\", \" b\"], \"answer\": 1}' | score "
                          "--checkpoint run --input - --json\n"
                          "  echo 'the cat sat on the mat' >right; echo 'a cat sat on the mat' | score --references "
                          "right\n",
                          "generate, train --evaluate; tools/guide/evaluate.md, tools/guide/translations.md");
  generate::ScoreOptions o;
  score::TranslationOptions translations;
  generate::add_options(app, o);
  score::add_translation_options(app, translations);
  app.add_flag(
         "--json", o.json,
         "print a line of JSON for each question, and a summary at the end; of translations, a line for each metric")
      ->group("Output");
  app.footer(std::string(generate::lines) + "\n\n" + app.get_footer());
  return tools::guarded(app, argc, argv, [&] {
    base::configure_log("score", 0, base::LogLevel::info);
    score::check_mode(app, translations);
    generate::warn_of_several("score", "the whole result");
    if (!translations.references.empty()) {
      translations.input = o.input.empty() ? "-" : o.input;
      translations.json = o.json;
      score::score_translations(translations);
    } else {
      generate::Scoring(o).run();
    }
    return base::ExitCode::done;
  });
}
