// Refuses contradictions before any text is read, because reading takes hours.
#include "tools/shard-data/new_tokenizer.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/byte_size.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/json.h"
#include "libtrain/base/owned.h"
#include "libtrain/base/text.h"
#include "libtrain/data/new_set.h"
#include "libtrain/data/refusals.h"
#include "tools/common/interrupt.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <unistd.h>

namespace trainyard::tools {

namespace {

// The file must be new, and its folder must be there: a run of hours should not end with an error of this kind.
void require_new_file(const std::string& path, const data::BuildOptions& options) {
  if (base::exists(path) || std::filesystem::is_symlink(path))
    throw base::UsageError(fmt::format("--output-tokenizer {} exists already", base::one_line(path)),
                           "name another file; --force replaces a shard set alone");
  const auto folder = base::parent_of(path);
  if (!base::is_folder(folder))
    throw base::UsageError(
        fmt::format("--output-tokenizer {}: there is no folder {}", base::one_line(path), base::one_line(folder)),
        "make it first");
  std::error_code error;
  const auto place = std::filesystem::weakly_canonical(base::absolute_path(path), error);
  const auto set = std::filesystem::weakly_canonical(base::absolute_path(options.output), error);
  if (!options.output.empty() && base::is_within(place, set))
    throw base::UsageError(
        fmt::format("--output-tokenizer {} lies in the folder of the shard set", base::one_line(path)),
        "leave it out: a set keeps its tokenizer; or name a file elsewhere");
  if (options.writing == data::BuildOptions::Writing::on && ::access(folder.c_str(), W_OK) != 0)
    throw base::EnvironmentError(fmt::format("cannot write into the folder {}", base::one_line(folder)),
                                 "--output-tokenizer with another folder");
}

void require_token(const data::TokenizerPlan& plan, const char* flag, const std::string& token) {
  if (token.empty() || data::has_special(plan, token)) return;
  if (const auto id = data::id_of_digits(token); id && *id < plan.vocabulary) return;
  throw base::UsageError(fmt::format("{} {}: the new tokenizer will not have this token", flag, base::excerpt(token)),
                         fmt::format("--special-token {} gives it one", base::excerpt(token)));
}

std::string sample_text(const data::NewTokenizer& made) {
  const auto all = base::size_text(made.text_bytes);
  return made.sample_bytes >= made.text_bytes
             ? fmt::format("all {} of text", all)
             : fmt::format("{} of {} of text, drawn by hash", base::size_text(made.sample_bytes), all);
}

void report(const TokenizerTask& task, const data::NewTokenizer& made, double seconds) {
  fmt::print(stderr, "shard-data: tokenizer {}: {} from {}; {}\n", task.flags.kind,
             base::counted(task.plan.vocabulary, "token"), sample_text(made), duration_text(seconds));
  if (made.words > 0)
    fmt::print(stderr, "shard-data: tokenizer: {}, in {} of memory\n", base::counted(made.words, "different word"),
               base::size_text(made.words_memory));
}

}  // namespace

void add_new_tokenizer(CLI::App& app, NewTokenizerFlags& flags) {
  app.add_option("--train-tokenizer", flags.kind,
                 "train a tokenizer of N tokens on the input, then use it: bpe:N (byte-level, pattern of Llama 3), "
                 "bpe-gpt2:N (pattern of GPT-2), unigram:N or sentencepiece-bpe:N (SentencePiece)")
      ->group("New tokenizer")
      ->type_name("KIND:N");
  app.add_option("--output-tokenizer", flags.output,
                 "file for the new tokenizer; without --output, only the tokenizer is made [the set has it]")
      ->group("New tokenizer")
      ->type_name("FILE");
  app.add_option("--tokenizer-sample", flags.sample,
                 "text that it is trained on at most, drawn over all inputs by hash [1GiB; for SentencePiece 128MiB]")
      ->group("New tokenizer")
      ->type_name("BYTES");
  app.add_option("--special-token", flags.special,
                 "text of a special token; may be repeated. A chat template's tokens and those of --source-language "
                 "and --target-language need not be given [those that end documents]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->group("New tokenizer")
      ->type_name("TOKEN");
}

void require_asked(const NewTokenizerFlags& flags) {
  if (flags.asked()) return;
  const auto* given = !flags.output.empty()    ? "--output-tokenizer"
                      : !flags.sample.empty()  ? "--tokenizer-sample"
                      : !flags.special.empty() ? "--special-token"
                                               : nullptr;
  if (given) throw base::UsageError(fmt::format("{} is for --train-tokenizer", given), "--train-tokenizer bpe:32000");
}

data::TokenizerPlan plan_of(const NewTokenizerFlags& flags, const std::vector<std::string>& needed,
                            const data::DocumentTokens& around) {
  auto plan = data::tokenizer_plan(flags.kind, flags.special);
  if (!needed.empty()) {
    auto special = flags.special;
    for (const auto& token : needed)
      if (!data::has_special(plan, token)) special.push_back(token);
    plan = data::tokenizer_plan(flags.kind, special);
  }
  require_token(plan, "--end-of-document", around.end);
  require_token(plan, "--begin-of-document", around.begin);
  if (around.special_as_text && plan.by_sentencepiece()) throw data::no_special_token(data::file_name_of(plan.kind));
  return plan;
}

TrainedTokenizer train_new_tokenizer(const TokenizerTask& task, data::DocumentSource& source, ProgressMode mode,
                                     data::BuildResult& result) {
  const auto& flags = task.flags;
  const auto& plan = task.plan;
  const auto& options = task.options;
  const auto precious = data::precious_of(source, options);
  if (!options.output.empty()) {
    data::NewSet::check(options, precious);
    if (const auto pipe = source.first_pipe(); !pipe.empty())
      throw base::UsageError(
          fmt::format("--train-tokenizer reads the text twice, once for the set, and {} is a pipe", pipe),
          "put the text into a file; or train first with --output-tokenizer FILE alone, then --tokenizer FILE");
  } else {
    data::Refusals::check(options, precious);
  }
  if (!flags.output.empty()) require_new_file(flags.output, options);
  data::TrainingText text;
  text.sample = flags.sample.empty() ? data::usual_sample(plan.kind)
                                     : base::parse_bytes(flags.sample, "--tokenizer-sample", {1, base::most_bytes});
  text.threads = options.threads;
  text.deduplicate = options.deduplicate;

  data::Refusals refusals(options, result);
  if (options.output.empty()) refusals.open();  // else the list is written with the set
  std::optional<Progress> progress(std::in_place, "shard-data", mode);
  const double start = base::steady_seconds();
  std::optional<double> trained_since;
  const auto reading = [&](std::int64_t bytes) {
    const double seconds = base::steady_seconds() - start;
    if (seconds < 0.5) return;
    const double rate = static_cast<double>(bytes) / seconds;
    auto shown = fmt::format("tokenizer: {} read, {}", base::size_text(bytes), base::rate_text(rate, "B/s"));
    if (source.total_bytes() > 0)
      shown += fmt::format(", {} left", duration_text(static_cast<double>(source.total_bytes() - bytes) / rate));
    progress->show(shown);
  };
  const auto training = [&](std::int64_t tokens) {
    require_not_interrupted();
    if (!trained_since) trained_since = base::steady_seconds();
    const double seconds = base::steady_seconds() - *trained_since;
    if (seconds < 0.5) return;
    progress->show(tokens == 0 ? fmt::format("tokenizer: SentencePiece trains, {}", duration_text(seconds))
                               : fmt::format("tokenizer: {} of {}", base::count_text(tokens),
                                             base::counted(plan.vocabulary, "token")));
  };
  const auto made =
      data::train_tokenizer(source, plan, text, [&](const data::Refusal& r) { refusals.add(r); }, {reading, training});
  progress.reset();
  result.documents = made.documents;
  result.text_bytes = made.text_bytes;
  refusals.finish();

  const auto path = flags.output.empty() ? std::string(data::file_name_of(plan.kind)) : flags.output;
  TrainedTokenizer out{data::tokenizer_of_model(path, made.model, task.around), {}};
  const bool writes = !flags.output.empty() && options.writing == data::BuildOptions::Writing::on;
  if (writes) base::write_file(flags.output, made.model, base::Existing::refuse);
  const double seconds = base::steady_seconds() - start;
  report(task, made, seconds);
  out.report = {{"kind", flags.kind},
                {"file", writes ? nlohmann::ordered_json(flags.output) : nlohmann::ordered_json()},
                {"vocabulary", out.tokenizer->vocabulary()},
                {"end_of_document", out.tokenizer->end_of_document()},
                {"documents", made.documents},
                {"text_bytes", made.text_bytes},
                {"sample_bytes", made.sample_bytes},
                {"different_words", made.words},
                {"seconds", seconds}};
  return out;
}

}  // namespace trainyard::tools
