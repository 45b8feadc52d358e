// Storages, memory and extents that tests of DiskStorage use, and queues that meddle with requests.
#pragma once

#include "libtrain/io/disk_storage.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

namespace disk_sample {

namespace base = trainyard::base;
namespace io = trainyard::io;
using Ticket = base::Storage::Ticket;

inline constexpr std::int64_t block = base::storage_block_bytes;

// Aligned memory of at least so many bytes.
class Memory {
 public:
  explicit Memory(std::int64_t bytes)
      : bytes_(static_cast<std::size_t>(std::max(base::storage_bytes(bytes), base::storage_alignment))),
        data_(static_cast<std::byte*>(std::aligned_alloc(base::storage_alignment, bytes_)), std::free) {
    std::memset(data_.get(), 0xEE, bytes_);
  }
  std::byte* get() const { return data_.get(); }
  std::span<std::byte> span() const { return {data_.get(), bytes_}; }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte, void (*)(void*)> data_;
};

// Byte `at` of what a test writes as its `what`-th.
inline std::byte byte_of(std::int64_t what, std::int64_t at) {
  auto x = static_cast<std::uint64_t>(what * 1'000'003 + at) * 0x9E3779B97F4A7C15ull;
  return static_cast<std::byte>(x >> 56);
}
// Bytes [first, first + bytes) of it.
inline void fill(std::byte* memory, std::int64_t what, std::int64_t first, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; ++i) memory[i] = byte_of(what, first + i);
}
inline bool holds(const std::byte* memory, std::int64_t what, std::int64_t first, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; ++i)
    if (memory[i] != byte_of(what, first + i)) return false;
  return true;
}

// Folders of a test, and the options of a storage in them.
struct Folders {
  explicit Folders(std::vector<double> weights_) : weights(std::move(weights_)), scratch(weights.size()) {}
  io::DiskStorageOptions options(std::vector<base::StorageExtent> extents,
                                 io::DiskEngine engine = io::DiskEngine::automatic) const {
    io::DiskStorageOptions o;
    for (std::size_t i = 0; i < weights.size(); ++i) o.folders.push_back({scratch[i].path, weights[i]});
    o.extents = std::move(extents);
    o.engine = engine;
    return o;
  }
  std::vector<double> weights;
  std::vector<trainyard::testing::Scratch> scratch;
};

// A queue that lets a test change requests before they are issued, and results before they are seen.
class Meddling : public io::DiskQueue {
 public:
  struct Ways {
    std::function<void(std::vector<io::DiskRequest>&)> requests;
    std::function<void(const io::DiskRequest&, io::DiskResult&)> result;
  };
  Meddling(std::unique_ptr<io::DiskQueue> inner, Ways ways) : inner_(std::move(inner)), ways_(std::move(ways)) {}
  static std::function<std::unique_ptr<io::DiskQueue>(std::unique_ptr<io::DiskQueue>)> with(Ways ways) {
    return [ways](std::unique_ptr<io::DiskQueue> inner) { return std::make_unique<Meddling>(std::move(inner), ways); };
  }

  std::string engine() const override { return inner_->engine(); }
  void use_memory(std::span<std::byte> memory) override { inner_->use_memory(memory); }
  void submit(std::span<const io::DiskRequest> requests) override {
    std::vector<io::DiskRequest> changed(requests.begin(), requests.end());
    if (ways_.requests) ways_.requests(changed);
    for (const auto& request : changed) under_way_[request.id] = request;
    inner_->submit(changed);
  }
  void take_results(std::vector<io::DiskResult>& results) override {
    const auto before = results.size();
    inner_->take_results(results);
    for (auto i = before; i < results.size(); ++i)
      if (ways_.result) ways_.result(under_way_.at(results[i].id), results[i]);
  }
  void wake() override { inner_->wake(); }

 private:
  std::unique_ptr<io::DiskQueue> inner_;
  Ways ways_;
  std::unordered_map<int, io::DiskRequest> under_way_;
};

// The open files of this process that are, or were, directly in the folder.
inline std::vector<int> open_files_in(const std::string& folder) {
  std::vector<int> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path(), error).string();
    if (!error && target.starts_with(folder + "/")) files.push_back(std::stoi(entry.path().filename().string()));
  }
  return files;
}

// Runs `body` in a child process, which ends with what it returns; -1: a signal ended it.
inline int in_child(const std::function<int()>& body) {
  const auto pid = ::fork();
  if (pid == 0) {
    int code = 99;
    try {
      code = body();
    } catch (...) {}
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether extent 0, of 3 MiB and 5 bytes, holds what was written to it.
inline bool round_trip(io::DiskStorage& storage) {
  const auto bytes = storage.extents()[0].bytes;
  const Memory from(bytes), to(bytes);
  storage.use_memory(from.span());
  fill(from.get(), 1, 0, bytes);
  storage.wait(storage.write(0, 0, bytes, from.get()));
  storage.wait(storage.read(0, 0, bytes, to.get()));
  return holds(to.get(), 1, 0, bytes);
}

}  // namespace disk_sample
