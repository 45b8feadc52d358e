// Tests what an offload's bytes cost at the rates of a profile: seconds, the batch from which they hide, and bytes a
// day, by arithmetic on a plan whose bytes and FLOPs are counted by hand; its text and its JSON.
#include "libtrain/plan/offload_time.h"

#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/disk_use.h"
#include "libtrain/plan/offload_time_text.h"
#include "tests/plan/offload_plan.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard::plan {
namespace offload_time_test {

// On disk, in whole pages: tokens, positions, a layer, the norm.
constexpr std::int64_t tokens = 32768, positions = 8192, layer = 200704, norm = 4096;
constexpr std::int64_t of_all = tokens + positions + 3 * layer + norm;
// FLOPs of a token: 6 for each weight of a matrix (12 h^2 in a layer, h V in the head), 12 s h for attention.
constexpr double of_layer = 6 * 12 * 64 * 64 + 12 * 32 * 64, of_head = 6 * 64 * 128;
constexpr double of_sequence = 32 * (3 * of_layer + of_head);

void add(Profile& p, const std::string& name, const std::string& shape, double value, int threads = 1) {
  p.local.push_back({.name = name,
                     .shape = shape,
                     .unit = name.starts_with("gemm") ? "FLOP/s" : "B/s",
                     .threads = threads,
                     .value = value,
                     .interval = {},
                     .repeats = {value}});
}

void add_folder(Profile& p, const std::string& shape, const StorageRates& rates) {
  add(p, "storage.write", shape, rates.written);
  add(p, "storage.read", shape, rates.read);
  add(p, "storage.update", shape, rates.both);
}

// Products at `flops`, and one folder that reads and writes at `rate`, alone and at once.
Profile profile_of(double flops, double rate) {
  Profile p;
  p.nodes = {"node"};
  add(p, "gemm.ffn.in.forward", "32x256x64 f32", flops);
  add_folder(p, "/a", {rate, rate, rate});
  return p;
}

TEST(OffloadTime, ReadsAndWritesGoOnAtOnceAsFarAsTheyCan) {
  const StorageRates r{100, 50, 60};
  EXPECT_DOUBLE_EQ(r.seconds({1000, 600}), 2 * 600 / 60.0 + 400 / 100.0);
  EXPECT_DOUBLE_EQ(r.seconds({600, 1000}), 2 * 600 / 60.0 + 400 / 50.0);
  EXPECT_EQ(r.seconds({0, 0}), 0);
}

TEST(OffloadTime, RatesOfAProfile) {
  auto p = profile_of(1e9, 5);
  add(p, "disk.read", "/a", 1);
  auto m = measured_folders(p);
  ASSERT_EQ(m.folders.size(), 1u);
  EXPECT_EQ(m.of("/a/").both, 5);
  EXPECT_FALSE(m.together);
  EXPECT_TRUE(folders_by_speed(m).empty());
  add_folder(p, "b", {1, 2, 3});
  add_folder(p, "/a, b", {7, 8, 9});
  m = measured_folders(p);
  ASSERT_EQ(m.folders.size(), 2u);
  EXPECT_EQ(m.of("b").read, 1);
  EXPECT_EQ(m.of("b").written, 2);
  EXPECT_EQ(m.of("b").both, 3);
  EXPECT_EQ(m.together.value().both, 9);
  EXPECT_EQ(folders_by_speed(m), (std::vector<OffloadFolder>{{"/a", 5}, {"b", 3}}));
  EXPECT_THROW(m.of("c"), base::InputError);
  EXPECT_TRUE(measured_folders({}).folders.empty());
}

TEST(OffloadTime, ProductsCountByTheirFlops) {
  Profile p;
  EXPECT_FALSE(product_rate(p, base::DType::f32));
  add(p, "gemm.a.forward", "10x20x30 f32", 12000, 2);  // 1 s
  add(p, "gemm.a.forward", "10x20x30 bf16", 77, 2);
  add(p, "gemm.head.weight", "100x20x30 f32", 40000, 2);  // 3 s
  add(p, "gemm.a.forward", "10x20x30 f32", 1, 1);         // with fewer threads
  add(p, "attention.forward", "b1 t32 h4 kv4 d16 f32", 1, 2);
  EXPECT_DOUBLE_EQ(product_rate(p, base::DType::f32).value(), (12000 + 120000) / 4.0);
  EXPECT_DOUBLE_EQ(product_rate(p, base::DType::bf16).value(), 77);
  EXPECT_FALSE(product_rate(p, base::DType::f16));
}

// Without a profile there are bytes, and no seconds.
TEST(OffloadTime, BytesAlone) {
  const auto p = small_offload_plan("optimizer=disk", 1);
  auto t = offload_time(p, nullptr, {});
  EXPECT_EQ(t.space, 2 * of_all);
  EXPECT_EQ(t.step, (base::StorageTotals{2 * of_all, 2 * of_all}));
  EXPECT_TRUE(t.folders.empty());
  EXPECT_FALSE(t.disk_seconds || t.compute_seconds || t.hiding_batch || t.step_seconds());
  t = offload_time(p, nullptr, {{"x"}, {"y", 2}});
  ASSERT_EQ(t.folders.size(), 2u);
  EXPECT_EQ(t.folders[0].space + t.folders[1].space, 2 * of_all);
  EXPECT_EQ(t.folders[1].step.written, t.folders[1].space) << "everything is written once";
  EXPECT_FALSE(t.disk_seconds);
  EXPECT_FALSE(t.lacks_rates_of_folders) << "there is no profile that could have them";
  const Profile nothing;
  const auto without = offload_time(p, &nothing, {});
  EXPECT_FALSE(without.disk_seconds);
  const auto said = offload_time_text(p, without, base::Sizes::exact);
  EXPECT_NE(said.find("  moving a step's bytes                                not known  (no rates of folders)\n"),
            std::string::npos)
      << said;
  EXPECT_TRUE(offload_time_json(p, without).at("disk_seconds").is_null());
  EXPECT_FALSE(offload_time_json(p, without).contains("link_seconds"));
  const auto text = offload_time_text(p, t, base::Sizes::exact);
  EXPECT_NE(text.find(fmt::format("{}  (y)\n", 1000 * t.folders[1].space)), std::string::npos) << text;
  EXPECT_EQ(text.find(" a day"), std::string::npos) << text;
}

// The update of states is as long in every step, so it hides from so many tokens.
TEST(OffloadTime, OptimizerHidesFromABatch) {
  auto p = small_offload_plan("optimizer=disk", 1);
  p.global_batch = 4;
  predict(p);
  const double flops = 1e9, rate = 8e6;
  auto profile = profile_of(flops, rate);
  profile.ranks = 6, profile.nodes = {"one", "two"};
  const auto t = offload_time(p, &profile, {});
  const double disk = 4.0 * of_all / rate, compute = of_sequence / flops;
  EXPECT_DOUBLE_EQ(t.disk_seconds.value(), disk);
  EXPECT_DOUBLE_EQ(t.compute_seconds.value(), 4 * compute);
  EXPECT_GT(disk, 4 * compute);
  EXPECT_EQ(t.hiding_batch, static_cast<std::int64_t>(std::ceil(disk / compute)));
  EXPECT_DOUBLE_EQ(t.step_seconds().value(), disk);
  EXPECT_EQ(t.ranks_on_node, 3);
  EXPECT_DOUBLE_EQ(t.written_a_day(t.folders[0]).value(), 3 * 2.0 * of_all * 86400 / disk);
  // A batch of twice the FLOPs that hides the bytes takes as long as its FLOPs.
  p.global_batch = 2 * *t.hiding_batch;
  predict(p);
  const auto large = offload_time(p, &profile, {});
  EXPECT_DOUBLE_EQ(large.disk_seconds.value(), disk);
  EXPECT_EQ(large.hiding_batch, t.hiding_batch);
  EXPECT_DOUBLE_EQ(large.step_seconds().value(), static_cast<double>(p.global_batch) * compute);
  // Whole layers that are recomputed are computed again, all but their last product.
  p.recompute = Recompute::layers;
  predict(p);
  EXPECT_GT(offload_time(p, &profile, {}).compute_seconds.value(), 1.2 * large.compute_seconds.value());
}

// Depth first, each accumulation step reads the weights: the update hides behind what computing has left.
TEST(OffloadTime, WeightsAreReadInEachAccumulationStep) {
  auto p = small_offload_plan("parameters=disk", 3);
  p.accumulation_order = AccumulationOrder::depth;
  p.global_batch = 8;
  predict(p);
  const std::int64_t passes = 2 * tokens + positions + 2 * 3 * layer + 2 * norm;  // as in offload_test.cpp
  const auto hiding = [&](double rate) {
    const auto profile = profile_of(1e9, rate);
    const auto t = offload_time(p, &profile, {});
    EXPECT_EQ(t.step, (base::StorageTotals{of_all + 8 * passes, of_all}));
    EXPECT_DOUBLE_EQ(t.disk_seconds.value(), (2.0 * of_all + 8.0 * passes) / rate);
    return t.hiding_batch;
  };
  const double compute = of_sequence / 1e9;
  const auto expected = [&](double rate) {
    return static_cast<std::int64_t>(std::ceil(2.0 * of_all / rate / (compute - passes / rate)));
  };
  EXPECT_EQ(expected(5e7), 4);
  EXPECT_EQ(hiding(5e7), 4);
  EXPECT_EQ(expected(4e7), 360);
  EXPECT_EQ(hiding(4e7), 360);
  EXPECT_EQ(hiding(1e9), 1);
  EXPECT_GT(passes / 3.9e7, compute);
  EXPECT_EQ(hiding(3.9e7), std::nullopt);
  // Breadth first the layers are read once for all micro-batches.
  p.accumulation_order = AccumulationOrder::automatic;
  predict(p);
  ASSERT_TRUE(p.breadth_first(p.batch()));
  const auto profile = profile_of(1e9, 3.9e7);
  const auto t = offload_time(p, &profile, {});
  EXPECT_EQ(t.hiding_batch, static_cast<std::int64_t>(std::ceil((t.step.read + t.step.written) / 3.9e7 / compute)));
  EXPECT_LT(t.step.read, of_all + 2 * passes);
}

// Ranks of a stage share its FLOPs; the stage that hides latest counts.
TEST(OffloadTime, OfTheStageThatHidesLatest) {
  auto p = small_offload_plan("optimizer=disk", 1);
  p.pipeline = 2, p.global_batch = 8;
  p.topology = topology_of(p, 4);
  predict(p);
  const auto profile = profile_of(1e9, 8e6);
  const auto t = offload_time(p, &profile, {});
  // With two replicas. One stage has the tables and layers 0 and 1, the other one layer 2, norm and head (its table of
  // tokens again).
  constexpr std::int64_t half_layer = 102400;  // whole pages, as the half of the norm
  const std::int64_t first = 2 * (tokens / 2 + positions / 2 + 2 * half_layer),
                     last = 2 * (tokens / 2 + half_layer + norm);
  EXPECT_EQ(offload_of_stage(p, 0).disk_bytes(), first);
  EXPECT_EQ(offload_of_stage(p, 1).disk_bytes(), last);
  const double of_first = 8 * 32 * 2 * of_layer / 2 / 1e9, of_last = 8 * 32 * (of_layer + of_head) / 2 / 1e9;
  ASSERT_GT(first / of_first, last / of_last);
  EXPECT_EQ(t.stage, 0);
  EXPECT_DOUBLE_EQ(t.disk_seconds.value(), 2.0 * first / 8e6);
  EXPECT_DOUBLE_EQ(t.compute_seconds.value(), of_first);
}

// A folder takes as long as its own bytes; together folders may be slower than that.
TEST(OffloadTime, SeveralFolders) {
  const auto p = small_offload_plan("optimizer=disk", 1);
  Profile profile;
  add_folder(profile, "/a", {3e6, 3e6, 3e6});
  add_folder(profile, "/b", {1e6, 1e6, 1e6});
  // Stripes of 3 to 1 (offload_folders_test.cpp), and bytes that are both read and written.
  const double a = 2 * (2 * tokens + 5 * layer), b = 2 * (2 * positions + layer + 2 * norm), all = a + b;
  const std::vector<OffloadFolder> by_speed{{"/a", 3}, {"/b", 1}}, equal{{"/a"}, {"/b"}};
  auto t = offload_time(p, &profile, by_speed);
  EXPECT_DOUBLE_EQ(t.disk_seconds.value(), std::max(a / 3e6, b / 1e6));
  EXPECT_FALSE(t.together);
  EXPECT_DOUBLE_EQ(offload_time(p, &profile, equal).disk_seconds.value(), all / 2 / 1e6);
  // Equal shares reach 1.6 MB/s together where 2 MB/s would be, so everything takes 1.25 times as long.
  add_folder(profile, "/a, /b", {1.6e6, 1.6e6, 1.6e6});
  EXPECT_DOUBLE_EQ(offload_time(p, &profile, {}).disk_seconds.value(), all / 1.6e6);
  t = offload_time(p, &profile, by_speed);
  EXPECT_DOUBLE_EQ(t.disk_seconds.value(), std::max(a / 3e6, b / 1e6) * 1.25);
  EXPECT_TRUE(t.together);
  EXPECT_DOUBLE_EQ(offload_time(p, &profile, {{"/b"}}).disk_seconds.value(), all / 1e6);
  EXPECT_THROW(offload_time(p, &profile, {{"/c"}}), base::InputError);
}

TEST(OffloadTime, TextAndJson) {
  auto p = small_offload_plan("optimizer=disk", 1);
  p.global_batch = 4;
  predict(p);
  auto profile = profile_of(1e9, 8e6);
  const auto t = offload_time(p, &profile, {});
  const auto text = offload_time_text(p, t, base::Sizes::rounded);
  EXPECT_EQ(text,
            "  disks of a rank\n"
            "  in /a                                                  1.29 MB  (8.00 MB/s read, 8.00 MB/s written, "
            "8.00 MB/s both)\n"
            "  moving a step's bytes                                   324 ms\n" +  // 4 x 647,168 B / 8 MB/s
                base::text("  computing a step, at least                              129 ms  (at 1.00 GFLOP/s of "
                           "products)\n"  // 4 x 32,243,712 FLOP
                           "  hides from                                   352 tokens a step  ($global-batch 11; "
                           "this step has 128)\n") +
                "  written there a day                                     346 GB  (/a)\n");  // 1.29 MB / 324 ms
  const auto j = offload_time_json(p, t);
  EXPECT_EQ(j.at("space"), 2 * of_all);
  EXPECT_EQ(j.at("step_read"), 2 * of_all);
  EXPECT_EQ(j.at("step_written"), 2 * of_all);
  EXPECT_EQ(j.at("disk_seconds"), *t.disk_seconds);
  EXPECT_EQ(j.at("compute_seconds"), *t.compute_seconds);
  EXPECT_DOUBLE_EQ(j.at("flops_per_second"), 1e9);
  EXPECT_EQ(j.at("hides_from_tokens"), 352);
  EXPECT_EQ(j.at("folders").size(), 1u);
  EXPECT_EQ(j.at("folders")[0].at("folder"), "/a");
  EXPECT_EQ(j.at("folders")[0].at("written_in_1000_steps"), 2000 * of_all);
  EXPECT_DOUBLE_EQ(j.at("folders")[0].at("written_a_day"), 2.0 * of_all * 86400 / *t.disk_seconds);
  EXPECT_FALSE(j.contains("written_in_1000_steps"));
  auto bare = offload_time_json(p, offload_time(p, nullptr, {}));
  EXPECT_EQ(bare.at("written_in_1000_steps"), 2000 * of_all);
  for (const char* key : {"disk_seconds", "compute_seconds", "hides_from_tokens"}) EXPECT_FALSE(bare.contains(key));
}

// Copies go both ways at once, so the slower way counts; beside a disk, whatever takes longer.
TEST(OffloadTime, CopiesOfAGpu) {
  auto p = small_offload_plan("optimizer=host", 1, base::DType::f32, base::DeviceKind::cuda);
  constexpr double flops = 1e6;
  auto profile = profile_of(flops, 1e12);
  const auto without = offload_time(p, &profile, {});
  EXPECT_FALSE(without.link_seconds || without.lacks_rates_of_folders);
  EXPECT_NE(offload_time_text(p, without, base::Sizes::rounded).find("not known  (no rates of copies)\n"),
            std::string::npos);
  EXPECT_TRUE(offload_time_json(p, without).at("link_seconds").is_null());
  add(profile, "copy.from_device", "64 MiB", 1000);
  add(profile, "copy.to_device", "64 MiB", 4000);
  // AdamW in f32: gradients and weights go down, and weights come up.
  const std::int64_t parameters = 8192 + 2048 + 3 * 49984 + 128;
  auto t = offload_time(p, &profile, {});
  EXPECT_EQ(t.link, (LinkBytes{8 * parameters, 4 * parameters}));
  EXPECT_DOUBLE_EQ(*t.link_seconds, 8.0 * parameters / 1000);
  EXPECT_FALSE(t.disk_seconds);
  EXPECT_DOUBLE_EQ(*t.compute_seconds, of_sequence / flops);
  // The bytes are the same in every step, so they hide behind as many sequences as take that long.
  EXPECT_EQ(t.hiding_batch, static_cast<std::int64_t>(std::ceil(*t.link_seconds / *t.compute_seconds)));
  EXPECT_NE(offload_time_text(p, t, base::Sizes::rounded).find("  link of a rank\n  copying a step's bytes"),
            std::string::npos);
  EXPECT_EQ(offload_time_json(p, t)["step_down"], 8 * parameters);
  p = small_offload_plan("optimizer=disk", 1, base::DType::f32, base::DeviceKind::cuda);
  t = offload_time(p, &profile, {});
  EXPECT_DOUBLE_EQ(*t.moving_seconds(), *t.link_seconds);
  EXPECT_LT(*t.disk_seconds, *t.link_seconds);
  // The disk takes the same time in every step, and the link longer in each accumulation step than computing it.
  p = small_offload_plan("none", 1, base::DType::f32, base::DeviceKind::cuda);
  p.recompute = Recompute::layers, p.offload = offload_of_text("optimizer=disk,activations=host", "test");
  predict(p);
  const auto compute = 4.0 / 3 * of_sequence / flops;
  profile =
      profile_of(flops, static_cast<double>(disk_of_step(p, 0, 1).read + disk_of_step(p, 0, 1).written) / compute);
  add(profile, "copy.from_device", "64 MiB", 1);
  add(profile, "copy.to_device", "64 MiB", 1);
  t = offload_time(p, &profile, {});
  EXPECT_TRUE(t.moving_seconds() && t.compute_seconds);
  EXPECT_FALSE(t.hiding_batch);
  profile = profile_of(flops, 10);
  EXPECT_FALSE(offload_time(p, &profile, {}).moving_seconds()) << "the rate of copies is not known";
}

}  // namespace offload_time_test
}  // namespace trainyard::plan
