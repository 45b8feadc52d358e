// Tests machines made of profiles: sums by hand over passes, calls and updates that a profile says.
#include "libtrain/plan/measured_machine.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/disk_use.h"
#include "libtrain/plan/spec/presets.h"
#include "libtrain/plan/step_time.h"

#include <gtest/gtest.h>

namespace trainyard::plan {
namespace measured_machine_test {

Plan plan_on(int ranks) {
  Plan p;
  p.model = preset("gpt2-nano");
  p.model.vocabulary = 300, p.model.lanes = 4;
  p.sequence = 64, p.micro_batch = 2, p.global_batch = 8;
  p.topology = topology_of(p, ranks);
  p.stages = stages_of(p);
  return p;
}

Plan with(Plan p, const std::function<void(Plan&)>& change, int ranks = 1) {
  change(p);
  p.topology = topology_of(p, ranks);
  p.stages = stages_of(p);
  return p;
}

LocalRate rate(const std::string& name, const std::string& shape, const std::string& unit, double value) {
  return {name, shape, unit, 1, value, {value, value}, {value, value, value}};
}

constexpr double memory_rate = 10e9, update_rate = 20e9;

Profile profile_of(int ranks) {
  Profile p;
  p.device = "cpu", p.backend = ranks > 1 ? "mpi" : "none", p.ranks = ranks, p.threads = 1, p.cores = 2;
  p.nodes = {"here"};
  p.local = {rate("memory.copy", "256 MiB", "B/s", memory_rate),
             rate("gemm.ffn.in.forward", "64x128x32 f32", "FLOP/s", 50e9),
             rate("attention.forward", "b1 t64 h4 kv4 d8 f32", "FLOP/s", 20e9),
             rate("adamw", "16777216 parameters", "B/s", update_rate)};
  return p;
}

void add_blocks(Profile& profile, const Plan& p, double milliseconds, BlockCalls calls = BlockCalls::left_out) {
  for (const auto& s : segments(p.model)) {
    const double each = milliseconds * (s.part == Part::layers ? 3 : 1) * 1e-3;
    for (const auto& [pass, times] :
         {std::pair{BlockPass::forward, 1.0}, std::pair{BlockPass::step, 3.0}, std::pair{BlockPass::selective, 3.5},
          std::pair{BlockPass::full, 4.0}, std::pair{BlockPass::inputs, 2.25}})
      if (s.part == Part::layers || pass == BlockPass::forward || pass == BlockPass::step)
        profile.local.push_back(
            rate(block_rate_name(s.part, pass), block_rate_shape(s, p.micro(), calls), "s", times * each));
  }
}

CommSeries series(const std::string& operation, int ranks, double latency, double per_byte) {
  CommSeries s;
  s.group = "world", s.operation = operation, s.type = "f32", s.ranks = ranks;
  for (const std::int64_t bytes : {1024, 1 << 20, 1 << 24})
    s.points.emplace_back(), s.points.back().bytes = bytes,
                             s.points.back().seconds = latency + per_byte * static_cast<double>(bytes);
  s.fit.segments = {{0, latency, per_byte, {}, {}, {1, 1}}};
  return s;
}

// 2 layers of 3 x 3 ms, embedding and head of 3 ms: 24 ms a micro-batch, four of them; every gradient is added to its
// sum at 12 bytes an element, and AdamW moves what it always moves.
TEST(MeasuredMachine, PassesAreAddedUpAsMeasured) {
  const auto p = plan_on(1);
  auto profile = profile_of(1);
  add_blocks(profile, p, 1);
  const auto machine = measured_machine(profile, "profile.json");
  EXPECT_EQ(machine.name, "profile");
  EXPECT_EQ(machine.device, base::DeviceKind::cpu);
  EXPECT_TRUE(unmeasured_blocks(p, machine).empty());
  std::int64_t elements = 0;
  for (const auto& group : flat_groups(p.model))
    for (const auto& parameter : group.parameters) elements += parameter.stored_count();
  elements += p.model.stored_vocabulary() * p.model.hidden;  // the tied table has a gradient of the head, too
  const double sums = 4 * 12.0 * static_cast<double>(elements) / memory_rate;
  const auto t = StepTimer(p.model, machine).time(p);
  EXPECT_NEAR(t.seconds - t.update, 4 * 24e-3 + sums, 1e-9);
  // Weights and two states are read and written, a gradient is read for the norm and for the update. The tied table's
  // second gradient is added to the first before. Flat groups have whole numbers of 64 elements.
  std::int64_t padded = 0;
  for (const auto& group : flat_groups(p.model)) {
    std::int64_t of_group = 0;
    for (const auto& parameter : group.parameters) of_group += parameter.stored_count();
    padded += (of_group + 63) / 64 * 64;
  }
  const auto table = p.model.stored_vocabulary() * p.model.hidden;
  EXPECT_NEAR(t.update, static_cast<double>(32 * padded + 12 * table) / update_rate, 1e-12);
  double parts = 0;
  for (const auto& part : step_time_parts) parts += t.*part.seconds;
  EXPECT_NEAR(parts, t.seconds, 1e-12);
  // All rates twice as high: half of the time.
  EXPECT_NEAR(StepTimer(p.model, with_rates(machine, 2)).time(p).seconds, t.seconds / 2, 1e-12);
  // Recomputation: 0.5 and 1 of a forward more in each layer.
  const auto selective = with(p, [](Plan& q) { q.recompute = Recompute::selective; });
  EXPECT_NEAR(StepTimer(p.model, machine).time(selective).seconds - t.seconds, 4 * 2 * 0.5 * 3e-3, 1e-9);
  const auto full = with(p, [](Plan& q) { q.recompute = Recompute::layers; });
  EXPECT_NEAR(StepTimer(p.model, machine).time(full).seconds - t.seconds, 4 * 2 * 3e-3, 1e-9);
}

TEST(MeasuredMachine, OtherMicroBatchesLieOnALine) {
  const auto two = plan_on(1);
  auto profile = profile_of(1);
  add_blocks(profile, two, 1);
  const MeasuredBlocks once(profile);
  auto four = two;
  four.micro_batch = 4;
  add_blocks(profile, four, 1.5);  // 1 ms + 0.25 ms a sequence beyond two
  const MeasuredBlocks blocks(profile);
  const auto layer = segments(two.model)[1];
  const auto estimated = [](const MicroShape& m) { return static_cast<double>(m.tokens()) / m.tensor; };
  const auto seconds = [&](const MeasuredBlocks& of, std::int64_t batch) {
    auto shape = two.micro();
    shape.batch = batch;
    return of.seconds(layer, shape, BlockPass::forward, estimated).value();
  };
  EXPECT_NEAR(seconds(blocks, 2), 3e-3, 1e-12);
  EXPECT_NEAR(seconds(blocks, 3), 3.75e-3, 1e-12);
  EXPECT_NEAR(seconds(blocks, 4), 4.5e-3, 1e-12);
  EXPECT_NEAR(seconds(blocks, 6), 6e-3, 1e-12);
  EXPECT_NEAR(seconds(blocks, 1), 2.25e-3, 1e-12);
  EXPECT_NEAR(seconds(once, 6), 9e-3, 1e-12);  // of a single size in proportion
  // Another number of tensor-parallel ranks, and another sequence, in proportion to what is estimated.
  auto shape = two.micro();
  shape.tensor = 2;
  EXPECT_NEAR(blocks.seconds(layer, shape, BlockPass::forward, estimated).value(), 1.5e-3, 1e-12);
  shape = two.micro();
  shape.sequence = 128;
  EXPECT_NEAR(blocks.seconds(layer, shape, BlockPass::forward, estimated).value(), 6e-3, 1e-12);
}

// A block of another width is another block, and one of a deeper model is the same.
TEST(MeasuredMachine, BlocksOfOtherModelsAreNotTaken) {
  const auto p = plan_on(1);
  auto profile = profile_of(1);
  add_blocks(profile, p, 1);
  const auto machine = measured_machine(profile, "profile.json");
  const auto deep = with(p, [](Plan& q) { q.model.layers = 5, q.model.name = "deep"; });
  EXPECT_TRUE(unmeasured_blocks(deep, machine).empty());
  const auto wide = with(p, [](Plan& q) { q.model.ffn *= 2; });
  EXPECT_EQ(unmeasured_blocks(wide, machine), (std::vector<std::string>{"embedding", "layers", "head"}));
  const auto narrow = with(p, [](Plan& q) { q.dtype = base::DType::bf16; });
  EXPECT_EQ(unmeasured_blocks(narrow, machine).size(), 3u);
  EXPECT_GT(StepTimer(wide.model, machine).time(wide).seconds, 0);  // estimated
}

// Nothing overlaps where ranks compute on all cores: each call of a step counts, as long as its group took.
TEST(MeasuredMachine, CallsTakeWhatTheirGroupsTook) {
  const auto p = with(
      plan_on(2), [](Plan& q) { q.zero = 3; }, 2);
  auto profile = profile_of(2);
  add_blocks(profile, p, 1);
  const auto without = measured_machine(profile, "profile.json");
  profile.communication = {series("all_gather", 2, 1e-3, 1e-9), series("ordered_reduce_scatter", 2, 2e-3, 3e-9)};
  // Tensor-parallel pairs, which lie elsewhere, were measured first.
  for (auto& of_data : profile.communication) of_data.group = "data";
  auto elsewhere = series("all_gather", 2, 1, 0);
  elsewhere.group = "tensor";
  profile.communication.insert(profile.communication.begin(), elsewhere);
  const auto machine = measured_machine(profile, "profile.json");
  double expected = 0;
  for (const auto& c : step_calls(p.part_of_stage(0), p.states(), p.reduction, 0)) {
    const bool gather = c.operation == "all_gather";
    if (!gather && c.operation != "ordered_reduce_scatter") continue;
    expected += static_cast<double>(c.calls) *
                (gather ? 1e-3 + 1e-9 * static_cast<double>(c.bytes) : 2e-3 + 3e-9 * static_cast<double>(c.bytes));
  }
  const auto t = StepTimer(p.model, machine).time(p);
  EXPECT_NEAR(t.data, expected, 1e-9);
  EXPECT_GT(expected, 20e-3);
  EXPECT_THROW(StepTimer(p.model, without).time(p), base::InputError);  // no link was measured
}

// Two tensor-parallel ranks: a block takes 1 ms a unit alone, and 1.5 ms with its calls, however long links say.
TEST(MeasuredMachine, BlocksWithTheirCallsTakeWhatTheyTook) {
  const auto p = with(
      plan_on(2), [](Plan& q) { q.tensor = 2; }, 2);
  auto profile = profile_of(2);
  profile.communication = {series("all_gather", 2, 1e-3, 0), series("all_reduce", 2, 1e-3, 0),
                           series("all_to_all", 2, 1e-3, 0), series("reduce_scatter", 2, 1e-3, 0)};
  add_blocks(profile, p, 1);
  const auto alone = StepTimer(p.model, measured_machine(profile, "p.json")).time(p);
  add_blocks(profile, p, 1.5, BlockCalls::made);
  const auto machine = measured_machine(profile, "p.json");
  const auto t = StepTimer(p.model, machine).time(p);
  // Embedding 3, head 3 and two layers of 9 ms alone: 24 ms a micro-batch, and half of that for calls.
  EXPECT_NEAR(t.tensor, 4 * 12e-3, 1e-9);
  EXPECT_NEAR(t.products + t.attention + t.kernels, alone.products + alone.attention + alone.kernels, 1e-9);
  double parts = 0;
  for (const auto& part : step_time_parts) parts += t.*part.seconds;
  EXPECT_NEAR(parts, t.seconds, 1e-12);
  // Noise may make a block with calls the faster one. Then it has none.
  auto quick = profile_of(2);
  quick.communication = profile.communication;
  add_blocks(quick, p, 1);
  add_blocks(quick, p, 0.9, BlockCalls::made);
  const auto q = StepTimer(p.model, measured_machine(quick, "p.json")).time(p);
  EXPECT_EQ(q.tensor, 0);
  EXPECT_LT(q.products + q.attention + q.kernels, alone.products + alone.attention + alone.kernels);
  // Of other numbers of ranks calls are not derived: links say what they take.
  auto four = with(
      plan_on(4), [](Plan& r) { r.tensor = 4; }, 4);
  profile.ranks = 4;
  const auto with_links = StepTimer(four.model, measured_machine(profile, "p.json")).time(four);
  std::erase_if(profile.local, [](const LocalRate& r) { return r.shape.find(" calls ") != std::string::npos; });
  EXPECT_EQ(with_links.seconds, StepTimer(four.model, measured_machine(profile, "p.json")).time(four).seconds);
}

// The second of three turns took twice as long.
TEST(MeasuredMachine, AMachineThatChangesItsSpeedHasALongInterval) {
  const auto p = plan_on(1);
  auto profile = profile_of(1);
  add_blocks(profile, p, 1);
  const auto even = step_interval(p, measured_machine(profile, "p.json"));
  EXPECT_NEAR(even.high / even.median.seconds, rates_within, 1e-9);
  for (auto& r : profile.local)
    if (r.name.starts_with("block.")) r.repeats.at(1) *= 2;
  const auto uneven = step_interval(p, measured_machine(profile, "p.json"));
  EXPECT_NEAR(uneven.median.seconds, even.median.seconds, 1e-12);
  EXPECT_NEAR(uneven.high / uneven.median.seconds, 2, 1e-9);
  EXPECT_NEAR(uneven.low / uneven.median.seconds, 1 / rates_within, 1e-9);
}

// Two ranks of one thread: with two cores calls have none to run on, with four they go on beside the passes. The update
// on disk goes on beside the next forward, whose 8 ms (embedding, head, two layers of 3) are hidden.
TEST(MeasuredMachine, WithCoresToSpareCallsAreHidden) {
  const auto p = with(
      plan_on(2), [](Plan& q) { q.zero = 3, q.offload = offload_of_text("optimizer=disk", "--offload"); }, 2);
  auto profile = profile_of(2);
  add_blocks(profile, p, 1);
  profile.communication = {series("all_gather", 2, 1e-6, 1e-9), series("ordered_reduce_scatter", 2, 1e-6, 1e-9)};
  for (const auto* name : {"storage.write", "storage.read", "storage.update"})
    profile.local.push_back(rate(name, "/disk", "B/s", 1e6));
  const auto busy = StepTimer(p.model, measured_machine(profile, "p.json")).time(p);
  profile.cores = 4;
  const auto spare = StepTimer(p.model, measured_machine(profile, "p.json")).time(p);
  const auto disk = offload_of_stage(p, 0).update_bytes();
  EXPECT_GT(disk.read, 1e5);
  EXPECT_NEAR(busy.moving, 1e-6 * static_cast<double>(disk.read + disk.written) - 8e-3, 1e-9);
  EXPECT_EQ(spare.moving, busy.moving);
  EXPECT_GT(busy.data, 0);
  EXPECT_LT(spare.data, busy.data);
}

// One timer of a search sees layouts in which a reduction makes the sums of gradients, and others in which a rank does.
TEST(MeasuredMachine, ATimerKeepsSumsOfGradientsApart) {
  const auto reduced = with(
                 plan_on(2), [](Plan&q) { q.zero = 1; }, 2),
             local = with(
                 reduced, [](Plan&q) { q.local_accumulation = 2; }, 2);
  auto profile = profile_of(2);
  add_blocks(profile, reduced, 1);
  profile.communication = {series("all_gather", 2, 1e-3, 1e-9), series("ordered_reduce_scatter", 2, 2e-3, 3e-9)};
  const auto machine = measured_machine(profile, "profile.json");
  StepTimer timer(reduced.model, machine);
  for (const auto* p : {&reduced, &local, &reduced})
    EXPECT_EQ(timer.time(*p).seconds, StepTimer(p->model, machine).time(*p).seconds);
  EXPECT_GT(timer.time(local).kernels, timer.time(reduced).kernels);
}

TEST(MeasuredMachine, SaysWhatWasMeasuredOtherwise) {
  const auto p = plan_on(1);
  auto profile = profile_of(1);
  add_blocks(profile, p, 1);
  EXPECT_EQ(measured_otherwise(p, measured_machine(profile, "here.json")), "");
  const auto other = with(p, [](Plan& q) { q.threads = 2, q.dtype = base::DType::bf16; });
  EXPECT_EQ(measured_otherwise(other, measured_machine(profile, "here.json")),
            "here: it was measured with 1 thread, and a rank has 2; embedding, layers and head of this model were not "
            "measured and are estimated from products and memory");
  EXPECT_EQ(measured_otherwise(plan_on(2), measured_machine(profile, "here.json")),
            "here: 1 rank measured together, and the plan has 2");
}

// Four ranks on two cores: stages that wait leave their cores to others.
TEST(MeasuredMachine, RanksThatShareCoresAreFasterWhileOthersWait) {
  auto p = plan_on(1);
  p.model.layers = 4;
  auto four = with(
      p, [](Plan& q) { q.pipeline = 4, q.micro_batch = 2, q.partition = "uniform"; }, 4);
  auto profile = profile_of(4);
  add_blocks(profile, four, 1);
  profile.communication = {series("exchange", 2, 0, 0)};
  const auto shared = StepTimer(four.model, measured_machine(profile, "p.json")).time(four);
  const auto interval = step_interval(four, measured_machine(profile, "p.json"));
  EXPECT_NEAR(interval.high / interval.median.seconds, 1.25, 1e-9) << "turns of a scheduler";
  EXPECT_NEAR(interval.median.seconds / interval.low, rates_within, 1e-9);
  profile.cores = 4;
  const auto apart = StepTimer(four.model, measured_machine(profile, "p.json")).time(four);
  // With a core for each rank all four micro-batches wait for one another: seven slots where four work. With two cores
  // for four ranks the work of all ranks, over both cores, is the limit.
  EXPECT_GT(apart.idle, 0);
  EXPECT_LT(shared.seconds, apart.seconds);
  EXPECT_GT(shared.seconds, apart.seconds / 2);
  double parts = 0;
  for (const auto& part : step_time_parts) parts += shared.*part.seconds;
  EXPECT_NEAR(parts, shared.seconds, 1e-12);
}

// Forward passes alone, one micro-batch after the other; a save is a copy in memory, then the disk.
TEST(MeasuredMachine, ValidationsAndSaves) {
  const auto p = plan_on(1);
  auto profile = profile_of(1);
  add_blocks(profile, p, 1);
  auto machine = measured_machine(profile, "profile.json");
  StepTimer timer(p.model, machine);
  EXPECT_NEAR(timer.validation(p, 8), 4 * 8e-3, 1e-12);  // four micro-batches of 2; embedding, head, 2 layers of 3 ms
  EXPECT_NEAR(timer.validation(p, 7), 4 * 8e-3, 1e-12);
  const auto snapshot = static_cast<double>(memory_of_stage(p, 0).categories[base::MemoryCategory::save_snapshot]);
  EXPECT_NEAR(save_seconds(p, machine, 0), 2 * snapshot / memory_rate, 1e-12);  // the disk is not known
  machine.disk_write = 1e6;
  EXPECT_NEAR(save_seconds(p, machine, 0.01), 2 * snapshot / memory_rate + snapshot / 1e6 - 0.01, 1e-9);
  EXPECT_NEAR(save_seconds(p, machine, 1e6), 2 * snapshot / memory_rate, 1e-12);
}

TEST(MeasuredMachine, AProfileWithoutRatesIsRefused) {
  Profile p = profile_of(1);
  p.local.erase(p.local.begin());
  try {
    measured_machine(p, "profile.json");
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_EQ(std::string(e.what()), "profile.json has no rates of memory, so a step has no time");
  }
  EXPECT_THROW(measured_machine(Profile{}, "profile.json"), base::InputError);
}

// The cores of a node are written and read; older profiles lack them.
TEST(MeasuredMachine, CoresAreInTheFile) {
  auto p = profile_of(1);
  p.measured_at = "2026-11-30T00:00:00Z", p.version = "0.1.0", p.isa = "avx2";
  EXPECT_EQ(profile_from_json(to_json(p), "p").cores, 2);
  p.cores = 0;
  EXPECT_EQ(to_json(p).find("cores"), std::string::npos);
  EXPECT_EQ(profile_from_json(to_json(p), "p").cores, 0);
}

}  // namespace measured_machine_test
}  // namespace trainyard::plan
