// Places for texts in a batch, which are filled again as texts end.
#include "tools/generate/prompt_list.h"

#include "libtrain/base/here_and_now.h"
#include "libtrain/base/number_text.h"
#include "tools/generate/answer.h"
#include "tools/generate/prompt_lines.h"
#include "tools/generate/shown_text.h"
#include "tools/generate/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>

namespace trainyard::generate {

namespace {

using nlohmann::ordered_json;

struct Prompt {
  ordered_json id;
  std::string text;
  PromptTokens tokens;
};

Prompt prompt_of(AskedPrompt asked, const Loaded& loaded) {
  Prompt out{std::move(asked.id), std::move(asked.text), {}};
  const auto room = loaded.model->room();
  try {
    out.tokens = asked.ids ? tokens_of_ids(*loaded.tokenizer, *asked.ids, room)
                           : prompt_tokens(*loaded.tokenizer, out.text, room, loaded.beginning);
  } catch (const base::InputError& e) {
    throw asked.refused(e);
  }
  return out;
}

// A prompt that is being continued.
class Slot {
 public:
  Slot(const Options& options, const Loaded& loaded, Prompt prompt, std::int64_t number)
      : number_(number), prompt_(std::move(prompt)),
        text_(options.sampler,
              {options.tokens, options.stop_at, loaded.ends, loaded.tokenizer->vocabulary(), loaded.stop_tokens},
              prompt_.tokens.tokens),
        shown_(*loaded.tokenizer, options.stops, std::span(prompt_.tokens.tokens).subspan(prompt_.tokens.put), {},
               [this](std::string_view more) { written_ += more; }) {}

  std::int64_t number() const { return number_; }
  const Continuation& text() const { return text_; }
  std::optional<Stopped> take(std::span<const float> logits) {
    return text_.take(logits, [&](std::int32_t token, std::span<const float> of) {
      log_probabilities_.push_back(log_probability(of, token));
      return shown_.push(token) ? Go::on : Go::stop_text;
    });
  }

  ordered_json json(Stopped stopped) {
    if (!shown_.finish()) stopped = Stopped::stop_text;
    const auto& all = text_.tokens();
    const auto made = all.begin() + static_cast<std::ptrdiff_t>(prompt_.tokens.tokens.size());
    ordered_json out{{"id", prompt_.id.is_null() ? ordered_json(number_ + 1) : prompt_.id}};
    if (!prompt_.text.empty()) out["prompt"] = valid_utf8(prompt_.text);
    out["prompt_tokens"] = prompt_.tokens.tokens;
    out["text"] = written_;
    out["tokens"] = std::vector<std::int32_t>(made, all.end());
    out["logprobs"] = log_probabilities_;
    out["stopped"] = name_of(stopped);
    return out;
  }
  std::int64_t made() const { return std::ssize(log_probabilities_); }

 private:
  std::int64_t number_;
  Prompt prompt_;
  Continuation text_;
  std::string written_;
  ShownText shown_;
  std::vector<double> log_probabilities_;
};

class PromptList {
 public:
  PromptList(const Options& options, Loaded& loaded)
      : options_(options), loaded_(loaded), lines_(*options.prompts, PromptLines::Of::texts),
        slots_(base::size(options.batch)) {}

  void run() {
    require_all();
    const double start = base::steady_seconds();
    while (!output_.gone()) {
      fill();
      if (!step()) break;
      show_progress(start);
    }
    if (refused_ && shows_progress()) fmt::print(stderr, "\r\033[K");
    if (refused_) throw *refused_;
    if (begun_ == 0 && !output_.gone())
      throw base::InputError(fmt::format("{}: holds no prompt", lines_.name()),
                             "each line is a prompt; generate --help");
    if (!shows_progress()) return;
    const auto seconds = base::steady_seconds() - start;
    fmt::print(stderr, "\r\033[Kgenerate: {}, {} tokens in {:.2f} s ({:.0f} tokens/s)\n",
               base::counted(begun_, "prompt"), made_, seconds, static_cast<double>(made_) / seconds);
  }

 private:
  void show_progress(double start) const {
    if (shows_progress())
      fmt::print(stderr, "\rgenerate: {} done ({:.0f} tokens/s)\033[K", base::counted(printed_, "prompt"),
                 static_cast<double>(made_) / std::max(1e-9, base::steady_seconds() - start));
  }

  std::optional<Prompt> next() {
    auto asked = lines_.next();
    return asked ? std::optional(prompt_of(std::move(*asked), loaded_)) : std::nullopt;
  }

  // All prompts of a file are there, so a bad one is refused before the first is continued. A pipe is read only once.
  void require_all() {
    if (!lines_.is_file()) return;
    while (next()) {}
    lines_.rewind();
  }

  // The next prompt. Nothing at the end, or before a bad one: the prompts before it are answered first, so what is
  // written does not depend on how many are continued at once.
  std::optional<Prompt> next_good() {
    try {
      return next();
    } catch (const base::InputError& e) {
      refused_ = e;
      return {};
    }
  }

  // Begins a prompt in each free place.
  void fill() {
    for (std::size_t s = 0; s < slots_.size() && !ended_; ++s)
      while (!slots_[s] && !ended_) {
        auto prompt = next_good();
        if (!prompt) ended_ = true;
        else slots_[s].emplace(options_, loaded_, std::move(*prompt), begun_++), read_again(s);
      }
  }

  void read_again(std::size_t s) {
    const auto text = static_cast<std::int64_t>(s);
    take(s, loaded_.model->begin(slots_[s]->text().to_read(loaded_.model->room(), loaded_.model->full(text)), text));
  }

  // One token more of each text. Returns false when no text is left.
  bool step() {
    std::vector<LanguageModel::Next> nexts;
    std::vector<std::size_t> of;
    bool any = false;
    for (std::size_t s = 0; s < slots_.size(); ++s) {
      if (!slots_[s]) continue;
      any = true;
      const auto text = static_cast<std::int64_t>(s);
      if (loaded_.model->full(text)) read_again(s);
      else nexts.push_back({text, slots_[s]->text().tokens().back()}), of.push_back(s);
    }
    if (nexts.empty()) return any;
    const auto logits = loaded_.model->append(nexts);
    for (std::size_t i = 0; i < of.size(); ++i) take(of[i], logits[i]);
    return true;
  }

  void take(std::size_t s, std::span<const float> logits) {
    const auto before = slots_[s]->made();
    const auto stopped = slots_[s]->take(logits);
    made_ += slots_[s]->made() - before;
    if (!stopped) return;
    done_[slots_[s]->number()] = slots_[s]->json(*stopped).dump();
    slots_[s].reset();
    for (auto first = done_.begin(); first != done_.end() && first->first == printed_; first = done_.begin()) {
      output_.write(first->second + "\n");
      done_.erase(first);
      ++printed_;
    }
  }

  const Options& options_;
  Loaded& loaded_;
  PromptLines lines_;
  Output output_;
  std::vector<std::optional<Slot>> slots_;
  std::map<std::int64_t, std::string> done_;  // lines that wait for earlier ones
  std::int64_t begun_ = 0, printed_ = 0, made_ = 0;
  bool ended_ = false;
  std::optional<base::InputError> refused_;  // why the prompts ended
};

}  // namespace

void continue_all(const Options& options, Loaded& loaded) { PromptList(options, loaded).run(); }

}  // namespace trainyard::generate
