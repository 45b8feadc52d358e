// Tests expert parallelism: every rank has some experts, and makes the gradients of all tokens that they get, for each
// micro-batch by itself. Weights, norm and traffic are compared with a store of one rank, bit for bit.
#include "kernels/square_sum/square_sum.h"
#include "libtrain/base/random.h"
#include "libtrain/comm/threads.h"
#include "libtrain/params/zero_store.h"
#include "libtrain/plan/cost/traffic.h"
#include "libtrain/plan/schedule/accesses.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/params/ground.h"

#include <gtest/gtest.h>

#include <map>

namespace trainyard::test {
namespace shared_experts_test {

using Place = params::GradientReduction::Position::Place;

plan::ModelConfig model_of_experts() {
  auto m = plan::preset("moe-nano");
  m.layers = 3, m.hidden = 16, m.ffn = 24, m.vocabulary = 33, m.context = 8, m.lanes = 1;
  m.experts.count = {6, 12}, m.experts.every = 1, m.experts.dense_layers = 1;
  m.experts.score = plan::GateScore::sigmoid, m.experts.top_k = 2;
  return m;
}

struct Shape {
  int ranks = 1, experts = 1, zero = 0;
  std::int64_t micros = 1, local_accumulation = 1;
  base::DType working = base::DType::f32;
  std::string text() const {
    return fmt::format("{} ranks, experts over {}, ZeRO {}, {} micro-batches, local accumulation {}, {}", ranks,
                       experts, zero, micros, local_accumulation, base::name_of(working));
  }
};

// A gradient that depends only on parameter, micro-batch and element. For a bias of choices it is a whole number.
float gradient_value(const plan::Parameter& p, std::int64_t step, std::int64_t micro, std::int64_t element) {
  const auto w = base::random_words(static_cast<std::uint64_t>(step * 1000 + micro), base::site_hash("test", p.name),
                                    static_cast<std::uint64_t>(element));
  if (p.update.kind == plan::Update::Kind::even_load) return static_cast<float>(w[0] % 7);
  return static_cast<float>(static_cast<std::int32_t>(w[0])) * 1e-9f * static_cast<float>(1 + (w[1] & 1023));
}

class Rank {
 public:
  Rank(const plan::ModelConfig& m, const Shape& shape, int rank, comm::ThreadsWorld& threads)
      : model_(m), shape_(shape),
        topology_(plan::Topology({{plan::Axis::data, shape.ranks}}).with_experts(shape.experts)),
        part_(plan::ModelPart(model_).with_experts({shape.experts, topology_.coordinate(rank, plan::Axis::expert)})),
        set_(part_, topology_), states_{shape.zero,
                                        shape.working,
                                        base::DType::f32,
                                        {shape.micros, 1, shape.local_accumulation, shape.ranks},
                                        2,
                                        topology_},
        bytes_(plan::state_bytes(set_.table, states_)), parameters_(tensor::Category::parameters, bytes_.parameters),
        gathered_(tensor::Category::gathered_weights, bytes_.gathered_weights),
        gradients_(tensor::Category::gradients, bytes_.gradients),
        micro_batch_gradients_(tensor::Category::micro_batch_gradients, bytes_.micro_batch_gradients),
        optimizer_(tensor::Category::optimizer, bytes_.optimizer),
        staging_(tensor::Category::communication_staging, bytes_.communication_staging),
        world_("threads", rank, topology_, threads.factory(rank), {{plan::Axis::data}, {plan::Axis::expert_data}}),
        compute_(tensor::Exec::caller(nullptr, 1)),
        worker_(shape.ranks > 1 ? tensor::Exec::worker("communication", nullptr) : nullptr),
        context_{{world_, *compute_, worker_ ? *worker_ : *compute_},
                 set_,
                 states_,
                 plan::Reduction::ordered,
                 {parameters_, gathered_, gradients_, micro_batch_gradients_, optimizer_, staging_}},
        store_(context_), accesses_(plan::training_accesses(part_)) {
    store_.initialize(11);
    at_begin_ = sent_so_far();
  }

  void step(std::int64_t step) {
    const auto& batch = states_.batch;
    store_.begin_step({{plan::leases_of(accesses_)},
                       std::vector<std::uint32_t>(
                           static_cast<std::size_t>(batch.accumulation_steps() * batch.local_accumulation), 0)});
    for (std::int64_t round = 0; round < batch.accumulation_steps(); ++round)
      for (std::int64_t k = 0; k < batch.local_accumulation; ++k)
        micro(step,
              {round, batch.local_accumulation == 1       ? Place::only
                      : k == 0                            ? Place::first
                      : k == batch.local_accumulation - 1 ? Place::last
                                                          : Place::middle},
              k);
    store_.finish();
    norms.push_back(norm());
    kernels::AdamW hyper;
    hyper.learning_rate = 0.02f, hyper.weight_decay = 0.05f, hyper.bias1 = 0.1, hyper.bias2 = 0.001;
    store_.update(hyper, 21);
  }

  void complete() { store_.complete_weights(); }

  // The weights that leases return, by parameter name.
  std::map<std::string, std::vector<char>> weights() {
    std::map<std::string, std::vector<char>> out;
    const auto leases = plan::leases_of(plan::evaluation_accesses(part_));
    store_.begin_evaluation(leases);
    for (const auto& occurrence : leases) {
      const auto lease = store_.lease(occurrence);
      const auto& flat_group = context_.flat_group(occurrence.flat_group);
      for (std::size_t p = 0; p < flat_group.parameters.size(); ++p) {
        const auto view = lease.weight(static_cast<int>(p));
        const auto* bytes = static_cast<const char*>(view.data);
        out[flat_group.parameters[p].name] = {bytes, bytes + view.bytes()};
      }
    }
    return out;
  }

  // Bytes sent since initial values were made, by group and operation.
  std::map<std::string, std::int64_t> sent() {
    auto out = sent_so_far();
    for (const auto& [what, bytes] : at_begin_) out[what] -= bytes;
    std::erase_if(out, [](const auto& entry) { return entry.second == 0; });
    return out;
  }
  std::map<std::string, std::int64_t> sent_so_far() {
    std::map<std::string, std::int64_t> out;
    for (auto* group : world_.groups())
      for (const auto& [operation, total] : group->ledger().totals())
        if (total.sent_bytes > 0) out[group->group() + " " + operation] = total.sent_bytes;
    return out;
  }
  std::map<std::string, std::int64_t> predicted(std::int64_t steps) {
    std::map<std::string, std::int64_t> out;
    for (const auto& t :
         plan::step_traffic(part_, states_, plan::Reduction::ordered, topology_.reduction_position(world_.rank)))
      if (t.bytes > 0) out[name_of(t.group) + " " + t.operation] = steps * t.bytes;
    return out;
  }
  bool full() const {
    for (const auto* a : {&parameters_, &gathered_, &gradients_, &micro_batch_gradients_, &optimizer_, &staging_})
      if (!a->full()) return false;
    return true;
  }

  std::vector<std::vector<std::int64_t>> norms;

 private:
  void micro(std::int64_t step, params::GradientReduction::Position position, std::int64_t k) {
    const auto& batch = states_.batch;
    // The micro-batch of a data-parallel rank; -1 if it has none.
    const auto micro_of = [&](int data) {
      const auto group = batch.accumulation_group_of(data, position.round);
      return group < 0 ? -1 : batch.first_micro(group) + k;
    };
    for (const auto& access : accesses_) {
      const auto u = access.occurrence.flat_group;
      const auto& flat_group = context_.flat_group(u);
      const bool shared = flat_group.group.has(plan::Axis::expert_data);
      const int mine = topology_.reduction_position(world_.rank), alike = shape_.ranks / shape_.experts;
      const auto own = micro_of(mine);
      if (!shared && own < 0) {
        store_.idle({&access, 1}, position);
        continue;
      }
      store_.begin_backward(position);
      if (access.kind == plan::Access::Kind::lease) {
        const auto lease = store_.lease(access.occurrence);
        continue;
      }
      for (int source = 0; source < (shared ? shape_.experts : 1); ++source) {
        auto grads = store_.grads(access.occurrence, source);
        const auto m = shared ? micro_of(source * alike + mine % alike) : own;
        EXPECT_EQ(grads.wanted(), m >= 0);
        for (std::size_t p = 0; p < flat_group.parameters.size() && m >= 0; ++p) {
          auto* out = grads.gradient(static_cast<int>(p)).ptr<float>();
          const auto& parameter = flat_group.parameters[p];
          for (std::int64_t i = 0; i < parameter.stored_count(); ++i)
            out[i] =
                i < parameter.count() ? gradient_value(parameter, step, m + 100 * access.occurrence.index, i) : 0.0f;
        }
        grads.commit();
      }
    }
  }

  std::vector<std::int64_t> norm() {
    std::vector<std::int64_t> limbs(kernels::square_sum_limbs, 0);
    const auto view = base::View::of(limbs.data(), {kernels::square_sum_limbs});
    kernels::square_sum(*compute_, store_.counted_gradients(), view);
    world_.control->all_reduce(*compute_, view, comm::Reduction::sum);
    for (std::size_t i = 0; i + 1 < limbs.size(); ++i) {  // carries
      limbs[i + 1] += limbs[i] >> 32;
      limbs[i] &= 0xffffffff;
    }
    return limbs;
  }

  plan::ModelConfig model_;
  Shape shape_;
  plan::Topology topology_;
  plan::ModelPart part_;
  plan::FlatGroupSet set_;
  plan::StateShape states_;
  plan::StateBytes bytes_;
  UsedArena parameters_, gathered_, gradients_, micro_batch_gradients_, optimizer_, staging_;
  comm::World world_;
  std::unique_ptr<tensor::Exec> compute_, worker_;
  params::StoreContext context_;
  params::ZeroStore store_;
  std::vector<plan::Access> accesses_;
  std::map<std::string, std::int64_t> at_begin_;
};

constexpr int steps = 3;

void same_as_one_rank(const Shape& shape) {
  const auto model = model_of_experts();
  auto alone = shape;
  alone.ranks = alone.experts = 1;
  std::map<std::string, std::vector<char>> want;
  std::vector<std::vector<std::int64_t>> norms;
  comm::run_ranks(1, [&](int rank, comm::ThreadsWorld& threads) {
    Rank one(model, alone, rank, threads);
    for (int s = 0; s < steps; ++s) one.step(s);
    one.complete();
    want = one.weights();
    norms = one.norms;
  });
  comm::run_ranks(shape.ranks, [&](int rank, comm::ThreadsWorld& threads) {
    Rank mine(model, shape, rank, threads);
    for (int s = 0; s < steps; ++s) mine.step(s);
    EXPECT_TRUE(mine.full()) << shape.text();
    mine.complete();
    EXPECT_EQ(mine.sent(), mine.predicted(steps)) << shape.text() << ", rank " << rank;
    const auto got = mine.weights();
    EXPECT_EQ(mine.norms, norms) << shape.text();
    std::size_t experts = 0;
    for (const auto& [name, bytes] : got) {
      ASSERT_TRUE(want.contains(name)) << name;
      EXPECT_TRUE(bytes == want.at(name)) << name << ", " << shape.text();
      experts += name.find(".experts.") != std::string::npos;
    }
    const auto per_expert = std::size_t{4};  // parameters of an expert
    EXPECT_EQ(experts, per_expert * 18 / static_cast<std::size_t>(shape.experts)) << shape.text();
  });
}

TEST(SharedExperts, OverTwoRanks) {
  for (const int zero : {0, 1, 2, 3})
    for (const std::int64_t micros : {2, 3, 4}) same_as_one_rank({2, 2, zero, micros, 1});
}
TEST(SharedExperts, OverPartsOfTheRanks) {
  for (const int zero : {0, 1, 2, 3})
    for (const std::int64_t micros : {4, 5, 8}) same_as_one_rank({4, 2, zero, micros, 1});
}
TEST(SharedExperts, WithLocalAccumulation) {
  for (const int zero : {0, 1, 2, 3}) {
    same_as_one_rank({3, 3, zero, 8, 2});
    same_as_one_rank({6, 3, zero, 14, 2});
  }
}
TEST(SharedExperts, InBf16) {
  for (const int zero : {0, 1, 3}) same_as_one_rank({4, 2, zero, 7, 1, base::DType::bf16});
}

}  // namespace shared_experts_test
}  // namespace trainyard::test
