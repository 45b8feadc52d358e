// Streams of the emulated GPU. Work is done when it is submitted, or recorded while the stream is captured. With
// TRAINYARD_EMULATED_ORDER=late it is done as late as CUDA allows, when somebody waits for it. With =mixed each stream
// is sometimes early and sometimes late. So a stream or a host that forgot to wait sees the earlier content.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace emulator {

struct Graph {
  std::uint64_t id = 0;
  std::vector<std::function<void()>> work;
};
struct Stream;
// A point in the order of a stream.
struct Mark {
  Stream* stream = nullptr;
  bool reached = false;
  std::chrono::steady_clock::time_point at;
};
struct Item {  // has one of work, reached and awaited
  std::function<void()> work;
  std::shared_ptr<Mark> reached, awaited;
  bool held = false;  // in every order it is done only when somebody waits for it, or for later work
};
inline std::recursive_mutex& all_streams();
struct Stream {
  std::shared_ptr<Graph> capture;
  bool early = true;
  std::deque<Item> queue;
  std::recursive_mutex* guard = &all_streams();  // all_streams() of the module that made it, for other modules
};
struct Event {
  std::shared_ptr<Graph> capture;  // recorded inside a capture: nobody may wait for it
  std::shared_ptr<Mark> mark;      // null before it is recorded
};

enum class Order { early, late, mixed };
inline Order order() {
  static const Order wish = [] {
    const char* name = std::getenv("TRAINYARD_EMULATED_ORDER");
    return name == nullptr                   ? Order::early
           : std::strcmp(name, "late") == 0  ? Order::late
           : std::strcmp(name, "mixed") == 0 ? Order::mixed
                                             : Order::early;
  }();
  return wish;
}
inline bool late() { return order() != Order::early; }
inline std::recursive_mutex& all_streams() {  // guards queues and marks; held while queued work is done
  static auto* mutex = new std::recursive_mutex;
  return *mutex;
}

inline void catch_up(Stream& s, const Mark* until = nullptr);
inline void do_next(Stream& s) {
  const auto item = std::move(s.queue.front());
  s.queue.pop_front();
  if (item.work) item.work();
  if (item.reached) item.reached->at = std::chrono::steady_clock::now(), item.reached->reached = true;
  if (item.awaited && !item.awaited->reached) catch_up(*item.awaited->stream, item.awaited.get());
}

// Does what is queued up to the mark, or everything without a mark.
inline void catch_up(Stream& s, const Mark* until) {
  std::lock_guard lock(all_streams());
  while (!s.queue.empty() && !(until != nullptr && until->reached)) do_next(s);
}

inline void enqueue(Stream& s, Item item) {
  std::lock_guard lock(all_streams());
  s.queue.push_back(std::move(item));
  static std::uint64_t draw = 88172645463325252u;
  draw ^= draw << 13, draw ^= draw >> 7, draw ^= draw << 17;
  if (order() == Order::mixed && draw % 8 == 0) s.early = !s.early;
  if (order() == Order::early || (order() == Order::mixed && s.early))
    while (!s.queue.empty() && !s.queue.front().held) do_next(s);
}

inline void submit(void* stream, std::function<void()> work) {
  auto& s = *static_cast<Stream*>(stream);
  if (s.capture) return s.capture->work.push_back(std::move(work));
  const bool behind_others = [&] {
    std::lock_guard lock(all_streams());
    return !s.queue.empty();
  }();
  if (late() || behind_others) enqueue(s, {std::move(work), nullptr, nullptr});
  else work();
}

}  // namespace emulator
