// Offload: in which memory, or on which disk, a rank keeps its states and activations (Rajbhandari et al. 2021,
// "ZeRO-Infinity").
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::plan {

// device: the memory where the rank computes. host: pinned memory of a GPU's machine. disk: files of the rank
// (base/storage.h).
enum class Place { device, host, disk };

// `share`: how much of it is there, in (0, 1], counted in bytes, by whole flat groups; the rest is on the device.
struct Placement {
  Place place = Place::device;
  double share = 1;
  bool operator==(const Placement&) const = default;
};

// Bytes that are copied between a GPU and its host: down to the host, up to the device.
struct LinkBytes {
  std::int64_t down = 0, up = 0;
  bool operator==(const LinkBytes&) const = default;
};

struct Offload {
  Placement optimizer;   // the states of the optimizer, and f32 masters
  Placement parameters;  // the shards of ZeRO 3
  Placement gradients;   // sums of gradients of a step, of layers
  // What layers keep between forward and backward with Recompute::layers: their inputs
  // (plan/cost/activation_offload.h). A share is of these layers of a rank, and means the first ones.
  Placement activations = {};
  bool any() const { return *this != Offload{}; }
  bool uses(Place place) const;
  bool of_states() const;  // whether it has more than activations elsewhere
  bool operator==(const Offload&) const = default;
};

// "optimizer=disk,parameters=disk:0.5"; "none" where everything is on the device.
std::string offload_text(const Offload& offload);
// Reads that. UsageError, whose message begins with `spelled`, for anything else.
Offload offload_of_text(const std::string& text, const std::string& spelled);

}  // namespace trainyard::plan
