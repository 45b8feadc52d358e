// Uses only arithmetic: links the package plan alone.
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/spec/presets.h"

#include <cstdio>

int main() {
  auto model = trainyard::plan::preset("gpt2");
  model.vocabulary = 50257;
  const auto n = trainyard::plan::parameter_count(model);
  std::printf("%lld\n", static_cast<long long>(n));
  return n == 124439808 ? 0 : 1;  // GPT-2 small, as published
}
