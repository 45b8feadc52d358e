// shard-data: converts text to token shards.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/byte_size.h"
#include "libtrain/base/cores.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/json.h"
#include "libtrain/base/log.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/text.h"
#include "libtrain/data/builder.h"
#include "libtrain/data/new_set.h"
#include "libtrain/data/task_builder.h"
#include "tools/common/checks.h"
#include "tools/common/interrupt.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/shard-data/report.h"
#include "tools/shard-data/settings.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <unistd.h>

namespace {

using namespace trainyard;
using tools::Settings, tools::print_summary, tools::print_tokenizer, tools::print_waiting;
using Json = nlohmann::ordered_json;

constexpr const char* examples =
    "  shard-data --input book.txt --split paragraphs --output data\n"
    "  shard-data --input . --include '*.txt' --split paragraphs --output data-txt\n"
    "  shard-data --input book.jsonl.gz --json-key text --output data-jsonl --rejects rejects.tsv\n"
    "  shard-data --input book.txt --tokenizer llama3/tokenizer.json --output data-bpe --split paragraphs\n"
    "  shard-data --input book.txt --split paragraphs --train-tokenizer bpe:1000 --output data-own\n"
    "  for i in 0 1; do shard-data --input book.txt --split lines --output data-2 --task $i/2; done\n";

std::optional<data::TextSplit> split_of(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  return name == "lines"        ? data::TextSplit::lines
         : name == "paragraphs" ? data::TextSplit::paragraphs
                                : data::TextSplit::whole;
}

void add_options(CLI::App& app, Settings& s) {
  using tools::in_range, tools::one_of;
  app.add_option("--input", s.inputs,
                 "text or .jsonl files, .gz and .zst too; folders, with their subfolders; -: standard input; @FILE: a "
                 "list of paths")
      ->group("Input")
      ->required()
      ->type_name("FILE");
  app.add_option("--include", s.include,
                 "in folders, read only files whose name fits this shell pattern, in quotes; may be repeated [all but "
                 "hidden files]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->group("Input")
      ->type_name("PATTERN");
  app.add_option("--json-key", s.json_key, "key of the text in JSON lines [text]")->group("Input");
  app.add_option("--chat-template", s.chat,
                 "JSON lines hold conversations (messages, conversations, or prompt and response or completion), put "
                 "together by this template: chatml, plain or a TOML file; marks which tokens are answers")
      ->group("Input")
      ->type_name("TEMPLATE");
  app.add_option("--keep-field", s.fields,
                 "key of JSON lines whose value is kept beside each document, for train --data SET[KEY=VALUE]; may be "
                 "repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->group("Input")
      ->type_name("KEY");
  app.add_option("--split", s.split,
                 "how plain text becomes documents: whole (one a file), lines (not blank; with their line feeds), "
                 "paragraphs [whole]")
      ->check(one_of({"whole", "lines", "paragraphs"}))
      ->group("Input");
  tools::add_pairs(app, s.pairs);
  app.add_flag("--deduplicate", s.deduplicate,
               "of documents with the same text, keep the first, over all inputs and tasks; takes up to 64 bytes of "
               "memory for each different document")
      ->group("Input");
  app.add_option("--max-document", s.largest,
                 "largest document; longer text is cut there, a longer JSON line refused [16MiB]")
      ->group("Input");
  app.add_option("--rejects", s.rejects, "file that lists refused documents: source, line, reason")->group("Input");
  app.add_option("--max-rejects", s.max_rejects, "share of refused documents above which nothing is written [0.01]")
      ->check(in_range(base::Range<double>{0, 1}))
      ->group("Input");
  app.add_option("--output", s.output, "folder of the shard set; required, unless --output-tokenizer is given")
      ->group("Output")
      ->type_name("DIR");
  app.add_option(
         "--tokenizer", s.tokenizer,
         "bytes, or the path of a SentencePiece model or of a tokenizer.json; a published model has its "
         "tokenizer.json or tokenizer.model in its folder on Hugging Face, and --train-tokenizer makes a new one "
         "[bytes]")
      ->group("Output");
  tools::add_new_tokenizer(app, s.train);
  app.add_option("--end-of-document", s.around.end,
                 "token that ends documents, by its text or id [the one in a tokenizer_config.json or "
                 "config.json beside the tokenizer, else the tokenizer's]")
      ->group("Output")
      ->type_name("TOKEN");
  app.add_option("--begin-of-document", s.around.begin,
                 "token that each document begins with, as models of the Llama family had it [none]")
      ->group("Output")
      ->type_name("TOKEN");
  app.add_option("--special-tokens", s.special,
                 "text that looks like a special token of tokenizer.json: read it as that token (read), or as text "
                 "(text) [read]")
      ->check(one_of({"read", "text"}))
      ->group("Output");
  app.add_option("--shard-tokens", s.shard_tokens, "tokens of a shard [67108864]")
      ->check(in_range(base::Range<std::int64_t>{2, std::int64_t{1} << 40}))
      ->group("Output");
  app.add_option(
         "--pack", s.pack,
         "best-fit: put whole documents into sequences of --sequence tokens, so that few are cut; train then "
         "needs this --sequence and --document-mask on. none: sequences are cut from the text as it comes [none]")
      ->check(one_of({"none", "best-fit"}))
      ->group("Output");
  app.add_option("--sequence", s.sequence, "tokens of a packed sequence")
      ->check(in_range(base::Range<std::int64_t>{1, std::int64_t{1} << 20}))
      ->group("Output");
  app.add_option("--validation", s.validation, "share of documents for validation, by hash [0.01]")
      ->check(in_range(base::Range<double>{0, 0.9999999}))
      ->group("Output");
  app.add_option("--task", s.task,
                 "i/N: do the part of task i of N, counted from 0; tasks may run at once, and the last to end makes "
                 "the set, with the same bytes as without --task")
      ->group("Output")
      ->type_name("i/N");
  app.add_flag("--force", s.force, "replace a shard set that this program wrote, and nothing else")->group("Output");
  app.add_flag("--json", s.json, "print the summary as JSON")->group("Output");
  app.add_flag("--dry-run", s.dry_run, "read and count everything, write nothing")->group("Output");
  app.add_option("--threads", s.threads,
                 "threads that split, check and tokenize; 0: all cores. The output does not depend on it. Memory: the "
                 "tokens of 3 shards and, for each thread and 3 more, 1 MiB of text or the largest document, with its "
                 "tokens; for JSON lines also 14 times a thread's longest line [0]")
      ->check(in_range(base::Range<int>{0, 4096}))
      ->group("Output");
  app.add_option("--progress", s.progress, "auto, always or never [auto]")
      ->check(one_of({"auto", "always", "never"}))
      ->group("Output");
}

std::optional<data::Share> share_of(const Settings& s) {
  if (s.task.empty()) return std::nullopt;
  data::Share share;
  const auto number = [](const char* from, const char* end, int& to) {
    const auto [stop, error] = std::from_chars(from, end, to);
    return error == std::errc() && stop == end && to >= 0;
  };
  const auto* text = s.task.data();
  const auto slash = s.task.find('/');
  if (slash == s.task.npos || !number(text, text + slash, share.task) ||
      !number(text + slash + 1, text + s.task.size(), share.tasks) || share.tasks < 1 || share.tasks > data::most_tasks)
    throw base::UsageError(fmt::format("--task {} is not of the form i/N", base::one_line(s.task)),
                           fmt::format("--task i/N, for example 0/8 to 7/8; N at most {}", data::most_tasks));
  if (share.task >= share.tasks)
    throw base::UsageError(
        fmt::format("--task {} is behind the last of {}", s.task, base::counted(share.tasks, "task")),
        fmt::format("tasks are counted from 0 to {}, as those of sbatch --array=0-{} are", share.tasks - 1,
                    share.tasks - 1));
  if (s.dry_run)
    throw base::UsageError("--dry-run reads all input, and --task a part of it: they do not go together",
                           "leave one of them out");
  return share;
}

data::BuildOptions options_of(const Settings& s) {
  data::BuildOptions o;
  o.output = s.output;
  o.shard_tokens = s.shard_tokens;
  o.validation = s.validation;
  o.largest_rejected = s.max_rejects;
  if ((s.pack == "none") != (s.sequence == 0))
    throw base::UsageError(s.sequence == 0 ? "--pack best-fit needs --sequence" : "--sequence is for --pack best-fit",
                           "--pack best-fit --sequence 2048, with the sequence that train will have");
  o.pack = s.sequence;
  o.deduplicate = s.deduplicate;
  o.rejects = s.rejects;
  o.threads = base::threads_or_all(s.threads);
  o.existing = s.force ? base::Existing::replace : base::Existing::refuse;
  o.writing = s.dry_run ? data::BuildOptions::Writing::off : data::BuildOptions::Writing::on;
  return o;
}

// Inputs that are read but hold no documents: lists of inputs, and the tokenizer's model.
std::vector<std::string> other_inputs(const Settings& s) {
  std::vector<std::string> out;
  for (const auto& input : s.inputs)
    if (input.size() > 1 && input[0] == '@') out.push_back(input.substr(1));
  if (s.tokenizer && s.tokenizer != "bytes") out.push_back(*s.tokenizer);
  if (!s.train.output.empty()) out.push_back(s.train.output);
  return out;
}

// Refuses a command that makes nothing, and flags of a set where only a tokenizer is made.
void require_product(const Settings& s, const CLI::App& app) {
  tools::require_asked(s.train);
  if (s.train.asked() && s.tokenizer)
    throw base::UsageError("--tokenizer is a tokenizer that exists, and --train-tokenizer a new one",
                           "leave one of them out");
  if (s.train.asked() && !s.task.empty())
    throw base::UsageError(
        "--train-tokenizer needs all text, and --task reads a part of it: they do not go together",
        fmt::format("first shard-data --train-tokenizer {} --output-tokenizer FILE with the same input; then every "
                    "task with --tokenizer FILE",
                    base::one_line(s.train.kind)));
  if (!s.output.empty()) return;
  if (s.train.output.empty())
    throw base::UsageError("--output is required",
                           s.train.asked()
                               ? "--output DIR for a set; or --output-tokenizer FILE for the tokenizer alone"
                               : "--output DIR, a folder for the shard set");
  for (const char* flag : {"--keep-field", "--begin-of-document", "--end-of-document", "--special-tokens",
                           "--shard-tokens", "--pack", "--sequence", "--validation", "--force"})
    if (app.get_option(flag)->count() > 0)
      throw base::UsageError(fmt::format("{} is for a shard set, and without --output only a tokenizer is made", flag),
                             "leave it out, or give --output DIR");
}

// Makes the tokenizer with the document tokens that were asked for, or those found beside the model's file.
std::unique_ptr<data::Tokenizer> tokenizer_of(const Settings& s) {
  const auto name = s.tokenizer.value_or("bytes");
  if (!s.around.end.empty()) return data::make_tokenizer(name, s.around);
  const auto beside = base::file_size(name) < 0 ? std::vector<data::EndBeside>() : data::ends_beside(name);
  std::vector<std::string> skipped;
  for (const auto& one : beside) try {
      auto around = s.around;
      around.end = one.token;
      auto tokenizer = data::make_tokenizer(name, around);
      const auto token = tokenizer->name_of_token(tokenizer->end_of_document());
      for (const auto& why : skipped) base::log_warning("{}", why);
      base::log_info("documents end with {}, id {}: the {}", base::excerpt(token.empty() ? around.end : token),
                     tokenizer->end_of_document(), one.given_by);
      return tokenizer;
    } catch (const base::Unreadable&) {
      throw;
    } catch (const base::InputError& e) {  // that file belongs to another model
      skipped.push_back(fmt::format("{} beside {} is skipped ({})", one.given_by, base::one_line(name), e.what()));
    }
  auto tokenizer = data::make_tokenizer(name, s.around);  // refuses what is wrong without the end, too
  const auto end = tokenizer->end_of_document();
  if (!skipped.empty())
    base::log_warning("{}: the {}id {} ends documents", fmt::join(skipped, "; "),
                      tokenizer->made_its_end() ? "new " : "", end);
  else if (tokenizer->made_its_end())
    base::log_info(
        "{} has no known token for the end of a document: the new id {} ends documents, and a pretrained model with "
        "this tokenizer has no embedding for it (--end-of-document names another token)",
        base::one_line(name), end);
  return tokenizer;
}

// The fields that the set keeps: the languages of pairs, and those that are asked for.
std::vector<std::string> fields_of(const Settings& s, const data::PairOptions* pairs) {
  std::vector<std::string> out;
  if (pairs && pairs->has_languages()) out = {data::source_language_field, data::target_language_field};
  out.insert(out.end(), s.fields.begin(), s.fields.end());
  for (const auto& field : s.fields)
    if (field.empty() || !data::is_utf8(field) || field.find_first_of("=[],:") != std::string::npos ||
        std::count(out.begin(), out.end(), field) > 1)
      throw base::UsageError(fmt::format("--keep-field {} is empty, no UTF-8, given twice, or has one of =[],: in it",
                                         base::excerpt(field)),
                             "name a key of the JSON lines once");
  if (!s.fields.empty() && s.sequence > 0)
    throw base::UsageError(
        "--keep-field chooses documents, and --pack mixes them in sequences: they do not go together",
        "leave one of them out");
  return out;
}

// Tokens that a new tokenizer gets without being asked.
std::vector<std::string> needed_tokens(const data::SourceOptions& source) {
  if (source.chat) return source.chat->tokens;
  return source.pairs ? tools::language_tokens(*source.pairs) : std::vector<std::string>();
}

base::ExitCode run(const Settings& s, const CLI::App& app) {
  require_product(s, app);
  auto inputs = s.inputs;
  const auto pairs = tools::pairs_of(s.pairs, app, inputs);
  const auto share = share_of(s);
  auto options = options_of(s);
  options.precious = other_inputs(s);
  std::unique_ptr<data::Tokenizer> tokenizer;
  if (!s.train.asked()) tokenizer = tokenizer_of(s);
  data::SourceOptions source_options{s.json_key,
                                     split_of(s.split),
                                     base::parse_bytes(s.largest, "--max-document"),
                                     tools::require_not_interrupted,
                                     {s.include, data::written_paths(options)}};
  source_options.pairs = pairs;
  source_options.fields = s.fields;
  options.pairs = pairs != nullptr;
  options.fields = fields_of(s, pairs.get());
  if (s.chat) {
    if (s.json_key)
      throw base::UsageError("--chat-template reads messages, and --json-key a text: they do not go together",
                             "leave one of them out");
    source_options.chat = std::make_shared<const data::ChatTemplate>(data::chat_template(*s.chat));
    options.chat = true;
  }
  auto& passed_over = source_options.folders.passed_over;
  passed_over.insert(passed_over.end(), options.precious.begin(), options.precious.end());
  if (source_options.largest_document < 16)
    throw base::UsageError(fmt::format("--max-document {} is below 16 bytes", s.largest), "16MiB is the default");
  std::optional<data::TokenizerPlan> plan;
  if (s.train.asked()) plan = tools::plan_of(s.train, needed_tokens(source_options), s.around);
  data::DocumentSource source(inputs, source_options);
  Json trained;
  if (plan) {
    data::BuildResult first;
    auto made = tools::train_new_tokenizer({s.train, *plan, options, s.around}, source,
                                           tools::progress_mode(s.progress), first);
    if (s.output.empty()) return print_tokenizer(s, first, made.report);
    tokenizer = std::move(made.tokenizer), trained = std::move(made.report);
    source.begin_again();
  }
  std::optional<tools::Progress> progress(std::in_place, "shard-data", tools::progress_mode(s.progress));
  const double start = base::steady_seconds();
  const auto elapsed = [&] { return base::steady_seconds() - start; };
  const auto reading = [&](std::int64_t bytes) {
    const double seconds = std::max(elapsed(), 1e-9), rate = static_cast<double>(bytes) / seconds;
    if (seconds < 0.5) return;
    auto text = fmt::format("{} read, {}", base::size_text(bytes), base::rate_text(rate, "B/s"));
    if (source.total_bytes() > 0)
      text += fmt::format(", {} left", tools::duration_text(static_cast<double>(source.total_bytes() - bytes) / rate));
    progress->show(text);
  };
  if (!share) {
    const auto result = data::build_shards(source, *tokenizer, options, reading);
    progress.reset();  // ends the progress line before the result
    print_summary(s, result, trained, elapsed());
    return base::ExitCode::done;
  }
  std::optional<double> joined_since;
  const auto joining = [&](std::int64_t done, std::int64_t all) {
    if (!joined_since) joined_since = elapsed();
    const double seconds = elapsed() - *joined_since;
    if (seconds < 0.5) return;
    const double rate = static_cast<double>(done) / seconds;
    progress->show(fmt::format("parts joined: {} of {}, {} left", base::count_text(done), base::counted(all, "token"),
                               tools::duration_text(static_cast<double>(all - done) / rate)));
  };
  const auto result = data::build_task(source, *tokenizer, options, *share, {reading, joining});
  progress.reset();
  if (result.state == data::TaskResult::State::made) print_summary(s, result.set, trained, elapsed());
  else print_waiting(s, *share, result);
  if (!result.parts_left.empty())
    fmt::print(
        stderr,
        "shard-data: warning: the folder of the parts is left: {}\n  try: move what is yours elsewhere and remove it\n",
        base::one_line(result.parts_left));
  return base::ExitCode::done;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("", "shard-data");
  tools::describe_program(app, "Turns text into token shards that train reads.", examples,
                          "train, inspect; datasets/README.md for the format");
  add_options(app, s);
  const auto names_pairs = [](const char* word) { return std::string_view(word).substr(0, 8) == "--pairs="; };
  if (std::any_of(argv, argv + argc,
                  [&](const char* word) { return word == std::string_view("--pairs") || names_pairs(word); }))
    app.get_option("--input")->required(false);
  const auto body = [&] {
    s.around.special_as_text = s.special == "text";
    tools::watch_signals(tools::Reads::of_pipes);
    try {
      return run(s, app);
    } catch (const tools::Interrupted&) {  // unfinished files have been removed
      tools::end_by_signal("shard-data", s.task.empty()
                                             ? "nothing was written"
                                             : "what is whole of the parts is kept: run the same task again");
    }
  };
  return tools::guarded(app, argc, argv, body);
}
