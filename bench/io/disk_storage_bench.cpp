// A DiskStorage of 512 MiB in the folder for temporary files (TMPDIR), by engine and depth: written and read.
#include "libtrain/base/index.h"
#include "libtrain/io/disk_storage.h"

#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

namespace {

using namespace trainyard;

constexpr std::int64_t extent = std::int64_t{512} << 20, transfer = std::int64_t{16} << 20;
constexpr int at_once = 8;

void move(benchmark::State& loop, bool writes) {
  io::DiskStorageOptions o;
  o.folders = {{std::filesystem::temp_directory_path().string(), 1}};
  o.extents = {{"x", extent}};
  o.engine = loop.range(0) ? io::DiskEngine::threads : io::DiskEngine::io_uring;
  o.depth = static_cast<int>(loop.range(1)), o.threads = o.depth;
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(base::size(base::storage_alignment), base::size(transfer * at_once))),
      std::free);
  std::memset(memory.get(), 1, base::size(transfer * at_once));
  io::DiskStorage storage(o);
  storage.use_memory({memory.get(), base::size(transfer * at_once)});
  const auto all = [&](bool write) {
    std::array<base::Storage::Ticket, at_once> tickets{};
    for (std::int64_t i = 0; i < extent / transfer; ++i) {
      auto& ticket = base::at(tickets, i % at_once);
      auto* const part = memory.get() + i % at_once * transfer;
      storage.wait(ticket);
      ticket = write ? storage.write(0, i * transfer, transfer, part) : storage.read(0, i * transfer, transfer, part);
    }
    storage.wait_all();
  };
  all(true);  // the first time a file system notes of each block that it has content
  for (auto _ : loop) all(writes);
  loop.SetBytesProcessed(loop.iterations() * extent);
}
void write(benchmark::State& loop) { move(loop, true); }
void read(benchmark::State& loop) { move(loop, false); }

void engines_and_depths(benchmark::internal::Benchmark* b) {
  b->ArgNames({"threads", "depth"})->Unit(benchmark::kMillisecond)->UseRealTime();
  for (const int threads : {0, 1})
    for (const int depth : {1, 4, 16, 64}) b->Args({threads, depth});
}
BENCHMARK(write)->Apply(engines_and_depths);
BENCHMARK(read)->Apply(engines_and_depths);

}  // namespace
