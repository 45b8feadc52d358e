// The watchdog's thread: it reports, listens, judges, and ends the job.
#include "libtrain/comm/watchdog.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/text.h"
#include "libtrain/base/thread.h"
#include "libtrain/comm/reason.h"
#include "libtrain/comm/watchdog_address.h"

#include <linux/errqueue.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

namespace trainyard::comm {

namespace {

constexpr std::size_t verdict_limit = 1024;

// What one rank knows of another.
struct Peer {
  std::vector<sockaddr_in> named;   // all that it named over MPI; messages from elsewhere are ignored
  std::vector<sockaddr_in> places;  // the same; once it is heard, only the address that it sent from
  bool heard = false;
  bool leaving = false;   // it has said farewell, and judges no more
  bool released = false;  // it knows of this rank's farewell, or no longer listens
  // Seconds since the first and the last refusal that no report has followed; -1: none.
  double refused_since = -1, refused_last = 0;
};

bool same_place(const sockaddr_in& a, const sockaddr_in& b) {
  return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
}

}  // namespace

struct Watchdog::Impl {
  WatchdogOptions options;
  std::vector<WatchedGroup> groups;
  std::vector<WatchedGroup::Judged> judged;  // of `groups`, as passed to watch(); used while nobody is patient
  std::vector<const Ledger*> ledgers;        // null: this rank is in none of these groups
  std::vector<std::function<bool()>> waited_for;
  std::function<std::string()> doing;
  const std::atomic<std::int64_t>& step;
  int socket = -1;
  std::uint16_t port = 0;
  std::vector<Peer> peers;
  std::vector<std::string> hosts;
  std::vector<Heard> heard;
  std::vector<double> silence;  // by rank: seconds since its last report, while this process ran
  std::mutex watching;          // guards groups, ledgers and doing
  Report own;
  std::optional<Hang> suspicion;
  double suspicion_age = 0;
  bool spoken = false;  // other ranks may have heard this one
  bool ended = false;
  bool bidding = false;  // saying farewell: too late for a verdict
  bool warned = false;   // has warned of ranks that were never heard
  std::atomic<bool> leave{false};
  std::thread thread;

  Impl(WatchdogOptions o, const std::atomic<std::int64_t>& s) : options(std::move(o)), step(s) {}
  ~Impl() {
    leave = true;
    if (thread.joinable()) thread.join();
    if (spoken && !ended) send_farewell();
    if (socket >= 0) close(socket);
  }

  void open() {
    socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    socklen_t length = sizeof any;
    if (socket < 0 || bind(socket, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 ||
        getsockname(socket, reinterpret_cast<sockaddr*>(&any), &length) != 0)
      throw base::EnvironmentError(fmt::format("the watchdog has no socket: {}", std::strerror(errno)));
    port = ntohs(any.sin_port);
    // Room for a report of every rank, in case all come at once; the system may give less.
    const int room =
        static_cast<int>(std::min<std::size_t>(std::size_t{16} << 20, 2 * sizeof(Report) * base::size(options.size)));
    setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    const int yes = 1;
    setsockopt(socket, IPPROTO_IP, IP_RECVERR, &yes,
               sizeof yes);  // refusals come back with the address that they are about
  }

  std::string message_of(const Report& report, const std::string& text = {}) const {
    return sealed(options.key, std::string(reinterpret_cast<const char*>(&report), sizeof report) + text);
  }

  void send_to(int rank, const std::string& message) {
    // A lost message is a missed report, and the next report follows. A refusal of an earlier message is reported in
    // place of sending this one, so it is sent again.
    for (const auto& to : base::at(peers, rank).places)
      for (int again = 0; again < 2; ++again)
        if (sendto(socket, message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) >= 0 ||
            errno != ECONNREFUSED)
          break;
  }

  // Reads refusals: the machine of a rank answers that nobody listens there, once the rank's process has ended.
  void hear_refusals() {
    while (true) {
      sockaddr_in about{};
      char text[64];
      alignas(cmsghdr) char control[256];
      iovec content{text, sizeof text};
      msghdr message{};
      message.msg_name = &about, message.msg_namelen = sizeof about;
      message.msg_iov = &content, message.msg_iovlen = 1;
      message.msg_control = control, message.msg_controllen = sizeof control;
      if (recvmsg(socket, &message, MSG_ERRQUEUE) < 0) return;
      for (auto* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_RECVERR) continue;
        sock_extended_err error{};
        std::memcpy(&error, CMSG_DATA(c), sizeof error);
        if (error.ee_errno == ECONNREFUSED) refused(about);
      }
    }
  }

  // A refusal counts only from the address that the rank was heard from. Any other address may be another machine's or
  // this one's, or lie behind a firewall that refuses.
  void refused(const sockaddr_in& about) {
    for (auto& p : peers) {
      if (!p.heard || !same_place(p.places[0], about)) continue;
      p.released = true;
      p.refused_last = 0;
      if (p.refused_since < 0) p.refused_since = 0;
    }
  }

  // The first rank, of the ranks that this one sends to, that keeps being refused. Refusals may be reported once a
  // second only.
  std::optional<int> lost() const {
    const double threshold =
        4 * options.interval_seconds + (options.rank == 0 ? 0 : options.interval_seconds * std::min(options.rank, 20));
    for (std::size_t r = 0; r < peers.size(); ++r)
      if (!peers[r].leaving && peers[r].refused_since > threshold &&
          peers[r].refused_last < 3 * options.interval_seconds + 1)
        return static_cast<int>(r);
    return std::nullopt;
  }

  // Rank 0 sends to all ranks and hears all; every other rank sends to rank 0 and hears rank 0 alone.
  bool talks_with(int rank) const { return rank != options.rank && (rank == 0 || options.rank == 0); }

  // Warns once of ranks that cannot be watched: rank 0 warns of the others, and rank 1 of rank 0.
  void warn_of_unheard() {
    const double threshold = 20 * options.interval_seconds;
    if (warned || options.rank > 1) return;
    std::vector<int> unheard;
    for (int r = 0; r < options.size; ++r)
      if (const auto at = base::size(r); talks_with(r) && !peers[at].heard && silence[at] > threshold)
        unheard.push_back(r);
    if (unheard.empty()) return;
    warned = true;
    base::log_warning(
        "the watchdog has not heard {} for {:.3g} s: if one of them hangs or is killed, this is reported only after a "
        "call of a step has waited for {:.3g} s; is UDP between the machines blocked?",
        names_of_ranks(unheard, hosts), threshold, options.timeout_seconds);
  }

  void look_at_own(double passed) {
    own.step = step;
    std::snprintf(own.doing, sizeof own.doing, "%s", doing ? doing().c_str() : "");
    for (std::size_t g = 0; g < ledgers.size(); ++g) {
      auto& w = own.ledgers[g];
      if (ledgers[g] == nullptr) {
        w = {};
        continue;
      }
      const bool in_call = ledgers[g]->in_call() && (!waited_for[g] || waited_for[g]());
      const auto sequence = ledgers[g]->sequence();
      w.open_seconds = in_call && w.in_call && w.sequence == sequence ? w.open_seconds + passed : 0;
      w.in_call = in_call;
      w.sequence = sequence;
      const auto operation = ledgers[g]->operation();
      std::snprintf(w.operation, sizeof w.operation, "%s", operation.c_str());
    }
    base::at(heard, options.rank) = {own, false};
    base::at(silence, options.rank) = 0;
  }

  void send_to_all(const Report& report) {
    const auto message = message_of(report);
    for (int r = 0; r < options.size; ++r)
      if (talks_with(r)) send_to(r, message);
  }

  void receive() {
    char buffer[sizeof(Report) + verdict_limit + seal_bytes];
    // Bounded, so that a sender without an end does not keep this thread from its work.
    for (int left = 4 * options.size + 64; left > 0; --left) {
      sockaddr_in source{};
      socklen_t length = sizeof source;
      const auto n = recvfrom(socket, buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&source), &length);
      if (n < 0 && errno == ECONNREFUSED) continue;  // hear_refusals() reads it in full
      if (n < 0) return;
      const auto message = opened(options.key, {buffer, base::size(n)});
      if (!message || message->size() < sizeof(Report)) continue;
      Report r;
      std::memcpy(&r, message->data(), sizeof r);
      if (r.rank < 0 || r.rank >= options.size) continue;
      const auto from = base::size(r.rank);
      auto& peer = peers[from];
      if (std::none_of(peer.named.begin(), peer.named.end(),
                       [&](const sockaddr_in& named) { return same_place(named, source); }))
        continue;
      if (!peer.heard) peer.places = {source};
      peer.heard = true;
      peer.refused_since = -1;
      if (r.kind == Report::verdict && !bidding) return end(base::printable(message->substr(sizeof r)), r.rank);
      if (r.kind == Report::farewell) {
        peer.leaving = true;
        Report answer = own;
        answer.kind = Report::farewell_heard;
        send_to(r.rank, message_of(answer));
      }
      if (r.kind == Report::farewell_heard) peer.released = true;
      if (r.kind != Report::state) continue;
      heard[from].report = r;
      silence[from] = 0;
    }
  }

  bool is_first_of_its_host() const {
    const auto own_host = hosts.begin() + options.rank;
    return std::find(hosts.begin(), own_host, *own_host) == own_host;
  }

  void end(const std::string& sentence, int decider) {
    if (ended) return;
    ended = true;
    if (decider == options.rank) {
      std::fprintf(stderr, "watchdog: %s\n", sentence.c_str());
      Report head = own;
      head.kind = Report::verdict;
      const auto message = message_of(head, sentence.substr(0, verdict_limit));
      for (int again = 0; again < 3; ++again)
        for (int r = 0; r < options.size; ++r)
          if (r != options.rank) send_to(r, message);
    } else if (is_first_of_its_host()) {
      std::fprintf(stderr, "watchdog: %s has decided: %s\n", name_of_rank(decider, hosts).c_str(), sentence.c_str());
    }
    if (options.on_hang) options.on_hang(sentence, decider == options.rank ? Decided::here : Decided::elsewhere);
  }

  // Repeats the farewell until every rank that might miss this one knows that it leaves. Messages get lost, and a
  // missed rank would end a run that is done. Bounded in time, because a peer may be stopped.
  void send_farewell() {
    bidding = true;
    Report words = own;
    words.kind = Report::farewell;
    const double until = base::steady_seconds() + 4 * options.interval_seconds;
    const auto waited_for = [&] {
      for (int r = 0; r < options.size; ++r)
        if (const auto& p = base::at(peers, r); talks_with(r) && p.heard && !p.leaving && !p.released) return true;
      return false;
    };
    for (auto& p : peers) p.released = false;
    send_to_all(words);
    for (double next = base::steady_seconds() + options.interval_seconds / 5;
         waited_for() && base::steady_seconds() < until;) {
      pollfd p{socket, POLLIN, 0};
      poll(&p, 1, static_cast<int>(1000 * std::max(next - base::steady_seconds(), 0.0)) + 1);
      hear_refusals();
      receive();
      if (base::steady_seconds() < next) continue;
      send_to_all(words);
      next = base::steady_seconds() + options.interval_seconds / 5;
    }
  }

  // Rank 0 sees all ranks. The other ranks see themselves and rank 0. They judge only when rank 0 is silent and has had
  // time to decide. They do so one after the other, so that the first to decide speaks for all.
  void decide(double passed) {
    if (const auto r = lost())
      return end(fmt::format("{} has ended without a word (step {}{}): it was killed, ran out of memory or crashed",
                             name_of_rank(*r, hosts), own.step, what_was_done(base::at(heard, *r).report)),
                 options.rank);
    const double limit = std::max(3 * options.interval_seconds, 0.5);
    for (std::size_t r = 0; r < heard.size(); ++r) {
      heard[r].silent = silence[r] > limit;
      heard[r].gone = peers[r].heard && silence[r] > options.timeout_seconds;
    }
    std::optional<Hang> hang;
    if (options.rank == 0) hang = find_hang(heard, groups, options.timeout_seconds, hosts);
    else if (heard[0].silent) {
      auto pair = heard;
      for (int r = 1; r < options.size; ++r)
        if (r != options.rank) base::at(pair, r) = {own, false};
      hang = find_hang(pair, groups,
                       options.timeout_seconds + limit + options.interval_seconds * std::min(options.rank, 20), hosts);
      if (hang)
        hang->sentence =
            fmt::format("{} is silent and {} waits in {} (call {} of group {}, step {}) for more than {:.3g} s",
                        name_of_rank(0, hosts), name_of_rank(options.rank, hosts), own.ledgers[hang->ledger].operation,
                        hang->sequence, name_of_group(base::at(groups, hang->ledger), options.rank), own.step,
                        options.timeout_seconds);
    }
    // A second look must find the same call, because a report may be older than the end of the call.
    const bool same = hang && suspicion && hang->same_call(*suspicion);
    suspicion_age = same ? suspicion_age + passed : 0;
    suspicion = hang;
    if (same && suspicion_age >= 2 * options.interval_seconds) end(hang->sentence, options.rank);
  }

  void work() {
    double last = base::steady_seconds(), next_report = last, since_judged = 0;
    while (!leave && !ended) {
      pollfd p{socket, POLLIN, 0};
      poll(&p, 1, static_cast<int>(1000 * std::min(options.interval_seconds / 2, 0.1)) + 1);
      const double t = base::steady_seconds();
      const double passed = std::min(t - last, options.interval_seconds);  // a suspended process has not waited
      last = t;
      for (auto& s : silence) s += passed;
      for (auto& p : peers) {
        if (p.refused_since >= 0) p.refused_since += passed;
        p.refused_last += passed;
      }
      hear_refusals();
      receive();
      if (ended) return;
      since_judged += passed;
      if (t < next_report) continue;  // reports of many ranks wake this thread often
      const std::lock_guard lock(watching);
      look_at_own(since_judged);
      send_to_all(own);
      next_report = t + options.interval_seconds;
      warn_of_unheard();
      decide(since_judged);
      since_judged = 0;
    }
  }
};

Watchdog::Watchdog(WatchdogOptions options, const std::vector<WatchedLedger>& watched)
    : impl_(std::make_unique<Impl>(std::move(options), step_)) {
  watch(watched);
  if (impl_->options.size > 1) impl_->open();
}

void Watchdog::watch(const std::vector<WatchedLedger>& watched) {
  TRAINYARD_ASSERT(std::ssize(watched) <= watched_limit, "{} ledgers", watched.size());
  const std::lock_guard lock(impl_->watching);
  impl_->groups.clear();
  impl_->judged.clear();
  impl_->ledgers.clear();
  impl_->waited_for.clear();
  for (const auto& [group, ledger, waited_for] : watched) {
    impl_->groups.push_back(group);
    impl_->judged.push_back(group.judged);
    impl_->ledgers.push_back(ledger);
    impl_->waited_for.push_back(waited_for);
  }
}

void Watchdog::be_patient(bool patient) {
  const std::lock_guard lock(impl_->watching);
  for (std::size_t g = 0; g < impl_->groups.size(); ++g)
    impl_->groups[g].judged = patient ? WatchedGroup::Judged::patiently : impl_->judged[g];
}

Watchdog::~Watchdog() = default;

void Watchdog::ask_what_is_done(std::function<std::string()> doing) {
  const std::lock_guard lock(impl_->watching);
  impl_->doing = std::move(doing);
}

std::string Watchdog::address() const {
  return impl_->options.size > 1 ? text_of_watchdog_address(impl_->port) : std::string();
}

void Watchdog::start(const std::vector<std::string>& addresses) {
  auto& i = *impl_;
  if (i.options.size <= 1) return;
  TRAINYARD_ASSERT(std::ssize(addresses) == i.options.size && !i.thread.joinable(), "{} addresses", addresses.size());
  for (const auto& a : addresses) {
    auto address = parse_watchdog_address(a, base::host_name());
    auto& peer = i.peers.emplace_back();
    peer.named = peer.places = std::move(address.places);
    i.hosts.push_back(std::move(address.host));
  }
  i.own.rank = i.options.rank;
  i.heard.resize(addresses.size());
  i.silence.resize(addresses.size(), 0);
  i.look_at_own(0);
  i.send_to_all(i.own);  // heard before anything else can happen to this rank
  i.spoken = true;
  i.thread = base::start_thread("watchdog", [&i] { i.work(); });
}

void let_others_write_reasons(Decided where) {
  std::this_thread::sleep_for(std::chrono::milliseconds(where == Decided::here ? 500 : 3000));
}

std::function<void(const std::string&, Decided)> end_job_on_hang(const std::string& folder, int rank) {
  return [folder, rank](const std::string& sentence, Decided where) {
    if (!folder.empty()) write_reason(folder, rank, static_cast<int>(base::ExitCode::peer_hung), sentence);
    let_others_write_reasons(where);
    _exit(static_cast<int>(base::ExitCode::peer_hung));
  };
}

}  // namespace trainyard::comm
