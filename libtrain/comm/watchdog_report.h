// What watchdogs report to each other, and the judgement of the reports. No sockets and no clocks, so that tests can
// make up reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::comm {

// Most ledgers of a rank that are watched: control and results, six groups along axes, the group of stages that hold
// the same flat parameter group, and six of neighbouring stages.
inline constexpr int watched_limit = 15;

struct Watched {  // one ledger of one rank
  std::uint64_t sequence = 0;
  double open_seconds = 0;   // how long the call under way has been open; 0 outside of calls
  std::uint8_t in_call = 0;  // a call is under way, and somebody on that rank waits for it
  char operation[31] = {};
};

struct Report {  // sent as it lies in memory: all ranks run the same program
  enum Kind : std::int32_t { state, verdict, farewell, farewell_heard } kind = state;  // after a verdict a text follows
  std::int32_t rank = 0;
  std::int64_t step = 0;
  char doing[64] = {};  // what the rank computes: "stage 1, forward of micro-batch 3"
  Watched ledgers[watched_limit] = {};
};

struct Heard {
  Report report;
  bool silent = true;  // nothing heard for several intervals
  bool gone = false;   // heard once, then silent for longer than the timeout
};

// The groups whose calls one ledger counts. Groups of one name work at the same time: the ranks of a call wait only for
// one another.
struct WatchedGroup {
  std::string name;
  std::vector<int> number_of = {};  // by rank: the group that it is in, -1 for none; empty: all ranks are in one group
  // How a wait in this group is judged:
  //  - in_turn: a rank that has not begun the call, or is silent, is missing
  //  - last: the same, but after the other groups, because a hang in one of them makes ranks wait here
  //  - patiently: one rank may work alone while the others wait for it, as in a save. So only a rank that is gone is
  //    missing. If all ranks answer and all of them wait in the call, it hangs without a missing rank
  enum class Judged { in_turn, last, patiently } judged = Judged::in_turn;
};
// "data". If several groups have the name, the ranks of the group of `rank` follow: "tensor of ranks 2, 3".
std::string name_of_group(const WatchedGroup& group, int rank);

struct Hang {
  int ledger = 0, group = 0;  // the ledger, and which of its groups
  std::uint64_t sequence = 0;
  std::string sentence;
  bool same_call(const Hang& other) const {
    return ledger == other.ledger && group == other.group && sequence == other.sequence;
  }
};

// Finds a call that is still open and in which a rank that answers has waited longer than the timeout. The sentence
// names the call, and the ranks of its group: who waits, who is behind (has not begun it) and who is silent. If ranks
// of several groups wait for one another, it chooses a call that lacks a rank which itself waits in no call.
// WatchedGroup::judged makes exceptions. `groups` are the groups of the ledgers. `hosts` are the names of the ranks'
// machines, where they are known.
std::optional<Hang> find_hang(const std::vector<Heard>& ranks, const std::vector<WatchedGroup>& groups,
                              double timeout_seconds, const std::vector<std::string>& hosts = {});

std::string what_was_done(const Report& report);  // ", stage 1, forward of micro-batch 3"; "" when nothing is known
std::string name_of_rank(int rank, const std::vector<std::string>& hosts);  // "rank 3 on node17"
std::string names_of_ranks(const std::vector<int>& ranks,
                           const std::vector<std::string>& hosts);  // "ranks 3 on node17, 4 on node18", the first 8

}  // namespace trainyard::comm
