// Gathers words or sentences on the threads of a StretchTeam, and trains on them.
#include "libtrain/data/new_tokenizer.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/data/bpe/trainer.h"
#include "libtrain/data/encoded_chat.h"
#include "libtrain/data/sentencepiece_training.h"
#include "libtrain/data/stretch_team.h"
#include "libtrain/data/text_hash.h"
#include "libtrain/data/text_sample.h"
#include "libtrain/io/input_stream.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <string_view>
#include <utility>

namespace trainyard::data {

namespace {

// Longer documents are drawn in passages of this many bytes.
constexpr std::size_t longest_passage = std::size_t{64} << 10;

// What a stretch gives to the training.
struct Gathered {
  std::vector<bpe::WordCounts> words;  // by level
  std::array<std::int64_t, TextSample::levels> bytes{};
  struct Sentence {
    int level = 0;
    std::string text;
  };
  struct Sentences {  // of a document
    TextHash hash;
    std::int64_t text_bytes = 0;
    std::vector<Sentence> all;
  };
  std::vector<Sentences> sentences;  // for SentencePiece alone
  std::int64_t documents = 0, text_bytes = 0;
};

// Calls each(text) for each text of a conversation that is tokenized together: between tokens of the template, and
// between borders of answers.
void for_each_text(const ChatTemplate& chat, std::span<const ChatMessage> messages,
                   const std::function<void(std::string_view)>& each) {
  std::string text;
  const auto end_text = [&] {
    if (!text.empty()) each(text);
    text.clear();
  };
  const auto add = [&](std::string_view of_template) {
    for_each_part(
        chat, of_template, [&](std::string_view part) { text += part; }, [&](const std::string&) { end_text(); });
  };
  for (const auto& message : messages) {
    add(message.role->prefix);
    if (message.role->answer) end_text();
    text += message.content;
    add(message.role->suffix);
    if (message.role->answer) end_text();
  }
  end_text();
}

class WordGatherer {
 public:
  WordGatherer(const DocumentSource& source, TokenizerKind kind, bool deduplicate, const TextSample& sample)
      : chat_(source.options().chat.get()),
        scanner_(kind == TokenizerKind::bpe_gpt2 ? bpe::Scanner::Rules::gpt2 : bpe::Scanner::Rules::llama3),
        deduplicate_(deduplicate), sample_(sample) {}

  // Equal documents have equal words, so it does not matter which thread is first.
  bool is_new(std::string_view document) {
    if (!deduplicate_) return true;
    const auto hash = hash_of_text(document);
    const std::lock_guard lock(mutex_);
    return seen_.insert(hash);
  }
  void document(std::string_view text, Gathered& to) {
    if (!is_new(text)) return;
    note_document(text.size(), to);
    const auto *at = text.data(), *end = at + text.size();
    while (at != end) {
      const auto* stop = end;
      if (text.size() > longest_passage && sample_.draws())
        for (stop = at; stop != end && base::size(stop - at) < longest_passage;) stop = scanner_.piece(stop, end);
      const std::string_view passage(at, base::size(stop - at));
      const auto level = sample_.level_of(passage);
      if (level >= sample_.lowest()) {
        to.bytes[base::size(level)] += std::ssize(passage);
        count(passage, level, to);
      }
      at = stop;
    }
  }
  void conversation(std::span<const ChatMessage> messages, Gathered& to) {
    const auto key = key_of_conversation(messages);
    if (!is_new(key)) return;
    std::size_t bytes = 0;
    for_each_text(*chat_, messages, [&](std::string_view text) { bytes += text.size(); });
    note_document(bytes, to);
    const auto level = sample_.level_of(key);
    if (level < sample_.lowest()) return;
    to.bytes[base::size(level)] += static_cast<std::int64_t>(bytes);
    for_each_text(*chat_, messages, [&](std::string_view text) { count(text, level, to); });
  }

 private:
  static void note_document(std::size_t bytes, Gathered& to) {
    ++to.documents;
    to.text_bytes += static_cast<std::int64_t>(bytes);
  }
  void count(std::string_view text, int level, Gathered& to) const {
    if (std::ssize(to.words) <= level) to.words.resize(base::size(level) + 1);
    auto& words = base::at(to.words, level);
    for (const auto *at = text.data(), *end = at + text.size(); at != end;) {
      const auto* next = scanner_.piece(at, end);
      words.add({at, base::size(next - at)});
      at = next;
    }
  }

  const ChatTemplate* chat_;
  bpe::Scanner scanner_;
  bool deduplicate_;
  const TextSample& sample_;
  std::mutex mutex_;
  TextHashes seen_;
};

class SentenceGatherer {
 public:
  SentenceGatherer(const DocumentSource& source, const TextSample& sample)
      : chat_(source.options().chat.get()), sample_(sample) {}

  void document(std::string_view text, Gathered& to) const {
    to.sentences.push_back({hash_of_text(text), std::ssize(text), {}});
    for_each_sentence(text, [&](std::string_view sentence) { add(sentence, sample_.level_of(sentence), to); });
  }
  void conversation(std::span<const ChatMessage> messages, Gathered& to) const {
    const auto key = key_of_conversation(messages);
    const auto level = sample_.level_of(key);
    to.sentences.push_back({hash_of_text(key), 0, {}});
    for_each_text(*chat_, messages, [&](std::string_view text) {
      to.sentences.back().text_bytes += std::ssize(text);
      for_each_sentence(text, [&](std::string_view sentence) { add(sentence, level, to); });
    });
  }

 private:
  static void for_each_sentence(std::string_view text, const std::function<void(std::string_view)>& each) {
    while (!text.empty()) {
      const auto sentence = first_sentence(text);
      each(sentence);
      text.remove_prefix(sentence.size());
    }
  }
  void add(std::string_view sentence, int level, Gathered& to) const {
    if (level >= sample_.lowest()) to.sentences.back().all.push_back({level, std::string(sentence)});
  }

  const ChatTemplate* chat_;
  const TextSample& sample_;
};

template <class Gatherer> void gather(DocumentSource& source, Gatherer& gatherer, const TrainingText& text,
                                      const std::function<void(Gathered&)>& take,
                                      const std::function<void(const Refusal&)>& refuse,
                                      const std::function<void(std::int64_t)>& progress) {
  StretchTeam<Gathered> team(
      source, {text.threads, text.stretch_bytes, "words"},
      [&](DocumentSplitter& splitter, const DocumentSource::SourceStretch& read, Findings& findings, Gathered& made) {
        for (auto& words : made.words) words.clear();
        made.bytes = {};
        made.sentences.clear();
        made.documents = made.text_bytes = 0;
        splitter.split(
            read.stretch, read.rules, [&](std::string_view document) { gatherer.document(document, made); }, findings,
            [&](std::span<const ChatMessage> messages) { gatherer.conversation(messages, made); },
            [&](const TextPair& pair) {
              for (const auto side : {pair.source, pair.target}) gatherer.document(side, made);
              return std::string();
            });
      });
  team.run(take, refuse, progress);
}

// Whether the sample takes all text, because the files are no larger. A packed file's text is larger than the file, and
// a chat template adds text.
bool takes_everything(const DocumentSource& source, std::int64_t sample) {
  if (source.total_bytes() < 0 || source.total_bytes() > sample || source.options().chat) return false;
  const auto inputs = source.every_file();
  return std::none_of(inputs.begin(), inputs.end(), [](const auto& path) { return io::InputStream::is_packed(path); });
}

void require_sample(const NewTokenizer& made, const TrainingText& text) {
  if (made.documents == 0)
    throw base::InputError("the input holds no document to train a tokenizer on", "is it empty, or refused?");
  if (made.sample_bytes == 0)
    throw base::InputError(
        base::text("no passages of the text fit into $tokenizer-sample {}", base::size_text(text.sample)),
        base::text("a larger $tokenizer-sample: passages have up to 64 KiB"));
}

void train_merges(DocumentSource& source, const TokenizerPlan& plan, const TrainingText& text,
                  const std::function<void(const Refusal&)>& refuse, const TrainingProgress& progress,
                  NewTokenizer& out) {
  TextSample sample(text.sample, takes_everything(source, text.sample));
  std::vector<bpe::WordCounts> levels(TextSample::levels);
  {
    WordGatherer gatherer(source, plan.kind, text.deduplicate, sample);
    const auto take = [&](const Gathered& made) {
      out.documents += made.documents, out.text_bytes += made.text_bytes;
      for (int level = 0; level < TextSample::levels; ++level) {
        if (level < sample.lowest()) continue;
        sample.count(level, made.bytes[base::size(level)]);
        if (level < std::ssize(made.words) && level >= sample.lowest())
          base::at(levels, level).add(base::at(made.words, level));
      }
      for (int level = 0; level < sample.lowest(); ++level) base::at(levels, level) = {};
    };
    gather(source, gatherer, text, take, refuse, progress.reading);
  }
  out.sample_bytes = sample.used();
  require_sample(out, text);
  bpe::WordCounts words;
  for (auto& level : levels) {
    if (words.size() < level.size()) std::swap(words, level);
    words.add(level);
    level = {};
  }
  out.words = static_cast<std::int64_t>(words.size());
  out.words_memory = words.memory();
  const auto trained = bpe::train(words, {plan.vocabulary, plan.special, progress.training});
  if (std::ssize(trained.tokens) < plan.vocabulary)
    throw base::InputError(
        fmt::format("the text has too little for a vocabulary of {}: it gives {} tokens, and then every word is one",
                    plan.vocabulary, trained.tokens.size()),
        base::text("give more text{}, or $train-tokenizer {}:{}",
                   out.sample_bytes < out.text_bytes ? base::text(", a larger $tokenizer-sample") : std::string(),
                   name_of(plan.kind), trained.tokens.size()));
  out.model = bpe::tokenizer_json(
      trained, std::ssize(plan.special),
      plan.kind == TokenizerKind::bpe_gpt2 ? bpe::Scanner::Rules::gpt2 : bpe::Scanner::Rules::llama3);
}

void train_pieces(DocumentSource& source, const TokenizerPlan& plan, const TrainingText& text,
                  const std::function<void(const Refusal&)>& refuse, const TrainingProgress& progress,
                  NewTokenizer& out) {
  TextSample sample(text.sample, takes_everything(source, text.sample));
  std::vector<Gathered::Sentence> kept;
  TextHashes seen;
  const auto take = [&](Gathered& made) {
    const auto before = sample.lowest();
    for (auto& document : made.sentences) {
      if (text.deduplicate && !seen.insert(document.hash)) continue;
      ++out.documents, out.text_bytes += document.text_bytes;
      for (auto& sentence : document.all) {
        if (sentence.level < sample.lowest()) continue;
        sample.count(sentence.level, std::ssize(sentence.text));
        kept.push_back(std::move(sentence));
      }
    }
    if (sample.lowest() != before)
      std::erase_if(kept, [&](const auto& sentence) { return sentence.level < sample.lowest(); });
  };
  SentenceGatherer gatherer(source, sample);
  gather(source, gatherer, text, take, refuse, progress.reading);
  out.sample_bytes = sample.used();
  require_sample(out, text);
  std::vector<std::string> sentences;
  sentences.reserve(kept.size());
  for (auto& sentence : kept) sentences.push_back(std::move(sentence.text));
  kept = {};
  out.model = train_sentencepiece(plan, std::move(sentences), [&] {
    if (progress.training) progress.training(0);
  });
}

}  // namespace

NewTokenizer train_tokenizer(DocumentSource& source, const TokenizerPlan& plan, const TrainingText& text,
                             const std::function<void(const Refusal&)>& refuse, const TrainingProgress& progress) {
  NewTokenizer out;
  (plan.by_sentencepiece() ? train_pieces : train_merges)(source, plan, text, refuse, progress, out);
  return out;
}

}  // namespace trainyard::data
