// Agreement over the control communicator.
#include "libtrain/profile/ranks.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace trainyard::profile {

namespace {

void reduce(Ranks& ranks, std::vector<double>& values, comm::Reduction op) {
  if (ranks.size == 1 || values.empty()) return;
  ranks.control->all_reduce(*ranks.caller, base::View::of(values.data(), {static_cast<std::int64_t>(values.size())}), op);
}

}  // namespace

double Clock::now() const { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
void Clock::sleep(double seconds) const { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

void largest(Ranks& ranks, std::vector<double>& values) { reduce(ranks, values, comm::Reduction::max); }
void sums(Ranks& ranks, std::vector<double>& values) { reduce(ranks, values, comm::Reduction::sum); }

std::vector<std::string> from_all(Ranks& ranks, const std::string& text) {
  if (ranks.size == 1) return {text};
  std::vector<double> longest{static_cast<double>(text.size())};
  largest(ranks, longest);
  const auto width = static_cast<std::int64_t>(longest[0]) + 8;   // the length, then the text
  std::vector<char> mine(static_cast<std::size_t>(width), '\0'), all(static_cast<std::size_t>(width * ranks.size));
  const auto length = static_cast<std::int64_t>(text.size());
  std::copy_n(reinterpret_cast<const char*>(&length), 8, mine.begin());
  std::copy(text.begin(), text.end(), mine.begin() + 8);
  ranks.control->all_gather(*ranks.caller, base::View(mine.data(), base::DType::u8, {width}), base::View(all.data(), base::DType::u8, {width * ranks.size}));
  std::vector<std::string> texts;
  for (int r = 0; r < ranks.size; ++r) {
    const char* at = all.data() + r * width;
    std::int64_t n = 0;
    std::copy_n(at, 8, reinterpret_cast<char*>(&n));
    texts.emplace_back(at + 8, static_cast<std::size_t>(n));
  }
  return texts;
}

std::string from_rank_zero(Ranks& ranks, const std::function<std::string()>& work) { return comm::on_rank_zero(*ranks.control, *ranks.caller, work); }
void on_all(Ranks& ranks, const std::function<void()>& body) { comm::on_every_rank(*ranks.control, *ranks.caller, body); }

}  // namespace trainyard::profile
