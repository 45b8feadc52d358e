// Dispatch on one rank, among tensor-parallel ranks, and in slots.
#include "libtrain/model/expert_dispatch.h"

#include "kernels/slot_groups/slot_groups.h"
#include "libtrain/model/expert_collectives.h"
#include "libtrain/model/expert_rounds.h"
#include "libtrain/params/context.h"
#include "libtrain/plan/blocks/experts.h"
#include "libtrain/plan/spec/layer_model.h"

namespace trainyard::model {

std::vector<ExpertChunk> expert_chunks(const plan::ModelConfig& m, const plan::ExpertShare& share, const SavedSet& t) {
  const std::int64_t n = share.chunks;
  const auto rows = t["dispatched"].rows() / n, experts = plan::held_experts(m, share) / n,
             groups = worked_groups(share, t).rows() / n;
  std::vector<ExpertChunk> out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back({rows, i * rows, groups, i * groups, experts, i * experts});
  return out;
}

base::View own_results(const Step& step, const SavedSet& t) {
  const auto rows = t["dispatched"].rows();
  return t["results"].row_range(step.collectives->rank() * rows, rows);
}

base::View own_sources(const Step& step, const SavedSet& t) {
  const auto rows = t["dispatched"].rows();
  return params::flat_range(t["sources"], step.collectives->rank() * rows, rows);
}

base::View worked_groups(const plan::ExpertShare& share, const SavedSet& t) {
  return share.is_partial() ? t["received"] : t["groups"];
}

base::View ExpertDispatch::place_of_rows(Step&, const SavedSet& t) const { return t["dispatched"]; }

namespace {

base::View scratch_like(Step& step, base::View rows) {
  return step.exec.scratch().allocate(rows.dtype, {rows.rows(), rows.cols()});
}

// Tensor-parallel ranks have the groups of all experts; this rank's experts have these.
base::View groups_of_rank(const Step& step, const plan::ModelConfig& m, const SavedSet& t) {
  const auto groups = plan::expert_count(m) / step.collectives->ranks();
  return t["groups"].row_range(step.collectives->rank() * groups, groups);
}

void all_weight_gradients(int sources, const std::vector<ExpertChunk>& chunks, base::View dy, ExpertWork& work) {
  for (int source = 0; source < sources; ++source) {
    if (work.begin(source))
      for (const auto& c : chunks) work.weight_gradients(c, dy.row_range(c.first_row, c.rows), source);
    work.end();
  }
}

class LocalDispatch : public ExpertDispatch {
 public:
  LocalDispatch(const plan::ModelConfig& m, const plan::ExpertShare& share) : model_(m), share_(share) {}

  void forward(Step& step, const SavedSet& t, base::View, ExpertWork& work) const override {
    tensor::ArenaScope scope(step.exec.scratch());
    const auto results = own_results(step, t);
    take_groups(step, t);
    work.lease();
    for (const auto& c : expert_chunks(model_, share_, t)) {
      tensor::ArenaScope of_experts(step.exec.scratch());
      begin_chunk(step, t, c);
      work.run(c, results.row_range(c.first_row, c.rows));
    }
  }

  void backward(Step& step, const SavedSet& t, ExpertWork& work) const override {
    tensor::ArenaScope scope(step.exec.scratch());
    const auto results = own_results(step, t), dx = scratch_like(step, results);
    const auto chunks = expert_chunks(model_, share_, t);
    work.lease();
    for (const auto& c : chunks) {
      tensor::ArenaScope of_experts(step.exec.scratch());
      work.input_gradients(c, results.row_range(c.first_row, c.rows), dx.row_range(c.first_row, c.rows));
    }
    work.release();
    all_weight_gradients(1, chunks, results, work);
    tensor::copy(step.exec, dx, results);
  }

 protected:
  virtual void take_groups(Step&, const SavedSet&) const {}
  virtual void begin_chunk(Step&, const SavedSet&, const ExpertChunk&) const {}
  plan::ModelConfig model_;  // as the layer sees it
  plan::ExpertShare share_;
};

class DealtDispatch : public LocalDispatch {
 public:
  using LocalDispatch::LocalDispatch;

 protected:
  void take_groups(Step& step, const SavedSet& t) const override {
    tensor::copy(step.exec, groups_of_rank(step, model_, t), worked_groups(share_, t));
  }
  void begin_chunk(Step& step, const SavedSet& t, const ExpertChunk& c) const override {
    const auto groups = worked_groups(share_, t);
    kernels::slot_groups(step.exec, groups.row_range(c.first_group, c.groups), t["dispatched"].rows() / groups.rows());
  }
};

class SlotDispatch : public ExpertDispatch {
 public:
  SlotDispatch(const plan::ModelConfig& m, const plan::ExpertShare& share) : model_(m), share_(share) {}

  base::View place_of_rows(Step& step, const SavedSet& t) const override { return scratch_like(step, t["dispatched"]); }

  // Rows and groups go to the ranks of their experts. The rows of all chunks are in flight while the first chunk is
  // computed.
  void forward(Step& step, const SavedSet& t, base::View sent, ExpertWork& work) const override {
    const auto dispatched = t["dispatched"], results = own_results(step, t), groups = worked_groups(share_, t);
    const auto slot = dispatched.rows() / groups.rows();
    const auto chunks = expert_chunks(model_, share_, t);
    const auto& collectives = *step.experts;
    tensor::ArenaScope scope(step.exec.scratch());
    const auto made = chunks.size() > 1 ? scratch_like(step, results) : sent;
    std::vector<tensor::Event> arrived, returned;
    if (chunks.size() == 1) {
      collectives.swap(sent, dispatched);
      collectives.swap(groups_of_rank(step, model_, t), groups);
    } else {
      std::vector<base::View> mine, theirs;
      for (const auto& c : chunks) {
        for (const auto& view : by_ranks(step, c, groups_of_rank(step, model_, t), 1)) mine.push_back(view);
        for (const auto& view : by_chunks(step, c, groups, 1)) theirs.push_back(view);
      }
      const auto counted = collectives.begin_swap(mine, theirs);
      for (const auto& c : chunks)
        arrived.push_back(collectives.begin_swap(by_ranks(step, c, sent, slot), by_chunks(step, c, dispatched, slot)));
      collectives.wait(counted);
    }
    work.lease();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const auto& c = chunks[i];
      tensor::ArenaScope of_experts(step.exec.scratch());
      if (!arrived.empty()) collectives.wait(arrived[i]);
      kernels::slot_groups(step.exec, groups.row_range(c.first_group, c.groups), slot);
      work.run(c, made.row_range(c.first_row, c.rows));
      if (!arrived.empty())
        returned.push_back(collectives.begin_swap(by_chunks(step, c, made, slot), by_ranks(step, c, results, slot)));
    }
    for (const auto& event : returned) collectives.wait(event);
    if (chunks.size() == 1) collectives.swap(made, results);
  }

  // Gradients of input rows go back to other ranks while weight gradients are computed.
  void backward(Step& step, const SavedSet& t, ExpertWork& work) const override {
    const auto results = own_results(step, t);
    const auto slot = t["dispatched"].rows() / worked_groups(share_, t).rows();
    const auto chunks = expert_chunks(model_, share_, t);
    const auto& collectives = *step.experts;
    tensor::ArenaScope scope(step.exec.scratch());
    const auto dy = scratch_like(step, results), dx = scratch_like(step, results);
    const bool whole = chunks.size() == 1;
    std::vector<tensor::Event> arrived, returned;
    for (const auto& c : chunks)
      arrived.push_back(whole ? collectives.begin_swap(results, dy)
                              : collectives.begin_swap(by_ranks(step, c, results, slot), by_chunks(step, c, dy, slot)));
    work.lease();
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const auto& c = chunks[i];
      tensor::ArenaScope of_experts(step.exec.scratch());
      collectives.wait(arrived[i]);
      work.input_gradients(c, dy.row_range(c.first_row, c.rows), dx.row_range(c.first_row, c.rows));
      returned.push_back(whole
                             ? collectives.begin_swap(dx, results)
                             : collectives.begin_swap(by_chunks(step, c, dx, slot), by_ranks(step, c, results, slot)));
    }
    work.release();
    all_weight_gradients(collectives.ranks(), chunks, dy, work);
    for (const auto& event : returned) collectives.wait(event);
  }

 private:
  // One view of a chunk for each expert-parallel rank, with `rows_each` rows for each expert. by_ranks: `whole` lies
  // rank by rank, as this rank's tokens have it. by_chunks: `whole` lies chunk by chunk, as the experts have it.
  std::vector<base::View> by_ranks(const Step& step, const ExpertChunk& c, base::View whole,
                                   std::int64_t rows_each) const {
    std::vector<base::View> out;
    for (int r = 0; r < step.experts->ranks(); ++r)
      out.push_back(whole.row_range((r * plan::held_experts(model_, share_) + c.first_expert) * rows_each,
                                    c.experts * rows_each));
    return out;
  }
  static std::vector<base::View> by_chunks(const Step& step, const ExpertChunk& c, base::View whole,
                                           std::int64_t rows_each) {
    std::vector<base::View> out;
    for (int r = 0; r < step.experts->ranks(); ++r)
      out.push_back(whole.row_range((c.first_group + r * c.experts) * rows_each, c.experts * rows_each));
    return out;
  }

  plan::ModelConfig model_;
  plan::ExpertShare share_;
};

}  // namespace

std::unique_ptr<ExpertDispatch> make_dispatch(const plan::ModelConfig& m, const plan::ExpertShare& share,
                                              plan::Pass pass, std::int64_t record) {
  if (plan::crosses_in_rounds(m, share, pass)) return std::make_unique<ExpertRounds>(m, share, record);
  if (share.sends_rows()) return std::make_unique<SlotDispatch>(m, share);
  if (share.is_partial()) return std::make_unique<DealtDispatch>(m, share);
  return std::make_unique<LocalDispatch>(m, share);
}

}  // namespace trainyard::model
