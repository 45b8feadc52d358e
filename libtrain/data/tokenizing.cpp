// One team of threads a batch.
#include "libtrain/data/tokenizing.h"

#include "libtrain/base/thread.h"

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace trainyard::data {

void Tokenizing::add(std::string&& text, const std::string& source) {
  bytes_ += text.size();
  if (sources_.empty() || sources_.back() != source) sources_.push_back(source);
  places_.push_back(sources_.size() - 1);
  texts_.push_back(std::move(text));
  if (bytes_ >= (std::size_t{4} << 20)) flush();
}

void Tokenizing::flush() {
  const auto n = texts_.size();
  if (n == 0) return;
  std::vector<std::vector<std::int32_t>> tokens(n);
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    try {
      for (auto i = next++; i < n; i = next++) {
        tokenizer_.encode(texts_[i], tokens[i]);
        tokens[i].push_back(tokenizer_.end_of_document());
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> team;
  try {
    for (int t = 1; t < threads_ && static_cast<std::size_t>(t) < n; ++t)
      team.push_back(base::start_thread("tokenizer", work));
  } catch (const std::system_error&) {
    // No more threads or memory for them: those that run share the work, and the output does not depend on their
    // number.
  }
  work();
  for (auto& t : team) t.join();
  if (failure) std::rethrow_exception(failure);
  for (std::size_t i = 0; i < n; ++i) take_({texts_[i], tokens[i], sources_[places_[i]]});
  texts_.clear();
  places_.clear();
  sources_.erase(sources_.begin(), sources_.end() - 1);
  bytes_ = 0;
}

}  // namespace trainyard::data
