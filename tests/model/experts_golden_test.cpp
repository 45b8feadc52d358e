// Parity with PyTorch of models with experts: initial values, ten losses, first gradients, and what every gate did in
// every step. PyTorch computes the experts in a plain loop (golden files of tests/golden/experts_golden.py).
#include "kernels/gate_record/gate_record_args.h"
#include "libtrain/model/feed_forward_expert.h"
#include "libtrain/plan/blocks/expert_registry.h"
#include "libtrain/plan/blocks/feed_forward_expert.h"
#include "libtrain/plan/spec/layer_model.h"
#include "tests/model/golden_model.h"

namespace trainyard::test {
namespace experts_golden_test {

// The same windows as in the script. With the mask on, more documents end in the second micro-batch's sequences, so
// that it has fewer target tokens.
std::vector<std::vector<std::int32_t>> windows_of(const Golden& golden, std::int64_t step, std::int64_t first,
                                                  std::int64_t count, std::int64_t length) {
  std::vector<std::vector<std::int32_t>> out;
  for (std::int64_t s = first; s < first + count; ++s) {
    auto w = formula_window(golden.model.vocabulary, step, s, length, golden.document_mask);
    if (golden.document_mask && s >= 2)
      for (std::int64_t i = 14; i < length; i += 2) w[static_cast<std::size_t>(i)] = 0;
    out.push_back(std::move(w));
  }
  return out;
}

struct Records {
  explicit Records(const plan::ModelConfig& m)
      : width(kernels::gate_record_sums + *std::max_element(m.experts.count.begin(), m.experts.count.end())),
        rows(plan::expert_layers(m)), numbers(static_cast<std::size_t>(rows * width), 0) {}
  std::int64_t at(std::int64_t row, std::int64_t column) const {
    return numbers[static_cast<std::size_t>(row * width + column)];
  }
  base::View view() { return base::View::of(numbers.data(), {rows, width}); }
  std::int64_t width, rows;
  std::vector<std::int64_t> numbers;
};

void compare_records(const Golden& golden, const Records& records, const json& layers, std::int64_t targets) {
  std::int64_t row = 0;
  for (std::int64_t layer = 0; layer < golden.model.layers; ++layer) {
    if (!plan::layer_has_experts(golden.model, layer)) continue;
    const auto name = fmt::format("layers.{:02}", layer);
    const auto& want = layers.at(name);
    const auto loss = [&](int sum) {
      return static_cast<double>(records.at(row, sum)) * kernels::gate_record_unit / static_cast<double>(targets);
    };
    EXPECT_EQ(records.at(row, kernels::target_sum), targets);
    EXPECT_EQ(records.at(row, kernels::kept_places), want["kept"].get<std::int64_t>()) << name;
    std::int64_t wanted = 0;
    for (std::size_t e = 0; e < want["loads"].size(); ++e) {
      const auto load = records.at(row, kernels::gate_record_sums + static_cast<std::int64_t>(e));
      EXPECT_EQ(load, want["loads"][e].get<std::int64_t>()) << name << " expert " << e;
      wanted += load;
    }
    EXPECT_EQ(wanted - records.at(row, kernels::kept_places), want["dropped"].get<std::int64_t>()) << name;
    EXPECT_NEAR(loss(kernels::balance_sum), want["balance"].get<double>(), 1e-5) << name;
    EXPECT_NEAR(loss(kernels::z_sum), want["z"].get<double>(), 1e-4) << name;
    EXPECT_GT(loss(kernels::entropy_sum), 0) << name;
    ++row;
  }
  EXPECT_EQ(row, records.rows);
}

// Moves the biases of choices by the rule of plan::Update.
void move_biases(PlainStore& store, const GradientOf& loads, std::int64_t tokens) {
  for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
    for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p) {
      const auto& parameter = store.flat_groups[u].parameters[p];
      if (parameter.update.kind != plan::Update::Kind::even_load) continue;
      const auto mean = static_cast<double>(parameter.update.choices * tokens) / static_cast<double>(parameter.count());
      for (std::int64_t i = 0; i < parameter.count(); ++i) {
        const auto load = loads(u, p, i);
        store.master[u][static_cast<std::size_t>(store.layouts[u].offsets[p] + i)] +=
            parameter.update.rate * (mean > load   ? 1
                                     : mean < load ? -1
                                                   : 0);
      }
    }
  store.publish();
}

void experts_parity(const std::string& name, base::DType dtype, double loss_tolerance, double gradient_tolerance,
                    const char* losses) {
  Golden golden(name);
  const auto& run = golden.page["run"];
  const std::int64_t b = run["batch"], micro = run["micro_batch"], t = run["sequence"];
  const auto seed = run["seed"].get<std::uint64_t>();
  PlainStore store(golden.model, dtype, seed);
  Runner runner(golden.model, {micro, t, dtype, 2});
  Adam adam(store);
  for (int s = 0; s < run["steps"].get<int>(); ++s) {
    Records records(golden.model);
    runner.gate_records = records.view();
    std::vector<std::vector<double>> sum;
    for (const auto& m : store.master) sum.emplace_back(m.size(), 0.0);
    const auto place = [&](std::size_t u, std::size_t p, std::int64_t i) -> double& {
      return sum[u][static_cast<std::size_t>(store.layouts[u].offsets[p] + i)];
    };
    double loss = 0;
    std::int64_t targets = 0;
    for (std::int64_t first = 0; first < b; first += micro) {
      const Batch batch(windows_of(golden, s, first, micro, t), golden.document_mask,
                        static_cast<std::uint64_t>(s * b + first));
      const auto result = runner.train(store, batch, seed);
      loss += result.loss_sum, targets += result.targets;
      for (std::size_t u = 0; u < store.flat_groups.size(); ++u)
        for (std::size_t p = 0; p < store.flat_groups[u].parameters.size(); ++p)
          for (std::int64_t i = 0; i < store.flat_groups[u].parameters[p].count(); ++i)
            place(u, p, i) += store.gradient_of(static_cast<int>(u), static_cast<int>(p), i);
    }
    const double want = golden.page[losses][static_cast<std::size_t>(s)];
    EXPECT_NEAR(loss / static_cast<double>(targets), want, loss_tolerance * want) << name << " step " << s + 1;
    compare_records(golden, records, golden.page["layers"][static_cast<std::size_t>(s)], targets);
    if (s == 0) compare_gradients(golden, store, targets, gradient_tolerance, place);
    const double norm = adam.step(store, run, targets, place);
    EXPECT_NEAR(norm, golden.page["gradient_norms"][static_cast<std::size_t>(s)].get<double>(),
                loss_tolerance * 10 * norm + 1e-5)
        << name << " step " << s + 1;
    move_biases(store, place, b * t);
  }
}

// An expert network that a program outside the library registers. Here it is the library's own under another name, so
// that its bits are known.
TEST(ExpertNetworks, OfOnesOwn) {
  int made = 0;
  model::register_expert("outside", std::make_shared<plan::FeedForwardExpertKind>(), [&](const model::ExpertSpec& s) {
    ++made;
    return std::make_unique<model::FeedForwardExpert>(s);
  });
  const auto names = plan::expert_names();
  EXPECT_TRUE(std::find(names.begin(), names.end(), "outside") != names.end());
  const auto learned = [](const std::string& network) {
    Golden golden("experts-mixtral");
    golden.model.experts.network = network;
    PlainStore store(golden.model, base::DType::f32, 3, PlainStore::Fill::nothing);
    Runner runner(golden.model, {2, 20, base::DType::f32, 1});
    const Batch batch(windows_of(golden, 0, 0, 2, 20), true);
    const auto loss = runner.train(store, batch).loss_sum;
    return std::pair(loss, store.gradient_bits());
  };
  const auto ours = learned("ffn");
  EXPECT_EQ(made, 0);
  EXPECT_TRUE(learned("outside") == ours);
  EXPECT_EQ(made, 2);  // one for each layer
}

class Experts : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(PyTorch, Experts,
                         ::testing::Values("experts-top1", "experts-top2", "experts-random", "experts-mixtral",
                                           "experts-deepseek", "experts-sigmoid"));

TEST_P(Experts, F32) { experts_parity(GetParam(), base::DType::f32, 1e-5, 1e-4, "losses"); }
TEST_P(Experts, F64) { experts_parity(GetParam(), base::DType::f64, 1e-9, 1e-6, "losses_float64"); }
TEST_P(Experts, InitialValues) { compare_initial_values(GetParam()); }

}  // namespace experts_golden_test
}  // namespace trainyard::test
