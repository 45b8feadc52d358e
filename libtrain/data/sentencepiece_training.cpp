// The library runs on a thread of its own, because it knows no interruption.
#include "libtrain/data/sentencepiece_training.h"

#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/thread.h"
#include "libtrain/data/document_splitter.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

namespace trainyard::data {

namespace {

// Sums of the library depend on the number of its threads, so it is always the library's default.
constexpr int sentencepiece_threads = 16;

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(std::vector<std::string> sentences) : sentences_(std::move(sentences)) {}
  bool done() const override { return at_ == sentences_.size(); }
  void Next() override { std::string().swap(sentences_[at_++]); }  // the library has copied it
  const std::string& value() const override { return sentences_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string> sentences_;
  std::size_t at_ = 0;
};

// Texts as a list of comma-separated values.
std::string list_of_tokens(const std::vector<std::string>& tokens) {
  std::string out;
  for (const auto& token : tokens) {
    out += out.empty() ? "\"" : ",\"";
    for (const char c : token) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    out += '"';
  }
  return out;
}

// The model keeps text as it is: nothing is normalized, digits stand alone, and rare characters become their bytes.
std::unordered_map<std::string, std::string> settings_of_library(const TokenizerPlan& plan) {
  std::unordered_map<std::string, std::string> out{
      {"model_type", plan.kind == TokenizerKind::unigram ? "unigram" : "bpe"},
      {"vocab_size", std::to_string(plan.vocabulary)},
      {"byte_fallback", "true"},
      {"normalization_rule_name", "identity"},
      {"remove_extra_whitespaces", "false"},
      {"allow_whitespace_only_pieces", "true"},
      {"split_digits", "true"},
      {"num_threads", std::to_string(sentencepiece_threads)},
      {"minloglevel", "2"}};
  if (!plan.special.empty()) out.emplace("control_symbols", list_of_tokens(plan.special));
  return out;
}

// The number that follows `words` in a message of the library.
std::optional<std::int64_t> number_behind(const std::string& message, const std::string& words) {
  const auto at = message.find(words);
  if (at == std::string::npos) return {};
  std::int64_t number = 0;
  const auto* from = message.data() + at + words.size();
  const auto [end, error] = std::from_chars(from, message.data() + message.size(), number);
  return error == std::errc() && end != from ? std::optional(number) : std::nullopt;
}

[[noreturn]] void refuse_vocabulary(const TokenizerPlan& plan, const std::string& message) {
  if (const auto most = number_behind(message, "value <= "))
    throw base::InputError(fmt::format("the text has too little for a vocabulary of {}: SentencePiece finds {} tokens",
                                       plan.vocabulary, *most),
                           base::text("give more text, or $train-tokenizer {}:{}", name_of(plan.kind), *most));
  if (const auto least = number_behind(message, fmt::format("{} vs ", plan.vocabulary)))
    throw base::InputError(
        fmt::format("a vocabulary of {} is too small: the bytes, the special tokens and the characters of the text "
                    "are {}",
                    plan.vocabulary, *least),
        base::text("$train-tokenizer {}:{}", name_of(plan.kind), *least + 1));
  throw base::InputError(fmt::format("SentencePiece cannot train on this text: {}", message),
                         base::text("another vocabulary, or $train-tokenizer bpe:N, which takes any text"));
}

// What both threads know.
struct LibraryRun {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  sentencepiece::util::Status status;
  std::string model, failure;
};

}  // namespace

std::string_view first_sentence(std::string_view text) {
  if (text.size() <= longest_sentence) return text;
  const auto reach = text.substr(0, longest_sentence);
  for (const char c : {'\n', ' '})
    if (const auto at = reach.find_last_of(c); at != std::string_view::npos && at >= longest_sentence / 2)
      return text.substr(0, at + (c == '\n' ? 1 : 0));
  return text.substr(0, character_boundary(text, longest_sentence));
}

std::string train_sentencepiece(const TokenizerPlan& plan, std::vector<std::string> sentences,
                                const std::function<void()>& waiting) {
  base::require_threads(sentencepiece_threads + 1);  // the library ends the process where it gets none
  const auto run = std::make_shared<LibraryRun>();
  auto thread = base::start_thread("sentencepiece", [run, settings = settings_of_library(plan),
                                                     texts = std::make_shared<Sentences>(std::move(sentences))] {
    std::string model, failure;
    sentencepiece::util::Status status;
    try {
      status = sentencepiece::SentencePieceTrainer::Train(settings, texts.get(), &model);
    } catch (const std::exception& e) {
      failure = e.what();
    }
    const std::lock_guard lock(run->mutex);
    run->done = true, run->status = status, run->model = std::move(model), run->failure = std::move(failure);
    run->ended.notify_all();
  });
  std::unique_lock lock(run->mutex);
  while (!run->ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return run->done; })) {
    lock.unlock();
    try {
      waiting();
    } catch (...) {
      thread.detach();
      throw;
    }
    lock.lock();
  }
  lock.unlock();
  thread.join();
  if (!run->failure.empty())
    throw base::EnvironmentError(fmt::format("SentencePiece failed: {}", run->failure),
                                 base::text("with less memory: a smaller $tokenizer-sample"));
  if (!run->status.ok()) refuse_vocabulary(plan, run->status.ToString());
  return std::move(run->model);
}

}  // namespace trainyard::data
