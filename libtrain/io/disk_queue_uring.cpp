// A DiskQueue through io_uring, with registered files and registered memory.
#include "libtrain/io/disk_queue.h"

#ifdef TRAINYARD_URING

#include "libtrain/base/descriptor.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/io/said_once.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <liburing.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace trainyard::io {

namespace {

constexpr int id_of_wake = -1;
constexpr std::size_t largest_buffer = std::size_t{1} << 30;  // the system's limit of one registered buffer

std::string reason_of(int negative) { return std::generic_category().message(-negative); }

bool is_passing(int negative) { return negative == -EINTR || negative == -EAGAIN || negative == -EBUSY; }

class UringQueue : public DiskQueue {
 public:
  explicit UringQueue(int file) : file_(file) {}
  ~UringQueue() override {
    if (!is_open_) return;
    // The system ends a ring in the background, and would keep the file's space until then.
    if (has_file_) io_uring_unregister_files(&ring_);
    if (!buffers_.empty()) io_uring_unregister_buffers(&ring_);
    io_uring_queue_exit(&ring_);
  }
  UringQueue(const UringQueue&) = delete;

  // Returns why not, or "".
  std::string open(int depth) {
    const auto entries = static_cast<unsigned>(depth) + 1;  // and one for wake()
    if (const int failed = io_uring_queue_init(entries, &ring_, 0); failed < 0) return reason_of(failed);
    is_open_ = true;
    auto* probe = io_uring_get_probe_ring(&ring_);
    bool able = probe != nullptr;
    for (const int operation :
         {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED, IORING_OP_POLL_ADD})
      able = able && io_uring_opcode_supported(probe, operation) != 0;
    if (probe != nullptr) io_uring_free_probe(probe);
    if (!able) return "the kernel is too old";
    event_ = base::Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!event_.is_open()) return reason_of(-errno);
    has_file_ = io_uring_register_files(&ring_, &file_, 1) == 0;
    return {};
  }

  std::string engine() const override { return "io_uring"; }
  void use_memory(std::span<std::byte> memory) override {
    const std::lock_guard lock(mutex_);
    memory_.push_back(memory);
    is_new_ = true;
  }
  void submit(std::span<const DiskRequest> requests) override {
    if (under_way_ == 0) register_memory();
    for (const auto& request : requests) {
      ++under_way_;
      if (broken_ != 0) {
        refused_.push_back({request.id, broken_});
        continue;
      }
      auto* entry = next_entry(request.id);
      const auto bytes = static_cast<unsigned>(request.bytes);
      const auto offset = static_cast<std::uint64_t>(request.offset);
      const int file = has_file_ ? 0 : file_;
      const int buffer = buffer_of(request);
      if (buffer >= 0 && request.writes) io_uring_prep_write_fixed(entry, file, request.memory, bytes, offset, buffer);
      else if (buffer >= 0) io_uring_prep_read_fixed(entry, file, request.memory, bytes, offset, buffer);
      else if (request.writes) io_uring_prep_write(entry, file, request.memory, bytes, offset);
      else io_uring_prep_read(entry, file, request.memory, bytes, offset);
      if (has_file_) io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
      io_uring_sqe_set_data64(entry, static_cast<std::uint64_t>(request.id));
    }
    if (!requests.empty() && broken_ == 0) took(io_uring_submit(&ring_));
  }
  void take_results(std::vector<DiskResult>& results) override {
    const auto before = results.size();
    for (bool awake = false; !awake && results.size() == before;) {
      listen();
      if (broken_ == 0) took(io_uring_submit_and_wait(&ring_, refused_.empty() ? 1 : 0));
      else wait_broken();
      awake = collect(results);
      results.insert(results.end(), refused_.begin(), refused_.end());
      refused_.clear();
    }
    under_way_ -= static_cast<int>(results.size() - before);
  }
  void wake() override {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(event_.get(), &one, sizeof one));  // fails only where the event is set already
  }

 private:
  struct Buffer {
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
  };

  io_uring_sqe* next_entry(int id) {
    unsent_.push_back(id);
    return io_uring_get_sqe(&ring_);  // there are as many as requests under way, and one
  }
  // What the ring said of entries: how many the system took, or below 0 why none. Where the ring itself is lost, the
  // requests that the system did not take end with the reason.
  void took(int count) {
    for (; count > 0 && !unsent_.empty(); --count) unsent_.pop_front();
    if (count >= 0 || is_passing(count)) return;
    broken_ = count;
    for (const int id : unsent_)
      if (id != id_of_wake) refused_.push_back({id, broken_});
    unsent_.clear();
  }
  // Asks for a completion where wake() is called.
  void listen() {
    if (listens_ || broken_ != 0) return;
    listens_ = true;
    auto* entry = next_entry(id_of_wake);
    io_uring_prep_poll_add(entry, event_.get(), POLLIN);
    io_uring_sqe_set_data64(entry, static_cast<std::uint64_t>(std::int64_t{id_of_wake}));
  }
  void wait_broken() {
    if (!refused_.empty()) return;
    if (under_way_ > 0) {
      io_uring_cqe* completion = nullptr;
      io_uring_wait_cqe(&ring_, &completion);
      return;
    }
    pollfd event{event_.get(), POLLIN, 0};
    ::poll(&event, 1, -1);
    listens_ = false;
  }
  // Appends what has ended. Returns whether wake() was called.
  bool collect(std::vector<DiskResult>& results) {
    bool awake = broken_ != 0 && !listens_;
    unsigned head = 0, seen = 0;
    io_uring_cqe* completion = nullptr;
    io_uring_for_each_cqe(&ring_, head, completion) {
      ++seen;
      const int id = static_cast<int>(static_cast<std::int64_t>(completion->user_data));
      if (id == id_of_wake) awake = true, listens_ = false;
      else results.push_back({id, completion->res});
    }
    io_uring_cq_advance(&ring_, seen);
    std::uint64_t count = 0;
    if (awake) static_cast<void>(!::read(event_.get(), &count, sizeof count));
    return awake;
  }

  void register_memory() {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(is_new_, false)) return;
    if (!buffers_.empty()) io_uring_unregister_buffers(&ring_);
    buffers_.clear();
    std::sort(memory_.begin(), memory_.end(), [](const auto& a, const auto& b) { return a.data() < b.data(); });
    std::vector<iovec> vectors;
    std::int64_t all = 0;
    for (const auto& memory : memory_)
      for (std::size_t done = 0; done < memory.size(); done += largest_buffer) {
        const auto part = memory.subspan(done, std::min(largest_buffer, memory.size() - done));
        vectors.push_back({part.data(), part.size()});
        buffers_.push_back({part.data(), part.data() + part.size()});
        all += static_cast<std::int64_t>(part.size());
      }
    if (vectors.empty()) return;
    const int failed = io_uring_register_buffers(&ring_, vectors.data(), static_cast<unsigned>(vectors.size()));
    if (failed == 0) return;
    buffers_.clear();
    say_once(fmt::format("io_uring goes on without registered memory, because the system refuses {} of it: {}{}",
                         base::size_text(all), reason_of(failed),
                         failed == -ENOMEM ? "; the limit of locked memory (ulimit -l) is too low" : ""));
  }
  // The registered buffer that has all of the request's memory, or -1.
  int buffer_of(const DiskRequest& request) const {
    const auto after = std::upper_bound(buffers_.begin(), buffers_.end(), request.memory,
                                        [](const std::byte* memory, const Buffer& b) { return memory < b.begin; });
    if (after == buffers_.begin() || request.memory + request.bytes > (after - 1)->end) return -1;
    return static_cast<int>(after - 1 - buffers_.begin());
  }

  const int file_;
  io_uring ring_{};
  bool is_open_ = false, has_file_ = false, listens_ = false;
  int under_way_ = 0, broken_ = 0;
  base::Descriptor event_;
  std::deque<int> unsent_;  // ids of entries that the system did not take yet
  std::vector<DiskResult> refused_;
  std::vector<Buffer> buffers_;  // registered, ascending

  std::mutex mutex_;  // of memory_ and is_new_
  std::vector<std::span<std::byte>> memory_;
  bool is_new_ = false;
};

}  // namespace

std::unique_ptr<DiskQueue> make_uring_queue(int file, int depth, std::string& why) {
  auto queue = std::make_unique<UringQueue>(file);
  why = queue->open(depth);
  if (!why.empty()) return nullptr;
  return queue;
}

}  // namespace trainyard::io

#else

namespace trainyard::io {

std::unique_ptr<DiskQueue> make_uring_queue(int, int, std::string& why) {
  why = "this build has no liburing";
  return nullptr;
}

}  // namespace trainyard::io

#endif
