// MasterFormat: how a rank keeps the f32 masters of narrow weights (--master). It changes no number.
#pragma once

#include "libtrain/base/aligned.h"
#include "libtrain/base/dtype.h"

#include <cstdint>

namespace trainyard::plan {

// f32: as f32, beside the working copies. remainder: as what the working copies in bf16 lack, which is the lower half
// and a bit of each (kernels/update/remainder.h).
enum class MasterFormat { f32, remainder };

// Master weights are f32 beside a narrow working dtype. An f32 working copy is itself the master. Bytes of an element,
// as checkpoints and the snapshot for them have it.
inline std::int64_t master_bytes(base::DType working) {
  return base::is_narrow(working) ? base::size_of(base::DType::f32) : 0;
}
// Bytes in the arena of the optimizer, of the masters of so many elements of a flat group, which are a multiple of 64.
inline std::int64_t kept_master_bytes(base::DType working, MasterFormat format, std::int64_t elements) {
  return format == MasterFormat::f32 ? elements * master_bytes(working) : elements * 2 + base::aligned(elements / 8);
}

}  // namespace trainyard::plan
