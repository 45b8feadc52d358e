// generate: continues a text with a trained model.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/cores.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/log.h"
#include "libtrain/base/read_file.h"
#include "libtrain/checkpoint/document_tokens.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/data/tokenizer.h"
#include "libtrain/plan/file_layout.h"
#include "tools/common/checks.h"
#include "tools/common/launcher.h"
#include "tools/common/program.h"
#include "tools/generate/continuation.h"
#include "tools/generate/prompt.h"
#include "tools/generate/text_stream.h"
#include "tools/generate/tokenizer_place.h"
#include "tools/generate/utf8.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::generate {
namespace {

struct Options {
  std::string checkpoint, tokenizer;
  std::optional<std::string> prompt, prompt_file;
  std::int64_t tokens = 100;
  StopAt stop_at = StopAt::end_of_document;
  SamplerSettings sampler;
  int threads = 0;
  bool json = false;
};

// --threads, else OMP_NUM_THREADS, else all cores that there are.
int compute_threads(int asked) { return base::team_threads(asked, base::threads_or_all(0)); }

// Before anything is made of the file: a checkpoint from elsewhere may name any.
void require_recorded(const std::string& source, std::uint32_t found, const std::string& known,
                      const nlohmann::json& recorded) {
  const auto crc = recorded.is_object() ? recorded.value("crc32c", found) : found;
  if (crc != found)
    throw base::InputError(fmt::format("tokenizer {} has CRC32C {:08x}, the one of the training data ({}) had {:08x}: "
                                       "its tokens mean something else",
                                       source, found, known, crc),
                           "give the tokenizer that the training data was made with (--tokenizer)");
}

// With what the weights know of documents' ends and beginnings.
std::unique_ptr<data::Tokenizer> read_tokenizer(const std::string& source, const std::string& known,
                                                const nlohmann::json& recorded, const checkpoint::RunState& state) {
  if (source == "bytes" || base::file_size(source) < 0) return data::make_tokenizer(source);
  auto model = base::read_file(source);
  require_recorded(source, base::crc32c(model.data(), model.size()), known, recorded);
  const auto ids = checkpoint::document_ids_of(state.provenance);
  auto around = data::document_tokens(ids.end, ids.begin);
  auto tokenizer = data::tokenizer_of_model(source, model, around);
  if (!tokenizer->made_its_end() || tokenizer->vocabulary() <= state.model.vocabulary) return tokenizer;
  // A model of others has no row for an end that is made here.
  around.end = data::end_beside(source).token;
  return around.end.empty() ? std::move(tokenizer) : data::tokenizer_of_model(source, std::move(model), around);
}

// --tokenizer, else the one that the run kept or recorded.
std::unique_ptr<data::Tokenizer> tokenizer_for(const Options& options, const std::string& folder,
                                               const checkpoint::RunState& state) {
  const auto recorded = state.provenance.value("tokenizer", nlohmann::json());
  const auto known = tokenizer_place(folder, state.provenance);
  const auto source = options.tokenizer.empty() ? known : options.tokenizer;
  if (source.empty())
    throw base::InputError(options.checkpoint + ": records no tokenizer", "--tokenizer bytes, or --tokenizer PATH");
  if (options.tokenizer.empty() && source != "bytes" && !std::filesystem::is_regular_file(source))
    throw base::InputError(
        fmt::format("{}: was trained with tokenizer {}, which is not there any more", options.checkpoint, source),
        "--tokenizer PATH, with where it is now");
  auto tokenizer = read_tokenizer(source, known, recorded, state);
  if (tokenizer->vocabulary() > state.model.vocabulary)
    throw base::InputError(fmt::format("tokenizer {} has {} tokens, the model's vocabulary {}", source,
                                       tokenizer->vocabulary(), state.model.vocabulary),
                           "give the tokenizer that the training data was made with (--tokenizer)");
  require_recorded(source, tokenizer->crc32c(), known, recorded);
  return tokenizer;
}

// Standard output, written at once (a terminal gets nothing to obey: tools::print). A reader that went away is no
// error: there is nothing left to do.
class Output {
 public:
  void write(std::string_view text) {
    if (!gone_) gone_ = !tools::print(text);
  }
  Go go() const { return gone_ ? Go::stop : Go::on; }

 private:
  bool gone_ = false;
};

class Stopwatch {
 public:
  double seconds() const { return base::steady_seconds() - start_; }

 private:
  double start_ = base::steady_seconds();
};

// What a text is made with.
struct Setting {
  const Options& options;
  const data::Tokenizer& tokenizer;
  LanguageModel& model;
  std::vector<std::int32_t>& tokens;  // the prompt's, then all

  Stopped run(const std::function<Go(std::int32_t, std::span<const float>)>& show) const {
    Sampler sampler(options.sampler);
    return continue_text(model, sampler,
                         {options.tokens, options.stop_at, tokenizer.end_of_document(), tokenizer.vocabulary()}, tokens,
                         show);
  }
};

void print_text(const Setting& s) {
  Output output;
  TextStream stream(s.tokenizer, [&](std::string_view text) { output.write(text); });
  for (const auto token : s.tokens) stream.push(token);
  s.run([&](std::int32_t token, std::span<const float>) {
    stream.push(token);
    return output.go();
  });
  stream.finish();
  output.write("\n");
}

void print_json(const Setting& s, const std::string& checkpoint, const std::string& prompt, std::int64_t step) {
  std::string text;
  bool continuation = false;
  TextStream stream(s.tokenizer, [&](std::string_view more) {
    if (continuation) text += more;
  });
  for (const auto token : s.tokens) stream.push(token);
  continuation = true;
  const auto before = s.tokens;
  std::vector<double> log_probabilities;
  const auto stopped = s.run([&](std::int32_t token, std::span<const float> logits) {
    stream.push(token);
    log_probabilities.push_back(log_probability(logits, token));
    return Go::on;
  });
  stream.finish();
  const nlohmann::ordered_json out{
      {"checkpoint", valid_utf8(checkpoint)},
      {"step", step},
      {"seed", s.options.sampler.seed},
      {"prompt", valid_utf8(prompt)},
      {"prompt_tokens", before},
      {"text", text},
      {"tokens",
       std::vector<std::int32_t>(s.tokens.begin() + static_cast<std::ptrdiff_t>(before.size()), s.tokens.end())},
      {"logprobs", log_probabilities},
      {"stopped", stopped == Stopped::end_of_document ? "end-of-document" : "length"}};
  Output().write(out.dump() + "\n");
}

// It may be meant, with a seed for each; most often it is not.
void warn_of_several() {
  if (tools::tasks() > 1 && tools::rank() == 0)
    base::log_warning(
        "{} processes were started, and each writes a whole text of its own: generate works on one process (start it "
        "without mpirun or srun)",
        tools::tasks());
}

struct Read {
  std::string folder;
  std::int64_t step = 0;
  std::unique_ptr<data::Tokenizer> tokenizer;
  std::vector<std::int32_t> tokens;  // of the prompt
  std::unique_ptr<LanguageModel> model;
};

Read read_checkpoint(const Options& options, const std::string& prompt) {
  return checkpoint::looking_again({options.checkpoint}, [&] {
    Read read;
    read.folder = find_checkpoint(options.checkpoint);
    checkpoint::reading({read.folder}, [&] {
      checkpoint::Reader reader(read.folder);
      read.step = reader.state().step;
      read.tokenizer = tokenizer_for(options, read.folder, reader.state());
      read.tokens = prompt_tokens(*read.tokenizer, prompt, plan::longest_sequence(reader.state().model));
      read.model = std::make_unique<LanguageModel>(reader, compute_threads(options.threads));
    });
    return read;
  });
}

void generate(const Options& options) {
  warn_of_several();
  const auto prompt = read_prompt(options.prompt, options.prompt_file);
  auto read = read_checkpoint(options, prompt);
  auto& tokens = read.tokens;
  const Stopwatch watch;
  const auto before = tokens.size();
  const Setting setting{options, *read.tokenizer, *read.model, tokens};
  if (options.json) print_json(setting, read.folder, prompt, read.step);
  else print_text(setting);
  const auto made = tokens.size() - before;
  if (isatty(STDERR_FILENO) == 1 && made > 0)
    fmt::print(stderr, "generate: {} tokens in {:.2f} s ({:.0f} tokens/s)\n", made, watch.seconds(),
               static_cast<double>(made) / watch.seconds());
}

}  // namespace
}  // namespace trainyard::generate

int main(int argc, char** argv) {
  using namespace trainyard;
  CLI::App app{"", "generate"};
  tools::describe_program(app,
                          "Continues a text with a trained model; when its context is full, the model forgets all but "
                          "the newest half of it.",
                          "  generate --checkpoint run --prompt 'In the beginning' --tokens 200\n"
                          "  generate --checkpoint run/checkpoints/step-00000020 --temperature 0 --tokens 50\n"
                          "  echo 'In the' | generate --checkpoint run --prompt - --top-p 0.9 --seed 7 --json\n",
                          "train, inspect, shard-data");
  generate::Options o;
  std::string stop_at = "end-of-document";
  using tools::in_range;
  app.add_option("--checkpoint", o.checkpoint, "a checkpoint's folder, or a run's: its newest whole checkpoint")
      ->required();
  app.add_option("--prompt", o.prompt,
                 "the text to continue; - reads it from standard input (default: a new document)");
  app.add_option("--prompt-file", o.prompt_file, "the text to continue, less one line feed at its end");
  app.add_option("--tokens", o.tokens, "at most so many new tokens")
      ->check(in_range(base::Range<std::int64_t>{1, 1'000'000}))
      ->capture_default_str();
  app.add_option("--stop-at", stop_at, "with length an end of document is never drawn")
      ->check(tools::one_of({"end-of-document", "length"}))
      ->capture_default_str();
  app.add_option("--temperature", o.sampler.temperature, "divides the logits; 0 takes the likeliest token")
      ->check(in_range(base::Range<double>{0, 100}))
      ->capture_default_str();
  app.add_option("--top-k", o.sampler.top_k, "draw among the k likeliest tokens; 0: all")
      ->check(in_range(base::Range<std::int64_t>{0, 1 << 24}))
      ->capture_default_str();
  app.add_option("--top-p", o.sampler.top_p,
                 "of those, draw among the fewest likeliest whose probabilities add up to p")
      ->check(in_range(base::Range<double>{1e-9, 1}))
      ->capture_default_str();
  app.add_option("--seed", o.sampler.seed, "same seed, same text")->check(tools::any_seed())->capture_default_str();
  app.add_option("--tokenizer", o.tokenizer, "bytes, or the path of a model file (default: what the run recorded)");
  app.add_option("--threads", o.threads,
                 "at most so many compute threads; 0: OMP_NUM_THREADS, else all cores; the text does not depend on it")
      ->check(in_range(base::Range<int>{0, 4096}))
      ->capture_default_str();
  app.add_flag(
      "--json", o.json,
      "print one object at the end: text, token ids, log probabilities (of the plain softmax), why it stopped");
  return tools::guarded(app, argc, argv, [&] {
    o.stop_at = stop_at == "length" ? generate::StopAt::length : generate::StopAt::end_of_document;
    generate::generate(o);
    return base::ExitCode::done;
  });
}
