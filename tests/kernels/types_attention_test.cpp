// Attention and positions refuse operands of types that their kernels would misread, and name the operand.
#include "kernels/attention/attention.h"
#include "kernels/cached_attention/cached_attention.h"
#include "kernels/relative_positions/relative_positions.h"
#include "kernels/rotary/rotary.h"
#include "tests/kernels/operand_types.h"

#include <gtest/gtest.h>

namespace trainyard::test {
namespace types_attention_test {

TEST(OperandTypes, Attention) {
  with_each_type([](DType t, DType g) {
    kernels::AttentionShape s;
    const double bias[6] = {};
    s.batch = 1, s.sequence = 2, s.heads = 2, s.kv_heads = 1, s.head_dim = 4, s.bias = bias;
    const std::vector<Operand> forward{lead("q", {2, 8}, t), {"k", {2, 4}, t},
                                       {"v", {2, 4}, t},     {"document_start", {1, 2}, DType::i32},
                                       {"out", {2, 8}, t},   {"lse", {2, 2}, g}};
    expect_types(
        "attention_forward", forward,
        [&](auto& e, const auto& v) {
          kernels::attention_forward(
              e, {.shape = s, .q = v[0], .k = v[1], .v = v[2], .document_start = v[3], .out = v[4], .lse = v[5]});
        },
        Rows::some);
    auto backward = forward;
    for (const auto& o : {Operand{"dout", {2, 8}, t},
                          {"dq", {2, 8}, t},
                          {"dk", {2, 4}, t},
                          {"dv", {2, 4}, t},
                          Operand{"d_bias", {2, 3}, g}})
      backward.push_back(o);
    expect_types(
        "attention_backward", backward,
        [&](auto& e, const auto& v) {
          kernels::attention_backward(e, {.shape = s,
                                          .q = v[0],
                                          .k = v[1],
                                          .v = v[2],
                                          .document_start = v[3],
                                          .out = v[4],
                                          .lse = v[5],
                                          .dout = v[6],
                                          .dq = v[7],
                                          .dk = v[8],
                                          .dv = v[9],
                                          .d_bias = v[10]});
        },
        Rows::some);
    for (const bool biased : {false, true}) {
      std::vector<Operand> operands{lead("q", {1, 8}, t), {"k", {3, 4}, t}, {"v", {3, 4}, t}, {"out", {1, 8}, t}};
      if (biased) operands.push_back({"bias", {2, 3}, g});
      expect_types(
          "cached_attention", operands,
          [&](auto& e, const auto& v) {
            kernels::cached_attention(e, {.q = v[0],
                                          .k = v[1],
                                          .v = v[2],
                                          .heads = 2,
                                          .kv_heads = 1,
                                          .scale = 1,
                                          .out = v[3],
                                          .bias = biased ? v[4] : View{}});
          },
          biased ? Rows::some : Rows::any);
    }
    for (const bool inverse : {false, true})
      expect_types(inverse ? "rotary_backward" : "rotary_forward",
                   {{"x", {2, 8}, t, working}, {"positions", {1, 2}, DType::i32}}, [&](auto& e, const auto& v) {
                     (inverse ? kernels::rotary_backward : kernels::rotary_forward)(e, v[0], v[1],
                                                                                    {.heads = 2, .head_dim = 4});
                   });
  });
}

TEST(OperandTypes, RelativePositions) {
  with_each_type([](DType t, DType g) {
    const auto of = [](const View& borders) {
      return kernels::RelativePositions{.borders = borders, .bidirectional = true, .queries = 2, .keys = 3};
    };
    expect_types(
        "relative_positions_expand",
        {{"borders", {1, 4}, DType::i32}, Operand{"table", {8, 3}, t, same_sums(t), working}, {"bias", {3, 4}, g}},
        [&](auto& e, const auto& v) { kernels::relative_positions_expand(e, of(v[0]), v[1], v[2]); }, Rows::some);
  });
  for (const auto g : accumulated)
    expect_types(
        "relative_positions_fold",
        {{"borders", {1, 4}, DType::i32}, lead("d_bias", {3, 4}, g, accumulated), {"d_table", {8, 3}, g}},
        [](auto& e, const auto& v) {
          const kernels::RelativePositions positions{.borders = v[0], .bidirectional = true, .queries = 2, .keys = 3};
          kernels::relative_positions_fold(e, positions, v[1], v[2], kernels::FoldInto::overwrite);
        },
        Rows::some);
}

TEST(OperandShapes, AttentionWithoutSequences) {
  with_each_type([](DType t, DType g) {
    kernels::AttentionShape s;
    s.batch = 0, s.sequence = 2, s.heads = 2, s.kv_heads = 1, s.head_dim = 4;
    const Operand q{"q", {2, 8}, t}, k{"k", {2, 4}, t}, v{"v", {2, 4}, t}, start{"document_start", {2, 2}, DType::i32},
        out{"out", {2, 8}, t}, lse{"lse", {2, 2}, g};
    expect_no_rows("attention_forward", {q, k, v, start, out, lse}, [&](auto& e, const auto& x) {
      kernels::attention_forward(
          e, {.shape = s, .q = x[0], .k = x[1], .v = x[2], .document_start = x[3], .out = x[4], .lse = x[5]});
    });
    expect_no_rows("attention_backward", {q, k, v, start, out, lse, q, q, k, v}, [&](auto& e, const auto& x) {
      kernels::attention_backward(e, {.shape = s,
                                      .q = x[0],
                                      .k = x[1],
                                      .v = x[2],
                                      .document_start = x[3],
                                      .out = x[4],
                                      .lse = x[5],
                                      .dout = x[6],
                                      .dq = x[7],
                                      .dk = x[8],
                                      .dv = x[9]});
    });
  });
}

}  // namespace types_attention_test
}  // namespace trainyard::test
