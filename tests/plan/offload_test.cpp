// Tests the plan of an offload: its extents, the bytes of each place and of each step, counted by hand; its text; and
// plans in JSON.
#include "libtrain/plan/cost/offload.h"
#include "libtrain/plan/disk_use.h"
#include "libtrain/plan/plan_json.h"
#include "tests/plan/offload_plan.h"

#include <gtest/gtest.h>

namespace trainyard::plan {
namespace offload_test {

// The flat groups of small_offload_plan.
constexpr std::int64_t tokens = 128 * 64, positions = 32 * 64, layer = 12 * 64 * 64 + 13 * 64, norm = 2 * 64;
static_assert(layer % 64 == 0, "no padding on one rank");

Plan plan_with(const char* offload, int zero, base::DType dtype = base::DType::f32) {
  return small_offload_plan(offload, zero, dtype);
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
  // Plans without it are as they always were.
  const auto none = to_json(plan_with("none", 3));
  for (const char* key : {"offload", "rank_disk"}) EXPECT_EQ(none.find(key), std::string::npos) << key;
}

}  // namespace offload_test
}  // namespace trainyard::plan
