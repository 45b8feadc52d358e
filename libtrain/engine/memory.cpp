// The arenas of a rank and the memory table.
#include "libtrain/engine/memory.h"

#include "libtrain/base/control_group.h"
#include "libtrain/base/error.h"
#include "libtrain/base/number_text.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <sys/resource.h>
#include <unistd.h>

namespace trainyard::engine {

RankMemory::RankMemory(const CategoryBytes& predicted, base::Device device) : predicted_(predicted) {
  for (const auto& entry : base::memory_categories)
    arenas_.push_back(std::make_unique<tensor::Arena>(entry.category, predicted[entry.category],
                                                      base::device_of(entry.category, device)));
}

CategoryBytes RankMemory::measured() const {
  CategoryBytes out{};
  for (std::size_t c = 0; c < arenas_.size(); ++c) out[c] = arenas_[c]->peak_bytes();
  return out;
}

std::int64_t RankMemory::measured_total() const { return measured().total(); }

std::unique_ptr<tensor::Exec> compute_exec(base::Device device, tensor::Arena& workspace, int threads) {
  if (device.kind == base::DeviceKind::cuda) return tensor::Exec::gpu(device.index, &workspace);
  return tensor::Exec::caller(&workspace, threads);
}

std::int64_t machine_memory_bytes() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  const auto bytes = pages > 0 && page > 0 ? static_cast<std::int64_t>(pages) * page : 0;
  const auto most = base::own_control_group().memory_bytes;
  return bytes == 0 || most == 0 ? std::max(bytes, most) : std::min(bytes, most);
}

std::string machine_shortage(std::int64_t bytes, int ranks, std::int64_t machine) {
  TRAINYARD_ASSERT(ranks > 0, "{} ranks of this machine", ranks);
  if (machine == 0 || bytes <= machine / ranks) return {};
  return fmt::format("{} would take {} each, and this machine has {}",
                     ranks == 1 ? "1 rank" : fmt::format("{} ranks of this machine", ranks),
                     base::size_text(bytes, base::Sizes::rounded), base::size_text(machine, base::Sizes::rounded));
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

SizeTable memory_table(const CategoryBytes& predicted, const CategoryBytes& measured, std::int64_t taken_bytes,
                       std::int64_t there_bytes, std::int64_t reserve_bytes) {
  SizeTable out{"memory", "predicted", {}};
  for (const auto& entry : base::memory_categories)
    if (entry.shows(std::max(predicted[entry.category], measured[entry.category])))
      out.rows.push_back({entry.label, predicted[entry.category], measured[entry.category], ""});
  out.rows.push_back({"total in arenas", predicted.total(), measured.total(), ""});
  const auto outside = std::max<std::int64_t>(0, taken_bytes - there_bytes);
  out.rows.push_back({"outside (reserve)", reserve_bytes, outside, outside <= reserve_bytes ? "within" : "OVER"});
  return out;
}

}  // namespace trainyard::engine
