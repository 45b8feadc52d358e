// The judgement: the earliest call that has waited too long, and the ranks that keep it waiting.
#include "libtrain/comm/watchdog_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::comm {

namespace {

std::string with_host(int rank, const std::vector<std::string>& hosts) {
  const auto at = static_cast<std::size_t>(rank);
  return at < hosts.size() && !hosts[at].empty() ? fmt::format("{} on {}", rank, hosts[at]) : fmt::format("{}", rank);
}

std::string listed(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  return names_of_ranks(ranks, hosts) + (ranks.size() == 1 ? " is" : " are");
}

std::string whereabouts(const Report& r, const std::vector<std::string>& groups, std::size_t ledger) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (r.ledgers[g].in_call) return fmt::format("in {} of group {}", r.ledgers[g].operation, groups[g]);
  const auto& own = r.ledgers[ledger];
  return own.sequence == 0 ? "before its first call"
                           : fmt::format("computing after call {}, {}", own.sequence, own.operation);
}

}  // namespace

std::string names_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i)
    text += fmt::format("{}{}", i ? ", " : "", with_host(ranks[i], hosts));
  if (ranks.size() > 8) text += fmt::format(" and {} more", ranks.size() - 8);
  return text;
}

std::string name_of_rank(int rank, const std::vector<std::string>& hosts) { return "rank " + with_host(rank, hosts); }

std::optional<Hang> find_hang(const std::vector<Heard>& ranks, const std::vector<std::string>& groups,
                              double timeout_seconds, const std::vector<std::string>& hosts) {
  // Ranks may wait in different calls, one behind the other, and their clocks say in turn that theirs is the longest:
  // the earliest is the cause, and it stays the same one.
  const Heard* waiting = nullptr;
  std::size_t ledger = 0;
  for (std::size_t g = 0; g < groups.size() && waiting == nullptr; ++g) {
    ledger = g;
    for (const auto& h : ranks) {
      const auto& mine = h.report.ledgers[g];
      if (h.silent || !mine.in_call || mine.open_seconds <= timeout_seconds) continue;
      if (waiting == nullptr || mine.sequence < waiting->report.ledgers[g].sequence) waiting = &h;
    }
  }
  if (waiting == nullptr) return std::nullopt;
  const auto& call = waiting->report.ledgers[ledger];
  double longest = 0;
  std::vector<int> inside, behind, silent;
  std::string where;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto& other = ranks[r].report.ledgers[ledger];
    if (ranks[r].silent) silent.push_back(static_cast<int>(r));
    else if (other.sequence < call.sequence) {
      if (behind.empty()) where = whereabouts(ranks[r].report, groups, ledger);
      behind.push_back(static_cast<int>(r));
    } else if (other.sequence == call.sequence && other.in_call) {
      inside.push_back(static_cast<int>(r));
      longest = std::max(longest, other.open_seconds);
    }
  }
  auto text = fmt::format("no progress for {:.3g} s in {} (call {} of group {}, step {}): {} waiting", longest,
                          call.operation, call.sequence, groups[ledger], waiting->report.step, listed(inside, {}));
  if (!behind.empty())
    text += fmt::format("; {} behind ({}{})", listed(behind, hosts), behind.size() > 1 ? "the first " : "", where);
  if (!silent.empty()) text += fmt::format("; {} silent", listed(silent, hosts));
  if (behind.empty() && silent.empty()) text += "; nobody is missing, so the network may have failed";
  return Hang{static_cast<int>(ledger), call.sequence, text};
}

}  // namespace trainyard::comm
