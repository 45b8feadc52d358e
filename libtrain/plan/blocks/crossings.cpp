// Sizes of the calls of tensor-parallel collectives.
#include "libtrain/plan/blocks/crossings.h"

#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>

namespace trainyard::plan {

void Crossings::add(const char* operation, base::DType type, std::int64_t elements, std::int64_t calls) {
  if (s_.tensor == 1 || calls == 0) return;
  calls_.push_back({operation, type, elements * base::size_of(type), calls});
}

Crossings& Crossings::all_rows(std::int64_t width) {
  if (s_.sequence_parallel) add("all_gather", s_.dtype, s_.rows() * (width > 0 ? width : m_.hidden));
  return *this;
}

Crossings& Crossings::add_up(std::int64_t width) {
  const auto elements = s_.rows() * (width > 0 ? width : m_.hidden);
  add("all_to_all", s_.accumulation(), Widths(m_, s_.tensor).partials * elements);
  if (!s_.sequence_parallel) add("all_gather", s_.dtype, elements);
  return *this;
}

Crossings& Crossings::gather(base::DType type, std::int64_t elements) {
  add("all_gather", type, elements);
  return *this;
}

// As sums of 32-bit words.
Crossings& Crossings::merge() {
  add(s_.sequence_parallel ? "reduce_scatter" : "all_reduce", base::DType::i32,
      s_.rows() * m_.hidden * s_.element_bytes() / 4);
  return *this;
}

Crossings& Crossings::norm_gradients() {
  if (s_.sequence_parallel && !has_adapter(m_))
    add("all_gather", s_.accumulation(), 2 * (s_.rows() / column_sum_rows) * m_.hidden);
  return *this;
}

Crossings& Crossings::loss_statistics(Pass pass) {
  const auto chunk = head_chunk_tokens(s_.device), last = s_.rows() % chunk;
  const auto of_a_token = s_.tensor * Widths(m_, s_.tensor).partials * plan::loss_statistics(s_, pass);
  add("all_gather", s_.accumulation(), of_a_token * chunk, s_.rows() / chunk);
  if (last > 0) add("all_gather", s_.accumulation(), of_a_token * last);
  return *this;
}

}  // namespace trainyard::plan
