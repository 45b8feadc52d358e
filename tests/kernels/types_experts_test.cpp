// Operations of experts refuse an operand of a type that their kernel would misread, and name the operand.
#include "kernels/even_load/even_load.h"
#include "kernels/expert_mix/expert_mix.h"
#include "kernels/expert_rounds/expert_rounds.h"
#include "kernels/expert_rows/expert_rows.h"
#include "kernels/gate/gate.h"
#include "kernels/gate_record/gate_record.h"
#include "kernels/grouped_linear/grouped_linear.h"
#include "kernels/slot_groups/slot_groups.h"
#include "tests/kernels/operand_types.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace types_experts_test {

TEST(OperandTypes, GroupedProducts) {
  with_each_type([](DType t, DType g) {
    const Operand ranges{"groups.ranges", {1, 2}, DType::i32}, weight{"weight", {6, 4}, t};
    const Types results = base::is_narrow(t) ? Types{t, g} : Types{};
    expect_types(
        "grouped_linear_forward",
        {ranges, lead("x", {2, 4}, t), weight, {"bias", {6}, t}, {"y", {2, 6}, t, {}, results}},
        [](auto& e, const auto& v) {
          kernels::grouped_linear_forward(
              e, {.groups = {v[0]}, .x = v[1], .weight = {v[2]}, .bias = {v[3]}, .lanes = 1, .y = v[4]});
        },
        Rows::some);
    expect_types(
        "grouped_linear_backward_input",
        {ranges, lead("dy", {2, 6}, t), weight, {"dy", {2, 6}, t}, weight, {"dx", {2, 4}, t, results}},
        [](auto& e, const auto& v) {
          const kernels::GroupedPart parts[] = {{v[1], {v[2]}}, {v[3], {v[4]}}};
          kernels::grouped_linear_backward_input(e, {v[0]}, parts, 1, v[5]);
        },
        Rows::some);
    expect_types(
        "grouped_linear_backward_weight",
        {ranges, lead("dy", {2, 6}, t), {"x", {2, 4}, t}, {"dweight", {6, 4}, g}, {"dbias", {6}, g}},
        [](auto& e, const auto& v) { kernels::grouped_linear_backward_weight(e, {v[0]}, v[1], v[2], {v[3]}, {v[4]}); },
        Rows::some);
  });
}

TEST(OperandShapes, GroupsWithoutRows) {
  with_each_type([](DType t, DType g) {
    const Operand x{"x", {2, 4}, t}, dy{"dy", {2, 6}, t}, weight{"weight", {6, 4}, t};
    const std::int32_t none[] = {0, 0};
    const kernels::RowGroups groups{base::View::of(none, {1, 2})};
    expect_no_rows("grouped_linear_forward", {x, weight, dy}, [&](auto& e, const auto& v) {
      kernels::grouped_linear_forward(e, {.groups = groups, .x = v[0], .weight = {v[1]}, .lanes = 1, .y = v[2]});
    });
    expect_no_rows("grouped_linear_backward_input", {dy, weight, x}, [&](auto& e, const auto& v) {
      const kernels::GroupedPart parts[] = {{v[0], {v[1]}}};
      kernels::grouped_linear_backward_input(e, groups, parts, 1, v[2]);
    });
    expect_no_rows("grouped_linear_backward_weight", {dy, x, {"dweight", {6, 4}, g}, {"dbias", {6}, g}},
                   [&](auto& e, const auto& v) {
                     kernels::grouped_linear_backward_weight(e, groups, v[0], v[1], {v[2]}, {v[3]});
                   });
  });
}

TEST(OperandTypes, RowsOfExperts) {
  with_each_type([](DType t, DType g) {
    const Operand rows{"rows", {2, 1}, DType::i32}, sources{"sources", {3}, DType::i32}, weights{"weights", {2, 1}, g};
    expect_types(
        "expert_dispatch", {lead("x", {2, 4}, t), sources, {"y", {3, 4}, t}},
        [](auto& e, const auto& v) { kernels::expert_dispatch(e, v[0], v[1], 1, v[2]); }, Rows::some);
    expect_types("expert_dispatch_backward", {lead("dy", {3, 4}, t), rows, {"add", {2, 4}, g}, {"dx", {2, 4}, t}},
                 [](auto& e, const auto& v) { kernels::expert_dispatch_backward(e, v[0], v[1], v[2], v[3]); });
    expect_types("expert_combine", {lead("y", {3, 4}, t), rows, weights, {"out", {2, 4}, t}},
                 [](auto& e, const auto& v) { kernels::expert_combine(e, v[0], v[1], v[2], v[3]); });
    expect_types(
        "expert_combine_backward",
        {{"dout", {2, 4}, t},
         lead("y", {3, 4}, t),
         rows,
         sources,
         weights,
         {"dy", {3, 4}, t},
         {"d_weights", {2, 1}, g}},
        [](auto& e, const auto& v) {
          kernels::expert_combine_backward(
              e,
              {.dout = v[0], .y = v[1], .rows = v[2], .sources = v[3], .weights = v[4], .dy = v[5], .d_weights = v[6]});
        },
        Rows::some);
    const Operand logits{"logits", {2, 2}, g}, a = lead("a", {2, 4}, t), b{"b", {2, 4}, t};
    expect_types("expert_mix", {logits, a, b, {"out", {2, 4}, t}},
                 [](auto& e, const auto& v) { kernels::expert_mix(e, v[0], v[1], v[2], v[3]); });
    expect_types("expert_mix_backward",
                 {logits, a, b, {"dout", {2, 4}, t}, {"d_logits", {2, 2}, g}, {"da", {2, 4}, t}, {"db", {2, 4}, t}},
                 [](auto& e, const auto& v) {
                   kernels::expert_mix_backward(
                       e,
                       {.logits = v[0], .a = v[1], .b = v[2], .dout = v[3], .d_logits = v[4], .da = v[5], .db = v[6]});
                 });
  });
  const auto i = DType::i32;
  with_each_type([](DType t, DType g) {  // the rows of experts, too
    const Operand tokens{"x", {2, 4}, t}, rows{"y", {2, 4}, t}, sources{"sources", {2}, DType::i32};
    expect_no_rows("expert_dispatch", {tokens, sources, rows},
                   [](auto& e, const auto& v) { kernels::expert_dispatch(e, v[0], v[1], 1, v[2]); });
    expect_no_rows(
        "expert_combine_backward",
        {tokens, rows, {"rows", {2, 1}, DType::i32}, sources, {"weights", {2, 1}, g}, rows, {"d_weights", {2, 1}, g}},
        [](auto& e, const auto& v) {
          kernels::expert_combine_backward(
              e,
              {.dout = v[0], .y = v[1], .rows = v[2], .sources = v[3], .weights = v[4], .dy = v[5], .d_weights = v[6]});
        });
  });
  expect_types(
      "expert_rounds", {{"groups", {2, 2}, i}, {"places", {2, 2}, i}, {"rounds", {1}, i}},
      [](auto& e, const auto& v) { kernels::expert_rounds(e, v[0], 2, 1, v[1], v[2]); }, Rows::some);
  expect_types(
      "expert_round",
      {{"groups", {2, 2}, i},
       {"places", {2, 2}, i},
       {"sources", {1}, i},
       {"rows.sent", {2, 2}, i},
       {"rows.tokens", {2}, i},
       {"rows.here", {2}, i},
       {"rows.back", {1}, i}},
      [](auto& e, const auto& v) {
        kernels::expert_round(e, {2, 1, 0, 0}, v[0], v[1], v[2], {v[3], v[4], v[5], v[6]});
      },
      Rows::some);
  expect_types("slot_groups", {{"groups", {2, 2}, i}},
               [](auto& e, const auto& v) { kernels::slot_groups(e, v[0], 1); });
}

TEST(OperandTypes, Gates) {
  const auto i = DType::i32;
  const std::uint64_t samples[] = {0};
  kernels::Gate gate;
  gate.experts = 2, gate.samples = samples, gate.sequence = 2;
  for (auto g : accumulated) {
    const Operand logits = lead("logits", {2, 2}, g, accumulated), experts{"choice.experts", {2, 1}, i},
                  rows{"choice.rows", {2, 1}, i}, weights{"choice.weights", {2, 1}, g},
                  loads{"choice.loads", {2, 2}, i};
    expect_types(
        "gate_forward",
        {logits,
         {"bias", {2}, g},
         experts,
         rows,
         weights,
         {"choice.sources", {2}, i},
         {"choice.groups", {2, 2}, i},
         loads,
         {"choice.losses", {3}, DType::f64}},
        [&](auto& e, const auto& v) {
          kernels::gate_forward(e, gate, v[0], v[1], {v[2], v[3], v[4], v[5], v[6], v[7], v[8]});
        },
        Rows::some);
    expect_types(
        "gate_backward", {logits, experts, rows, weights, loads, {"d_weights", {2, 1}, g}, {"d_logits", {2, 2}, g}},
        [&](auto& e, const auto& v) {
          kernels::gate_backward(e, {.gate = gate,
                                     .logits = v[0],
                                     .choice = {.experts = v[1], .rows = v[2], .weights = v[3], .loads = v[4]},
                                     .d_weights = v[5],
                                     .d_logits = v[6]});
        },
        Rows::some);
    expect_types(
        "gate_loads", {{"loads", {2, 2}, i}, {"out", {2}, g, accumulated}},
        [](auto& e, const auto& v) { kernels::gate_loads(e, v[0], v[1]); }, Rows::some);
  }
  for (auto t : working)
    expect_types("gate_jitter", {lead("x", {2, 4}, t), {"y", {2, 4}, t}},
                 [&](auto& e, const auto& v) { kernels::gate_jitter(e, gate, v[0], v[1]); });
  expect_types(
      "gate_record",
      {{"groups", {2, 2}, i}, {"loads", {2, 2}, i}, {"losses", {3}, DType::f64}, {"record", {16}, DType::i64}},
      [](auto& e, const auto& v) {
        const double targets = 1;
        kernels::gate_record(e, v[0], v[1], v[2], &targets, v[3]);
      },
      Rows::some);
  expect_types("even_load_update", {{"bias", {2}, DType::f32}, {"loads", {2}, DType::f32}},
               [](auto& e, const auto& v) { kernels::even_load_update(e, v[0], v[1], 1, 1, nullptr); });
}

}  // namespace types_experts_test
}  // namespace trainyard::test
