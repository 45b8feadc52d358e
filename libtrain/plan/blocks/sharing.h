// Sharing: which tensor-parallel degrees a model allows.
#pragma once

#include "libtrain/plan/spec/model_config.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::plan {

// The tensor-parallel degrees that a model allows, whatever the run. The degree must divide the key-value heads and
// every sharded dim of a parameter.
class Sharing {
 public:
  explicit Sharing(const ModelConfig& model);
  // Why degree `tensor` is impossible; empty: it is possible.
  std::string obstacle(std::int64_t tensor) const;
  // The nearest possible degrees below and above `tensor` that `also` allows, such as 2 and 4. The lower one is 1 if no
  // other is possible.
  std::vector<std::int64_t> nearest(std::int64_t tensor, const std::function<bool(std::int64_t)>& also) const;

 private:
  struct Shared {
    std::string what;
    std::int64_t size;
  };
  std::int64_t kv_heads_;
  std::vector<Shared> shared_;
};

// "--tensor-parallel 2 or --tensor-parallel 4"
std::string tensor_flags(const std::vector<std::int64_t>& degrees);

}  // namespace trainyard::plan
