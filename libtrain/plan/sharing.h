// Sharing: how many tensor ranks can share the layers of a model.
#pragma once

#include "libtrain/plan/model_config.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::plan {

// How many ranks can share a model, whatever the run: key-value heads and every dim that a parameter is cut along must
// come out even.
class Sharing {
 public:
  explicit Sharing(const ModelConfig& model);
  // Why `tensor` ranks cannot; empty: they can.
  std::string obstacle(std::int64_t tensor) const;
  // "2 or 4": the nearest numbers below and above `tensor` that can, and that `also` allows; 1 where no other below
  // can.
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
