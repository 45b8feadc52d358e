// Recomputation: which layers of a rank recompute in backward, and what.
#pragma once

#include "libtrain/plan/grid/micro_shape.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::plan {

// The first layers of a rank are recomputed in full, the next ones selectively, and the others keep all. The first
// layers of a rank keep their activations longest.
struct Recomputation {
  double full = 0, selective = 0;  // shares of the layers of a rank, each in [0, 1], and so is their sum
  Recomputation() = default;
  Recomputation(double of_full, double of_selective) : full(of_full), selective(of_selective) {}
  Recomputation(Recompute all)  // the same for all layers
      : full(all == Recompute::layers ? 1 : 0), selective(all == Recompute::selective ? 1 : 0) {}
  bool any() const { return full > 0 || selective > 0; }
  Recompute most() const;  // of any layer: Recompute::layers is more than selective
  // Of `layers` layers of a rank: how many are recomputed in full, and what the layer with that index does.
  std::int64_t full_layers(std::int64_t layers) const;
  std::int64_t selective_layers(std::int64_t layers) const;
  Recompute of_layer(std::int64_t index, std::int64_t layers) const;
  // The runs of one form among `times` layers behind the first `before` of `layers` layers.
  struct Run {
    Recompute form;
    std::int64_t layers;
  };
  std::vector<Run> runs(std::int64_t before, std::int64_t times, std::int64_t layers) const;
  bool operator==(const Recomputation&) const = default;
};

// The least whole number of `all` that is at least their share. A share that was written in decimal digits does not
// round up because of its binary form: 0.55 of 20 is 11.
std::int64_t share_of(double share, std::int64_t all);

// "none", "selective", "full", "full:0.5", "full:0.25,selective:0.5", or "full:0.25,selective", where the last one has
// the rest.
std::string recomputation_text(const Recomputation& recomputation);
// Reads that. UsageError, whose message begins with `spelled`, for anything else.
Recomputation recomputation_of_text(const std::string& text, const std::string& spelled);
// What is recomputed, in words: "layers recomputed", "recompute full:0.25". Empty: nothing.
std::string recomputed_text(const Recomputation& recomputation);

}  // namespace trainyard::plan
