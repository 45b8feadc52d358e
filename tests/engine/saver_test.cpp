// What the saver writes about the world of its run.
#include "tests/engine/small_run.h"
#include "tests/params/ground.h"
#include "tests/params/plain_model.h"

#include "libtrain/base/random.h"
#include "libtrain/engine/saver.h"
#include "libtrain/params/zero_store.h"

#include <gtest/gtest.h>

namespace trainyard {

using plan::Axis;

// The grid in a manifest has the world's own axes, all of them.
TEST(Saver, ACheckpointNamesTheAxesOfTheWorld) {
  testing::SmallRun small;
  auto config = small.config("run");
  config.steps = 1;
  const testing::ParallelLayout layout{2};
  comm::run_ranks(2, [&](int rank, comm::ThreadsWorld& threads) {
    engine::World world("threads", rank, plan::Topology({{Axis::pipe, 1}, {Axis::data, 2}}), threads.factory(rank),
                        {plan::Axes{Axis::data}, plan::Axes{Axis::tensor}});
    world.communication = tensor::Exec::worker("communication", nullptr);
    small.run_rank(config, layout, world);
  });
  checkpoint::Reader reader(config.output + "/checkpoints/step-00000001");
  const auto& m = reader.manifest();
  ASSERT_EQ(m.axes.size(), 2u);
  EXPECT_EQ(m.axes[0].axis + m.axes[1].axis, "pipedata");
  EXPECT_EQ(m.coordinates, (std::vector<std::vector<int>>{{0, 0}, {0, 1}}));
}

namespace {

std::vector<float> initial_values(const plan::Parameter& p, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(p.count()), p.init.kind == plan::Init::Kind::ones ? 1.0f : 0.0f);
  if (p.init.kind == plan::Init::Kind::normal)
    base::fill_normal(values.data(), p.count(), seed, p.name, 0, p.init.stddev);
  return values;
}

}  // namespace

// Tensor-parallel ranks together save the whole logical tensors, each element once, and read their own parts back.
TEST(Saver, TensorRanksSaveTheWholeModelOnce) {
  for (const int zero : {0, 3})
    for (const auto working : {base::DType::f32, base::DType::bf16}) {
      testing::SmallRun small;
      const auto folder = (small.folder() / "checkpoints").string();
      const auto model = test::untied_model_of_heads();
      test::ParallelLayout layout{3, zero, working};
      layout.tensor = 4;
      test::on_ranks(model, layout, [&](test::Ground& ground) {
        tensor::Arena snapshot(tensor::Category::save_snapshot, ground.bytes.save_snapshot);
        params::ZeroStore store(ground.context);
        store.initialize(11);
        engine::Saver saver(folder, snapshot, ground.context, store, 3, {});
        EXPECT_EQ(snapshot.used_bytes(), snapshot.capacity_bytes());
        checkpoint::RunState state;
        state.step = 1, state.model = model, state.dtype = working;
        const auto meet = [&] {
          ground.world.control->barrier(ground.context.communication);
          ground.context.communication.synchronize();
        };
        saver.touch();
        saver.take(state);
        saver.wait();
        meet();
        if (ground.world.rank == 0) saver.publish();
        saver.wait();
        meet();
        checkpoint::Reader reader(folder + "/step-00000001", checkpoint::Reader::Check::as_needed);
        for (int u = 0; u < ground.flat_groups(); ++u) {
          const auto master = store.states().master_shard(u);
          std::vector<float> read(static_cast<std::size_t>(master.count()), -1.0f);
          reader.read_shard(checkpoint::Kind::master, ground.context.flat_group(u), ground.world.topology,
                            ground.world.rank, read.data());
          EXPECT_EQ(test::difference(master, read), "") << ground.context.flat_group(u).name;
        }
      });
      checkpoint::Reader reader(folder + "/step-00000001");
      reader.verify_all();
      for (const auto& flat_group : plan::flat_groups(model))
        for (const auto& p : flat_group.parameters) {
          std::vector<float> read(static_cast<std::size_t>(p.count()));
          reader.read_tensor(checkpoint::Kind::master, p.name, 0, p.count(), read.data());
          EXPECT_EQ(read, initial_values(p, 11)) << p.name;
        }
    }
}

}  // namespace trainyard
