// Sums of work.
#include "libtrain/plan/blocks/work.h"

namespace trainyard::plan {

void PassWork::add(const PassWork& other) {
  products.insert(products.end(), other.products.begin(), other.products.end());
  attention.insert(attention.end(), other.attention.begin(), other.attention.end());
  bytes += other.bytes;
}

void BlockWork::add(const BlockWork& other) {
  forward.add(other.forward);
  backward.add(other.backward);
  weights.add(other.weights);
  again.add(other.again);
}

void BlockWork::linear(std::int64_t rows, std::int64_t out, std::int64_t in, std::int64_t batch) {
  forward.products.push_back({rows, out, in, batch});
  backward.products.push_back({rows, in, out, batch});
  weights.products.push_back({out, in, rows, batch});
  weights.bytes += 3.0 * sizeof(float) * static_cast<double>(out * in * batch);  // two reads and a write
}

}  // namespace trainyard::plan
