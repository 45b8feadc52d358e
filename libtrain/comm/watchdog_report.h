// What watchdogs tell each other, and the judgement over what they told. No sockets and no clocks: it is tested with
// made-up reports.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::comm {

// Control and results, six groups along axes, that of stages that hold a flat group together, six of stages that are
// neighbours.
inline constexpr int watched_limit = 15;

struct Watched {  // one ledger of one rank
  std::uint64_t sequence = 0;
  double open_seconds = 0;   // how long the call under way has been open; 0 outside of calls
  std::uint8_t in_call = 0;  // and somebody on that rank waits for it
  char operation[31] = {};
};

struct Report {  // sent as it lies in memory: all ranks run the same program
  enum Kind : std::int32_t { state, verdict, farewell, farewell_heard } kind = state;  // a text follows a verdict
  std::int32_t rank = 0;
  std::int64_t step = 0;
  char doing[64] = {};  // what the rank computes: "stage 1, forward of micro-batch 3"
  Watched ledgers[watched_limit] = {};
};

struct Heard {
  Report report;
  bool silent = true;  // nothing heard for several intervals
  bool gone = false;   // heard once, and not for longer than the timeout
};

// What a ledger counts the calls of. Groups of one name work at the same time: ranks of one call wait for one another
// alone.
struct WatchedGroup {
  std::string name;
  std::vector<int> number_of = {};  // by rank: which of them it is in, -1 for none; empty: all ranks are in one
  // last: after the others, since what hangs in one of them makes ranks wait here. patiently: a rank may work alone and
  // let the others wait; missed is only one that is gone, or nobody in particular where all answer and all wait.
  enum class Judged { in_turn, last, patiently } judged = Judged::in_turn;
};
// "data"; where there are several of the name, with the ranks of the one that `rank` is in: "tensor of ranks 2, 3".
std::string name_of_group(const WatchedGroup& group, int rank);

struct Hang {
  int ledger = 0, group = 0;  // and which of the groups of that ledger
  std::uint64_t sequence = 0;
  std::string sentence;
  bool same_call(const Hang& other) const {
    return ledger == other.ledger && group == other.group && sequence == other.sequence;
  }
};

// A rank that answers has waited longer than the timeout in a call that is still open: names the call, who waits, who
// is behind (has not begun it) and who is silent, of the ranks of its group. Where ranks of several groups wait for one
// another: a call that somebody is missing from who waits in none himself; but for what WatchedGroup::judged says.
// `groups` are those of the ledgers, `hosts`
// the names of the ranks' machines where they are known.
std::optional<Hang> find_hang(const std::vector<Heard>& ranks, const std::vector<WatchedGroup>& groups,
                              double timeout_seconds, const std::vector<std::string>& hosts = {});

std::string what_was_done(const Report& report);  // ", stage 1, forward of micro-batch 3"; "" when it is not known
std::string name_of_rank(int rank, const std::vector<std::string>& hosts);  // "rank 3 on node17"
std::string names_of_ranks(const std::vector<int>& ranks,
                           const std::vector<std::string>& hosts);  // "ranks 3 on node17, 4 on node18", the first 8

}  // namespace trainyard::comm
