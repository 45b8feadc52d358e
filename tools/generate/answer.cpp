// Writes text as it is generated, or JSON at the end.
#include "tools/generate/answer.h"

#include "libtrain/base/here_and_now.h"
#include "tools/generate/shown_text.h"
#include "tools/generate/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cstdint>
#include <vector>

namespace trainyard::generate {

namespace {

struct Continued {
  std::vector<std::int32_t> tokens;  // without the prompt
  Stopped stopped = Stopped::length;
};

class Answer {
 public:
  Answer(const Options& options, Loaded& loaded, const PromptTokens& prompt, Output& output,
         const std::function<bool()>& interrupted)
      : options_(options), loaded_(loaded), prompt_(prompt), output_(output), interrupted_(interrupted) {}

  // Returns whether the answer has ended; then nothing more is generated.
  bool ended() const { return output_.gone() || interrupted_(); }
  std::int64_t made() const { return made_; }  // new tokens of all continuations

  // `show` returns whether the text goes on.
  Continued run(std::uint64_t seed, const std::function<bool(std::int32_t, std::span<const float>)>& show) {
    auto settings = options_.sampler;
    settings.seed = seed;
    auto tokens = prompt_.tokens;
    Continued out;
    out.stopped = continue_text(
        *loaded_.model, settings,
        {options_.tokens, options_.stop_at, loaded_.ends, loaded_.tokenizer->vocabulary(), loaded_.stop_tokens}, tokens,
        [&](std::int32_t token, std::span<const float> logits) {
          const bool goes_on = show(token, logits);
          ++made_;
          return !goes_on ? Go::stop_text : ended() ? Go::stop : Go::on;
        });
    out.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(prompt_.tokens.size()), tokens.end());
    return out;
  }

  void print_text(std::uint64_t seed) {
    const auto write = [&](std::string_view more) { output_.write(more); };
    ShownText text(*loaded_.tokenizer, options_.stops, shown_prompt(), write, write);
    run(seed, [&](std::int32_t token, std::span<const float>) { return text.push(token); });
    text.finish();
    output_.write("\n");
  }

  nlohmann::ordered_json json(std::uint64_t seed) {
    std::string written;
    ShownText text(*loaded_.tokenizer, options_.stops, shown_prompt(), {},
                   [&](std::string_view more) { written += more; });
    std::vector<double> log_probabilities;
    auto made = run(seed, [&](std::int32_t token, std::span<const float> logits) {
      log_probabilities.push_back(log_probability(logits, token));
      return text.push(token);
    });
    if (!text.finish()) made.stopped = Stopped::stop_text;
    return {{"text", written},
            {"tokens", made.tokens},
            {"logprobs", log_probabilities},
            {"stopped", name_of(made.stopped)}};
  }

 private:
  std::span<const std::int32_t> shown_prompt() const { return std::span(prompt_.tokens).subspan(prompt_.put); }
  const Options& options_;
  Loaded& loaded_;
  const PromptTokens& prompt_;
  Output& output_;
  const std::function<bool()>& interrupted_;
  std::int64_t made_ = 0;
};

void print_texts(const Options& options, Answer& answer, Output& output) {
  if (!options.samples) return answer.print_text(options.sampler.seed);
  for (std::int64_t i = 0; i < *options.samples && (i == 0 || !answer.ended()); ++i) {
    const auto seed = options.sampler.seed + static_cast<std::uint64_t>(i);
    output.write(
        fmt::format("{}==> sample {} of {}, seed {} <==\n", i == 0 ? "" : "\n", i + 1, *options.samples, seed));
    answer.print_text(seed);
  }
}

void print_json(const Options& options, const Loaded& loaded, const std::string& prompt, const PromptTokens& tokens,
                Answer& answer, Output& output) {
  const auto put = tokens.tokens.begin() + static_cast<std::ptrdiff_t>(tokens.put);
  nlohmann::ordered_json out{{"checkpoint", valid_utf8(loaded.folder)},
                             {"step", loaded.step},
                             {"seed", options.sampler.seed},
                             {"prompt", valid_utf8(prompt)},
                             {"begin_tokens", std::vector<std::int32_t>(tokens.tokens.begin(), put)},
                             {"prompt_tokens", tokens.tokens}};
  if (!options.samples) {
    out.update(answer.json(options.sampler.seed));
  } else {
    auto& samples = out["samples"] = nlohmann::ordered_json::array();
    for (std::int64_t i = 0; i < *options.samples && (i == 0 || !answer.ended()); ++i) {
      const auto seed = options.sampler.seed + static_cast<std::uint64_t>(i);
      nlohmann::ordered_json sample{{"seed", seed}};
      sample.update(answer.json(seed));
      samples.push_back(std::move(sample));
    }
  }
  output.write(out.dump() + "\n");
}

}  // namespace

const char* name_of(Stopped stopped) {
  return stopped == Stopped::end_of_document ? "end-of-document"
         : stopped == Stopped::length        ? "length"
         : stopped == Stopped::stop_text     ? "stop"
                                             : "interrupted";
}

void answer(const Options& options, Loaded& loaded, const std::string& prompt, const PromptTokens& tokens,
            Output& output, const std::function<bool()>& interrupted) {
  Answer one(options, loaded, tokens, output, interrupted);
  const double start = base::steady_seconds();
  if (options.json) print_json(options, loaded, prompt, tokens, one, output);
  else print_texts(options, one, output);
  if (isatty(STDERR_FILENO) != 1 || one.made() == 0) return;
  const double seconds = base::steady_seconds() - start;
  fmt::print(stderr, "generate: {} tokens in {:.2f} s ({:.0f} tokens/s)\n", one.made(), seconds,
             static_cast<double>(one.made()) / seconds);
}

}  // namespace trainyard::generate
