// Tests machine files, and times of products and collectives against sums by hand.
#include "libtrain/plan/machine/machine.h"

#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/plan/machine/machine_texts.h"
#include "libtrain/plan/machine_time.h"
#include "libtrain/plan/time_notes.h"

#include <gtest/gtest.h>

#include <sstream>

namespace trainyard::plan {
namespace machine_test {

// Rates in TFLOP/s or GB/s, and rates with which times are no numbers.
TEST(Machine, RatesInOtherUnitsAreRefused) {
  const std::string good = "devices-per-node = 8\nflops-16bit = 312e12\nmemory-bandwidth = 1555e9\n";
  EXPECT_EQ(machine_of_toml(good, "folder/mine.toml").name, "mine");
  for (const auto& [more, what] : {std::pair("link-bandwidth = 300\n", "link-bandwidth is 300 B/s"),
                                   {"flops-32bit = 19.5\n", "flops-32bit is 19.5 FLOP/s"},
                                   {"disk-read = 1e-300\n", "disk-read is 1e-300 B/s"}})
    try {
      machine_of_toml(good + more, "mine.toml");
      ADD_FAILURE() << more;
    } catch (const base::InputError& e) {
      EXPECT_EQ(std::string(e.what()), std::string("mine.toml: ") + what + ", and no machine is that slow");
    }
  EXPECT_EQ(machine_of_toml(good + "link-bandwidth = 1e4\n", "mine.toml").link_bandwidth, 1e4);
}

TEST(Machine, EveryNumberHasASource) {
  ASSERT_GE(machine_texts().size(), 8u);
  for (const auto& [name, text] : machine_texts()) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const auto equals = line.find(" = "), comment = line.find('#');
      if (equals == std::string::npos || comment == 0) continue;
      const auto key = line.substr(0, equals);
      if (key == "devices-per-node" || key == "device") continue;  // facts of the first line
      ASSERT_NE(comment, std::string::npos) << name << ": " << line;
      EXPECT_GE(line.size() - comment, 10u) << name << ": " << line;
    }
    EXPECT_EQ(load_machine(name).name, name);
    EXPECT_GT(device_memory_of(load_machine(name)), 0) << name;
  }
}

TEST(Machine, UnknownNamesAndKeysAreRefused) {
  try {
    load_machine("dgx-a100-8");
    FAIL();
  } catch (const base::UsageError& e) {
    EXPECT_NE(std::string(e.hint()).find("dgx-a100-80"), std::string::npos) << e.hint();
  }
  EXPECT_THROW(load_machine("not-there.toml"), base::Error);
  auto m = load_machine("dgx-a100-80");
  m.network_bandwidth = 0;
  EXPECT_NO_THROW(require_links(m, 8));
  EXPECT_THROW(require_links(m, 16), base::InputError);
}

// CUDA keeps one or two hundredths of a device for itself.
TEST(Machine, DevicesHaveWhatCudaReports) {
  for (const auto& [name, gib] :
       {std::pair{"dgx-a100-40", 40.0}, std::pair{"dgx-a100-80", 80.0}, std::pair{"jean-zay-a100", 80.0},
        std::pair{"ndm-a100-v4", 80.0}, std::pair{"dgx-h100", 80.0}, std::pair{"dgx2-v100", 32.0},
        std::pair{"p3.16xlarge", 16.0}, std::pair{"summit-like", 16.0}}) {
    const double share = static_cast<double>(device_memory_of(load_machine(name))) / (gib * (1 << 30));
    EXPECT_TRUE(0.98 < share && share < 0.995) << name << ": " << share;
  }
  EXPECT_EQ(device_memory_of(load_machine("dgx-a100-80")), 84'986'665'370);  // 79.15 GiB
}

TEST(Machine, SaysWhereItsProductsTakeNoBf16) {
  Plan p;
  p.dtype = base::DType::bf16;
  EXPECT_EQ(no_bf16(p, load_machine("dgx2-v100")),
            "dgx2-v100: its products take f16 and no bf16, so times are those of f16");
  EXPECT_EQ(no_bf16(p, load_machine("dgx-a100-80")), "");
  for (const auto other : {base::DType::f16, base::DType::f32}) {
    p.dtype = other;
    EXPECT_EQ(no_bf16(p, load_machine("dgx2-v100")), "");
  }
}

// 100 GFLOP/s, 10 GB/s, links of 1 GB/s and a network of 4 GB/s for four devices; no latencies.
Machine plain() {
  Machine m;
  m.devices_per_node = 4, m.flops_16bit = 100e9, m.memory_bandwidth = 10e9, m.multiprocessors = 2;
  m.link_bandwidth = 1e9, m.network_bandwidth = 4e9;
  m.product_share = m.memory_share = m.link_share = m.network_share = 1;
  m.link_latency = m.network_latency = 0;
  return m;
}

TEST(MachineTime, ProductsInTilesAndWaves) {
  const auto m = plain();
  const auto seconds = [&](std::int64_t rows) { return product_seconds(m, {rows, 256, 4096}, base::DType::bf16); };
  // Two tiles of 256 x 128 are one wave, at the full rate. The start of a kernel takes 2 us.
  EXPECT_NEAR(seconds(256), 2.0 * 256 * 256 * 4096 / 100e9 + 2e-6, 1e-9);
  // One row more is a wave more for the largest tiles; smaller ones waste less.
  EXPECT_GT(seconds(257), seconds(256) * 1.2);
  EXPECT_LE(seconds(257), seconds(512));
  // A product with one column is bound by memory if products are fast: all numbers have two bytes.
  auto fast = m;
  fast.flops_16bit = 1e18;
  EXPECT_NEAR(product_seconds(fast, {256, 1, 65536}, base::DType::bf16),
              2.0 * (256.0 * 65536 + 65536 + 256) / 10e9 + 2e-6, 1e-9);
}

TEST(MachineTime, CollectivesByTheirLinks) {
  const auto m = plain();
  const Topology inside({{Axis::data, 4}}), outside({{Axis::data, 16}}), strided({{Axis::data, 4}, {Axis::tensor, 4}});
  const auto seconds = [&](const Topology& t, Axis axis, const char* operation) {
    return call_seconds(m, t, {axis, t.size(axis), operation, base::DType::f32, 1'000'000'000, 1, 1});
  };
  // In a node a ring sends three quarters over each link.
  EXPECT_NEAR(seconds(inside, Axis::data, "all_gather"), 0.75, 1e-9);
  EXPECT_NEAR(seconds(inside, Axis::data, "all_reduce"), 1.5, 1e-9);
  EXPECT_NEAR(seconds(inside, Axis::data, "ordered_reduce_scatter"), 0.75, 1e-9);
  // Over four nodes, rings of all four devices share the network, and 15/16 pass each link.
  EXPECT_NEAR(seconds(outside, Axis::data, "all_gather"), 15.0 / 16, 1e-9);
  // Directly, each device sends 12/16 to other nodes over its quarter of the network.
  EXPECT_NEAR(seconds(outside, Axis::data, "ordered_reduce_scatter"), 0.75, 1e-9);
  auto cpu = m;
  cpu.device = base::DeviceKind::cpu;
  EXPECT_NEAR(call_seconds(cpu, outside, {Axis::data, 16, "all_gather", base::DType::f32, 1'000'000'000, 1, 1}), 0.75,
              1e-9)
      << "over MPI gathers are messages to each rank";
  // One rank a node in each of four groups, which share the network.
  EXPECT_NEAR(seconds(strided, Axis::data, "all_gather"), 0.75, 1e-9);
  EXPECT_NEAR(seconds(strided, Axis::tensor, "all_gather"), 0.75, 1e-9);
  EXPECT_EQ(seconds(Topology(), Axis::data, "all_gather"), 0);
}

// A second a message in a node, ten between nodes, and no bytes to speak of. Of 16 ranks in four nodes a ring has 15
// hops, four of them between nodes. A tree goes up and down three links of a node and two levels of nodes.
TEST(MachineTime, RingsHaveAHopForEachRank) {
  auto m = plain();
  m.link_latency = 1, m.network_latency = 10;
  const Topology inside({{Axis::data, 4}}), outside({{Axis::data, 16}}), strided({{Axis::data, 4}, {Axis::tensor, 4}});
  const auto seconds = [&](const Topology& t, const char* operation) {
    return call_seconds(m, t, {Axis::data, t.size(Axis::data), operation, base::DType::f32, 16, 1, 1});
  };
  for (const char* operation : {"all_gather", "reduce_scatter"}) {
    EXPECT_NEAR(seconds(inside, operation), 3, 1e-6) << operation;
    EXPECT_NEAR(seconds(outside, operation), 11 + 40, 1e-6) << operation;
    EXPECT_NEAR(seconds(strided, operation), 30, 1e-6) << operation;
  }
  EXPECT_NEAR(seconds(inside, "all_reduce"), 6, 1e-6);
  EXPECT_NEAR(seconds(outside, "all_reduce"), 2 * (3 + 20), 1e-6);
  // Messages to each rank go at the same time, but for a tree's levels.
  EXPECT_NEAR(seconds(inside, "ordered_reduce_scatter"), 3, 1e-6);
  EXPECT_NEAR(seconds(outside, "ordered_reduce_scatter"), 80, 1e-6);
  // Eight devices of a DGX A100 add up few bytes in 14 hops of 2.1 us, which nccl-tests reports as some 30 us.
  const auto dgx = load_machine("dgx-a100-80");
  EXPECT_NEAR(call_seconds(dgx, Topology({{Axis::data, 8}}), {Axis::data, 8, "all_reduce", base::DType::f32, 8, 1, 1}),
              30e-6, 1e-6);
}

}  // namespace machine_test
}  // namespace trainyard::plan
