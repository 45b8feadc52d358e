// The order of a product's sums: blocks of K, lanes of blocks, a tree of lanes. Included only by the *_cpu.cpp of
// products, once per instruction set.
#pragma once

#include "kernels/gemm/gemm_cpu.h"
#include "libtrain/plan/blocks/scratch.h"

namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE {
namespace {

using std::int64_t;

inline const ConstMat& a_of(const GemmArgs& g, int part) { return part == 0 ? g.a : g.more[part - 1].a; }
inline const ConstMat& b_of(const GemmArgs& g, int part) { return part == 0 ? g.b : g.more[part - 1].b; }
inline int64_t slice_of(const GemmArgs& g, int part) {
  const ConstMat& a = a_of(g, part);
  return (g.trans_a ? a.rows : a.cols) / g.lanes;
}

// One block of the sum: steps [k0, k0 + kb) of a part. Partial sums are in slots: slot 0 is the result itself, and
// finished lanes have lower slots than the current lane. A lane's last block also adds the lane to the sums that it
// completes. So no block is written more often than in a product without lanes.
struct Segment {
  int part = 0;
  int64_t k0 = 0, kb = 0;
  int64_t at = 0;           // the block's place in the packed chunk, in steps
  int sources = 0, to = 0;  // sources: slots that are added to it, in this order; to: the slot that it is stored to
  int source[64] = {};
  std::uint64_t warm = 0;  // a bit for each slot that earlier blocks of the chunk wrote
  int complete = 0;        // 1: this block completes the result
};

// Walks the blocks in order: lane by lane, and part by part within a lane.
class LaneWalk {
 public:
  LaneWalk(const GemmArgs& g, int64_t block) : g_(g), block_(block), tree_((g.lanes & (g.lanes - 1)) == 0) {}

  bool done() const { return lane_ == g_.lanes; }
  int64_t steps() const {
    const int64_t left = slice_of(g_, part_) - at_;
    return left < block_ ? left : block_;
  }
  void take(Segment& s, int64_t packed_at) {
    const int64_t slice = slice_of(g_, part_);
    s.part = part_, s.k0 = lane_ * slice + at_, s.kb = steps(), s.at = packed_at;
    const bool first = part_ == 0 && at_ == 0, last = part_ + 1 == g_.parts && at_ + s.kb == slice;
    // In a tree, the lanes before this one form as many whole subtrees as its number has one bits. In a left-to-right
    // sum they are one sum.
    const int own = tree_ ? __builtin_popcountll(static_cast<unsigned long long>(lane_)) : lane_ > 0;
    const int completed = tree_ ? __builtin_ctzll(~static_cast<unsigned long long>(lane_)) : own;
    s.sources = 0, s.to = own;
    if (!first || g_.accumulate) s.source[s.sources++] = own;
    if (last)
      for (int i = 0; i < completed; ++i) s.source[s.sources++] = --s.to;
    s.complete = last && lane_ + 1 == g_.lanes;
    at_ += s.kb;
    if (at_ == slice) at_ = 0, ++part_;
    if (part_ == g_.parts) part_ = 0, ++lane_;
  }

 private:
  const GemmArgs& g_;
  int64_t block_;
  bool tree_;
  int64_t lane_ = 0, at_ = 0;
  int part_ = 0;
};

// Blocks that are packed together: as many as fit into one block of K.
struct Chunk {
  static constexpr int most = 16;
  Segment segment[most];
  int count = 0;
};

inline bool next_chunk(LaneWalk& walk, int64_t depth, Chunk& chunk) {
  int64_t at = 0;
  std::uint64_t warm = 0;
  for (chunk.count = 0; chunk.count < Chunk::most && !walk.done() && at + walk.steps() <= depth; ++chunk.count) {
    Segment& s = chunk.segment[chunk.count];
    walk.take(s, at);
    at += s.kb;
    s.warm = warm;
    warm |= std::uint64_t{1} << s.to;
  }
  return chunk.count > 0;
}

}  // namespace
}  // namespace trainyard::kernels::TRAINYARD_ISA_NAMESPACE
