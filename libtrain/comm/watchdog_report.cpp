// The judgement: the call that has waited longest, and the ranks that keep it waiting.
#include "libtrain/comm/watchdog_report.h"

#include <fmt/format.h>

namespace trainyard::comm {

namespace {

std::string listed(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i) text += fmt::format("{}{}", i ? ", " : "", ranks[i]);
  if (ranks.size() > 8) text += fmt::format(" and {} more", ranks.size() - 8);
  return text + (ranks.size() == 1 ? " is" : " are");
}

std::string whereabouts(const Report& r, const std::vector<std::string>& groups, std::size_t ledger) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (r.ledgers[g].in_call) return fmt::format("in {} of group {}", r.ledgers[g].operation, groups[g]);
  const auto& own = r.ledgers[ledger];
  return own.sequence == 0 ? "before its first call" : fmt::format("computing after call {}, {}", own.sequence, own.operation);
}

}  // namespace

std::optional<Hang> judge(const std::vector<Heard>& ranks, const std::vector<std::string>& groups, double timeout_seconds) {
  const Heard* waiting = nullptr;
  std::size_t ledger = 0;
  double longest = timeout_seconds;
  for (const auto& h : ranks)
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (!h.silent && h.report.ledgers[g].in_call && h.report.ledgers[g].open_seconds > longest) {
        waiting = &h;
        ledger = g;
        longest = h.report.ledgers[g].open_seconds;
      }
  if (waiting == nullptr) return std::nullopt;
  const auto& call = waiting->report.ledgers[ledger];
  std::vector<int> inside, behind, silent;
  std::string where;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto& other = ranks[r].report.ledgers[ledger];
    if (ranks[r].silent) silent.push_back(static_cast<int>(r));
    else if (other.sequence < call.sequence) {
      if (behind.empty()) where = whereabouts(ranks[r].report, groups, ledger);
      behind.push_back(static_cast<int>(r));
    } else if (other.sequence == call.sequence && other.in_call) inside.push_back(static_cast<int>(r));
  }
  auto text = fmt::format("no progress for {:.3g} s in {} (call {} of group {}, step {}): {} waiting", longest, call.operation, call.sequence,
                          groups[ledger], waiting->report.step, listed(inside));
  if (!behind.empty()) text += fmt::format("; {} behind ({}{})", listed(behind), behind.size() > 1 ? "the first " : "", where);
  if (!silent.empty()) text += fmt::format("; {} silent", listed(silent));
  if (behind.empty() && silent.empty()) text += "; nobody is missing, so the network may have failed";
  return Hang{static_cast<int>(ledger), call.sequence, text};
}

}  // namespace trainyard::comm
