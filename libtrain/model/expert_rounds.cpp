// Dispatch rounds of experts, forward and backward.
#include "libtrain/model/expert_rounds.h"

#include "kernels/expert_rows/expert_rows.h"
#include "libtrain/model/expert_collectives.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>

namespace trainyard::model {

namespace {

base::View rows_on_their_way(Step& step, const SavedSet& t) {
  const auto rows = t["dispatched"];
  return step.exec.scratch().allocate(rows.dtype, {rows.rows(), rows.cols()});
}

std::int64_t known_rounds(Step& step, const SavedSet& t) {
  std::int32_t rounds = 1;
  tensor::copy(step.exec, t["rounds"], base::View::of(&rounds, {1}));
  step.exec.synchronize();
  return rounds;
}

}  // namespace

ExpertRounds::Index ExpertRounds::index_of(Step& step, const SavedSet& t, base::View rounds) const {
  auto& scratch = step.exec.scratch();
  const auto groups = t["groups"];
  const auto indices = [&](std::int64_t n) { return scratch.allocate(base::DType::i32, {n}); };
  const auto pairs = [&] { return scratch.allocate(base::DType::i32, {groups.rows(), 2}); };
  const auto rows = t["dispatched"].rows();
  const Index index{pairs(), {pairs(), indices(rows), indices(rows), indices(t["sources"].count())}};
  const int ranks = step.experts->ranks();
  kernels::expert_rounds(step.exec, groups, ranks, rows / ranks, index.places, rounds);
  return index;
}

void ExpertRounds::lay_out(Step& step, const SavedSet& t, const Index& index, std::int64_t round) const {
  const int ranks = step.experts->ranks();
  kernels::expert_round(step.exec, {ranks, t["dispatched"].rows() / ranks, step.experts->rank(), round}, t["groups"],
                        index.places, t["sources"], index.rows);
}

void ExpertRounds::send(Step& step, const SavedSet& t, const Index& index, bool first) const {
  tensor::ArenaScope scope(step.exec.scratch());
  const auto sent = rows_on_their_way(step, t);
  kernels::expert_dispatch(step.exec, t["normed"], index.rows.tokens, model_.experts.top_k, sent);
  step.experts->swap(sent, t["dispatched"], first);
  step.experts->swap(index.rows.sent, t["received"], first);
}

void ExpertRounds::bring_back(Step& step, const SavedSet& t, const Index& index, base::View rows, bool first) {
  tensor::ArenaScope scope(step.exec.scratch());
  const auto back = rows_on_their_way(step, t);
  step.experts->swap(rows, back, first);
  kernels::expert_dispatch(step.exec, back, index.rows.back, 1, t["results"]);
}

void ExpertRounds::forward(Step& step, const SavedSet& t, base::View, ExpertWork& work) const {
  const auto all = expert_chunks(model_, share_, t).front();
  tensor::ArenaScope scope(step.exec.scratch());
  const auto index = index_of(step, t, t["rounds"]);
  step.experts->agree_on_most(t["rounds"]);
  const auto rounds = known_rounds(step, t);
  const auto rows = rows_on_their_way(step, t);
  for (std::int64_t round = 0; round < rounds; ++round) {
    lay_out(step, t, index, round);
    send(step, t, index, round == 0);
    {
      tensor::ArenaScope scratch(step.exec.scratch());
      work.lease();
      work.run(all, rows);
    }
    bring_back(step, t, index, rows, round == 0);
  }
  step.experts->count_rounds(record_, {rounds - 1, 0, 0}, rounds);
}

void ExpertRounds::send_gradients(Step& step, const SavedSet& t, const Index& index, base::View dy, bool first) {
  tensor::ArenaScope scope(step.exec.scratch());
  const auto sent = rows_on_their_way(step, t);
  kernels::expert_dispatch(step.exec, t["results"], index.rows.here, 1, sent);
  step.experts->swap(sent, dy, first);
}

void ExpertRounds::backward(Step& step, const SavedSet& t, ExpertWork& work) const {
  const auto all = expert_chunks(model_, share_, t).front();
  tensor::ArenaScope scope(step.exec.scratch());
  const auto index = index_of(step, t, {});
  const auto rounds = known_rounds(step, t);
  const auto dy = rows_on_their_way(step, t), dx = rows_on_their_way(step, t);
  const auto there_and_back = [&](bool first) {
    send_gradients(step, t, index, dy, first);
    {
      tensor::ArenaScope scratch(step.exec.scratch());
      work.lease();
      work.input_gradients(all, dy, dx);
    }
    bring_back(step, t, index, dx, first);
  };
  std::int64_t sent_again = 0;
  const auto run_again = [&] {
    send(step, t, index, false);
    tensor::ArenaScope scratch(step.exec.scratch());
    work.lease();
    work.run(all, dx);
  };
  const bool frozen = plan::has_adapter(model_);  // the rows of all sources are there at once
  if (rounds == 1) {
    lay_out(step, t, index, 0);
    there_and_back(true);
  }
  for (auto round = rounds - 1; frozen && rounds > 1 && round >= 0; --round) {
    lay_out(step, t, index, round);
    if (round + 1 < rounds) run_again(), ++sent_again;  // of the last round everything is there
    there_and_back(round + 1 == rounds);
  }
  if (frozen) return step.experts->count_rounds(record_, {0, rounds - 1, sent_again}, rounds);
  for (int source = 0; source < step.experts->ranks(); ++source) {
    const bool wanted = work.begin(source);
    if (wanted && rounds == 1) work.weight_gradients(all, dy, source);
    for (std::int64_t round = rounds - 1; wanted && rounds > 1 && round >= 0; --round, ++sent_again) {
      // Ranks other than the source have no groups in a round of number `rounds`.
      lay_out(step, t, index, step.experts->rank() == source ? round : rounds);
      run_again();
      there_and_back(sent_again == 0);
      work.weight_gradients(all, dy, source);
    }
    work.end();
  }
  step.experts->count_rounds(record_, {0, std::max<std::int64_t>(sent_again, 1) - 1, sent_again}, rounds);
}

}  // namespace trainyard::model
