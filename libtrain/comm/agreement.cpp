// Carries results and errors between ranks as texts: a code (0: all is well), a hint, a sentence or result.
#include "libtrain/comm/agreement.h"

#include <new>
#include <vector>

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
  } catch (const base::Error& e) {
    return {static_cast<int>(e.code()), e.hint(), e.what()};
  } catch (const std::bad_alloc&) {
    return {static_cast<int>(base::ExitCode::environment), "smaller sizes, or fewer ranks on a node", "out of memory"};
  } catch (const std::exception& e) {
    return {static_cast<int>(base::ExitCode::unexpected), "", e.what()};
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
  text.resize(static_cast<std::size_t>(length));
  control.broadcast(exec, base::View(text.data(), base::DType::u8, {length}), root);   // never empty
  exec.synchronize();
  return text;
}

}  // namespace

std::string on_rank_zero(Communicator& control, tensor::Exec& exec, const std::function<std::string()>& work) {
  Outcome outcome;
  if (control.rank() == 0) outcome = outcome_of(work);
  if (control.size() > 1) outcome = unpacked(broadcast_text(control, exec, control.rank() == 0 ? packed(outcome) : "", 0));
  throw_if_error(outcome, "");
  return outcome.text;
}

void on_every_rank(Communicator& control, tensor::Exec& exec, const std::function<void()>& work) {
  const auto outcome = outcome_of([&] { work(); return std::string(); });
  const auto n = control.size();
  if (n == 1) return throw_if_error(outcome, "");
  const std::int64_t failed = outcome.code != 0 ? control.rank() : n;
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  control.all_gather(exec, base::View::of(&failed, {1}), base::View::of(all.data(), {n}));
  exec.synchronize();
  for (int r = 0; r < n; ++r) {
    if (all[static_cast<std::size_t>(r)] == n) continue;
    throw_if_error(unpacked(broadcast_text(control, exec, control.rank() == r ? packed(outcome) : "", r)), r == 0 ? "" : fmt::format("rank {}: ", r));
  }
}

}  // namespace trainyard::comm
