// RankMemory: the arenas of one rank, reserved once at their predicted sizes; and the report of predicted against
// measured.
#pragma once

#include "libtrain/engine/size_table.h"
#include "libtrain/tensor/arena.h"
#include "libtrain/tensor/exec.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace trainyard::engine {

using base::CategoryBytes;

class RankMemory {
 public:
  // The arena of each category is where the list of categories says, on `device` or on the host.
  explicit RankMemory(const CategoryBytes& predicted, base::Device device = {});
  tensor::Arena& operator[](tensor::Category c) { return *arenas_[static_cast<std::size_t>(c)]; }
  const CategoryBytes& predicted() const { return predicted_; }
  CategoryBytes measured() const;  // high-water marks
  std::int64_t measured_total() const;

 private:
  CategoryBytes predicted_;
  std::vector<std::unique_ptr<tensor::Arena>> arenas_;
};

// The Exec that computes with `threads` threads on the device, with `workspace` as its scratch memory.
std::unique_ptr<tensor::Exec> compute_exec(base::Device device, tensor::Arena& workspace, int threads);

// What this process may use of its machine: the installed memory, or less if its control group allows less. 0: not
// known.
std::int64_t machine_memory_bytes();
// "" if `ranks` ranks of `bytes` each fit the machine, else a sentence with both numbers.
std::string machine_shortage(std::int64_t bytes, int ranks, std::int64_t machine = machine_memory_bytes());
std::int64_t peak_resident_bytes();  // of this process, from the operating system

// A table with one line a category: predicted, measured, difference. The last line compares what libraries took outside
// the arenas with the stated reserve. It is `taken_bytes` minus `there_bytes`, the measured arenas in that memory.
// `taken_bytes` is the peak resident size. On a GPU it is the device memory in use, divided among the ranks that
// compute on it.
SizeTable memory_table(const CategoryBytes& predicted, const CategoryBytes& measured, std::int64_t taken_bytes,
                       std::int64_t there_bytes, std::int64_t reserve_bytes);

}  // namespace trainyard::engine
