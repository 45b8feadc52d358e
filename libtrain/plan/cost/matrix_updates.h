// MatrixUpdates: which rank computes the update of which whole matrix, with an optimizer that needs whole matrices
// (OptimizerKind::Collective::whole_matrices), what the ranks send one another for it, and the memory of it.
#pragma once

#include "libtrain/plan/blocks/flat_group_table.h"
#include "libtrain/plan/cost/sized_calls.h"

#include <cstdint>
#include <vector>

namespace trainyard::plan {

// A hidden matrix: a weight with two dims of a layer. Tables, heads, norms and biases are none, and no part of them.
// Each matrix of each expert is one. The answer depends on no parallel layout.
bool is_hidden_matrix(const FlatGroup& flat_group, const Parameter& parameter);

// One matrix, and its owner among the ranks that hold parts of it. `shards` ranks of the flat group's own group of
// ranks hold a range of a part each; `parts` tensor-parallel ranks hold a slice each, or 1: every one of them has all
// of it, and the same owner along the group.
struct DealtMatrix {
  const FlatGroupEntry* entry = nullptr;  // of the table
  int flat_group = 0;                     // index into flat_groups(part)
  std::size_t parameter = 0;              // in the flat group
  int parts = 1, dim = 0;                 // dim: the sharded one
  int owner = 0, owner_part = 0;          // place in the group; tensor coordinate, or 0 with 1 part
  const Parameter& declared() const { return entry->flat_group.parameters[parameter]; }
  std::int64_t rows() const { return declared().shape[0]; }
  std::int64_t cols() const { return declared().shape[1]; }
  std::int64_t held() const { return entry->layout.count(parameter); }  // elements of a part
  // Elements [first, first + count) of a part, which lie in a shard, `at` elements from its begin.
  struct Piece {
    std::int64_t first = 0, count = 0, at = 0;
  };
  Piece piece(int shard) const;
  // Pieces lie in shards [first_shard, end_shard).
  int first_shard() const { return static_cast<int>(entry->layout.offsets[parameter] / entry->layout.shard); }
  int end_shard() const { return static_cast<int>((entry->layout.end(parameter) - 1) / entry->layout.shard) + 1; }
  bool moves() const { return parts > 1 || entry->shards > 1; }
};

// The matrices of a part of a model in the order of flat_groups(part). They are dealt to owners by size, those with
// most operations first, each to the owner with the fewest operations so far, and of equal ones to the first. Matrices
// of one group of ranks with equally many parts are dealt together.
class MatrixUpdates {
 public:
  // `table` must outlive it.
  MatrixUpdates(const FlatGroupTable& table, const Topology& topology);

  const std::vector<DealtMatrix>& matrices() const { return matrices_; }
  // The exchanges of one step: parts go to the owners' tensor coordinate, then shards to the owners, and the updates
  // come back on the same way. Each is two calls in each group of ranks. What a rank sends depends on what it owns.
  std::vector<SizedCalls> calls(int rank) const;
  // The groups of ranks along which shards go, in the order of their exchanges, and whether parts go at all.
  const std::vector<Axes>& groups() const { return groups_; }
  bool crosses_parts() const { return crosses_parts_; }
  // Of the compute Exec's scratch, equal on every rank: what the rank that needs most takes for the matrices that it
  // owns, for pieces on their way, and for the largest iterations.
  std::int64_t workspace_bytes(base::DeviceKind device) const;

 private:
  // Matrices that are dealt together, to shards * parts owners, and by place * parts + part what each of them
  struct Family {
    Axes group;
    int shards = 1, parts = 1;
    std::int64_t bytes = 0;               // of all matrices
    std::vector<std::int64_t> kept = {};  // keeps: its own matrices, and pieces on their way
    std::vector<std::int64_t> sent_across_parts = {}, sent_across_shards = {};  // sends
  };
  void deal(Family& family, const std::vector<std::size_t>& members);
  void count(Family& family, const DealtMatrix& matrix);

  Topology topology_;
  std::vector<DealtMatrix> matrices_;
  std::vector<Family> families_;
  std::vector<Axes> groups_;
  bool crosses_parts_ = false;
};

}  // namespace trainyard::plan
