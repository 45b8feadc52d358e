// generate: continues a text with a trained model.
#include "libtrain/data/tokenizer.h"
#include "tools/common/program.h"
#include "tools/generate/language_model.h"
#include "tools/generate/sampler.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace trainyard::generate {
namespace {

struct Options {
  std::string checkpoint, prompt, tokenizer;
  std::int64_t tokens = 100;
  SamplerSettings sampler;
  int threads = 0;
};

int own_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// --tokenizer, else what the run recorded: its source, or an object that has one.
std::unique_ptr<data::Tokenizer> tokenizer_for(const Options& options, const checkpoint::RunState& state) {
  std::string source = options.tokenizer;
  if (source.empty()) {
    const auto recorded = state.provenance.find("tokenizer");
    if (recorded != state.provenance.end()) source = recorded->is_object() ? recorded->value("source", "") : recorded->get<std::string>();
  }
  if (source.empty()) throw base::InputError(options.checkpoint + ": records no tokenizer", "--tokenizer bytes, or --tokenizer PATH.model");
  auto tokenizer = data::make_tokenizer(source);
  if (tokenizer->vocabulary() > state.model.vocabulary)
    throw base::InputError(fmt::format("tokenizer {} has {} tokens, the model's vocabulary {}", source, tokenizer->vocabulary(), state.model.vocabulary),
                           "give the tokenizer that the training data was made with (--tokenizer)");
  return tokenizer;
}

// Writes text as it grows, holding back what is not a whole character yet.
class Stream {
 public:
  explicit Stream(const data::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void show(const std::vector<std::int32_t>& tokens) { write(whole(tokenizer_.decode(tokens))); }
  void finish(const std::vector<std::int32_t>& tokens) { write(tokenizer_.decode(tokens) + "\n"); }

 private:
  static std::string whole(std::string text) {
    while (text.ends_with("\xEF\xBF\xBD")) text.resize(text.size() - 3);
    std::size_t tail = 0;   // continuation bytes at the end, and the byte that leads them
    while (tail < text.size() && tail < 4 && (static_cast<unsigned char>(text[text.size() - 1 - tail]) & 0xC0) == 0x80) ++tail;
    if (tail < text.size()) {
      const auto lead = static_cast<unsigned char>(text[text.size() - 1 - tail]);
      const std::size_t want = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
      if (tail < want) text.resize(text.size() - 1 - tail);
    }
    return text;
  }
  void write(const std::string& text) {
    if (!text.starts_with(written_)) return;
    std::fwrite(text.data() + written_.size(), 1, text.size() - written_.size(), stdout);
    std::fflush(stdout);
    written_ = text;
  }
  const data::Tokenizer& tokenizer_;
  std::string written_;
};

void generate(const Options& options) {
  checkpoint::Reader reader(find_checkpoint(options.checkpoint));
  const auto tokenizer = tokenizer_for(options, reader.state());
  LanguageModel model(reader, options.threads > 0 ? options.threads : own_cores());
  Sampler sampler(options.sampler);
  // A text begins behind an end of document, as in training.
  std::vector<std::int32_t> tokens{tokenizer->end_of_document()};
  tokenizer->encode(options.prompt, tokens);
  Stream stream(*tokenizer);
  stream.show(tokens);
  const auto context = static_cast<std::size_t>(model.config().context);
  const auto begin_with = [&](std::size_t most) {
    const auto n = std::min(tokens.size(), most);
    return model.begin({tokens.data() + (tokens.size() - n), n});
  };
  std::span<const float> logits;
  const auto start = std::chrono::steady_clock::now();
  std::int64_t made = 0;
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    if (i == 0) logits = begin_with(context);
    else logits = model.full() ? begin_with(std::max<std::size_t>(1, context / 2)) : model.append(tokens.back());
    const auto next = sampler.next(logits.first(static_cast<std::size_t>(tokenizer->vocabulary())), static_cast<std::uint64_t>(i));
    if (next == tokenizer->end_of_document()) break;
    tokens.push_back(next);
    ++made;
    stream.show(tokens);
  }
  stream.finish(tokens);
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (isatty(STDERR_FILENO) == 1 && made > 0) fmt::print(stderr, "generate: {} tokens in {:.2f} s ({:.0f} tokens/s)\n", made, seconds, static_cast<double>(made) / seconds);
}

}  // namespace
}  // namespace trainyard::generate

int main(int argc, char** argv) {
  using namespace trainyard;
  CLI::App app{"", "generate"};
  tools::describe_program(app, "Continues a text with a trained model; when its context is full, the older half is forgotten.",
                          "  generate --checkpoint run --prompt 'In the beginning' --tokens 200\n"
                          "  generate --checkpoint run/checkpoints/step-00000020 --temperature 0 --tokens 50\n",
                          "train, inspect, shard-data");
  generate::Options o;
  app.add_option("--checkpoint", o.checkpoint, "a checkpoint's folder, or a run's: its newest whole checkpoint")->required();
  app.add_option("--prompt", o.prompt, "the text to continue (default: empty)");
  app.add_option("--tokens", o.tokens, "at most so many new tokens; an end of document stops")->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000}))->capture_default_str();
  app.add_option("--temperature", o.sampler.temperature, "divides the logits; 0 takes the likeliest token")->check(CLI::Range(0.0, 100.0))->capture_default_str();
  app.add_option("--top-k", o.sampler.top_k, "draw among the k likeliest tokens; 0: all")->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--seed", o.sampler.seed, "same seed, same text")->capture_default_str();
  app.add_option("--tokenizer", o.tokenizer, "bytes or a SentencePiece model (default: what the run recorded)");
  app.add_option("--threads", o.threads, "compute threads; 0: the cores this process may use")->check(CLI::Range(0, 1024))->capture_default_str();
  return tools::guarded(app, argc, argv, [&] {
    generate::generate(o);
    return base::ExitCode::done;
  });
}
