// The part of NCCL's C interface that is used, as a table that is filled when the library is opened. Names and values
// are as in nccl.h (2.x).
#pragma once

#include "libtrain/base/dtype.h"

#include <array>
#include <cstddef>
#include <string>
#include <utility>

namespace trainyard::comm::nccl {

struct Comm;  // ncclComm
struct UniqueId {
  char internal[128];
};
enum Result : int { success = 0, remote_error = 6, in_progress = 7 };
enum Type : int { i8 = 0, u8 = 1, i32 = 2, i64 = 4, u64 = 5, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
inline constexpr std::array types = {std::pair{base::DType::f32, f32},   std::pair{base::DType::f64, f64},
                                     std::pair{base::DType::bf16, bf16}, std::pair{base::DType::f16, f16},
                                     std::pair{base::DType::i32, i32},   std::pair{base::DType::i64, i64},
                                     std::pair{base::DType::u64, u64},   std::pair{base::DType::u8, u8}};
enum Op : int { sum = 0, max = 2, min = 3 };
using Stream = void*;

struct Library {
  Result (*get_version)(int*);
  Result (*get_unique_id)(UniqueId*);
  Result (*init_rank)(Comm**, int ranks, UniqueId, int rank);
  Result (*destroy)(Comm*);
  Result (*abort)(Comm*);
  Result (*async_error)(Comm*, Result*);
  const char* (*error_text)(Result);
  Result (*all_reduce)(const void*, void*, std::size_t, Type, Op, Comm*, Stream);
  Result (*all_gather)(const void*, void*, std::size_t, Type, Comm*, Stream);
  Result (*reduce_scatter)(const void*, void*, std::size_t, Type, Op, Comm*, Stream);
  Result (*broadcast)(const void*, void*, std::size_t, Type, int root, Comm*, Stream);
  Result (*send)(const void*, std::size_t, Type, int peer, Comm*, Stream);
  Result (*receive)(void*, std::size_t, Type, int peer, Comm*, Stream);
  Result (*group_start)();
  Result (*group_end)();
};

// The library, opened once; nullptr if there is none. Throws EnvironmentError if it lacks a function.
const Library* library();
std::string refusal();  // why library() is nullptr, in the loader's words

}  // namespace trainyard::comm::nccl
