// Carries results and errors between ranks as text: a code (0: no error), a hint, and a sentence or result.
#include "libtrain/comm/agreement.h"

#include "libtrain/base/index.h"

#include <algorithm>
#include <utility>

namespace trainyard::comm {

namespace {

struct Outcome {
  int code = 0;
  std::string hint, text;
};

Outcome outcome_of(const std::function<std::string()>& work) {
  try {
    return {0, "", work()};
  } catch (const base::PeerError&) {
    throw;
  } catch (const std::exception& e) {
    auto reported = base::error_text_of(e);
    return {static_cast<int>(reported.code), std::move(reported.hint), std::move(reported.message)};
  }
}

std::string packed(const Outcome& o) { return fmt::format("{} {} {}{}", o.code, o.hint.size(), o.hint, o.text); }
Outcome unpacked(const std::string& s) {
  const auto one = s.find(' '), two = s.find(' ', one + 1);
  const auto hint = std::stoul(s.substr(one + 1, two - one - 1));
  return {std::stoi(s.substr(0, one)), s.substr(two + 1, hint), s.substr(two + 1 + hint)};
}

void throw_if_error(const Outcome& o, const std::string& prefix) {
  if (o.code != 0) throw AgreedError(static_cast<base::ExitCode>(o.code), prefix + o.text, o.hint);
}

std::string broadcast_text(Communicator& control, tensor::Exec& exec, std::string text, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  control.broadcast(exec, base::View::of(&length, {1}), root);
  exec.synchronize();
  text.resize(base::size(length));
  control.broadcast(exec, base::View(text.data(), base::DType::u8, {length}), root);  // never empty
  exec.synchronize();
  return text;
}

}  // namespace

std::string on_rank_zero(Communicator& control, tensor::Exec& exec, const std::function<std::string()>& work) {
  Outcome outcome;
  if (control.rank() == 0) outcome = outcome_of(work);
  if (control.size() > 1)
    outcome = unpacked(broadcast_text(control, exec, control.rank() == 0 ? packed(outcome) : "", 0));
  throw_if_error(outcome, "");
  return outcome.text;
}

void on_every_rank(Communicator& control, tensor::Exec& exec, const std::function<void()>& work) {
  const auto outcome = outcome_of([&] {
    work();
    return std::string();
  });
  const auto n = control.size();
  if (n == 1) return throw_if_error(outcome, "");
  std::int64_t failed = outcome.code != 0 ? control.rank() : n;
  std::vector<std::int64_t> all(base::size(n));
  control.all_gather(exec, base::View::of(&failed, {1}), base::View::of(all.data(), {n}));
  exec.synchronize();
  for (int r = 0; r < n; ++r) {
    if (base::at(all, r) == n) continue;
    throw_if_error(unpacked(broadcast_text(control, exec, control.rank() == r ? packed(outcome) : "", r)),
                   r == 0 ? "" : fmt::format("rank {}: ", r));
  }
}

std::vector<std::string> texts_of_all(Communicator& control, tensor::Exec& exec, const std::string& text) {
  const auto n = control.size();
  if (n == 1) return {text};
  auto longest = static_cast<std::int64_t>(text.size());
  control.all_reduce(exec, base::View::of(&longest, {1}), Reduction::max);
  exec.synchronize();
  const auto width = longest + 8;  // the length, then the text
  std::vector<char> mine(base::size(width), '\0'), all(base::size(width * n));
  const auto length = static_cast<std::int64_t>(text.size());
  std::copy_n(reinterpret_cast<const char*>(&length), 8, mine.begin());
  std::copy(text.begin(), text.end(), mine.begin() + 8);
  control.all_gather(exec, base::View(mine.data(), base::DType::u8, {width}),
                     base::View(all.data(), base::DType::u8, {width * n}));
  exec.synchronize();
  std::vector<std::string> texts;
  for (int r = 0; r < n; ++r) {
    const char* at = all.data() + r * width;
    std::int64_t bytes = 0;
    std::copy_n(at, 8, reinterpret_cast<char*>(&bytes));
    texts.emplace_back(at + 8, base::size(bytes));
  }
  return texts;
}

}  // namespace trainyard::comm
