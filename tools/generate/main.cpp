// generate: continues a text with a trained model.
#include "libtrain/base/json.h"
#include "libtrain/base/log.h"
#include "tools/common/checks.h"
#include "tools/common/program.h"
#include "tools/generate/answer.h"
#include "tools/generate/conversation.h"
#include "tools/generate/pairs.h"
#include "tools/generate/prompt_list.h"
#include "tools/generate/utf8.h"

#include <charconv>
#include <limits>
#include <string>

namespace trainyard::generate {
namespace {

void require_apart(const Options& o) {
  const bool prompt = o.prompt || o.prompt_file || o.prompt_ids;
  if (o.prompt_ids && (o.prompt || o.prompt_file))
    throw base::UsageError("--prompt-ids and a text are both given", "give one prompt");
  if (o.prompts && (prompt || o.interactive))
    throw base::UsageError("--prompts reads many prompts, and another one is given",
                           "leave --prompt, --prompt-file, --prompt-ids and --interactive out");
  if (o.prompts && o.samples)
    throw base::UsageError("--samples is for one prompt, and --prompts reads many", "leave one of them out");
  if (o.interactive && prompt)
    throw base::UsageError("--interactive reads its prompts from standard input, and one is given",
                           "leave --prompt, --prompt-file and --prompt-ids out");
  if (o.no_begin && !o.interactive && !prompt && !o.prompts)
    throw base::UsageError("--no-bos leaves nothing to begin with where there is no prompt", "give a --prompt");
  for (const auto& stop : o.stops)
    if (valid_utf8(stop) != stop)
      throw base::UsageError(fmt::format("--stop {} is no UTF-8, as generated text always is", base::excerpt(stop)),
                             "give whole characters");
  const auto more = static_cast<std::uint64_t>(o.samples.value_or(1)) - 1;
  if (o.sampler.seed > std::numeric_limits<std::uint64_t>::max() - more)
    throw base::UsageError(fmt::format("--seed {} leaves no seeds for {} samples", o.sampler.seed, more + 1),
                           "give a smaller --seed");
}

void warn_of_same(const Options& o) {
  if (o.samples.value_or(1) > 1 && (o.sampler.temperature == 0 || o.sampler.top_k == 1))
    base::log_warning("all {} samples are the same text, because the likeliest token is always taken", *o.samples);
}

void require_no_options_of_pairs(const Options& o) {
  for (const auto& [name, given] : {std::pair("--beams", o.beams > 1),
                                    {"--length-penalty", o.length_penalty != 1},
                                    {"--target-language", !o.target_language.empty()}})
    if (given)
      throw base::UsageError(fmt::format("{} is for models with an encoder", name), fmt::format("leave {} out", name));
}

void generate(const Options& options) {
  require_apart(options);
  warn_of_several("generate", "a whole text of its own");
  warn_of_same(options);
  std::optional<std::string> prompt;
  if (!options.interactive && !options.prompts) prompt = read_prompt(options.prompt, options.prompt_file);
  if (has_encoder(options)) return write_targets(options, prompt);
  require_no_options_of_pairs(options);
  auto loaded = load(options, prompt);
  if (!loaded.beginning.reported.empty() && (options.interactive || options.prompts || loaded.prompt.put > 0))
    base::log_info("{}", loaded.beginning.reported);
  if (options.interactive) return converse(options, loaded);
  if (options.prompts) return continue_all(options, loaded);
  Output output;
  answer(options, loaded, *prompt, loaded.prompt, output, [] { return false; });
}

// An id in a list that commas separate.
CLI::Validator token_id() {
  return CLI::Validator(
      [](std::string& text) {
        std::int32_t id = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
        if (error == std::errc() && id >= 0 && end == text.data() + text.size()) return std::string();
        return fmt::format("{} is no token id; ids are numbers from 0 on, separated by commas: 1,2,3",
                           base::excerpt(text));
      },
      "");
}

void add_options(CLI::App& app, Options& o, std::string& stop_at) {
  using tools::in_range;
  const char *const model = "Model", *const text = "Prompt", *const choice = "Choice of tokens", *const out = "Output";
  app.add_option("--checkpoint", o.checkpoint, "folder of a checkpoint, or of a run, for its newest whole checkpoint")
      ->required()
      ->type_name("DIR")
      ->group(model);
  app.add_option("--tokenizer", o.tokenizer, "bytes, or the path of a tokenizer's file [what the checkpoint recorded]")
      ->type_name("FILE")
      ->group(model);
  app.add_option("--threads", o.threads,
                 "most compute threads; 0: OMP_NUM_THREADS, else all cores. The text does not depend on it [0]")
      ->check(in_range(base::Range<int>{0, 4096}))
      ->type_name("N,...")
      ->group(model);
  app.add_option("--context", o.context,
                 "tokens of a text that the model sees at most, which take memory [prompt and new tokens; with "
                 "--interactive or --prompts up to 8192]")
      ->check(in_range(base::Range<std::int64_t>{0, 1 << 24}))
      ->type_name("N,...")
      ->group(model);
  app.add_flag("--stream-weights", o.stream_weights,
               "for a model that is larger than memory: read the weights layer by layer, and keep none. Every token "
               "reads all layers again; the text is the same")
      ->group(model);
  app.add_option("--prompt", o.prompt,
                 "text to continue; - reads standard input, and keeps a line feed at its end [none: a new document]")
      ->type_name("TEXT")
      ->group(text);
  app.add_option("--prompt-file", o.prompt_file,
                 "file with the text to continue, byte by byte: a line feed at its end counts")
      ->type_name("FILE")
      ->group(text);
  app.add_option("--prompt-ids", o.prompt_ids, "token ids to continue, separated by commas; nothing is put before them")
      ->delimiter(',')
      ->check(token_id())
      ->type_name("N,...")
      ->group(text);
  app.add_option("--prompts", o.prompts,
                 "file with a prompt on each line, - for standard input: a JSON text, {\"prompt\": TEXT} or {\"ids\": "
                 "[...]}, also with \"id\". Prints a line of JSON for each, in order")
      ->type_name("FILE")
      ->group(text);
  app.add_option("--batch", o.batch,
                 "with --prompts: texts that are continued at once. The texts do not depend on it [8]")
      ->check(in_range(base::Range<std::int64_t>{1, 4096}))
      ->type_name("N,...")
      ->group(text);
  app.add_flag("--interactive", o.interactive,
               "answer each line of standard input, until it ends. Ctrl-C ends an answer, a second one the program")
      ->group(text);
  app.add_flag("--no-bos", o.no_begin,
               "put no token before the prompt. Otherwise a model that was trained here gets the token that begins its "
               "training documents, else the end of a document, unless none came before one (--document-mask on); an "
               "imported model gets what its tokenizer's files say, such as <|begin_of_text|>")
      ->group(text);
  app.add_option("--target-language", o.target_language,
                 "with an encoder: language of the answer, as shard-data --target-language named it")
      ->type_name("TEXT")
      ->group(text);
  app.add_option("--beams", o.beams,
                 "with an encoder: texts that are extended side by side, to find the likeliest one [1]")
      ->check(in_range(base::Range<std::int64_t>{1, 256}))
      ->type_name("N,...")
      ->group(choice);
  app.add_option("--length-penalty", o.length_penalty,
                 "compare texts of --beams by log probability / length^X; above 1 prefers long ones [1]")
      ->check(in_range(base::Range<double>{-10, 10}))
      ->type_name("X")
      ->group(choice);
  app.add_option("--temperature", o.sampler.temperature,
                 "divides the logits; 0 takes the likeliest token [1; with an encoder 0, unless another option draws]")
      ->check(in_range(base::Range<double>{0, 100}))
      ->type_name("X")
      ->group(choice);
  app.add_option("--top-k", o.sampler.top_k, "draw among the k likeliest tokens; 0: all [0]")
      ->check(in_range(base::Range<std::int64_t>{0, 1 << 24}))
      ->type_name("N,...")
      ->group(choice);
  app.add_option("--top-p", o.sampler.top_p,
                 "of these tokens, draw among the likeliest whose probabilities add up to p [1]")
      ->check(in_range(base::Range<double>{1e-9, 1}))
      ->type_name("X")
      ->group(choice);
  app.add_option("--seed", o.sampler.seed, "seed of the draws; the same seed gives the same text [0]")
      ->check(tools::any_seed())
      ->type_name("N,...")
      ->group(choice);
  app.add_option("--samples", o.samples,
                 "continuations of the prompt, with the seeds --seed, --seed + 1 and so on, each under a heading [one, "
                 "without a heading]")
      ->check(in_range(base::Range<std::int64_t>{1, 1'000'000}))
      ->type_name("N,...")
      ->group(out);
  app.add_option("--tokens", o.tokens, "most new tokens of a continuation [100]")
      ->check(in_range(base::Range<std::int64_t>{1, 1'000'000}))
      ->type_name("N,...")
      ->group(out);
  app.add_option("--stop-at", stop_at,
                 "end-of-document: a continuation ends with its document; length: no end of document is drawn "
                 "[end-of-document]")
      ->check(tools::one_of({"end-of-document", "length"}))
      ->type_name("TEXT")
      ->group(out);
  app.add_option("--stop", o.stops, "a continuation ends before this text, wherever it lies in tokens; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false)
      ->type_name("TEXT")
      ->group(out);
  app.add_flag("--json", o.json,
               "print one line of JSON for each prompt, at the end: text, token ids, log probabilities (of the plain "
               "softmax over the model's vocabulary), why it stopped; with --samples a list of them")
      ->group(out);
}

}  // namespace
}  // namespace trainyard::generate

int main(int argc, char** argv) {
  using namespace trainyard;
  CLI::App app{"", "generate"};
  tools::describe_program(app,
                          "Continues a text with a trained model. When its context is full, the model forgets all but "
                          "the newest half of it. A model with an encoder writes the target of a source.",
                          "  generate --checkpoint run --prompt 'In the beginning' --tokens 200\n"
                          "  generate --checkpoint run/checkpoints/step-00000020 --temperature 0 --tokens 50\n"
                          "  generate --checkpoint run --prompt 'In the' --samples 3 --tokens 20\n"
                          "  printf '\"In the\"\\n\"At the\"\\n' | generate --checkpoint run --prompts - --tokens 20\n"
                          "  echo 'In the' | generate --checkpoint run --interactive --top-p 0.9 --seed 7 --json\n"
                          "  generate --checkpoint translator --prompt 'a source' --beams 4\n",
                          "train, inspect, shard-data");
  generate::Options o;
  std::string stop_at = "end-of-document";
  generate::add_options(app, o, stop_at);
  return tools::guarded(app, argc, argv, [&] {
    for (const char* name : {"--temperature", "--top-k", "--top-p", "--seed", "--samples"})
      o.draws = o.draws || app.count(name) > 0;
    o.stop_at = stop_at == "length" ? generate::StopAt::length : generate::StopAt::end_of_document;
    generate::generate(o);
    return base::ExitCode::done;
  });
}
