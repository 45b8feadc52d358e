// The memory categories of a rank (promise 3): what each is called, where it lies, and who reads it.
#pragma once

#include "libtrain/base/view.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace trainyard::base {

enum class MemoryCategory : int {
  parameters,
  gathered_weights,
  gradients,
  micro_batch_gradients,
  optimizer,
  activations,
  communication_staging,
  workspace,
  save_snapshot,
  offload_buffers,
  offloaded_states,
};

// device: where the rank computes, which without a GPU is the host. host: pinned memory of the host, on every device.
enum class MemoryPlace { device, host };
// peers: collectives read it from other ranks, so ranks of one machine may share it.
enum class MemoryReader { own_rank, peers };

// with_offload: plans and reports name it only where it has bytes.
enum class MemoryPresence { always, with_offload };

struct MemoryCategoryEntry {
  MemoryCategory category;
  const char* key;    // in plans, which keep it for ever
  const char* label;  // in tables and messages
  MemoryPlace place = MemoryPlace::device;
  MemoryReader reader = MemoryReader::own_rank;
  MemoryPresence presence = MemoryPresence::always;
  constexpr bool shows(std::int64_t bytes) const { return presence == MemoryPresence::always || bytes > 0; }
};

// The one list, in the order of reports.
inline constexpr std::array memory_categories = {
    MemoryCategoryEntry{MemoryCategory::parameters, "parameters", "parameters", MemoryPlace::device,
                        MemoryReader::peers},
    MemoryCategoryEntry{MemoryCategory::gathered_weights, "gathered_units", "gathered weights"},
    MemoryCategoryEntry{MemoryCategory::gradients, "gradients", "gradients", MemoryPlace::device, MemoryReader::peers},
    MemoryCategoryEntry{MemoryCategory::micro_batch_gradients, "unit_gradients", "micro-batch gradients",
                        MemoryPlace::device, MemoryReader::peers},
    MemoryCategoryEntry{MemoryCategory::optimizer, "optimizer", "optimizer"},
    MemoryCategoryEntry{MemoryCategory::activations, "activations", "activations"},
    MemoryCategoryEntry{MemoryCategory::communication_staging, "communication_staging", "communication staging",
                        MemoryPlace::device, MemoryReader::peers},
    MemoryCategoryEntry{MemoryCategory::workspace, "workspace", "workspace"},
    MemoryCategoryEntry{MemoryCategory::save_snapshot, "save_snapshot", "save snapshot", MemoryPlace::host},
    MemoryCategoryEntry{MemoryCategory::offload_buffers, "offload_buffers", "offload buffers", MemoryPlace::host,
                        MemoryReader::peers, MemoryPresence::with_offload},
    MemoryCategoryEntry{MemoryCategory::offloaded_states, "offloaded_states", "offloaded states", MemoryPlace::host,
                        MemoryReader::own_rank, MemoryPresence::with_offload},
};

constexpr const MemoryCategoryEntry& entry_of(MemoryCategory category) {
  return memory_categories[static_cast<std::size_t>(category)];
}
// The device on which a category of a rank lies that computes on `device`.
constexpr Device device_of(MemoryCategory category, Device device) {
  return entry_of(category).place == MemoryPlace::host ? Device{} : device;
}

// Bytes of each category.
struct CategoryBytes {
  std::array<std::int64_t, memory_categories.size()> bytes{};
  std::int64_t& operator[](MemoryCategory c) { return bytes[static_cast<std::size_t>(c)]; }
  std::int64_t operator[](MemoryCategory c) const { return bytes[static_cast<std::size_t>(c)]; }
  // By the index in memory_categories.
  std::int64_t& operator[](std::size_t i) { return bytes[i]; }
  std::int64_t operator[](std::size_t i) const { return bytes[i]; }
  static constexpr std::size_t size() { return memory_categories.size(); }
  auto begin() const { return bytes.begin(); }
  auto end() const { return bytes.end(); }
  std::int64_t total() const {
    std::int64_t n = 0;
    for (const auto b : bytes) n += b;
    return n;
  }
  // The part of a rank that computes on a device of this kind that lies in other memory: of a GPU's rank, what lies on
  // the host.
  std::int64_t elsewhere(DeviceKind kind) const {
    std::int64_t n = 0;
    for (const auto& entry : memory_categories)
      if (kind != DeviceKind::cpu && entry.place == MemoryPlace::host) n += (*this)[entry.category];
    return n;
  }
  bool operator==(const CategoryBytes&) const = default;
};

namespace detail {
constexpr bool in_order() {
  for (std::size_t i = 0; i < memory_categories.size(); ++i)
    if (memory_categories[i].category != static_cast<MemoryCategory>(i)) return false;
  return true;
}
static_assert(in_order(), "a category is its index in the list");
}  // namespace detail

}  // namespace trainyard::base
