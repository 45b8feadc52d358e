// The judgement: the earliest call that has waited too long, and the ranks that keep it waiting.
#include "libtrain/comm/watchdog_report.h"

#include "libtrain/base/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace trainyard::comm {

namespace {

std::string with_host(int rank, const std::vector<std::string>& hosts) {
  const bool named = rank >= 0 && rank < std::ssize(hosts) && !base::at(hosts, rank).empty();
  return named ? fmt::format("{} on {}", rank, base::at(hosts, rank)) : fmt::format("{}", rank);
}

std::string listed(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  return names_of_ranks(ranks, hosts) + (ranks.size() == 1 ? " is" : " are");
}

std::string whereabouts(const Report& r, const std::vector<WatchedGroup>& groups, std::size_t ledger) {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (r.ledgers[g].in_call)
      return fmt::format("in {} of group {}{}", r.ledgers[g].operation, name_of_group(groups[g], r.rank),
                         what_was_done(r));
  const auto& own = r.ledgers[ledger];
  return (own.sequence == 0 ? "before its first call"
                            : fmt::format("computing after call {}, {}", own.sequence, own.operation)) +
         what_was_done(r);
}

int number_of(const WatchedGroup& group, int rank) {
  return group.number_of.empty() ? 0 : base::at(group.number_of, rank);
}

// For each group of a ledger, the rank that has waited too long in the earliest call. Ranks may wait in different
// calls, one behind the other, and each in turn has waited longest by its own clock. The earliest call is the cause,
// and it stays the same one.
std::vector<int> earliest_waits(const std::vector<Heard>& ranks, const WatchedGroup& group, std::size_t ledger,
                                double timeout_seconds) {
  std::map<int, int> waiting;  // by number of the group
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r) {
    const auto& h = base::at(ranks, r);
    const auto& mine = h.report.ledgers[ledger];
    if (h.silent || !mine.in_call || mine.open_seconds <= timeout_seconds) continue;
    const auto [found, is_first] = waiting.emplace(number_of(group, r), r);
    if (!is_first && mine.sequence < base::at(ranks, found->second).report.ledgers[ledger].sequence) found->second = r;
  }
  std::vector<int> out;
  for (const auto& [number, rank] : waiting) out.push_back(rank);
  return out;
}

bool waits_anywhere(const Report& r, std::size_t ledgers) {
  return std::any_of(r.ledgers, r.ledgers + ledgers, [](const Watched& w) { return w.in_call != 0; });
}

struct Verdict {
  Hang hang;
  bool culprit = false;  // a rank is missing that waits for no other rank
  bool lost = false;     // a rank is gone, and was not seen inside the call
};

Verdict judge(const std::vector<Heard>& ranks, const std::vector<WatchedGroup>& groups, std::size_t ledger, int waiting,
              const std::vector<std::string>& hosts) {
  const auto& group = groups[ledger];
  const auto& report = base::at(ranks, waiting).report;
  const auto& call = report.ledgers[ledger];
  double longest = 0;
  std::vector<int> inside, behind, silent;
  std::string where, last_seen;
  bool culprit = false, lost = false;
  for (int r = 0; r < static_cast<int>(ranks.size()); ++r) {
    if (number_of(group, r) != number_of(group, waiting)) continue;
    const auto& heard = base::at(ranks, r);
    const auto& other = heard.report.ledgers[ledger];
    if (heard.silent) {
      if (silent.empty()) last_seen = what_was_done(heard.report);
      silent.push_back(r);
      lost = lost || (heard.gone && !(other.sequence == call.sequence && other.in_call));
    } else if (other.sequence < call.sequence) {
      if (behind.empty()) where = whereabouts(heard.report, groups, ledger);
      behind.push_back(r);
      culprit = culprit || !waits_anywhere(heard.report, groups.size());
    } else if (other.sequence == call.sequence && other.in_call) {
      inside.push_back(r);
      longest = std::max(longest, other.open_seconds);
    }
  }
  auto text = fmt::format("no progress for {:.3g} s in {} (call {} of group {}, step {}{}): {} waiting", longest,
                          call.operation, call.sequence, name_of_group(group, waiting), report.step,
                          what_was_done(report), listed(inside, {}));
  if (!behind.empty())
    text += fmt::format("; {} behind ({}{})", listed(behind, hosts), behind.size() > 1 ? "the first " : "", where);
  if (!silent.empty()) {
    text += fmt::format("; {} silent", listed(silent, hosts));
    if (!last_seen.empty()) text += fmt::format(" ({}{})", silent.size() > 1 ? "the first " : "", last_seen.substr(2));
  }
  if (behind.empty() && silent.empty()) text += "; nobody is missing, so the network may have failed";
  return {{static_cast<int>(ledger), number_of(group, waiting), call.sequence, std::move(text)},
          culprit || !silent.empty(),
          lost};
}

}  // namespace

std::string names_of_ranks(const std::vector<int>& ranks, const std::vector<std::string>& hosts) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i)
    text += fmt::format("{}{}", i ? ", " : "", with_host(ranks[i], hosts));
  if (ranks.size() > 8) text += fmt::format(" and {} more", ranks.size() - 8);
  return text;
}

std::string what_was_done(const Report& report) {
  return report.doing[0] == 0 ? std::string() : fmt::format(", {}", report.doing);
}

std::string name_of_rank(int rank, const std::vector<std::string>& hosts) { return "rank " + with_host(rank, hosts); }

std::string name_of_group(const WatchedGroup& group, int rank) {
  std::vector<int> members;
  for (int r = 0; r < static_cast<int>(group.number_of.size()); ++r)
    if (number_of(group, r) == number_of(group, rank)) members.push_back(r);
  if (members.size() == group.number_of.size()) return group.name;
  return fmt::format("{} of {}", group.name, names_of_ranks(members, {}));
}

std::optional<Hang> find_hang(const std::vector<Heard>& ranks, const std::vector<WatchedGroup>& groups,
                              double timeout_seconds, const std::vector<std::string>& hosts) {
  using Judged = WatchedGroup::Judged;
  const bool all_wait = std::all_of(
      ranks.begin(), ranks.end(), [&](const Heard& h) { return !h.silent && waits_anywhere(h.report, groups.size()); });
  std::optional<Verdict> first;
  for (const bool last : {false, true})
    for (std::size_t ledger = 0; ledger < groups.size(); ++ledger) {
      if ((groups[ledger].judged == Judged::last) != last) continue;
      for (const auto& waiting : earliest_waits(ranks, groups[ledger], ledger, timeout_seconds)) {
        auto verdict = judge(ranks, groups, ledger, waiting, hosts);
        if (groups[ledger].judged == Judged::patiently && !verdict.lost && !all_wait) continue;
        if (verdict.culprit) return std::move(verdict.hang);
        if (!first) first = std::move(verdict);
      }
    }
  if (!first) return std::nullopt;
  return std::move(first->hang);
}

}  // namespace trainyard::comm
