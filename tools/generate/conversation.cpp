// Reads lines and answers them. SIGINT changes a state.
#include "tools/generate/conversation.h"

#include "libtrain/base/error.h"
#include "tools/common/program.h"
#include "tools/generate/answer.h"
#include "tools/generate/utf8.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <string>

namespace trainyard::generate {

namespace {

enum State : int { waiting, answering, asked_to_end };
std::atomic<int> state{waiting};
static_assert(std::atomic<int>::is_always_lock_free);  // the signal handler changes it

void take_signal(int number) {
  int expected = answering;
  if (state.compare_exchange_strong(expected, asked_to_end)) return;
  std::signal(number, SIG_DFL);
  std::raise(number);  // delivered when the handler returns
}

void watch_interrupts() {
  struct sigaction before {};
  sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = take_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

// While it lives, SIGINT ends the current answer.
class Answering {
 public:
  Answering() { state = answering; }
  ~Answering() { state = waiting; }
  Answering(const Answering&) = delete;
  Answering& operator=(const Answering&) = delete;
  static bool interrupted() { return state == asked_to_end; }
};

class Conversation {
 public:
  Conversation(const Options& options, Loaded& loaded) : options_(options), loaded_(loaded) {}

  void run() {
    while (!output_.gone()) {
      ask();
      const auto line = read_line(stdin, "standard input");
      if (!line) break;
      ++lines_;
      try {
        if (line->too_long) throw too_long_prompt("standard input");
        answer_to(line->text);
      } catch (const base::InputError& e) {
        refuse(line->text, e);
      }
    }
    if (asks_) std::fputc('\n', stderr);
    if (refused_ > 0 && !typed_ && !output_.gone())
      throw base::InputError(fmt::format("{} of {} prompts were refused", refused_, lines_), "see the messages above");
  }

 private:
  void ask() const {
    if (asks_) std::fputs("> ", stderr);
  }

  void answer_to(const std::string& prompt) {
    const auto tokens = prompt_tokens(*loaded_.tokenizer, prompt, loaded_.model->room(), loaded_.beginning);
    const Answering now;
    answer(options_, loaded_, prompt, tokens, output_, Answering::interrupted);
    if (!options_.json) output_.write("\n");
  }

  void refuse(const std::string& prompt, const base::InputError& error) {
    ++refused_;
    const auto reported = base::error_text_of(error);
    tools::report("generate",
                  base::InputError(typed_ ? reported.message : fmt::format("line {}: {}", lines_, reported.message),
                                   reported.hint));
    if (!options_.json) return;
    const nlohmann::ordered_json out{{"prompt", valid_utf8(prompt)}, {"error", valid_utf8(reported.message)}};
    output_.write(out.dump() + "\n");
  }

  const Options& options_;
  Loaded& loaded_;
  Output output_;
  const bool typed_ = isatty(STDIN_FILENO) == 1, asks_ = typed_ && isatty(STDERR_FILENO) == 1;
  std::int64_t lines_ = 0, refused_ = 0;
};

}  // namespace

void converse(const Options& options, Loaded& loaded) {
  watch_interrupts();
  Conversation(options, loaded).run();
}

}  // namespace trainyard::generate
