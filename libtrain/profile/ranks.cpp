// Agreement over the control communicator.
#include "libtrain/profile/ranks.h"

#include "libtrain/base/error.h"

#include <algorithm>
#include <chrono>
#include <new>
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

std::string from_rank_zero(Ranks& ranks, const std::string& text) {
  return from_all(ranks, ranks.rank == 0 ? text : std::string()).front();
}

void on_all(Ranks& ranks, const std::function<void()>& body) {
  std::string said;   // code, hint and sentence; empty: all is well
  const auto say = [&](base::ExitCode code, const std::string& hint, const std::string& sentence) { said = fmt::format("{}\n{}\n{}", static_cast<int>(code), hint, sentence); };
  try {
    body();
  } catch (const base::PeerError&) {
    throw;   // the others cannot be asked
  } catch (const base::Error& e) {
    say(e.code(), e.hint(), e.what());
  } catch (const std::bad_alloc&) {
    say(base::ExitCode::environment, "smaller sizes, or fewer ranks on a node", "out of memory");
  } catch (const std::exception& e) {
    say(base::ExitCode::unexpected, "", e.what());
  }
  const auto all = from_all(ranks, said);
  const auto first = std::find_if(all.begin(), all.end(), [](const std::string& s) { return !s.empty(); });
  if (first == all.end()) return;
  const auto one = first->find('\n'), two = first->find('\n', one + 1);
  const auto who = first - all.begin();
  throw AgreedError(static_cast<base::ExitCode>(std::stoi(first->substr(0, one))), (who == 0 ? "" : fmt::format("rank {}: ", who)) + first->substr(two + 1),
                    first->substr(one + 1, two - one - 1));
}

}  // namespace trainyard::profile
