// A ring of stretches. The caller's thread reads into the ring's head and passes results on from its tail. Other
// threads work on the stretches between, and so does the caller's thread where it would wait.
#include "libtrain/data/tokenizing.h"

#include "libtrain/base/index.h"
#include "libtrain/base/random.h"
#include "libtrain/base/thread.h"
#include "libtrain/data/encoded_chat.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace trainyard::data {

namespace {

constexpr std::int64_t most_narrow = 65536;  // the largest vocabulary for 16-bit tokens

class StretchTeam {
 public:
  StretchTeam(DocumentSource& source, const Tokenizer& tokenizer, const TokenizingOptions& options)
      : source_(source), tokenizer_(tokenizer), options_(options),
        slots_(options.threads > 1 ? base::size(options.threads) + 2 : 1) {
    if (source.options().chat) chat_.emplace(*source.options().chat, tokenizer);
    team_.reserve(base::size(options.threads));
  }
  ~StretchTeam() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    work_.notify_all();
    for (auto& thread : team_) thread.join();
  }
  StretchTeam(const StretchTeam&) = delete;

  void run(const std::function<void(const TokenizedStretch&)>& take, const std::function<void(const Refusal&)>& refuse,
           const std::function<void(std::int64_t)>& progress) {
    DocumentSplitter splitter;
    for (bool more = true; more || tail_ < head_;) {
      if (tail_ < head_ && (!more || head_ - tail_ == slots_.size() || is_done(tail_))) {
        auto& slot = finished_tail(splitter);
        if (slot.failure) std::rethrow_exception(slot.failure);
        source_.settle(slot.read, slot.findings, refuse);
        take(slot.made);
        ++tail_;
        continue;
      }
      auto& slot = slots_[head_ % slots_.size()];
      more = source_.next(slot.read, options_.stretch_bytes);
      if (!more) continue;
      progress(source_.bytes_read());
      offer(slot);
    }
  }

 private:
  struct Slot {
    DocumentSource::SourceStretch read;
    Findings findings;
    TokenizedStretch made;
    std::exception_ptr failure;
    bool done = false;
  };

  void offer(Slot& slot) {
    slot.done = false;
    slot.failure = nullptr;
    bool all_busy = false;
    {
      const std::lock_guard lock(mutex_);
      ++head_;
      all_busy = head_ - next_ > idle_;
    }
    if (all_busy && can_grow_ && static_cast<int>(team_.size()) + 1 < options_.threads) {
      try {
        // Created here, because nothing may be thrown on the new thread.
        auto splitter = std::make_shared<DocumentSplitter>();
        team_.push_back(base::start_thread("tokenizer", [this, splitter] { work_along(*splitter); }));
      } catch (const std::system_error&) {
        // No threads or no memory are left: the running threads share the work.
        can_grow_ = false;
      }
    }
    work_.notify_one();
  }

  bool is_done(std::size_t place) {
    const std::lock_guard lock(mutex_);
    return slots_[place % slots_.size()].done;
  }

  // Works on stretches that no thread has begun until the tail is done.
  Slot& finished_tail(DocumentSplitter& splitter) {
    auto& slot = slots_[tail_ % slots_.size()];
    std::unique_lock lock(mutex_);
    while (!slot.done) {
      if (next_ < head_) make_next(lock, splitter);
      else done_.wait(lock, [&] { return slot.done; });
    }
    return slot;
  }

  void work_along(DocumentSplitter& splitter) {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      work_.wait(lock, [&] { return over_ || next_ < head_; });
      --idle_;
      if (over_) return;
      make_next(lock, splitter);
    }
  }

  void make_next(std::unique_lock<std::mutex>& lock, DocumentSplitter& splitter) {
    auto& slot = slots_[next_++ % slots_.size()];
    lock.unlock();
    try {
      make(slot, splitter);
    } catch (...) {
      slot.failure = std::current_exception();
    }
    lock.lock();
    slot.done = true;
    done_.notify_one();
  }

  void make(Slot& slot, DocumentSplitter& splitter) {
    auto& made = slot.made;
    made.documents.clear();
    made.narrow.clear();
    made.wide.clear();
    made.answers.clear();
    made.fields.clear();
    made.text_bytes = made.unknown_tokens = 0;
    made.source = slot.read.source;
    const bool narrow = tokenizer_.vocabulary() <= most_narrow;
    const auto end = tokenizer_.end_of_document(), begin = tokenizer_.begin_of_document();
    const auto keep_fields = [&] {
      const auto fields = splitter.fields();
      made.fields.insert(made.fields.end(), fields.begin(), fields.end());
    };
    const auto document = [&](std::string_view text) {
      keep_fields();
      const auto before = narrow ? made.narrow.size() : made.wide.size();
      if (begin >= 0) narrow ? made.narrow.push_back(static_cast<std::uint16_t>(begin)) : made.wide.push_back(begin);
      if (narrow) {
        tokenizer_.encode_narrow(text, made.narrow);
        made.narrow.push_back(static_cast<std::uint16_t>(end));
      } else {
        tokenizer_.encode(text, made.wide);
        made.wide.push_back(end);
      }
      made.text_bytes += static_cast<std::int64_t>(text.size());
      made.documents.push_back({split_of_document(text, options_.validation),
                                static_cast<std::int64_t>((narrow ? made.narrow.size() : made.wide.size()) - before), 0,
                                options_.hashes ? hash_of_text(text) : TextHash()});
    };
    std::vector<std::int32_t> tokens;
    const auto conversation = [&](std::span<const ChatMessage> messages) {
      keep_fields();
      const auto answers = std::ssize(made.answers);
      tokens.clear();
      chat_->encode(messages, tokens, made.answers);
      if (narrow) made.narrow.insert(made.narrow.end(), tokens.begin(), tokens.end());
      else made.wide.insert(made.wide.end(), tokens.begin(), tokens.end());
      std::string text;
      for (const auto& message : messages) {
        made.text_bytes += std::ssize(message.content);
        text.append(message.role->name).append(1, '\n').append(message.content).append(1, '\n');
      }
      made.documents.push_back({split_of_document(text, options_.validation), std::ssize(tokens),
                                std::ssize(made.answers) - answers, options_.hashes ? hash_of_text(text) : TextHash()});
    };
    splitter.split(slot.read.stretch, slot.read.rules, document, slot.findings, conversation);
    if (const auto unknown = tokenizer_.unknown(); unknown >= 0)
      made.unknown_tokens = std::count(made.narrow.begin(), made.narrow.end(), unknown) +
                            std::count(made.wide.begin(), made.wide.end(), unknown);
  }

  DocumentSource& source_;
  const Tokenizer& tokenizer_;
  const TokenizingOptions& options_;
  std::optional<EncodedChat> chat_;
  std::vector<Slot> slots_;
  // Numbers of stretches read and passed on. Only the caller's thread changes them.
  std::size_t head_ = 0, tail_ = 0;
  bool can_grow_ = true;
  std::vector<std::thread> team_;

  std::mutex mutex_;  // guards the members below, `done` of each slot, and changes of head_
  std::condition_variable work_, done_;
  std::size_t next_ = 0, idle_ = 0;  // stretches begun; threads that wait
  bool over_ = false;
};

}  // namespace

Split split_of_document(std::string_view text, double share) {
  const auto place = static_cast<double>(base::site_hash("validation", text) >> 11) * 0x1.0p-53;
  return place < share ? Split::validation : Split::train;
}

void TokenizedStretch::for_each(const Each& each) const {
  std::size_t at = 0, answer = 0, field = 0;
  const auto kept = documents.empty() ? 0 : fields.size() / documents.size();
  for (const auto& d : documents) {
    const void* tokens = narrow.empty() ? static_cast<const void*>(wide.data() + at) : narrow.data() + at;
    each(d, tokens,
         {std::span(answers).subspan(answer, base::size(d.answers)), d.hash, std::span(fields).subspan(field, kept)});
    at += base::size(d.tokens), answer += base::size(d.answers), field += kept;
  }
}

std::int64_t TokenizedStretch::unknown_of(const Document& document, const void* tokens, std::int32_t token) const {
  if (token < 0) return 0;
  const auto count = [&](const auto* from) { return std::count(from, from + document.tokens, token); };
  return narrow.empty() ? count(static_cast<const std::int32_t*>(tokens))
                        : count(static_cast<const std::uint16_t*>(tokens));
}

void tokenize(DocumentSource& source, const Tokenizer& tokenizer, const TokenizingOptions& options,
              const std::function<void(const TokenizedStretch&)>& take,
              const std::function<void(const Refusal&)>& refuse, const std::function<void(std::int64_t)>& progress) {
  StretchTeam(source, tokenizer, options).run(take, refuse, progress);
}

}  // namespace trainyard::data
