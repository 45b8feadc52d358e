// Tests the plan of an offload: its extents, the bytes of each place and of each step, counted by hand; its text; and
// plans in JSON.
#include "libtrain/plan/cost/offload.h"
#include "libtrain/plan/disk_use.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/problems.h"
#include "tests/plan/offload_plan.h"

#include <gtest/gtest.h>

namespace trainyard::plan {
namespace offload_test {

// The flat groups of small_offload_plan.
constexpr std::int64_t tokens = 128 * 64, positions = 32 * 64, layer = 12 * 64 * 64 + 13 * 64, norm = 2 * 64;
static_assert(layer % 64 == 0, "no padding on one rank");

Plan plan_with(const char* offload, int zero, base::DType dtype = base::DType::f32,
               base::DeviceKind device = base::DeviceKind::cpu) {
  return small_offload_plan(offload, zero, dtype, device);
}

// Bytes on disk: direct transfers move whole pages.
std::int64_t pages(std::int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }
// Of all flat groups, each with so many bytes an element.
std::int64_t of_all(std::int64_t element) {
  return pages(tokens * element) + pages(positions * element) + 3 * pages(layer * element) + pages(norm * element);
}

using Category = base::MemoryCategory;

TEST(Offload, OptimizerOnDisk) {
  const auto in_memory = plan_with("none", 1), p = plan_with("optimizer=disk", 1);
  EXPECT_EQ(p.disk, (DiskBytes{2 * of_all(4), 2 * of_all(4), 2 * of_all(4)}));
  EXPECT_EQ(p.memory.categories[Category::optimizer], 0);
  // Three tiles of the largest group, with two columns.
  EXPECT_EQ(p.memory.categories[Category::offload_buffers], 3 * 2 * pages(4 * layer));
  EXPECT_EQ(in_memory.memory.categories[Category::offload_buffers], 0);
  EXPECT_EQ(in_memory.memory.categories[Category::save_snapshot] - p.memory.categories[Category::save_snapshot],
            2 * 4 * (tokens + positions + 3 * layer + norm));
  for (const auto c : {Category::parameters, Category::gradients, Category::activations, Category::workspace})
    EXPECT_EQ(p.memory.categories[c], in_memory.memory.categories[c]);
}

TEST(Offload, EverythingOnDisk) {
  const auto p = plan_with("optimizer=disk,parameters=disk,gradients=disk", 3, base::DType::bf16);
  const auto space = 3 * of_all(4) + of_all(2) + 3 * pages(4 * layer);  // master, m, v; weights; gradients
  EXPECT_EQ(p.disk.space, space);
  EXPECT_EQ(p.disk.written, space);
  // An update reads masters, states and gradients. Passes read weights: tokens and positions once for the embedding,
  // whose backward needs no weights; layers and the last norm in forward and in backward; tokens once more for the
  // head, which has losses and gradients in one pass.
  EXPECT_EQ(p.disk.read, 3 * of_all(4) + 3 * pages(4 * layer) + pages(2 * tokens) + pages(2 * positions) +
                             2 * 3 * pages(2 * layer) + 2 * pages(2 * norm) + pages(2 * tokens));
  EXPECT_EQ(p.memory.categories[Category::parameters], 0);
  EXPECT_EQ(p.memory.categories[Category::save_snapshot], 0);
  EXPECT_EQ(p.memory.categories[Category::gradients], 4 * (2 * tokens + positions + norm)) << "not of layers";
  // Two slots of layers, and one each of tokens, positions and norm, in whole pages.
  EXPECT_EQ(p.memory.categories[Category::gathered_weights],
            2 * pages(2 * layer) + pages(2 * tokens) + pages(2 * positions) + pages(2 * norm));
  // Columns: weights, master, two moments, gradient; and two rotating sums of layers.
  EXPECT_EQ(p.memory.categories[Category::offload_buffers],
            3 * (pages(2 * layer) + 4 * pages(4 * layer)) + 2 * pages(4 * layer));
}

// 64-byte boundaries, as arenas have them; all numbers below are multiples.
constexpr std::int64_t everything = tokens + positions + 3 * layer + norm;

// Masters and moments lie on the host. Gradients go down in f32, and weights come up in bf16 (Ren et al. 2021).
TEST(Offload, OptimizerOnTheHostOfAGpu) {
  const auto cuda = base::DeviceKind::cuda;
  const auto there = plan_with("none", 1, base::DType::bf16, cuda),
             p = plan_with("optimizer=host", 1, base::DType::bf16, cuda);
  EXPECT_EQ(p.link, (LinkBytes{4 * everything, 2 * everything}));
  EXPECT_EQ(p.disk, DiskBytes{});
  EXPECT_EQ(p.memory.categories[Category::optimizer], 0);
  EXPECT_EQ(there.memory.categories[Category::optimizer], 3 * 4 * everything);
  EXPECT_EQ(p.memory.categories[Category::offloaded_states], 3 * 4 * everything);
  // Three tiles of the largest group, for what visits the host: weights and gradients.
  EXPECT_EQ(p.memory.categories[Category::offload_buffers], 3 * (pages(2 * layer) + pages(4 * layer)));
  EXPECT_EQ(p.memory.total(), there.memory.total() - 3 * 4 * everything) << "device memory";
  EXPECT_EQ(plan_with("optimizer=host", 1, base::DType::f32, cuda).link, (LinkBytes{8 * everything, 4 * everything}))
      << "weights in f32 are their own masters";
}

TEST(Offload, TheHostHasALimit) {
  const auto p = plan_with("optimizer=host", 1, base::DType::bf16, base::DeviceKind::cuda);
  const auto there = p.memory.on_host;
  EXPECT_TRUE(host_memory_problems(p, there).empty());
  EXPECT_TRUE(host_memory_problems(p, 0).empty());
  const auto refused = host_memory_problems(p, there - 1000);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_NE(refused[0].message.find("1.00 kB too much"), std::string::npos) << refused[0].message;
  EXPECT_NE(refused[0].hint.find("disk in place of host"), std::string::npos) << refused[0].hint;
  EXPECT_TRUE(host_memory_problems(plan_with("optimizer=disk", 1), 1 << 20).empty()) << "not of a GPU";
}

TEST(Offload, EverythingOnTheHostOfAGpu) {
  const auto p =
      plan_with("optimizer=host,parameters=host,gradients=host", 3, base::DType::bf16, base::DeviceKind::cuda);
  EXPECT_EQ(p.memory.categories[Category::offloaded_states], (12 + 2) * everything + 3 * 4 * layer);
  EXPECT_EQ(p.memory.categories[Category::parameters], 0);
  // Two rotating sums of layers; tokens are in two gradients, because embedding and head share them.
  EXPECT_EQ(p.memory.categories[Category::gradients], 2 * pages(4 * layer) + 4 * (2 * tokens + positions + norm));
  // The host updates them where they are. Gradients that stay on the device visit it.
  EXPECT_EQ(p.memory.categories[Category::offload_buffers], 3 * pages(4 * layer));
  EXPECT_EQ(p.link.down, 4 * everything);
  EXPECT_EQ(p.link.up, 2 * (tokens + positions + 2 * 3 * layer + 2 * norm + tokens));  // as EverythingOnDisk
}

TEST(Offload, OptimizerOfAGpuOnDisk) {
  const auto p = plan_with("optimizer=disk", 1, base::DType::bf16, base::DeviceKind::cuda);
  EXPECT_EQ(p.disk, (DiskBytes{3 * of_all(4), 3 * of_all(4), 3 * of_all(4)}));
  EXPECT_EQ(p.link, (LinkBytes{4 * everything, 2 * everything}));
  EXPECT_EQ(p.memory.categories[Category::offloaded_states], 0);
}

// As without a GPU, with buffers on the host between disk and device: two slots of layers, and the slots of tokens,
// positions and norm; two sums of layers.
TEST(Offload, EverythingOfAGpuOnDisk) {
  const char* all = "optimizer=disk,parameters=disk,gradients=disk";
  const auto here = plan_with(all, 3, base::DType::bf16),
             p = plan_with(all, 3, base::DType::bf16, base::DeviceKind::cuda);
  EXPECT_EQ(p.disk, here.disk);
  EXPECT_EQ(p.link, (LinkBytes{4 * everything, 2 * (tokens + positions + 2 * 3 * layer + 2 * norm + tokens)}));
  EXPECT_EQ(p.memory.categories[Category::offload_buffers], here.memory.categories[Category::offload_buffers] +
                                                                2 * pages(2 * layer) + pages(2 * tokens) +
                                                                pages(2 * positions) + pages(2 * norm));
}

Plan rounded(Plan p) {
  p.gradient_sums = base::DType::bf16;
  EXPECT_TRUE(decision_problems(p).empty()) << text_of(decision_problems(p));
  predict(p);
  return p;
}

// Sums that leave have 2 bytes. The two rotating sums stay in f32, and two buffers have the rounded ones. A tile of
// them is widened in a buffer of its own.
TEST(Offload, RoundedSumsOnDisk) {
  const auto wide = plan_with("optimizer=disk,parameters=disk,gradients=disk", 3, base::DType::bf16), p = rounded(wide);
  EXPECT_EQ(wide.disk.space - p.disk.space, 3 * (pages(4 * layer) - pages(2 * layer)));
  EXPECT_EQ(wide.disk.read - p.disk.read, 3 * (pages(4 * layer) - pages(2 * layer)));
  EXPECT_EQ(wide.disk.written - p.disk.written, 3 * (pages(4 * layer) - pages(2 * layer)));
  EXPECT_EQ(p.memory.categories[Category::offload_buffers], 3 * (2 * pages(2 * layer) + 3 * pages(4 * layer)) +
                                                                2 * pages(4 * layer) + 2 * pages(2 * layer) +
                                                                pages(4 * layer));
  EXPECT_EQ(p.memory.categories[Category::gradients], wide.memory.categories[Category::gradients]);
}

TEST(Offload, RoundedSumsInMemoryTakeNoOther) {
  for (const char* text : {"none", "optimizer=disk", "optimizer=disk,parameters=disk"}) {
    const auto wide = plan_with(text, 3, base::DType::bf16), p = rounded(wide);
    EXPECT_EQ(p.memory, wide.memory) << text;
    EXPECT_EQ(p.disk, wide.disk) << text;
  }
}

// Gradients go down in 2 bytes. A tile is rounded on the device, and widened on the host.
TEST(Offload, RoundedSumsThatVisitTheHost) {
  const auto wide = plan_with("optimizer=host", 1, base::DType::bf16, base::DeviceKind::cuda), p = rounded(wide);
  EXPECT_EQ(p.link, (LinkBytes{2 * everything, 2 * everything}));
  EXPECT_EQ(p.memory.categories[Category::offload_buffers], 3 * 2 * pages(2 * layer) + pages(4 * layer));
  EXPECT_EQ(p.memory.categories[Category::gradients], wide.memory.categories[Category::gradients] + pages(2 * layer));
  EXPECT_EQ(p.memory.categories[Category::offloaded_states], wide.memory.categories[Category::offloaded_states]);
}

TEST(Offload, RoundedSumsOnTheHost) {
  const char* all = "optimizer=host,parameters=host,gradients=host";
  const auto wide = plan_with(all, 3, base::DType::bf16, base::DeviceKind::cuda), p = rounded(wide);
  EXPECT_EQ(p.memory.categories[Category::offloaded_states], (12 + 2) * everything + 3 * 2 * layer);
  // Two rotating sums, two of them rounded, and a tile of what stays on the device.
  EXPECT_EQ(p.memory.categories[Category::gradients],
            2 * pages(4 * layer) + 3 * pages(2 * layer) + 4 * (2 * tokens + positions + norm));
  EXPECT_EQ(p.memory.categories[Category::offload_buffers], 3 * pages(2 * layer) + pages(4 * layer));
  EXPECT_EQ(p.link, (LinkBytes{2 * everything, wide.link.up}));
}

TEST(Offload, RoundedSumsOfAGpuOnDisk) {
  const char* all = "optimizer=disk,parameters=disk,gradients=disk";
  const auto here = rounded(plan_with(all, 3, base::DType::bf16)),
             p = rounded(plan_with(all, 3, base::DType::bf16, base::DeviceKind::cuda));
  EXPECT_EQ(p.disk, here.disk);
  EXPECT_EQ(p.link.down, 2 * everything);
  // The rotating sums are on the device, which the CPU's buffers have; passages of weights and of sums are here.
  EXPECT_EQ(p.memory.categories[Category::offload_buffers],
            here.memory.categories[Category::offload_buffers] - 2 * pages(4 * layer) + 2 * pages(2 * layer) +
                pages(2 * tokens) + pages(2 * positions) + pages(2 * norm));
}

TEST(Offload, RoundedSumsAreInPlans) {
  const auto p = rounded(plan_with("gradients=disk", 2));
  const auto json = to_json(p);
  EXPECT_NE(json.find("\"gradient_sums\": \"bf16\""), std::string::npos) << json;
  const auto again = plan_from_json(json, "plan.json");
  EXPECT_EQ(again.gradient_sums, base::DType::bf16);
  EXPECT_EQ(again.memory, p.memory);
  EXPECT_EQ(again.disk, p.disk);
  EXPECT_EQ(to_json(again), json);
}

TEST(Offload, RefusesWhatAGpuCannotOffload) {
  const auto refusal = [](const char* offload, base::DeviceKind device) {
    auto p = plan_with("none", 3);
    p.device = device, p.offload = offload_of_text(offload, "test");
    return text_of(decision_problems(p));
  };
  EXPECT_EQ(refusal("parameters=host", base::DeviceKind::cuda), "");
  EXPECT_EQ(refusal("parameters=disk", base::DeviceKind::cuda), "");
  EXPECT_NE(refusal("activations=disk", base::DeviceKind::cuda).find("--recompute full"), std::string::npos);
  EXPECT_NE(refusal("activations=host", base::DeviceKind::cuda).find("--recompute full"), std::string::npos);
  EXPECT_NE(refusal("optimizer=host", base::DeviceKind::cpu).find("the ranks compute on the CPU"), std::string::npos);
}

// The first groups, until their bytes reach the share.
TEST(Offload, AShareIsOfWholeGroups) {
  const auto all = tokens + positions + 3 * layer + norm;
  const auto shared = [&](double share) {
    auto p = plan_with("none", 1);
    p.offload.optimizer = {Place::disk, share};
    const auto offload = offload_of_stage(p, 0);
    std::int64_t elements = 0;
    int last = -1;
    for (const auto& e : offload.extents())
      if (e.state == 0) {
        EXPECT_EQ(e.flat_group, last + 1) << "a group is left out";
        last = e.flat_group, elements += e.elements;
      }
    return elements;
  };
  EXPECT_EQ(shared(1e-9), tokens);
  EXPECT_EQ(shared(static_cast<double>(tokens) / static_cast<double>(all)), tokens);
  EXPECT_EQ(shared(0.1), tokens + positions + layer);
  EXPECT_EQ(shared(0.5), tokens + positions + 2 * layer);
  EXPECT_EQ(shared(1), all);
}

TEST(Offload, IsInPlans) {
  const auto p = plan_with("optimizer=disk:0.25,parameters=disk", 3);
  const auto json = to_json(p);
  EXPECT_NE(json.find("\"offload\": \"optimizer=disk:0.25,parameters=disk\""), std::string::npos) << json;
  const auto again = plan_from_json(json, "plan.json");
  EXPECT_EQ(again.offload, p.offload);
  EXPECT_EQ(again.disk, p.disk);
  EXPECT_EQ(again.memory, p.memory);
  EXPECT_EQ(to_json(again), json);
  const auto on_gpu = plan_with("optimizer=host", 1, base::DType::bf16, base::DeviceKind::cuda);
  const auto read = plan_from_json(to_json(on_gpu), "plan.json");
  EXPECT_EQ(read.link, on_gpu.link);
  EXPECT_EQ(read.memory, on_gpu.memory);
  // Plans without it are as they always were.
  const auto none = to_json(plan_with("none", 3));
  for (const char* key : {"offload", "rank_disk", "rank_link", "gradient_sums"})
    EXPECT_EQ(none.find(key), std::string::npos) << key;
}

}  // namespace offload_test
}  // namespace trainyard::plan
