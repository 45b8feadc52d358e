// MPI calls with checks: error codes become exceptions, and dtypes become MPI types. Only mpi_*.cpp include this.
#pragma once

#include "libtrain/base/dtype.h"
#include "libtrain/base/error.h"

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

namespace trainyard::comm {

inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw base::PeerError(fmt::format("{} failed: {}", call, text),
                        "a peer was lost or the network failed; resume from the last checkpoint");
}

inline MPI_Datatype mpi_type(base::DType t) {
  // MPI does not know narrow types. Only the operations of narrow_op read these.
  if (base::is_narrow(t)) return base::size_of(t) == 1 ? MPI_UINT8_T : MPI_UINT16_T;
  switch (t) {
    case base::DType::f32: return MPI_FLOAT;
    case base::DType::f64: return MPI_DOUBLE;
    case base::DType::i32: return MPI_INT32_T;
    case base::DType::i64: return MPI_INT64_T;
    case base::DType::u64: return MPI_UINT64_T;
    default:
      throw base::Unsupported(fmt::format("no reduction of {}", base::name_of(t)),
                              "reduce i32, i64, u64 or a type that kernels compute in");
  }
}

}  // namespace trainyard::comm
