// shard-data: converts text to token shards.
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
#include "tools/shard-data/new_tokenizer.h"

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

constexpr const char* examples =
    "  shard-data --input book.txt --split paragraphs --output data\n"
    "  shard-data --input . --include '*.txt' --split paragraphs --output data-txt\n"
    "  shard-data --input book.jsonl.gz --json-key text --output data-jsonl --rejects rejects.tsv\n"
    "  shard-data --input book.txt --tokenizer llama3/tokenizer.json --output data-bpe --split paragraphs\n"
    "  shard-data --input book.txt --split paragraphs --train-tokenizer bpe:1000 --output data-own\n"
    "  for i in 0 1; do shard-data --input book.txt --split lines --output data-2 --task $i/2; done\n";

struct Settings {
  std::vector<std::string> inputs, include, fields;
  std::optional<std::string> json_key, split, chat;
  std::string task;  // such as "3/8"; empty: one process does all the work
  std::optional<std::string> tokenizer;
  std::string output, rejects, largest = "16MiB", progress = "auto", special = "read";
  data::DocumentTokens around;
  tools::NewTokenizerFlags train;
  bool deduplicate = false;
  std::string pack = "none";
  std::int64_t sequence = 0;
  std::int64_t shard_tokens = std::int64_t{64} << 20;
  double validation = 0.01, max_rejects = 0.01;
  int threads = 0;
  bool force = false, json = false, dry_run = false;
};

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
                 "JSON lines hold conversations (messages, or prompt and response), put together by this template: "
                 "chatml, plain or a TOML file; marks which tokens are answers")
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
                 "token that ends documents, by its text or id [the tokenizer's, else the one in a "
                 "tokenizer_config.json or config.json beside it]")
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

using Json = nlohmann::ordered_json;

// A path need not be UTF-8.
void print_object(const Json& j) { tools::print(j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"); }

Json refusals_of(const data::BuildResult& r) {
  auto refusals = Json::array();
  for (const auto& refusal : r.first_refusals)
    refusals.push_back({{"source", refusal.source}, {"line", refusal.line}, {"reason", refusal.reason}});
  return refusals;
}

void print_json(const Settings& s, const data::BuildResult& r, const Json& trained, double seconds) {
  Json j{{"output", s.output},
         {"documents", r.documents},
         {"rejected", r.rejected},
         {"first_refusals", refusals_of(r)},
         {"empty", r.empty},
         {"text_bytes", r.text_bytes},
         {"unknown_tokens", r.unknown_tokens},
         {"duplicates", r.duplicates},
         {"packed_sequences", r.sequences},
         {"padding", r.padding},
         {"train", {{"tokens", r.train_tokens}, {"shards", r.train_shards}}},
         {"validation", {{"tokens", r.validation_tokens}, {"shards", r.validation_shards}}},
         {"seconds", seconds}};
  if (!trained.is_null()) j["trained_tokenizer"] = trained;
  print_object(j);
}

void print_refused(const Settings& s, const data::BuildResult& r) {
  const auto list = s.rejects.empty() ? "--rejects FILE lists all"
                                      : fmt::format("{}{} lists all", s.dry_run ? "without --dry-run, " : "",
                                                    data::source_name(s.rejects));
  for (const auto& refusal : r.first_refusals) fmt::print(stderr, "shard-data: refused: {}\n", data::text_of(refusal));
  if (const auto more = r.rejected - static_cast<std::int64_t>(r.first_refusals.size()); more > 0)
    fmt::print(stderr, "shard-data: {} more refused; {}\n", more, list);
}

// Prints what would otherwise surprise later: what was refused and why, and that there is nothing to validate on.
void print_findings(const Settings& s, const data::BuildResult& r) {
  print_refused(s, r);
  const auto tokens = r.train_tokens + r.validation_tokens;
  constexpr double worth_a_warning = 1e-4;
  if (const double share =
          static_cast<double>(r.unknown_tokens) / static_cast<double>(std::max<std::int64_t>(1, tokens));
      share >= worth_a_warning)
    fmt::print(
        stderr,
        "shard-data: warning: {} of {} ({:.2g} %) stand for text that the tokenizer has no token for, which is lost\n"
        "  try: a tokenizer with byte fallback, or one made from such text\n",
        base::count_text(r.unknown_tokens), base::counted(tokens, "token"), 100 * share);
  else if (r.unknown_tokens > 0)
    fmt::print(stderr, "shard-data: {} of {} stand for text that the tokenizer has no token for\n",
               base::count_text(r.unknown_tokens), base::counted(tokens, "token"));
  if (r.validation_tokens == 0 && s.validation > 0)
    fmt::print(stderr,
               "shard-data: warning: there is no validation split: {} chosen, so train --validate-every has nothing to "
               "read\n  try: {}\n",
               r.documents == 1 ? "the one document was not"
                                : fmt::format("none of {} was", base::counted(r.documents, "document")),
               s.split.value_or("whole") == "whole" && r.documents < 100
                   ? "--split paragraphs makes more documents of a text; --validation 0.1 chooses more of them"
                   : "--validation 0.1 chooses more documents");
}

void print_summary(const Settings& s, const data::BuildResult& r, const Json& trained, double seconds) {
  print_findings(s, r);
  if (s.json) return print_json(s, r, trained, seconds);
  tools::print(s.output + "\n");
  fmt::print(stderr, "shard-data: {}, {} of text in {} ({}); {}\n", base::counted(r.documents, "document"),
             base::size_text(r.text_bytes), tools::duration_text(seconds),
             base::rate_text(static_cast<double>(r.text_bytes) / std::max(seconds, 1e-9), "B/s"),
             data::left_out_text(r));
  if (r.duplicates > 0)
    fmt::print(stderr, "shard-data: {} left out, equal to an earlier one\n", base::counted(r.duplicates, "document"));
  if (r.sequences > 0)
    fmt::print(stderr, "shard-data: {} of {} tokens, {:.2g} % of them padding\n",
               base::counted(r.sequences, "packed sequence"), base::count_text(s.sequence),
               100 * static_cast<double>(r.padding) / static_cast<double>(r.sequences * s.sequence));
  fmt::print(stderr, "shard-data: train {} in {}, validation {} in {}{}\n", base::counted(r.train_tokens, "token"),
             base::counted(r.train_shards, "shard"), base::counted(r.validation_tokens, "token"),
             base::counted(r.validation_shards, "shard"), s.dry_run ? " (nothing was written)" : "");
}

base::ExitCode print_tokenizer(const Settings& s, const data::BuildResult& r, Json report) {
  print_refused(s, r);
  if (s.json) {
    report["rejected"] = r.rejected, report["first_refusals"] = refusals_of(r), report["empty"] = r.empty;
    print_object(report);
    return base::ExitCode::done;
  }
  fmt::print(stderr, "shard-data: {}; {}{}\n", base::counted(r.documents, "document"), data::left_out_text(r),
             s.dry_run ? " (nothing was written)" : "");
  tools::print(s.train.output + "\n");
  return base::ExitCode::done;
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

// A list of numbers as text: "3, 5 to 9 and 12".
std::string list_of(const std::vector<int>& tasks) {
  std::vector<std::string> runs;
  for (std::size_t i = 0, end = 0; i < tasks.size(); i = end) {
    for (end = i + 1; end < tasks.size() && tasks[end] == tasks[end - 1] + 1;) ++end;
    runs.push_back(end == i + 1 ? fmt::format("{}", tasks[i])
                                : fmt::format("{}{}{}", tasks[i], end == i + 2 ? ", " : " to ", tasks[end - 1]));
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

// Reports for a task that did not complete the set. It prints no path on stdout, because stdout names only what exists.
void print_waiting(const Settings& s, data::Share share, const data::TaskResult& r) {
  if (s.json)
    print_object({{"output", s.output}, {"task", share.task}, {"tasks", share.tasks}, {"missing", r.missing}});
  const auto made = fmt::format("the part of task {} is {}", share.task, r.part_was_there ? "there already" : "done");
  if (r.state == data::TaskResult::State::elsewhere)
    fmt::print(stderr, "shard-data: {}; another task makes {} of all parts, or has made it\n", made, s.output);
  else
    fmt::print(stderr, "shard-data: {}; of {} these are missing: {}; the last one makes {}\n", made,
               base::counted(share.tasks, "task"), list_of(r.missing), s.output);
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
  auto around = s.around;
  auto tokenizer = data::make_tokenizer(name, around);
  if (!tokenizer->made_its_end()) return tokenizer;
  const auto beside = data::end_beside(name);
  if (around.end = beside.token; around.end.empty()) {
    base::log_info(
        "{} has no known token for the end of a document: the new id {} ends documents, and a pretrained model with "
        "this tokenizer has no embedding for it (--end-of-document names another token)",
        base::one_line(name), tokenizer->end_of_document());
    return tokenizer;
  }
  try {
    tokenizer = data::make_tokenizer(name, around);
  } catch (const base::Unreadable&) {
    throw;
  } catch (const base::InputError& e) {  // that file belongs to another model
    base::log_warning("{} beside {} is skipped ({}): the new id {} ends documents", beside.given_by,
                      base::one_line(name), e.what(), tokenizer->end_of_document());
    return tokenizer;
  }
  base::log_info("documents end with {}, id {}: the {}", base::excerpt(around.end), tokenizer->end_of_document(),
                 beside.given_by);
  return tokenizer;
}

base::ExitCode run(const Settings& s, const CLI::App& app) {
  require_product(s, app);
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
  source_options.fields = options.fields = s.fields;
  for (const auto& field : s.fields)
    if (field.empty() || field.find_first_of("=[],:") != std::string::npos ||
        std::count(s.fields.begin(), s.fields.end(), field) > 1)
      throw base::UsageError(
          fmt::format("--keep-field {} is empty, given twice, or has one of =[],: in it", base::excerpt(field)),
          "name a key of the JSON lines once");
  if (!s.fields.empty() && s.sequence > 0)
    throw base::UsageError(
        "--keep-field chooses documents, and --pack mixes them in sequences: they do not go together",
        "leave one of them out");
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
  if (s.train.asked()) plan = tools::plan_of(s.train, source_options.chat.get(), s.around);
  data::DocumentSource source(s.inputs, source_options);
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
