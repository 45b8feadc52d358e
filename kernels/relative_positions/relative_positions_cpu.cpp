// Relative positions on the CPU: a thread has some pairs of a bucket and a head.
#include "kernels/cpu.h"
#include "kernels/relative_positions/bucket_distances.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

template <class T> void expand_buckets(const ExpandPositionsArgs& a) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (int64_t n = 0; n < a.table.rows * a.table.cols; ++n) {
    const int64_t bucket = n / a.table.cols, h = n % a.table.cols;
    const auto columns = columns_of(a, bucket);
    const auto value = widen(a.table.row<T>(bucket)[h]);
    auto* row = a.bias.row<compute_t<T>>(h);
    for (int64_t c = columns.first; c < columns.end; ++c) row[c] = value;
  }
}

template <class G> void fold_buckets(const FoldPositionsArgs& a) {
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (int64_t n = 0; n < a.d_table.rows * a.d_table.cols; ++n) {
    const int64_t bucket = n / a.d_table.cols, h = n % a.d_table.cols;
    const auto columns = columns_of(a, bucket);
    const G* row = a.d_bias.row<G>(h);
    G sum = 0;
    for (int64_t c = columns.first; c < columns.end; ++c) sum += row[c];
    G* to = a.d_table.row<G>(bucket) + h;
    *to = a.add ? *to + sum : sum;
  }
}

}  // namespace

void relative_positions_expand_cpu(const ExpandPositionsArgs& a) {
  with_type(a.table.type, [&]<class T>(T*) { expand_buckets<T>(a); });
}
void relative_positions_fold_cpu(const FoldPositionsArgs& a) {
  if (a.d_bias.type == Type::f64) fold_buckets<double>(a);
  else fold_buckets<float>(a);
}

}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
