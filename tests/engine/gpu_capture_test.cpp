// A step on a GPU waits for nothing and reserves nothing: all of it can be captured as a CUDA graph. Launching the
// graph does the step.
#include "kernels/gate_record/gate_record.h"
#include "libtrain/engine/setup.h"
#include "libtrain/engine/step_results.h"
#include "libtrain/engine/trainer.h"
#include "libtrain/tensor/device_buffer.h"
#include "libtrain/tensor/gpu.h"
#include "tests/engine/small_run.h"
#include "tests/gpu_main.h"

#include <gtest/gtest.h>

#include <optional>

namespace trainyard {
namespace {

using testing::SmallRun;

// A trainer of one rank with its data, without the files and processes of a run.
class OneRank {
 public:
  explicit OneRank(const engine::RunConfig& config)
      : setup_(made(config)), world_(engine::solo_world()),
        training_(
            config.data, setup_.index, setup_.index.train,
            {.sequence = setup_.plan.sequence, .mask = setup_.mask, .order = data::Order::keyed, .seed = config.seed}),
        batches_(training_, nullptr, setup_.plan.batch(), 0), trainer_(setup_.plan, setup_.step, world_, batches_) {
    trainer_.store().initialize(config.seed);
  }
  engine::Trainer& trainer() { return trainer_; }
  bool begin(std::int64_t completed) {
    return trainer_.begin_step(completed, [] { return false; });
  }
  engine::StepOutcome step(std::int64_t completed) {
    begin(completed);
    return trainer_.finish_step();
  }
  // All weights, as f32, on the host.
  std::vector<float> weights() {
    std::vector<float> out;
    for (int u = 0; u < trainer_.context().flat_groups(); ++u) {
      const auto shard = trainer_.store().states().master_shard(u);
      std::vector<float> part(static_cast<std::size_t>(shard.count()));
      tensor::copy(trainer_.compute(), shard, base::View::of(part.data(), {shard.count()}));
      trainer_.compute().synchronize();
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }

 private:
  static engine::RunSetup made(const engine::RunConfig& config) {
    auto setup = engine::make_setup(config, 1, 1);
    setup.step.device = {base::DeviceKind::cuda, 0};
    return setup;
  }
  engine::RunSetup setup_;
  engine::World world_;
  data::WindowDataset training_;
  engine::Batches batches_;
  engine::Trainer trainer_;
};

engine::RunConfig small(SmallRun& runs, int zero, const std::string& dtype) {
  auto c = runs.config("capture");
  c.model = runs.model(
      "capture", "layers = 1\nhidden = 16\nheads = 2\nkv-heads = 1\nffn = 32\ncontext = 8\ndropout-attention = 0.1\n");
  c.device = "cuda";
  c.steps = 6;
  c.global_batch = 2;  // with more, the loader would refill a pinned buffer before the graph has read it
  c.learning_rate = 0.01;
  c.zero = zero, c.dtype = base::dtype_from_name(dtype), c.threads = 1;
  return c;
}

const char* failure_of(const char* text) { return text == nullptr ? "" : text; }

TEST(GpuCapture, AStepIsAGraph) {
  SmallRun runs;
  const auto& runtime = *tensor::gpu_module().runtime;
  for (int zero : {0, 1, 2, 3})
    for (const std::string dtype : {"f32", "bf16"}) {
      if (dtype == "bf16" && zero % 3 != 0) continue;
      const auto config = small(runs, zero, dtype);
      OneRank plain(config), captured(config);
      for (std::int64_t s = 0; s < 2; ++s) {
        plain.step(s);
        captured.step(s);
      }
      const auto before = captured.weights();
      auto* stream = captured.trainer().compute().stream();
      void* graph = nullptr;
      ASSERT_STREQ(failure_of(runtime.begin_capture(stream)), "");
      ASSERT_TRUE(captured.begin(2));
      ASSERT_STREQ(failure_of(runtime.end_capture(stream, &graph)), "") << "ZeRO " << zero << " " << dtype;
      EXPECT_EQ(captured.weights(), before) << "something was done while it was only to be written down";
      ASSERT_STREQ(failure_of(runtime.launch_graph(graph, stream)), "");
      captured.trainer().compute().synchronize();
      const auto outcome = captured.trainer().finish_step(), expected = plain.step(2);
      EXPECT_EQ(outcome.loss, expected.loss) << "ZeRO " << zero << " " << dtype;
      EXPECT_EQ(outcome.gradient_norm, expected.gradient_norm);
      EXPECT_EQ(outcome.targets, expected.targets);
      EXPECT_NE(captured.weights(), before);
      EXPECT_EQ(captured.weights(), plain.weights()) << "ZeRO " << zero << " " << dtype;
      runtime.drop_graph(graph);
    }
}

// The records of gates are cleared, added up and sent without the host, too.
TEST(GpuCapture, RecordsOfGatesComeWithTheNumbers) {
  SmallRun runs;
  const auto& runtime = *tensor::gpu_module().runtime;
  OneRank rank(small(runs, 0, "f32"));
  rank.step(0);
  auto& context = rank.trainer().context();
  auto& exec = context.compute;
  struct Gate {
    double losses[3], targets;
    std::int32_t groups[4], loads[4];
  };
  Gate gate{{1.5, 2, 0.5}, 8, {0, 3, 3, 1}, {5, 1, 5, 1}};
  const tensor::DeviceBuffer there(exec.device().index, sizeof gate, "a gate");
  auto* const of = there.data<Gate>();
  tensor::copy(exec, base::View(&gate, base::DType::u8, {sizeof gate}),
               base::View(of, base::DType::u8, {sizeof gate}, exec.device()));
  exec.synchronize();
  auto world = engine::solo_world();
  engine::StepResults results(context, context.shape.batch, *world.control, 1, {2, kernels::gate_record_sums + 2});
  auto* stream = exec.stream();
  void* graph = nullptr;
  ASSERT_STREQ(failure_of(runtime.begin_capture(stream)), "");
  results.begin();
  for (int micro = 0; micro < 2; ++micro)
    kernels::gate_record(exec, base::View(of->groups, base::DType::i32, {2, 2}, exec.device()),
                         base::View(of->loads, base::DType::i32, {2, 2}, exec.device()),
                         base::View(of->losses, base::DType::f64, {3}, exec.device()), &of->targets,
                         results.gate_records().row_range(1, 1));
  results.agree(rank.trainer().store().counted_gradients());
  results.send();
  ASSERT_STREQ(failure_of(runtime.end_capture(stream, &graph)), "");
  using Records = std::vector<std::int64_t>;
  constexpr std::int64_t flat_group = 1 << 20;
  for (int launch = 0; launch < 2; ++launch) {  // the second launch clears the records of the first
    ASSERT_STREQ(failure_of(runtime.launch_graph(graph, stream)), "");
    exec.synchronize();
    if (launch == 0) continue;
    const auto told = results.take().gate_records;
    EXPECT_EQ(Records(told.begin(), told.end()),
              (Records{0, 0, 0, 0, 0, 0, 0, 8, 24 * flat_group, 32 * flat_group, 8 * flat_group, 16, 10, 2}));
  }
  results.begin();
  results.agree(rank.trainer().store().counted_gradients());
  results.send();
  const auto told = results.take().gate_records;
  EXPECT_EQ(Records(told.begin(), told.end()), Records(14, 0));
  runtime.drop_graph(graph);
}

TEST(GpuCapture, WaitingIsSeen) {
  SmallRun runs;
  const auto& runtime = *tensor::gpu_module().runtime;
  OneRank rank(small(runs, 0, "f32"));
  rank.step(0);
  auto* stream = rank.trainer().compute().stream();
  void* graph = nullptr;
  ASSERT_STREQ(failure_of(runtime.begin_capture(stream)), "");
  EXPECT_THROW(rank.trainer().compute().synchronize(), base::EnvironmentError);
  runtime.end_capture(stream, &graph);  // CUDA reports a broken capture from then on
  if (graph != nullptr) runtime.drop_graph(graph);
}

// The host learns that a step was not finite when the next one is under way; neither step has changed a weight.
TEST(GpuCapture, StepsBehindOneThatIsNotFiniteChangeNothing) {
  SmallRun runs;
  auto config = small(runs, 1, "f32");
  OneRank rank(config);
  rank.step(0);
  // An infinite weight makes the next loss infinite or NaN.
  const float infinite = std::numeric_limits<float>::infinity();
  auto& trainer = rank.trainer();
  tensor::copy(trainer.compute(), base::View::of(&infinite, {1}),
               params::flat_range(trainer.store().states().master_shard(2), 0, 1));
  trainer.compute().synchronize();
  const auto before = rank.weights();
  ASSERT_TRUE(rank.begin(1));
  ASSERT_TRUE(rank.begin(2));
  EXPECT_EQ(trainer.steps_under_way(), 2);
  EXPECT_EQ(trainer.finish_step().fate, engine::StepFate::ends_run);
  EXPECT_EQ(trainer.finish_step().fate, engine::StepFate::ends_run);
  EXPECT_EQ(rank.weights(), before);
}

}  // namespace
}  // namespace trainyard

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
