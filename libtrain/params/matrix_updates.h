// MatrixUpdates: gathers each hidden matrix to its owner, who orthogonalises it, and sends the results back.
#pragma once

#include "kernels/decayed_ranges.h"
#include "libtrain/base/index.h"
#include "libtrain/params/gradients.h"
#include "libtrain/plan/cost/matrix_updates.h"

#include <span>
#include <utility>
#include <vector>

namespace trainyard::params {

// For optimizers that need whole matrices (plan::OptimizerKind::Collective::whole_matrices). The owners and what is
// sent follow from plan::MatrixUpdates. All memory is scratch of the compute Exec.
class MatrixUpdates {
 public:
  explicit MatrixUpdates(StoreContext& context);

  // The elements of a rank's shard of a flat group that lie in hidden matrices, ascending; neighbours are joined over
  // the gap between them, where everything is zero.
  std::span<const kernels::Range> ranges(int flat_group) const { return base::at(ranges_, flat_group); }

  // The shards of gradients hold the directions of hidden matrices. Afterwards they hold the update, the orthogonalised
  // direction times 0.2 sqrt(max(rows, columns)), whatever the ranks. Such an update has the root mean square of a
  // typical update of AdamW (Liu et al. 2025, section 2.2). Collective.
  void orthogonalise(GradientReduction& gradients);

 private:
  // A dense view here, and a place with another rank of a group where it goes, or from where it comes.
  using Messages = std::vector<comm::Transfer>;
  struct Job {
    const plan::DealtMatrix* matrix;
    base::View parts;  // one after the other
  };
  // Where everything is in one step.
  struct Moves {
    Messages across_parts;
    std::vector<Messages> across_shards;                  // of each of plan_.groups()
    std::vector<std::pair<base::View, base::View>> here;  // from a gradient to the own matrix
    std::vector<Job> jobs;
  };
  std::vector<kernels::Range> ranges_of(int flat_group) const;
  Moves moves(GradientReduction& gradients);
  void add(Moves& moves, const plan::DealtMatrix& matrix, GradientReduction& gradients);
  void exchange(const Moves& moves, bool to_owners);
  void orthogonalise(const Job& job);
  int place(const plan::DealtMatrix& m) const { return c_.world.group(m.entry->flat_group.group).rank(); }
  base::View scratch(std::int64_t elements) { return c_.compute.scratch().allocate(base::DType::f32, {elements}); }

  StoreContext& c_;
  plan::MatrixUpdates plan_;
  std::vector<std::vector<kernels::Range>> ranges_;  // per flat group
};

}  // namespace trainyard::params
