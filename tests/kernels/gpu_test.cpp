// Compares every GPU kernel with its CPU kernel, from one table: equal bits where the header promises them, otherwise
// within a tolerance for the dtype. The environment names the module: the emulated one on any machine, CUDA's where a
// GPU exists.
#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/cast/cast.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/embedding/embedding.h"
#include "kernels/finite/finite.h"
#include "kernels/gemm/gemm.h"
#include "kernels/linear/linear.h"
#include "kernels/ordered_sum/ordered_sum.h"
#include "kernels/square_sum/square_sum.h"
#include "kernels/step_numbers/step_numbers.h"
#include "tests/gpu_main.h"
#include "tests/kernels/gpu_compare.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace trainyard::test {
namespace {

// Rows with and without whole groups of 16 bytes.
TEST(Gpu, Activations) {
  for (const std::int64_t n : {70, 72})
    compare(
        [n](Place& place, DType t) {
          const std::int64_t gap = n == 72 ? 8 : 3;
          MatrixBuffer x(t, 5, n, gap), up(t, 5, n), dy(t, 5, n, gap);
          x.fill(1), up.fill(2), dy.fill(3);
          const auto vx = place(x), vup = place(up), vdy = place(dy);
          using enum kernels::Activation;
          Outputs made;
          made.reserve(32);
          const auto output = [&](std::int64_t own_gap) { return place(made.emplace_back(t, 5, n, own_gap)); };
          for (const auto form : {gelu_tanh, gelu_erf, relu, relu_squared}) {
            kernels::activation_forward(place.exec(), form, vx, output(2 * gap));
            kernels::activation_backward(place.exec(), form, vx, vdy, output(0));
          }
          for (const auto form : {silu, gelu_tanh, gelu_erf}) {
            kernels::gated_forward(place.exec(), form, vx, vup, output(gap));
            const auto dgate = output(0), dup = output(0);
            kernels::gated_backward(place.exec(),
                                    {.form = form, .gate = vx, .up = vup, .dy = vdy, .dgate = dgate, .dup = dup});
          }
          place.fetch();
          return made;
        },
        Same::tolerance, all);
}

TEST(Gpu, CopiesGiveTheBitsOfTheCpu) {
  for (const std::int64_t n : {33, 36})
    for (auto to : all)
      compare(
          [to, n](Place& place, DType t) {
            const std::int64_t gap = n == 36 ? 4 : 1;
            MatrixBuffer x(t, 4, n, 2 * gap), y(to, 4, n, gap), f(to, 4, n), s(t, 4, n, 5 * gap);
            x.fill(7), s.fill(8);
            const auto vx = place(x);
            kernels::cast(place.exec(), vx, place(y));
            kernels::fill(place.exec(), place(f), 0.1);
            kernels::add(place.exec(), place(s), vx);
            place.fetch();
            return Outputs{y, f, s};
          },
          Same::bits, all);
}

// Ties, subnormals and overflow, in rows of groups and of single elements.
TEST(Gpu, EveryF16IsCastAsOnTheCpu) {
  for (const std::int64_t cols : {65536, 65535})
    for (const auto to : all)
      compare(
          [cols, to](Place& place, DType) {
            MatrixBuffer halves(DType::f16, 1, cols), halfway(DType::f32, 1, cols), wide(to, 1, cols),
                rounded(DType::f16, 1, cols);
            for (std::int64_t i = 0; i < cols; ++i) {
              // A NaN may have any bits of one.
              const auto bits = static_cast<std::uint16_t>((i & 0x7fff) > 0x7c00 ? 0x3c00 : i);
              reinterpret_cast<std::uint16_t*>(halves.bytes.data())[i] = bits;
              const auto next =
                  base::f16::widen(static_cast<std::uint16_t>((bits & 0x7fff) < 0x7c00 ? bits + 1 : bits));
              halfway.set(0, i, 0.5 * (halves(0, i) + static_cast<double>(std::isinf(next) ? 65536.0f : next)));
            }
            kernels::cast(place.exec(), place(halves), place(wide));
            kernels::cast(place.exec(), place(halfway), place(rounded));
            place.fetch();
            return Outputs{wide, rounded};
          },
          Same::bits, {DType::f32});
}

TEST(Gpu, FoldGivesTheBitsOfTheCpu) {
  compare(
      [](Place& place, DType t) {
        MatrixBuffer pieces(t, 5, 300, 4), first(t, 1, 300), next(t, 1, 300);
        pieces.fill(1), next.fill(2);
        const auto v = place(pieces);
        kernels::ordered_sum(place.exec(), v, place(first), base::ReductionRound::first);
        kernels::ordered_sum(place.exec(), v, place(next), base::ReductionRound::next);
        place.fetch();
        return Outputs{first, next};
      },
      Same::bits, {DType::f32, DType::f64});
}

TEST(Gpu, SquareSumIsExact) {
  MatrixBuffer x(DType::f32, 1, 5000);
  x.fill(3);
  for (std::int64_t i = 0; i < 5000; i += 7) x.set(0, i, x(0, i) * std::ldexp(1.0, static_cast<int>(i % 250) - 125));
  x.set(0, 1, 0), x.set(0, 2, 1e-45), x.set(0, 3, 3e38), x.set(0, 4, -1.4e-44);
  Place host(Place::Kind::host), gpu(Place::Kind::gpu);
  kernels::FixedPointSum want, got;
  kernels::square_sum(host.exec(), host(x), want);
  kernels::square_sum(gpu.exec(), gpu(x), got);
  EXPECT_EQ(got.limbs, want.limbs);
  x.set(0, 9, std::numeric_limits<double>::infinity());
  Place again(Place::Kind::gpu);
  kernels::square_sum(again.exec(), again(x), got);
  EXPECT_TRUE(std::isnan(kernels::value(got)));
  EXPECT_EQ(kernels::first_nonfinite(again.exec(), again(x)), 9);
}

TEST(Gpu, SumsOfManyTensorsAreThoseOfTheCpu) {
  std::vector<std::vector<std::int64_t>> both;
  for (auto kind : {Place::Kind::host, Place::Kind::gpu}) {
    MatrixBuffer a(DType::f32, 1, 3000), b(DType::f32, 1, 70), c(DType::f32, 1, 1);
    a.fill(1), b.fill(2), c.fill(3);
    b.set(0, 3, 3e38), c.set(0, 0, 1e-45);
    std::vector<std::int64_t> limbs(21, -1);
    Place place(kind);
    const auto va = place(a);  // also from its second element on: not a multiple of 16 bytes
    const base::ConstView xs[] = {va, place(b), place(c), {va.ptr<float>() + 1, DType::f32, {2998}, va.device}};
    kernels::square_sum(place.exec(), xs, place(limbs, {21}));
    place.fetch();
    both.push_back(limbs);
  }
  EXPECT_EQ(both[0], both[1]);
}

// A run that ends with a step that is not finite updates nothing after it. A run that skips the step goes on.
TEST(Gpu, LaterStepsAreFiniteUnlessTheFaultLasts) {
  for (const bool lasting : {true, false})
    for (auto kind : {Place::Kind::host, Place::Kind::gpu}) {
      Place place(kind);
      std::vector<double> good{1, 2}, bad{std::numeric_limits<double>::infinity(), 2};
      std::vector<std::int64_t> limbs(21, 0);
      std::vector<kernels::StepNumbers> numbers(3);
      const double* losses[] = {place.raw(good), place.raw(bad), place.raw(good)};
      const auto* digits = place.raw(limbs);
      auto* out = place.raw(numbers);
      for (const auto* of_step : losses) {
        kernels::StepNumbersArgs args;
        args.losses = of_step, args.places = args.micros = 1, args.rows = {1, 1, 1};
        args.limbs = digits, args.lasting = lasting, args.out = out;
        kernels::step_numbers(place.exec(), args);
        if (of_step != losses[1]) continue;
        std::vector<kernels::StepNumbers> seen(1);
        tensor::copy(place.exec(), base::View(out, DType::u8, {sizeof seen[0]}, place.exec().device()),
                     base::View(seen.data(), DType::u8, {sizeof seen[0]}));
        place.exec().synchronize();
        EXPECT_EQ(seen[0].finite, 0);
      }
      place.fetch();
      EXPECT_EQ(numbers[0].finite, lasting ? 0 : 1);
      EXPECT_EQ(numbers[0].loss, 0.5);
    }
}

// An outlier changes nothing, and the next step is judged alone, whatever `lasting` says. A step that is not finite is
// none. A limit itself is within it, and 0 is no limit.
TEST(Gpu, AStepAboveALimitIsAnOutlierAndItAlone) {
  const double infinity = std::numeric_limits<double>::infinity();
  struct Step {
    double loss, most_norm, most_loss;
    int finite, outlier;
  };
  const double norm = 3.0 / 4;  // of the digits below: the root of 9, over the targets
  const std::vector<Step> calm{{2, 0, 0, 1, 0},     {2, norm, 0.5, 1, 0}, {2, std::nextafter(norm, 0), 0, 0, 1},
                               {2, 0, 0, 1, 0},     {2.5, 1, 0.5, 0, 1},  {2.5, 0.5, 0.5, 0, 1},
                               {2.5, 0.5, 0, 0, 1}, {2, 1, 1, 1, 0},      {infinity, 1e-3, 1e-3, 0, 0}};
  for (const bool lasting : {true, false})
    for (auto kind : {Place::Kind::host, Place::Kind::gpu}) {
      auto steps = calm;
      steps.push_back({2, 0, 0, lasting ? 0 : 1, 0});
      steps.push_back({2, 1e-3, 0, 0, lasting ? 0 : 1});
      steps.push_back({2, 0, 0, lasting ? 0 : 1, 0});
      Place place(kind);
      std::vector<std::vector<double>> losses;
      for (const auto& step : steps) losses.push_back({step.loss, 4});
      std::vector<std::int64_t> limbs(21, 0);
      limbs[10] = 9;
      std::vector<kernels::StepNumbers> numbers(1);
      const auto* digits = place.raw(limbs);
      auto* out = place.raw(numbers);
      for (std::size_t i = 0; i < steps.size(); ++i) {
        kernels::StepNumbersArgs args;
        args.losses = place.raw(losses[i]), args.places = args.micros = 1, args.rows = {1, 1, 1};
        args.limbs = digits, args.lasting = lasting, args.out = out;
        args.most_norm = steps[i].most_norm, args.most_loss = steps[i].most_loss;
        kernels::step_numbers(place.exec(), args);
        std::vector<kernels::StepNumbers> seen(1);
        tensor::copy(place.exec(), base::View(out, DType::u8, {sizeof seen[0]}, place.exec().device()),
                     base::View(seen.data(), DType::u8, {sizeof seen[0]}));
        place.exec().synchronize();
        EXPECT_EQ(seen[0].finite, steps[i].finite) << i;
        EXPECT_EQ(seen[0].outlier, steps[i].outlier) << i;
        EXPECT_EQ(seen[0].gradient_norm, norm) << i;
      }
    }
}

TEST(Gpu, StepNumbersAreThoseOfTheCpu) {
  for (double clip : {0.0, 1e-3, 1e9})
    for (int wrong = 0; wrong < 3; ++wrong) {  // nothing, a loss, a norm
      const int copies = clip == 0 ? 1 : 2;    // of a rank's losses; the second copy does not count
      const double loss_scale = clip == 0 ? 1 : clip == 1e9 ? 65536 : 0.125;
      std::vector<kernels::StepNumbers> both;
      for (auto kind : {Place::Kind::host, Place::Kind::gpu}) {
        Place place(kind);
        // 3 ranks, 7 micro-batches in groups of 1: rank 0 has three, the other ranks two and an idle accumulation step.
        std::vector<double> losses(static_cast<std::size_t>(18 * copies), 0.5);
        for (int r = 0; r < 3; ++r)
          for (int k = 0; k < 3; ++k) {
            double* pair = losses.data() + 6 * copies * r + 2 * k;
            pair[0] = pair[1] = 0;
            if (3 * k + r < 7) pair[0] = 0.1 * (3 * k + r) + 1e-9, pair[1] = 100 + k;
          }
        if (wrong == 1) losses[2] = std::numeric_limits<double>::quiet_NaN();
        std::vector<std::int64_t> limbs(21, 0);
        limbs[10] = 12345678901, limbs[9] = 77;
        if (wrong == 2) limbs[20] = 1;
        std::vector<kernels::StepNumbers> numbers(1);
        auto* out = place.raw(numbers);
        const auto* l = place.raw(losses);
        const auto* d = place.raw(limbs);
        kernels::StepNumbersArgs args{l, 3, 7, 1, {3, 1, copies}, d, clip};
        args.out = out, args.loss_scale = loss_scale;
        kernels::step_numbers(place.exec(), args);
        place.fetch();
        both.push_back(numbers[0]);
      }
      EXPECT_EQ(both[0].finite, wrong == 0);
      EXPECT_EQ(both[1].finite, wrong == 0);
      EXPECT_EQ(both[0].targets, 100 * 3 + 101 * 3 + 102);
      EXPECT_EQ(both[1].targets, both[0].targets);
      if (wrong != 0) continue;
      double sum = 0;  // by the definition, in the order of micro-batches
      for (int m = 0; m < 7; ++m) sum += 0.1 * m + 1e-9;
      EXPECT_EQ(both[0].loss, sum / 705);
      EXPECT_EQ(both[1].loss, both[0].loss);
      const double norm = std::sqrt(12345678901.0 + 77 * std::ldexp(1.0, -32)) / 705 / loss_scale;
      EXPECT_DOUBLE_EQ(both[0].gradient_norm, norm);
      EXPECT_EQ(both[1].gradient_norm, both[0].gradient_norm);
      EXPECT_FLOAT_EQ(both[0].gradient_scale, static_cast<float>((clip == 1e-3 ? clip / norm : 1) / 705 / loss_scale));
      EXPECT_EQ(both[1].gradient_scale, both[0].gradient_scale);
    }
}

// Epilogues fused into the product, and as kernels after it.
TEST(Gpu, Linear) {
  for (const auto& [epilogues, form] : {std::pair{"fused", kernels::Activation::gelu_tanh},
                                        {"apart", kernels::Activation::gelu_tanh},
                                        {"fused", kernels::Activation::gelu_erf},
                                        {"apart", kernels::Activation::gelu_erf},
                                        {"fused", kernels::Activation::relu}}) {
    setenv("TRAINYARD_EMULATED_EPILOGUES", epilogues, 1);
    compare(
        [form = form](Place& place, DType t) {
          const std::int64_t n = 130, in = 24, out = 40;
          const auto g = accumulation(t);
          MatrixBuffer x(t, n, in), w(t, out, in), b(t, 1, out), y(t, n, out), pre(t, n, out, 8), act(t, n, out, 16),
              bare(t, n, out), bare_act(t, n, out);
          MatrixBuffer dy(t, n, out), dx(t, n, in), dw(g, out, in), db(g, 1, out), dw_alone(g, out, in),
              inner(t, n, in, 8), dinner(t, n, in, 8);
          x.fill(1), w.fill(2), b.fill(3), dy.fill(4), inner.fill(5);
          const auto vx = place(x), vw = place(w), vb = place(b), vdy = place(dy);
          kernels::linear_forward(place.exec(), vx, vw, vb, place(y));
          kernels::linear_activation_forward(
              place.exec(), {.form = form, .x = vx, .weight = vw, .bias = vb, .pre = place(pre), .y = place(act)});
          kernels::linear_activation_forward(
              place.exec(), {.form = form, .x = vx, .weight = vw, .pre = place(bare), .y = place(bare_act)});
          kernels::linear_backward_input(place.exec(), vdy, vw, place(dx));
          kernels::linear_activation_backward_input(place.exec(), form, vdy, vw, place(inner), place(dinner));
          kernels::linear_backward_weight(place.exec(), vdy, vx, place(dw), place(db));
          kernels::linear_backward_weight(place.exec(), vdy, vx, place(dw_alone), {});
          place.fetch();
          return Outputs{y, pre, act, bare, bare_act, dx, dinner, dw, db, dw_alone};
        },
        Same::tolerance, all);
  }
  unsetenv("TRAINYARD_EMULATED_EPILOGUES");
}

TEST(Gpu, Products) {
  for (auto ta : {kernels::Transpose::no, kernels::Transpose::yes})
    for (auto tb : {kernels::Transpose::no, kernels::Transpose::yes})
      compare(
          [&](Place& place, DType t) {
            const std::int64_t m = 40, n = 24, k = 16;
            const bool at = ta == kernels::Transpose::yes, bt = tb == kernels::Transpose::yes;
            MatrixBuffer a(t, at ? k : m, at ? m : k, 8), b(t, bt ? n : k, bt ? k : n, 8), c(accumulation(t), m, n, 8);
            a.fill(1), b.fill(2), c.fill(3);
            kernels::gemm(place.exec(), {.a = place(a),
                                         .b = place(b),
                                         .trans_a = ta,
                                         .trans_b = tb,
                                         .c = place(c),
                                         .accumulate = kernels::Accumulate::yes});
            place.fetch();
            return Outputs{c};
          },
          Same::tolerance, all);
}

// Rows with and without whole groups of 16 bytes, and a vocabulary that ends inside a group.
TEST(Gpu, CrossEntropy) {
  for (const auto& [stored, smoothing] : {std::pair{768, 0.0}, {769, 0.0}, {768, 0.2}, {769, 0.2}})
    compare(
        [stored = stored, smoothing = smoothing](Place& place, DType t) {
          const std::int64_t n = 6, v = 701;
          const auto g = accumulation(t);
          MatrixBuffer logits(g, n, stored), dlogits(t, n, stored), losses(DType::f64, 1, n), in_place(g, n, stored),
              again(DType::f64, 1, n), alone(DType::f64, 1, n), capped(g, n, stored);
          logits.fill(1), in_place.fill(1), capped.fill(9);
          const double softcap = stored == 768 ? 20 : 0;
          for (std::int64_t i = 0; i < n; ++i) logits.set(i, 5, 9.0 * i), in_place.set(i, 5, 9.0 * i);
          std::vector<std::int32_t> targets{0, 5, 699, 3, 5, 8};
          std::vector<std::uint8_t> weights{1, 1, 1, 0, 1, 1};
          const auto vt = place(targets, {n}), vw = place(weights, {n}), vl = place(logits);
          kernels::cross_entropy_chunk(place.exec(), {.logits = vl,
                                                      .targets = vt,
                                                      .weights = vw,
                                                      .vocabulary = v,
                                                      .losses = place(losses),
                                                      .dlogits = place(dlogits),
                                                      .loss_scale = 0.5,
                                                      .softcap = softcap,
                                                      .label_smoothing = smoothing});
          kernels::cap_logits(place.exec(), place(capped), 2);
          kernels::cross_entropy_chunk(
              place.exec(), {.logits = vl, .targets = vt, .weights = vw, .vocabulary = v, .losses = place(alone)});
          if (!base::is_narrow(t)) {
            const auto both = place(in_place);
            kernels::cross_entropy_chunk(place.exec(), {.logits = both,
                                                        .targets = vt,
                                                        .weights = vw,
                                                        .vocabulary = v,
                                                        .losses = place(again),
                                                        .dlogits = both,
                                                        .softcap = softcap,
                                                        .label_smoothing = smoothing});
          }
          place.fetch();
          if (base::is_narrow(t)) return Outputs{capped, dlogits, losses, alone};
          return Outputs{capped, dlogits, losses, alone, in_place, again};
        },
        Same::tolerance, all);
}

TEST(Gpu, Attention) {
  const std::int64_t shapes[][4] = {{1, 1, 1, 1}, {7, 2, 1, 5}, {67, 4, 2, 16}, {70, 2, 2, 64}, {40, 1, 1, 128}};
  for (const auto& s : shapes)
    for (double dropout : {0.0, 0.25})
      compare(
          [&](Place& place, DType t) {
            const auto T = s[0], heads = s[1], kv = s[2], d = s[3];
            MatrixBuffer q(t, 2 * T, heads * d, 3), k(t, 2 * T, kv * d, 1), v(t, 2 * T, kv * d),
                out(t, 2 * T, heads * d, 2), lse(accumulation(t), 2 * heads, T);
            MatrixBuffer dout(t, 2 * T, heads * d), dq(t, 2 * T, heads * d), dk(t, 2 * T, kv * d), dv(t, 2 * T, kv * d);
            q.fill(1), k.fill(2), v.fill(3), dout.fill(4);
            std::vector<std::int32_t> start(static_cast<std::size_t>(2 * T), 0);
            for (auto i = T / 3; i < T; ++i) start[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(T / 3);
            std::vector<std::uint64_t> samples{11, 5};
            kernels::AttentionShape shape{2,   T,       heads, kv,   d,
                                          0.3, dropout, 99,    1234, place(samples, {2}).ptr<std::uint64_t>()};
            const auto vq = place(q), vk = place(k), vv = place(v), vs = place(start, {2, T}), vo = place(out),
                       vl = place(lse);
            kernels::attention_forward(
                place.exec(), {.shape = shape, .q = vq, .k = vk, .v = vv, .document_start = vs, .out = vo, .lse = vl});
            kernels::attention_backward(place.exec(), {.shape = shape,
                                                       .q = vq,
                                                       .k = vk,
                                                       .v = vv,
                                                       .document_start = vs,
                                                       .out = vo,
                                                       .lse = vl,
                                                       .dout = place(dout),
                                                       .dq = place(dq),
                                                       .dk = place(dk),
                                                       .dv = place(dv)});
            place.fetch();
            return Outputs{out, lse, dq, dk, dv};
          },
          Same::tolerance, all);
}

// bf16 rows at multiples of 16 bytes use tensor cores: several tiles, a partial last one, documents that begin inside a
// tile, shared key-value heads.
TEST(Gpu, AttentionOnTensorCores) {
  const std::int64_t shapes[][4] = {{1, 1, 1, 64}, {64, 1, 1, 64}, {150, 2, 1, 64}, {130, 2, 2, 128}};
  for (const auto& s : shapes)
    for (double dropout : {0.0, 0.25})
      compare(
          [&](Place& place, DType t) {
            const auto T = s[0], heads = s[1], kv = s[2], d = s[3];
            MatrixBuffer q(t, 2 * T, heads * d, 8), k(t, 2 * T, kv * d, 16), v(t, 2 * T, kv * d),
                out(t, 2 * T, heads * d, 8), lse(DType::f32, 2 * heads, T);
            MatrixBuffer dout(t, 2 * T, heads * d), dq(t, 2 * T, heads * d, 8), dk(t, 2 * T, kv * d),
                dv(t, 2 * T, kv * d, 8);
            q.fill(1), k.fill(2), v.fill(3), dout.fill(4);
            std::vector<std::int32_t> start(static_cast<std::size_t>(2 * T), 0);
            for (auto i = T / 3; i < T; ++i) start[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(T / 3);
            for (auto i = T - 5; i > 0 && i < T; ++i)
              start[static_cast<std::size_t>(T + i)] = static_cast<std::int32_t>(T - 5);
            std::vector<std::uint64_t> samples{11, 5};
            kernels::AttentionShape shape{2,    T,       heads, kv,   d,
                                          0.15, dropout, 99,    1234, place(samples, {2}).ptr<std::uint64_t>()};
            const auto vq = place(q), vk = place(k), vv = place(v), vs = place(start, {2, T}), vo = place(out),
                       vl = place(lse);
            kernels::attention_forward(
                place.exec(), {.shape = shape, .q = vq, .k = vk, .v = vv, .document_start = vs, .out = vo, .lse = vl});
            kernels::attention_backward(place.exec(), {.shape = shape,
                                                       .q = vq,
                                                       .k = vk,
                                                       .v = vv,
                                                       .document_start = vs,
                                                       .out = vo,
                                                       .lse = vl,
                                                       .dout = place(dout),
                                                       .dq = place(dq),
                                                       .dk = place(dk),
                                                       .dv = place(dv)});
            place.fetch();
            return Outputs{out, lse, dq, dk, dv};
          },
          Same::tolerance, {DType::bf16});
}

// Sums over many blocks or rows have the same bits however busy the device is: 1000 runs on a GPU while another stream
// works.
TEST(Gpu, ManyRunsGiveTheSameBits) {
  const bool emulated = std::string(tensor::gpu_module().runtime->name) == "emulated";
  const int runs = emulated ? 3 : 1000;
  const std::int64_t T = emulated ? 130 : 1024, heads = emulated ? 2 : 12, kv = emulated ? 1 : 4, d = 64, batch = 2,
                     n = batch * T;
  MatrixBuffer q(DType::bf16, n, heads * d), k(DType::bf16, n, kv * d), v(DType::bf16, n, kv * d),
      dout(DType::bf16, n, heads * d), out(DType::bf16, n, heads * d);
  MatrixBuffer lse(DType::f32, batch * heads, T), dq(DType::bf16, n, heads * d), dk(DType::bf16, n, kv * d),
      dv(DType::bf16, n, kv * d), dtable(DType::f32, 90, heads * d);
  MatrixBuffer a(DType::bf16, 512, 512), b(DType::bf16, 512, 512), c(DType::bf16, 512, 512);
  q.fill(1), k.fill(2), v.fill(3), dout.fill(4), a.fill(5), b.fill(6);
  std::vector<std::int32_t> start(static_cast<std::size_t>(n), 0), tokens;
  for (std::int64_t i = 0; i < n; ++i) tokens.push_back(static_cast<std::int32_t>(i % 3 == 0 ? 7 : i * i % 89));
  std::vector<std::uint64_t> samples{11, 5};
  std::vector<std::int64_t> limbs(21);
  Place place(Place::Kind::gpu), other(Place::Kind::gpu);
  kernels::AttentionShape shape{batch, T, heads, kv, d, 0.125, 0.1, 99, 1234, place(samples, {2}).ptr<std::uint64_t>()};
  const auto vq = place(q), vk = place(k), vv = place(v), vs = place(start, {batch, T}), vo = place(out),
             vl = place(lse), vd = place(dout), vdq = place(dq), vdk = place(dk), vdv = place(dv);
  const auto vt = place(tokens, {batch, T}), table = place(dtable), vlimbs = place(limbs, {21}), va = other(a),
             vb = other(b), vc = other(c);
  std::vector<std::vector<char>> first;
  for (int run = 0; run < runs; ++run) {
    for (int load = 0; !emulated && load < run % 7; ++load)
      kernels::gemm(other.exec(),
                    {.a = va, .b = vb, .trans_a = kernels::Transpose::no, .trans_b = kernels::Transpose::yes, .c = vc});
    kernels::attention_forward(place.exec(),
                               {.shape = shape, .q = vq, .k = vk, .v = vv, .document_start = vs, .out = vo, .lse = vl});
    kernels::attention_backward(place.exec(), {.shape = shape,
                                               .q = vq,
                                               .k = vk,
                                               .v = vv,
                                               .document_start = vs,
                                               .out = vo,
                                               .lse = vl,
                                               .dout = vd,
                                               .dq = vdq,
                                               .dk = vdk,
                                               .dv = vdv});
    kernels::embedding_backward(place.exec(), vt, 0, vd, table);
    const base::ConstView squared[] = {table};
    kernels::square_sum(place.exec(), squared, vlimbs);
    place.fetch();
    std::vector<std::vector<char>> now{out.bytes, lse.bytes, dq.bytes, dk.bytes, dv.bytes, dtable.bytes};
    now.emplace_back(reinterpret_cast<const char*>(limbs.data()),
                     reinterpret_cast<const char*>(limbs.data() + limbs.size()));
    if (run == 0) first = std::move(now);
    else ASSERT_EQ(now, first) << "run " << run + 1;
  }
  other.fetch();
}

}  // namespace
}  // namespace trainyard::test

int main(int argc, char** argv) { return trainyard::testing::run_on_gpu(argc, argv); }
