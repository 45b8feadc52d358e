// The watchdog's thread: report, listen, judge, and end.
#include "libtrain/comm/watchdog.h"

#include "libtrain/base/error.h"
#include "libtrain/comm/watchdog_report.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
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
  std::vector<Heard> heard;
  std::vector<double> silence;  // per rank, seconds in which this process ran
  Report own;
  std::optional<Hang> suspicion;
  double suspicion_age = 0;
  bool ended = false;
  std::atomic<bool> leave{false};
  std::thread thread;

  Impl(WatchdogOptions o, const std::atomic<std::int64_t>& s) : options(std::move(o)), step(s) {}
  ~Impl() {
    leave = true;
    if (thread.joinable()) thread.join();
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
  }

  void tell(int rank, const void* data, std::size_t bytes) {
    const auto& to = peers[static_cast<std::size_t>(rank)];
    // A lost message is a missed report; the next one follows.
    (void)sendto(socket, data, bytes, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
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
      if (n < 0) return;
      if (n < static_cast<ssize_t>(sizeof(Report))) continue;
      Report r;
      std::memcpy(&r, buffer, sizeof r);
      if (r.run != own.run || r.rank < 0 || r.rank >= options.size) continue;
      if (r.kind == 1) return end(std::string(buffer + sizeof r, static_cast<std::size_t>(n) - sizeof r), r.rank);
      heard[static_cast<std::size_t>(r.rank)].report = r;
      silence[static_cast<std::size_t>(r.rank)] = 0;
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
    if (options.on_hang) options.on_hang(sentence);
  }

  // Rank 0 sees everybody. The others see themselves and rank 0, and judge only when rank 0 is silent and has had time to decide; one after the other, so
  // that the first to decide speaks for all.
  void decide(double passed) {
    const double limit = std::max(3 * options.interval_seconds, 0.5);
    for (int r = 0; r < options.size; ++r) heard[static_cast<std::size_t>(r)].silent = silence[static_cast<std::size_t>(r)] > limit;
    std::optional<Hang> hang;
    if (options.rank == 0) hang = judge(heard, groups, options.timeout_seconds);
    else if (heard[0].silent) {
      auto pair = heard;
      for (int r = 1; r < options.size; ++r)
        if (r != options.rank) pair[static_cast<std::size_t>(r)].silent = false, pair[static_cast<std::size_t>(r)].report = own;
      hang = judge(pair, groups, options.timeout_seconds + limit + options.interval_seconds * std::min(options.rank, 20));
      if (hang) hang->sentence = fmt::format("rank 0 is silent and rank {} waits in {} (call {} of group {}, step {}) for more than {:.3g} s", options.rank,
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
      receive();
      if (ended) return;
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
  TRAINYARD_ASSERT(watched.size() <= static_cast<std::size_t>(watched_limit), "{} ledgers", watched.size());
  for (auto& [group, ledger] : watched) {
    impl_->groups.push_back(group);
    impl_->ledgers.push_back(ledger);
  }
  if (impl_->options.size > 1) impl_->open();
}

Watchdog::~Watchdog() = default;

std::string Watchdog::address() const { return impl_->options.size > 1 ? text_of(own_address(), impl_->port) : std::string(); }

void Watchdog::start(const std::vector<std::string>& addresses) {
  auto& i = *impl_;
  if (i.options.size <= 1) return;
  TRAINYARD_ASSERT(addresses.size() == static_cast<std::size_t>(i.options.size) && !i.thread.joinable(), "{} addresses", addresses.size());
  std::uint64_t run = 0xcbf29ce484222325ull;
  for (const auto& a : addresses) {
    i.peers.push_back(parse(a));
    for (char c : a) run = (run ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  }
  i.own.run = run;
  i.own.rank = i.options.rank;
  i.heard.resize(addresses.size());
  i.silence.resize(addresses.size(), 0);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  i.thread = std::thread([&i] { i.work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(i.thread.native_handle(), "watchdog");
}

std::function<void(const std::string&)> end_job_on_hang(const std::string& folder, int rank) {
  return [folder, rank](const std::string& sentence) {
    mkdir(folder.c_str(), 0777);
    const auto path = fmt::format("{}/rank-{:05}.json", folder, rank);
    if (auto* file = std::fopen(path.c_str(), "w")) {
      fmt::print(file, "{{\"rank\": {}, \"exit_code\": {}, \"reason\": \"{}\"}}\n", rank, static_cast<int>(base::ExitCode::peer_hung), sentence);
      std::fclose(file);
    }
    _exit(static_cast<int>(base::ExitCode::peer_hung));
  };
}

}  // namespace trainyard::comm
