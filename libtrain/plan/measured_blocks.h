// Passes of a model's blocks, as profile-comm --blocks measured them, and how a profile names them.
#pragma once

#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/grid/micro_shape.h"
#include "libtrain/plan/links/profile.h"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::plan {

// What is measured of a block with one micro-batch. step: forward and backward; selective and full: with that
// recomputation; inputs: forward and input gradients, without weight gradients.
enum class BlockPass { forward, step, selective, full, inputs };
inline constexpr std::array block_passes{BlockPass::forward, BlockPass::step, BlockPass::selective, BlockPass::full,
                                         BlockPass::inputs};

// Whether tensor-parallel and expert-parallel ranks made the calls of their groups in a pass that was measured.
enum class BlockCalls { left_out, made };

// "block.layers.forward"; "b4 s256 t2 sp e2 calls f32 1a2b3c4d": sequences of the micro-batch, tokens of each,
// tensor-parallel ranks, sequence parallelism, expert-parallel ranks, whether calls were made, dtype, and a checksum of
// what the block computes. Blocks that compute alike have the same name and shape in all models.
const char* block_word(Part part);  // "embedding", "layers", "head"
std::string block_rate_name(Part part, BlockPass pass);
std::string block_rate_shape(const Segment& segment, const MicroShape& shape, BlockCalls calls = BlockCalls::left_out);

// The passes in a profile.
class MeasuredBlocks {
 public:
  explicit MeasuredBlocks(const Profile& profile);
  bool empty() const { return by_block_.empty(); }
  // Seconds of a pass. A shape that was not measured is derived from measured ones of the same block: other
  // micro-batches lie on a line between or beyond the two nearest. For all else the nearest shape counts, in proportion
  // to `estimated` seconds of both. nullopt: this block was not measured, or not this pass. With calls only a layout of
  // as many tensor-parallel and expert-parallel ranks counts.
  using Estimated = std::function<double(const MicroShape&)>;
  std::optional<double> seconds(const Segment& segment, const MicroShape& shape, BlockPass pass,
                                const Estimated& estimated, BlockCalls calls = BlockCalls::left_out) const;

 private:
  struct Layout {  // of a micro-batch
    std::int64_t sequence = 0;
    int tensor = 1;
    bool sequence_parallel = false;
    int experts = 1;
    auto operator<=>(const Layout&) const = default;
  };
  struct BatchShape {
    std::int64_t batch = 0;
    Layout layout;
    std::string kind;  // dtype and checksum; with calls, that
  };
  static std::optional<BatchShape> parsed(const std::string& text);
  using Sizes = std::map<std::int64_t, double>;              // seconds by sequences of the micro-batch
  std::map<std::string, std::map<Layout, Sizes>> by_block_;  // by name and kind
};

}  // namespace trainyard::plan
