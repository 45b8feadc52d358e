// Sources from prompts, and targets as text or JSON.
#include "tools/generate/pairs.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "tools/generate/answer.h"
#include "tools/generate/output.h"
#include "tools/generate/prompt_lines.h"
#include "tools/generate/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <deque>

namespace trainyard::generate {

namespace {

using nlohmann::ordered_json;

ordered_json json_of(const PairAnswer& answer) {
  ordered_json out{{"text", answer.text},
                   {"tokens", answer.tokens},
                   {"logprobs", answer.log_probabilities},
                   {"stopped", name_of(answer.stopped)}};
  if (answer.score) out["score"] = *answer.score;
  return out;
}

struct Source {
  AskedPrompt asked;
  PairRequest request;
};

class Targets {
 public:
  Targets(const Options& options, LoadedPairs& loaded)
      : options_(options), loaded_(loaded),
        settings_(pair_settings(options, *loaded.tokenizer, loaded.ends, loaded.stop_tokens)) {}

  void write_one(const std::string& prompt) {
    const auto samples = options_.samples.value_or(1);
    std::int64_t asked = 0;
    ordered_json all = ordered_json::array();
    answer(
        [&]() -> std::optional<PairRequest> {
          if (asked == samples) return {};
          return PairRequest{loaded_.source, loaded_.first, seed_of(asked++)};
        },
        [&](std::int64_t number, const PairAnswer& answer) {
          if (options_.json) {
            ordered_json one;
            if (options_.samples) one["seed"] = seed_of(number);
            one.update(json_of(answer));
            all.push_back(std::move(one));
            return true;
          }
          if (options_.samples)
            output_.write(fmt::format("{}==> sample {} of {}, seed {} <==\n", number == 0 ? "" : "\n", number + 1,
                                      samples, seed_of(number)));
          output_.write(answer.text + "\n");
          return !output_.gone();
        });
    if (!options_.json) return;
    ordered_json out{{"checkpoint", valid_utf8(loaded_.folder)},
                     {"step", loaded_.step},
                     {"seed", options_.sampler.seed},
                     {"prompt", valid_utf8(prompt)},
                     {"begin_tokens", loaded_.first},
                     {"prompt_tokens", loaded_.source}};
    if (options_.samples) out["samples"] = std::move(all);
    else out.update(all.at(0));
    output_.write(out.dump() + "\n");
  }

  void write_all() {
    PromptLines lines(*options_.prompts, PromptLines::Of::sources);
    if (lines.is_file()) {  // a bad line is refused before the first answer; a pipe is read only once
      while (auto asked = lines.next()) request_of(*asked);
      lines.rewind();
    }
    std::optional<base::InputError> refused;
    std::deque<Source> waiting;
    std::int64_t begun = 0, made = 0;
    const double start = base::steady_seconds();
    answer(
        [&]() -> std::optional<PairRequest> {
          if (refused) return {};
          try {
            auto asked = lines.next();
            if (!asked) return {};
            auto request = request_of(*asked);
            waiting.push_back({std::move(*asked), request});
            ++begun;
            return request;
          } catch (const base::InputError& e) {
            refused = e;
            return {};
          }
        },
        [&](std::int64_t number, const PairAnswer& answer) {
          auto& [asked, request] = waiting.front();
          ordered_json out{{"id", asked.id.is_null() ? ordered_json(number + 1) : asked.id}};
          if (!asked.text.empty()) out["prompt"] = valid_utf8(asked.text);
          out["prompt_tokens"] = request.source;
          out.update(json_of(answer));
          output_.write(out.dump() + "\n");
          made += std::ssize(answer.tokens);
          waiting.pop_front();
          if (shows_progress())
            fmt::print(stderr, "\rgenerate: {} done ({:.0f} tokens/s)\033[K", base::counted(number + 1, "prompt"),
                       static_cast<double>(made) / std::max(1e-9, base::steady_seconds() - start));
          return !output_.gone();
        });
    if (shows_progress() && begun > 0) fmt::print(stderr, "\r\033[K");
    if (refused) throw *refused;
    if (begun == 0 && !output_.gone())
      throw base::InputError(fmt::format("{}: holds no prompt", lines.name()),
                             "each line is a prompt; generate --help");
  }

 private:
  std::uint64_t seed_of(std::int64_t sample) const {
    return options_.sampler.seed + static_cast<std::uint64_t>(sample);
  }
  void answer(const std::function<std::optional<PairRequest>()>& next,
              const std::function<bool(std::int64_t, const PairAnswer&)>& done) {
    answer_requests(*loaded_.model, *loaded_.tokenizer, settings_, next, done);
  }
  PairRequest request_of(const AskedPrompt& asked) const {
    const auto& tokenizer = *loaded_.tokenizer;
    const auto room = loaded_.model->source_room();
    try {
      return {
          asked.ids ? tokens_of_ids(tokenizer, *asked.ids, room).tokens : source_tokens(tokenizer, asked.text, room),
          asked.target_language.empty() ? loaded_.first
                                        : first_tokens_of(loaded_.model->config(), tokenizer, asked.target_language),
          options_.sampler.seed};
    } catch (const base::InputError& e) {
      throw asked.refused(e);
    }
  }

  const Options& options_;
  LoadedPairs& loaded_;
  PairSettings settings_;
  Output output_;
};

}  // namespace

std::vector<std::int32_t> source_tokens(const data::Tokenizer& tokenizer, std::string_view text, std::int64_t room) {
  Beginning begin;
  if (const auto token = tokenizer.begin_of_document(); token >= 0) begin.tokens = {token};
  auto out = prompt_tokens(tokenizer, text, room - 1, begin).tokens;
  out.push_back(tokenizer.end_of_document());
  return out;
}

std::vector<std::int32_t> first_tokens_of(const plan::ModelConfig& model, const data::Tokenizer& tokenizer,
                                          const std::string& language) {
  std::vector<std::int32_t> out{model.decoder_start >= 0 ? model.decoder_start : tokenizer.end_of_document()};
  if (language.empty()) return out;
  const auto name = fmt::format("<2{}>", language);
  auto token = tokenizer.token_named(name);
  const bool is_name = std::isalnum(static_cast<unsigned char>(language[0])) == 0;
  if (token < 0 && is_name) token = tokenizer.token_named(language);
  if (token < 0)
    throw base::InputError(
        fmt::format("tokenizer {} has no token {}, with which targets in the language {} would begin",
                    base::one_line(tokenizer.source()), base::excerpt(name), base::excerpt(language)),
        "name the language as shard-data --target-language did, or the token itself, such as __de__");
  out.push_back(token);
  return out;
}

void require_options_of_pairs(const Options& o) {
  const auto refuse = [](const char* what, const char* why, const char* hint) {
    throw base::UsageError(fmt::format("{} {}", what, why), hint);
  };
  if (o.interactive)
    refuse("--interactive", "is for models without an encoder", "--prompts - reads sources from a pipe");
  if (o.stream_weights)
    refuse("--stream-weights", "is for models without an encoder", "leave it out: the weights are kept in memory");
  if (o.no_begin) refuse("--no-bos", "is for models without an encoder", "leave it out: a source is read as it is");
  if (o.beams > 1 && o.draws)
    refuse("--beams", "searches for the likeliest text, and --temperature, --top-k, --top-p, --seed and --samples draw",
           "leave one of them out");
  if (o.beams > 1 && !o.stops.empty()) refuse("--stop", "is not supported with --beams", "leave one of them out");
  if (o.beams == 1 && o.length_penalty != 1)
    refuse("--length-penalty", "compares the texts of --beams", "--beams 4, for example");
}

PairSettings pair_settings(const Options& o, const data::Tokenizer& tokenizer, std::vector<std::int32_t> ends,
                           std::vector<std::int32_t> stop_tokens) {
  PairSettings s{{o.tokens, o.stop_at, std::move(ends), tokenizer.vocabulary(), std::move(stop_tokens)},
                 o.sampler,
                 o.beams,
                 o.length_penalty,
                 o.stops};
  if (!o.draws) s.sampler.temperature = 0;
  return s;
}

void write_targets(const Options& options, const std::optional<std::string>& prompt) {
  require_options_of_pairs(options);
  if (!options.prompts && !options.prompt_ids && (!prompt || prompt->empty()))
    throw base::UsageError("a model with an encoder reads a source, and none is given", "--prompt TEXT");
  auto loaded = load_pairs(options, prompt);
  Targets targets(options, loaded);
  if (options.prompts) return targets.write_all();
  targets.write_one(prompt.value_or(""));
}

}  // namespace trainyard::generate
