// The watchdog's thread: report, listen, judge, and end.
#include "libtrain/comm/watchdog.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/comm/reason.h"
#include "libtrain/comm/watchdog_report.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

namespace trainyard::comm {

namespace {

constexpr std::size_t verdict_limit = 1024;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The first address of this machine that others can reach.
in_addr own_address() {
  in_addr found{htonl(INADDR_LOOPBACK)};
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (auto* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) || !(i->ifa_flags & IFF_UP)) continue;
    found = reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr;
    break;
  }
  freeifaddrs(list);
  return found;
}

std::string text_of(in_addr address, std::uint16_t port) {
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address, text, sizeof text);
  return fmt::format("{}:{}", text, port);
}

sockaddr_in parse(const std::string& text) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  const auto colon = text.rfind(':');
  if (colon == std::string::npos || inet_pton(AF_INET, text.substr(0, colon).c_str(), &a.sin_addr) != 1)
    throw base::EnvironmentError(fmt::format("\"{}\" is no address of a watchdog", text));
  a.sin_port = htons(static_cast<std::uint16_t>(std::atoi(text.c_str() + colon + 1)));
  return a;
}

}  // namespace

struct Watchdog::Impl {
  WatchdogOptions options;
  std::vector<std::string> groups;
  std::vector<const Ledger*> ledgers;
  const std::atomic<std::int64_t>& step;
  int socket = -1;
  std::uint16_t port = 0;
  std::vector<sockaddr_in> peers;
  std::vector<std::string> hosts;
  std::vector<Heard> heard;
  std::vector<double> silence;  // per rank, seconds in which this process ran
  struct Refusals { double first = -1, last = 0; bool farewell = false; };   // since the first and the last that no report has followed; -1: none
  std::vector<Refusals> refusals;
  std::mutex watching;          // over groups and ledgers
  Report own;
  std::optional<Hang> suspicion;
  double suspicion_age = 0;
  bool ended = false;
  std::atomic<bool> leave{false};
  std::thread thread;

  Impl(WatchdogOptions o, const std::atomic<std::int64_t>& s) : options(std::move(o)), step(s) {}
  ~Impl() {
    leave = true;
    if (thread.joinable()) {
      thread.join();
      say_farewell();
    }
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
    const int yes = 1;
    setsockopt(socket, IPPROTO_IP, IP_RECVERR, &yes, sizeof yes);   // refusals come back with the address that they are about
  }

  void tell(int rank, const void* data, std::size_t bytes) {
    const auto& to = peers[static_cast<std::size_t>(rank)];
    // A lost message is a missed report; the next one follows. A refusal of an earlier one is reported in place of sending.
    for (int again = 0; again < 2; ++again)
      if (sendto(socket, data, bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) >= 0 || errno != ECONNREFUSED) return;
  }

  // "Nobody listens there": a rank's machine answers so once its process has ended.
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

  void refused(const sockaddr_in& about) {
    for (std::size_t r = 0; r < peers.size(); ++r) {
      if (peers[r].sin_port != about.sin_port || peers[r].sin_addr.s_addr != about.sin_addr.s_addr) continue;
      refusals[r].last = 0;
      if (refusals[r].first < 0) refusals[r].first = 0;
    }
  }

  // The first rank of those this one sends to that keeps being refused. Refusals may be told once a second only.
  std::optional<int> lost() const {
    const double patience = 4 * options.interval_seconds + (options.rank == 0 ? 0 : options.interval_seconds * std::min(options.rank, 20));
    for (std::size_t r = 0; r < peers.size(); ++r)
      if (!refusals[r].farewell && refusals[r].first > patience && refusals[r].last < 3 * options.interval_seconds + 1) return static_cast<int>(r);
    return std::nullopt;
  }

  void look_at_own(double passed) {
    own.step = step;
    for (std::size_t g = 0; g < ledgers.size(); ++g) {
      auto& w = own.ledgers[g];
      const bool in_call = ledgers[g]->in_call();
      const auto sequence = ledgers[g]->sequence();
      w.open_seconds = in_call && w.in_call && w.sequence == sequence ? w.open_seconds + passed : 0;
      w.in_call = in_call;
      w.sequence = sequence;
      const auto operation = ledgers[g]->operation();
      std::snprintf(w.operation, sizeof w.operation, "%s", operation.c_str());
    }
    heard[static_cast<std::size_t>(options.rank)] = {own, false};
    silence[static_cast<std::size_t>(options.rank)] = 0;
  }

  void send_reports() {
    if (options.rank != 0) return tell(0, &own, sizeof own);
    for (int r = 1; r < options.size; ++r) tell(r, &own, sizeof own);
  }

  void receive() {
    alignas(Report) char buffer[sizeof(Report) + verdict_limit];
    while (true) {
      const auto n = recv(socket, buffer, sizeof buffer, 0);
      if (n < 0 && errno == ECONNREFUSED) continue;   // told about in full by hear_refusals
      if (n < 0) return;
      if (n < static_cast<ssize_t>(sizeof(Report))) continue;
      Report r;
      std::memcpy(&r, buffer, sizeof r);
      if (r.run != own.run || r.rank < 0 || r.rank >= options.size) continue;
      if (r.kind == 1) return end(std::string(buffer + sizeof r, static_cast<std::size_t>(n) - sizeof r), r.rank);
      const auto from = static_cast<std::size_t>(r.rank);
      refusals[from].first = -1;
      if (r.kind == 2) refusals[from].farewell = true;
      if (r.kind != 0) continue;
      heard[from].report = r;
      silence[from] = 0;
    }
  }

  void end(const std::string& sentence, int decider) {
    if (ended) return;
    ended = true;
    if (decider == options.rank) {
      std::fprintf(stderr, "watchdog: %s\n", sentence.c_str());
      char buffer[sizeof(Report) + verdict_limit];
      Report verdict = own;
      verdict.kind = 1;
      std::memcpy(buffer, &verdict, sizeof verdict);
      const auto n = std::min(sentence.size(), verdict_limit);
      std::memcpy(buffer + sizeof verdict, sentence.data(), n);
      for (int again = 0; again < 3; ++again)
        for (int r = 0; r < options.size; ++r)
          if (r != options.rank) tell(r, buffer, sizeof verdict + n);
    }
    if (options.on_hang) options.on_hang(sentence, decider == options.rank ? Decided::here : Decided::elsewhere);
  }

  void say_farewell() {
    Report farewell = own;
    farewell.kind = 2;
    for (int again = 0; again < 3; ++again)
      for (int r = 0; r < options.size; ++r)
        if (r != options.rank && (r == 0 || options.rank == 0)) tell(r, &farewell, sizeof farewell);
  }

  // Rank 0 sees everybody. The others see themselves and rank 0, and judge only when rank 0 is silent and has had time to decide; one after the other, so
  // that the first to decide speaks for all.
  void decide(double passed) {
    if (const auto r = lost())
      return end(fmt::format("{} has ended without a word (step {}): it was killed, ran out of memory or crashed", name_of_rank(*r, hosts), own.step), options.rank);
    const double limit = std::max(3 * options.interval_seconds, 0.5);
    for (int r = 0; r < options.size; ++r) heard[static_cast<std::size_t>(r)].silent = silence[static_cast<std::size_t>(r)] > limit;
    std::optional<Hang> hang;
    if (options.rank == 0) hang = judge(heard, groups, options.timeout_seconds, hosts);
    else if (heard[0].silent) {
      auto pair = heard;
      for (int r = 1; r < options.size; ++r)
        if (r != options.rank) pair[static_cast<std::size_t>(r)].silent = false, pair[static_cast<std::size_t>(r)].report = own;
      hang = judge(pair, groups, options.timeout_seconds + limit + options.interval_seconds * std::min(options.rank, 20), hosts);
      if (hang) hang->sentence = fmt::format("{} is silent and {} waits in {} (call {} of group {}, step {}) for more than {:.3g} s", name_of_rank(0, hosts), name_of_rank(options.rank, hosts),
                                             own.ledgers[hang->ledger].operation, hang->sequence, groups[static_cast<std::size_t>(hang->ledger)], own.step,
                                             options.timeout_seconds);
    }
    // Confirmed by a second look at the same call: a report may be older than the call's end.
    const bool same = hang && suspicion && hang->ledger == suspicion->ledger && hang->sequence == suspicion->sequence;
    suspicion_age = same ? suspicion_age + passed : 0;
    suspicion = hang;
    if (same && suspicion_age >= 2 * options.interval_seconds) end(hang->sentence, options.rank);
  }

  void work() {
    double last = now(), next_report = last;
    while (!leave && !ended) {
      pollfd p{socket, POLLIN, 0};
      poll(&p, 1, static_cast<int>(1000 * std::min(options.interval_seconds / 2, 0.1)) + 1);
      const double t = now();
      const double passed = std::min(t - last, options.interval_seconds);  // a suspended process has not waited
      last = t;
      for (auto& s : silence) s += passed;
      for (auto& r : refusals) {
        if (r.first >= 0) r.first += passed;
        r.last += passed;
      }
      hear_refusals();
      receive();
      if (ended) return;
      const std::lock_guard lock(watching);
      look_at_own(passed);
      if (t >= next_report) {
        send_reports();
        next_report = t + options.interval_seconds;
      }
      decide(passed);
    }
  }
};

Watchdog::Watchdog(WatchdogOptions options, std::vector<std::pair<std::string, const Ledger*>> watched)
    : impl_(std::make_unique<Impl>(std::move(options), step_)) {
  watch(std::move(watched));
  if (impl_->options.size > 1) impl_->open();
}

void Watchdog::watch(std::vector<std::pair<std::string, const Ledger*>> watched) {
  TRAINYARD_ASSERT(watched.size() <= static_cast<std::size_t>(watched_limit), "{} ledgers", watched.size());
  const std::lock_guard lock(impl_->watching);
  impl_->groups.clear();
  impl_->ledgers.clear();
  for (auto& [group, ledger] : watched) {
    impl_->groups.push_back(group);
    impl_->ledgers.push_back(ledger);
  }
}

Watchdog::~Watchdog() = default;

std::string Watchdog::address() const { return impl_->options.size > 1 ? text_of(own_address(), impl_->port) + " " + base::host_name() : std::string(); }

void Watchdog::start(const std::vector<std::string>& addresses) {
  auto& i = *impl_;
  if (i.options.size <= 1) return;
  TRAINYARD_ASSERT(addresses.size() == static_cast<std::size_t>(i.options.size) && !i.thread.joinable(), "{} addresses", addresses.size());
  std::uint64_t run = 0xcbf29ce484222325ull;
  for (const auto& a : addresses) {
    const auto space = a.find(' ');
    i.peers.push_back(parse(a.substr(0, space)));
    i.hosts.push_back(space == std::string::npos ? "" : a.substr(space + 1));
    for (char c : a) run = (run ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  i.own.run = run;
  i.own.rank = i.options.rank;
  i.heard.resize(addresses.size());
  i.silence.resize(addresses.size(), 0);
  i.refusals.resize(addresses.size());
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  i.thread = std::thread([&i] { i.work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(i.thread.native_handle(), "watchdog");
}

std::function<void(const std::string&, Decided)> end_job_on_hang(const std::string& folder, int rank) {
  return [folder, rank](const std::string& sentence, Decided) {
    write_reason(folder, rank, static_cast<int>(base::ExitCode::peer_hung), sentence);
    _exit(static_cast<int>(base::ExitCode::peer_hung));
  };
}

}  // namespace trainyard::comm
