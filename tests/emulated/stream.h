// Streams of the emulated GPU: work is done when it is submitted, or written down while the stream is captured.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace emulator {

struct Graph {
  std::uint64_t id = 0;
  std::vector<std::function<void()>> work;
};
struct Stream {
  std::shared_ptr<Graph> capture;
};
struct Event {
  std::shared_ptr<Graph> capture;   // recorded inside a capture: nobody may ask for it
  std::chrono::steady_clock::time_point at;
};

inline void submit(void* stream, std::function<void()> work) {
  auto* s = static_cast<Stream*>(stream);
  if (s != nullptr && s->capture) s->capture->work.push_back(std::move(work));
  else work();
}

}  // namespace emulator
