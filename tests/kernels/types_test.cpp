// Every operation refuses an operand of a type that its kernel would misread, and names the operand. Those of
// attention and of experts are in types_attention_test.cpp and types_experts_test.cpp.
#include "kernels/activation/activation.h"
#include "kernels/adafactor/adafactor.h"
#include "kernels/cast/cast.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/dropout/dropout.h"
#include "kernels/embedding/embedding.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lane_sum/lane_sum.h"
#include "kernels/linear/linear.h"
#include "kernels/muon/muon.h"
#include "kernels/newton_schulz/newton_schulz.h"
#include "kernels/norm/norm.h"
#include "kernels/ordered_sum/ordered_sum.h"
#include "kernels/square_sum/square_sum.h"
#include "kernels/update/trust_ratio.h"
#include "kernels/update/update.h"
#include "tests/kernels/operand_types.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace types_test {

TEST(OperandTypes, Activations) {
  with_each_type([](DType t, DType) {
    for (auto form : {kernels::Activation::gelu_tanh, kernels::Activation::relu}) {
      expect_types("activation_forward", {lead("x", {2, 3}, t), {"y", {2, 3}, t}},
                   [&](auto& e, const auto& v) { kernels::activation_forward(e, form, v[0], v[1]); });
      expect_types("activation_backward", {lead("x", {2, 3}, t), {"dy", {2, 3}, t}, {"dx", {2, 3}, t}},
                   [&](auto& e, const auto& v) { kernels::activation_backward(e, form, v[0], v[1], v[2]); });
    }
    expect_types(
        "gated_forward", {lead("gate", {2, 3}, t), {"up", {2, 3}, t}, {"y", {2, 3}, t}},
        [](auto& e, const auto& v) { kernels::gated_forward(e, kernels::Activation::silu, v[0], v[1], v[2]); });
    expect_types(
        "gated_backward",
        {lead("gate", {2, 3}, t), {"up", {2, 3}, t}, {"dy", {2, 3}, t}, {"dgate", {2, 3}, t}, {"dup", {2, 3}, t}},
        [](auto& e, const auto& v) {
          const auto form = kernels::Activation::gelu_tanh;
          kernels::gated_backward(e, {.form = form, .gate = v[0], .up = v[1], .dy = v[2], .dgate = v[3], .dup = v[4]});
        });
  });
}

TEST(OperandTypes, AdamW) {
  const auto f = DType::f32;
  expect_types(
      "update",
      {{"parameter", {4}, f},
       {"gradient", {4}, f},
       lead("m", {4}, f, {DType::bf16}),
       {"v", {4}, f},
       {"working", {4}, DType::bf16, {DType::f16}}},
      [](auto& e, const auto& v) {
        kernels::update(
            e,
            {.rule = kernels::AdamW{}, .gradient = v[1], .parameter = v[0], .states = {v[2], v[3]}, .working = v[4]});
      });
}

TEST(OperandTypes, Adafactor) {
  const auto f = DType::f32, i = DType::i64;
  const auto part = [](const auto& v) {
    return kernels::AdafactorPart{.gradient = v[0], .held = {0, 3}, .row_factors = v[1], .column_factors = v[2]};
  };
  expect_types(
      "add_line_squares", {{"gradient", {2, 3}, f}, {"rows", {2, 21}, i}, {"columns", {3, 21}, i}},
      [](auto& e, const auto& v) {
        kernels::add_line_squares(e, {.rule = {}, .gradient = v[0], .held = {0, 3}, .rows = v[1], .columns = v[2]});
      });
  expect_types("update_lines",
               {{"row_squares", {2, 21}, i},
                {"column_squares", {3, 21}, i},
                {"row_var", {2}, f},
                {"column_var", {3}, f},
                {"row_factors", {2}, f},
                {"column_factors", {3}, f}},
               [](auto& e, const auto& v) {
                 kernels::update_lines(e, {.rule = {},
                                           .row_squares = v[0],
                                           .column_squares = v[1],
                                           .row_var = v[2],
                                           .column_var = v[3],
                                           .row_factors = v[4],
                                           .column_factors = v[5]});
               });
  expect_types("add_adafactor_squares",
               {{"gradient", {2, 3}, f},
                {"row_factors", {2}, f},
                {"column_factors", {3}, f},
                {"parameter", {2, 3}, f},
                {"squares", {1, 42}, i}},
               [&](auto& e, const auto& v) { kernels::add_adafactor_squares(e, {}, part(v), v[3], v[4]); });
  expect_types("adafactor_update",
               {{"gradient", {2, 3}, f},
                {"row_factors", {2}, f},
                {"column_factors", {3}, f},
                {"parameter", {2, 3}, f},
                {"working", {2, 3}, DType::bf16, {DType::f16}},
                {"squares", {1, 42}, i}},
               [&](auto& e, const auto& v) {
                 kernels::adafactor_update(
                     e, {.rule = {}, .part = part(v), .parameter = v[3], .working = v[4], .squares = v[5], .count = 6});
               });
}

TEST(OperandTypes, TrustRatio) {
  const auto f = DType::f32;
  for (const auto& [states, other] : {std::pair{f, DType::bf16}, std::pair{DType::bf16, f}})
    expect_types(
        "update_squares",
        {{"parameter", {4}, f}, lead("m", {4}, states, {other}), {"v", {4}, states}, {"squares", {1, 42}, DType::i64}},
        [](auto& e, const auto& v) {
          kernels::add_update_squares(e, {.rule = {}, .parameter = v[0], .m = v[1], .v = v[2], .squares = v[3]});
        });
  expect_types("carry_squares", {{"squares", {2, 42}, DType::i64}},
               [](auto& e, const auto& v) { kernels::carry_squares(e, v[0]); });
  expect_types("trust_ratios", {{"squares", {1, 42}, DType::i64}, {"ratios", {1}, f}},
               [](auto& e, const auto& v) { kernels::trust_ratios(e, v[0], v[1]); });
}

TEST(OperandTypes, Lion) {
  const auto f = DType::f32;
  expect_types("update",
               {{"parameter", {4}, f},
                {"gradient", {4}, f},
                {"m", {4}, f, {DType::bf16}},
                {"working", {4}, DType::bf16, {DType::f16}}},
               [](auto& e, const auto& v) {
                 kernels::update(
                     e,
                     {.rule = kernels::Lion{}, .gradient = v[1], .parameter = v[0], .states = {v[2]}, .working = v[3]});
               });
}

TEST(OperandTypes, Sgd) {
  const auto f = DType::f32;
  expect_types("update",
               {{"parameter", {4}, f},
                {"gradient", {4}, f},
                {"buffer", {4}, f, {DType::bf16}},
                {"working", {4}, DType::bf16, {DType::f16}}},
               [](auto& e, const auto& v) {
                 kernels::update(
                     e,
                     {.rule = kernels::Sgd{}, .gradient = v[1], .parameter = v[0], .states = {v[2]}, .working = v[3]});
               });
}

TEST(OperandTypes, Muon) {
  const auto f = DType::f32;
  expect_types("muon_direction", {{"gradient", {4}, f}, {"m", {4}, f, {DType::bf16, DType::f16}}},
               [](auto& e, const auto& v) { kernels::muon_direction(e, {.hyper = {}, .gradient = v[0], .m = v[1]}); });
  expect_types("update", {{"parameter", {4}, f}, {"gradient", {4}, f}, {"working", {4}, DType::bf16, {DType::f16}}},
               [](auto& e, const auto& v) {
                 kernels::update(e, {.rule = kernels::Muon{}, .gradient = v[1], .parameter = v[0], .working = v[2]});
               });
  expect_types("newton_schulz", {{"x", {2, 3}, f}}, [](auto& e, const auto& v) { kernels::newton_schulz(e, v[0], 1); });
}

TEST(OperandTypes, Copies) {
  with_each_type([](DType t, DType) {
    expect_types("cast", {{"from", {2, 3}, t, working}, {"to", {2, 3}, DType::f32, working}},
                 [](auto& e, const auto& v) { kernels::cast(e, v[0], v[1]); });
    expect_types("copy", {lead("from", {2, 3}, t, working), {"to", {2, 3}, t}},
                 [](auto& e, const auto& v) { kernels::copy(e, v[0], v[1]); });
    expect_types("fill", {{"to", {2, 3}, t, working}}, [](auto& e, const auto& v) { kernels::fill(e, v[0], 0); });
    expect_types("add", {lead("y", {2, 3}, t), {"x", {2, 3}, t}},
                 [](auto& e, const auto& v) { kernels::add(e, v[0], v[1]); });
  });
}

TEST(OperandTypes, CrossEntropy) {
  with_each_type([](DType t, DType g) {
    const Operand logits = lead("logits", {2, 4}, g, accumulated), targets{"targets", {2}, DType::i32},
                  weights{"weights", {2}, DType::u8}, losses{"losses", {2}, DType::f64},
                  gradient{"dlogits", {2, 4}, t, same_sums(t)}, statistics{"statistics", {1, 3, 2}, g};
    expect_types("cross_entropy_chunk", {logits, gradient, targets, weights, losses}, [](auto& e, const auto& v) {
      kernels::cross_entropy_chunk(
          e, {.logits = v[0], .targets = v[2], .weights = v[3], .vocabulary = 4, .losses = v[4], .dlogits = v[1]});
    });
    expect_types("cross_entropy_statistics", {logits, targets, weights, statistics}, [](auto& e, const auto& v) {
      kernels::cross_entropy_statistics(e, {.logits = v[0],
                                            .targets = v[1],
                                            .weights = v[2],
                                            .first_column = 0,
                                            .vocabulary = 4,
                                            .lanes = 1,
                                            .statistics = v[3]});
    });
    expect_types("cross_entropy_finish", {logits, statistics, targets, weights, losses, gradient},
                 [](auto& e, const auto& v) {
                   kernels::cross_entropy_finish(e, {.logits = v[0],
                                                     .targets = v[2],
                                                     .weights = v[3],
                                                     .statistics = v[1],
                                                     .first_column = 0,
                                                     .vocabulary = 4,
                                                     .losses = v[4],
                                                     .dlogits = v[5]});
                 });
  });
  expect_types(
      "cross_entropy_chunk",  // an evaluation
      {{"logits", {2, 4}, DType::f32, accumulated}, {"targets", {2}, DType::i32}},
      [](auto& e, const auto& v) {
        std::uint8_t weights[2] = {};
        double losses[2];
        kernels::cross_entropy_chunk(e, {.logits = v[0],
                                         .targets = v[1],
                                         .weights = View::of(weights, {2}),
                                         .vocabulary = 4,
                                         .losses = View::of(losses, {2})});
      },
      Rows::some);
  expect_types("sum_losses", {{"losses", {2}, DType::f64}, {"out", {1}, DType::f64}},
               [](auto& e, const auto& v) { kernels::sum_losses_into(e, v[0], v[1]); });
}

TEST(OperandTypes, DropoutAndNorms) {
  with_each_type([](DType t, DType g) {
    const kernels::Dropout none;
    expect_types("dropout_forward", {lead("x", {2, 3}, t), {"y", {2, 3}, t}},
                 [&](auto& e, const auto& v) { kernels::dropout_forward(e, none, v[0], v[1]); });
    expect_types("dropout_backward", {lead("dy", {2, 3}, t), {"dx", {2, 3}, t}},
                 [&](auto& e, const auto& v) { kernels::dropout_backward(e, none, v[0], v[1]); });
    expect_types("dropout_add", {lead("residual", {2, 3}, t), {"branch", {2, 3}, t}, {"out", {2, 3}, t}},
                 [&](auto& e, const auto& v) { kernels::dropout_add(e, none, v[0], v[1], v[2]); });

    const Operand x = lead("x", {2, 3}, t), weight{"weight", {3}, t}, bias{"bias", {3}, t}, y{"y", {2, 3}, t},
                  mean{"mean", {2}, g}, rstd{"rstd", {2}, g}, dy{"dy", {2, 3}, t}, dx{"dx", {2, 3}, t},
                  dweight{"dweight", {3}, g}, dbias{"dbias", {3}, g}, partials{"partials", {2, 3}, g},
                  residual = lead("residual", {2, 3}, t), branch{"branch", {2, 3}, t}, sum{"sum", {2, 3}, t};
    expect_types("layer_norm_forward", {x, weight, bias, y, mean, rstd}, [](auto& e, const auto& v) {
      kernels::layer_norm_forward(
          e, {.x = v[0], .weight = v[1], .bias = v[2], .epsilon = 1, .y = v[3], .mean = v[4], .rstd = v[5]});
    });
    expect_types("rms_norm_forward", {x, weight, y, rstd}, [](auto& e, const auto& v) {
      kernels::rms_norm_forward(e, {.x = v[0], .weight = v[1], .epsilon = 1, .y = v[2], .rstd = v[3]});
    });
    expect_types("layer_norm_residual_forward", {residual, branch, sum, weight, bias, y, mean, rstd},
                 [&](auto& e, const auto& v) {
                   kernels::layer_norm_residual_forward(e, {.residual = v[0],
                                                            .branch = v[1],
                                                            .dropout = none,
                                                            .weight = v[3],
                                                            .bias = v[4],
                                                            .epsilon = 1,
                                                            .sum = v[2],
                                                            .y = v[5],
                                                            .mean = v[6],
                                                            .rstd = v[7]});
                 });
    expect_types("rms_norm_residual_forward", {residual, branch, sum, weight, y, rstd}, [&](auto& e, const auto& v) {
      kernels::rms_norm_residual_forward(e, {.residual = v[0],
                                             .branch = v[1],
                                             .dropout = none,
                                             .weight = v[3],
                                             .epsilon = 1,
                                             .sum = v[2],
                                             .y = v[4],
                                             .rstd = v[5]});
    });
    expect_types("layer_norm_backward", {dy, x, weight, mean, rstd, dx, dweight, dbias}, [](auto& e, const auto& v) {
      kernels::layer_norm_backward(e, {.dy = v[0],
                                       .x = v[1],
                                       .weight = v[2],
                                       .mean = v[3],
                                       .rstd = v[4],
                                       .dx = v[5],
                                       .dweight = v[6],
                                       .dbias = v[7]});
    });
    expect_types("rms_norm_backward", {dy, x, weight, rstd, dx, dweight}, [](auto& e, const auto& v) {
      kernels::rms_norm_backward(e, {.dy = v[0], .x = v[1], .weight = v[2], .rstd = v[3], .dx = v[4], .dweight = v[5]});
    });
    expect_types("layer_norm_backward_rows", {dy, x, weight, mean, rstd, dx, partials}, [](auto& e, const auto& v) {
      kernels::layer_norm_backward_rows(
          e, {.dy = v[0], .x = v[1], .weight = v[2], .mean = v[3], .rstd = v[4], .dx = v[5], .partials = v[6]});
    });
    expect_types("rms_norm_backward_rows", {dy, x, weight, rstd, dx, partials}, [](auto& e, const auto& v) {
      kernels::rms_norm_backward_rows(
          e, {.dy = v[0], .x = v[1], .weight = v[2], .rstd = v[3], .dx = v[4], .partials = v[5]});
    });
    expect_types("norm_partial_sums", {lead("partials", {2, 3}, g, accumulated), dweight, dbias},
                 [](auto& e, const auto& v) { kernels::norm_partial_sums(e, v[0], 1, v[1], v[2]); });
  });
}

TEST(OperandTypes, Embeddings) {
  with_each_type([](DType t, DType g) {
    const Operand tokens{"tokens", {1, 2}, DType::i32}, positions{"positions", {1, 2}, DType::i32},
        table = lead("table", {4, 3}, t), position_table{"position_table", {4, 3}, t}, out{"out", {2, 3}, t};
    expect_types("embedding_forward", {tokens, positions, table, position_table, out}, [](auto& e, const auto& v) {
      kernels::embedding_forward(
          e, {.tokens = v[0], .positions = v[1], .table = v[2], .position_table = v[3], .out = v[4]});
    });
    expect_types("embedding_lookup", {tokens, table, out}, [](auto& e, const auto& v) {
      kernels::embedding_lookup(e, {.tokens = v[0], .table = v[1], .first_row = 0, .all_rows = 4, .out = v[2]});
    });
    expect_types("embedding_add", {positions, lead("position_table", {4, 3}, t), out},
                 [](auto& e, const auto& v) { kernels::embedding_add(e, v[0], v[1], v[2]); });
    expect_types("embedding_backward",
                 {{"indices", {1, 2}, DType::i32}, {"dout", {2, 3}, t, same_sums(t), working}, {"dtable", {4, 3}, g}},
                 [](auto& e, const auto& v) { kernels::embedding_backward(e, v[0], 0, v[1], v[2]); });
  });
}

TEST(OperandTypes, Sums) {
  for (auto g : accumulated) {
    const Operand pieces = lead("pieces", {2, 4}, g, accumulated), sum{"sum", {4}, g};
    for (auto out : same_sums(g).empty() ? Types{g} : same_sums(g))
      expect_types(
          "lane_sum", {pieces, {"bias", {4}, out, same_sums(g)}, {"out", {4}, out, same_sums(g)}},
          [](auto& e, const auto& v) { kernels::lane_sum(e, v[0], v[1], 0, v[2]); }, Rows::some);
    expect_types(
        "ordered_sum", {pieces, sum},
        [](auto& e, const auto& v) { kernels::ordered_sum(e, v[0], v[1], base::ReductionRound::first); }, Rows::some);
    expect_types("ordered_sum", {{"sum", {4}, g, accumulated}}, [](auto& e, const auto& v) {
      const double piece[4] = {};
      const void* addresses[] = {piece};
      kernels::ordered_sum(e, addresses, v[0], base::ReductionRound::first);
    });
  }
  expect_types("square_sum", {{"x", {4}, DType::f32}, {"limbs", {21}, DType::i64}}, [](auto& e, const auto& v) {
    const base::ConstView xs[] = {v[0]};
    kernels::square_sum(e, xs, v[1]);
  });
}

TEST(OperandTypes, Products) {
  with_each_type([](DType t, DType g) {
    for (const bool wide : {false, true}) {
      const auto to = wide ? g : t;  // a product of narrow operands may be f32
      const Types results = base::is_narrow(t) ? Types{t, g} : Types{};
      const Operand x = lead("x", {2, 4}, t), dy = lead("dy", {2, 6}, t), weight{"weight", {6, 4}, t},
                    bias{"bias", {6}, to};
      const auto result = [&](const char* name, std::int64_t cols, bool leads = false) {
        return Operand{name, {2, cols}, to, leads ? Types{} : results, leads ? results : Types{}};
      };
      expect_types("gemm", {lead("a", {2, 4}, t), {"b", {4, 6}, t}, result("c", 6)}, [](auto& e, const auto& v) {
        kernels::gemm(
            e, {.a = v[0], .b = v[1], .trans_a = kernels::Transpose::no, .trans_b = kernels::Transpose::no, .c = v[2]});
      });
      expect_types("linear_forward", {x, weight, bias, result("y", 6, true)},
                   [](auto& e, const auto& v) { kernels::linear_forward(e, v[0], v[1], v[2], v[3]); });
      expect_types("linear_forward_lanes", {x, weight, bias, result("y", 6, true)},
                   [](auto& e, const auto& v) { kernels::linear_forward_lanes(e, v[0], v[1], v[2], 2, v[3]); });
      expect_types("linear_activation_forward", {x, weight, bias, result("pre", 6, true), {"y", {2, 6}, to}},
                   [](auto& e, const auto& v) {
                     kernels::linear_activation_forward(e, {.form = kernels::Activation::gelu_tanh,
                                                            .x = v[0],
                                                            .weight = v[1],
                                                            .bias = v[2],
                                                            .pre = v[3],
                                                            .y = v[4]});
                   });
      expect_types("linear_backward_input", {dy, weight, result("dx", 4)},
                   [](auto& e, const auto& v) { kernels::linear_backward_input(e, v[0], v[1], v[2]); });
      expect_types("linear_activation_backward_input", {dy, weight, {"pre", {2, 4}, to}, result("dx", 4, true)},
                   [](auto& e, const auto& v) {
                     kernels::linear_activation_backward_input(e, kernels::Activation::gelu_erf, v[0], v[1], v[2],
                                                               v[3]);
                   });
      expect_types("linear_backward_input_lanes",
                   {dy, weight, {"dy", {2, 6}, t}, {"weight", {6, 4}, t}, result("dx", 4)}, [](auto& e, const auto& v) {
                     const kernels::LinearPart parts[] = {{v[0], v[1]}, {v[2], v[3]}};
                     kernels::linear_backward_input_lanes(e, parts, 2, v[4]);
                   });
    }
    expect_types("linear_backward_input_add",
                 {lead("dy", {2, 6}, t), {"weight", {6, 4}, t}, {"dx", {2, 4}, g, {DType::bf16, DType::f16}}},
                 [](auto& e, const auto& v) { kernels::linear_backward_input_add(e, v[0], v[1], v[2]); });
    expect_types("linear_backward_weight",
                 {lead("dy", {2, 6}, t), {"x", {2, 4}, t}, {"dweight", {6, 4}, g, same_sums(t)}, {"dbias", {6}, g}},
                 [](auto& e, const auto& v) { kernels::linear_backward_weight(e, v[0], v[1], v[2], v[3]); });
  });
}

// A product over nothing is zero, and adds nothing.
TEST(OperandShapes, ProductsOverNothing) {
  with_each_type([](DType, DType g) {
    for (const auto accumulate : {kernels::Accumulate::no, kernels::Accumulate::yes}) {
      Bench bench(2);
      MatrixBuffer a(g, 0, 3), b(g, 0, 4), c(g, 3, 4, 2);
      for (std::int64_t i = 0; i < 12; ++i) c.set(i / 4, i % 4, -0.0);
      a.bytes.resize(8), b.bytes.resize(8);  // somewhere
      kernels::gemm(*bench, {.a = a.view(),
                             .b = b.view(),
                             .trans_a = kernels::Transpose::yes,
                             .trans_b = kernels::Transpose::no,
                             .c = c.view(),
                             .accumulate = accumulate});
      for (std::int64_t i = 0; i < 12; ++i) {
        EXPECT_EQ(c(i / 4, i % 4), 0);
        EXPECT_EQ(std::signbit(c(i / 4, i % 4)), accumulate == kernels::Accumulate::yes);
      }
      EXPECT_TRUE(c.gap_untouched());
    }
  });
}

// A product that does not fit names its operands and their sizes.
TEST(OperandShapes, OfProducts) {
  Bench bench(1);
  MatrixBuffer x(DType::f32, 2, 3), weight(DType::f32, 4, 5), fits(DType::f32, 4, 3), y(DType::f32, 2, 4),
      tall(DType::f32, 3, 4), bias(DType::f32, 1, 3);
  const auto text = [&](MatrixBuffer& w, MatrixBuffer* b, MatrixBuffer& to) {
    return refusal(
        [&](auto& e, const auto&) {
          kernels::linear_forward(e, x.view(), w.view(), b ? b->view() : View{}, to.view());
        },
        *bench, {});
  };
  EXPECT_TRUE(
      text(weight, nullptr, y).ends_with(": linear_forward: weight: expected 4 x 3 for x of 2 x 3, found 4 x 5"));
  EXPECT_TRUE(text(fits, nullptr, tall)
                  .ends_with(": linear_forward: y: expected 2 x 4 for x of 2 x 3 and weight of 4 x 3, found 3 x 4"));
  EXPECT_TRUE(text(fits, &bias, y).ends_with(": linear_forward: bias: expected 1 x 4, found 1 x 3"));
}
}  // namespace types_test
}  // namespace trainyard::test
