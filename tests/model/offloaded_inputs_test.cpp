// Inputs of recomputed layers in a storage that moves every byte as late as it may: the bits of inputs in memory, the
// planned memory and transfers, steps that are abandoned, and reads out of order.
#include "libtrain/model/offloaded_inputs.h"
#include "tests/model/small_model.h"
#include "tests/params/memory_storage.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace trainyard::test {
namespace offloaded_inputs_test {

using base::DType;

constexpr int micro_batches = 3, sequences = 2, tokens = 16;

plan::ModelConfig of_layers(plan::ModelConfig m, std::int64_t layers) {
  m.layers = layers;
  return with_dropout(m);
}

struct Micro {
  Micro(const plan::ModelConfig& m, const plan::MicroShape& shape, std::int64_t activation_bytes, int number)
      : batch(formula_windows(m.vocabulary, number, sequences, tokens, true), true,
              static_cast<std::uint64_t>(40 + number)),
        activations(tensor::Category::activations, activation_bytes, test_device()),
        workspace(tensor::Category::workspace, plan::workspace_bytes(m, shape, plan::Pass::train), test_device()),
        exec(test_exec(&workspace, 1)), lists(m, shape.sequence, *exec), saved(activations) {}
  Batch batch;
  tensor::Arena activations, workspace;
  std::unique_ptr<tensor::Exec> exec;
  model::AttentionLists lists;
  model::Saved saved;
};

// The passes of a step: of a micro-batch, forward of a block, or backward.
struct Pass {
  int micro;
  std::int64_t block;
  bool forward;
};

std::vector<Pass> depth_first(std::int64_t blocks) {
  std::vector<Pass> out;
  for (int m = 0; m < micro_batches; ++m) {
    for (std::int64_t b = 0; b < blocks; ++b) out.push_back({m, b, true});
    for (auto b = blocks; b-- > 0;) out.push_back({m, b, false});
  }
  return out;
}

std::vector<Pass> breadth_first(std::int64_t blocks) {
  std::vector<Pass> out;
  for (std::int64_t b = 0; b < blocks; ++b)
    for (int m = 0; m < micro_batches; ++m) out.push_back({m, b, true});
  for (auto b = blocks; b-- > 0;)
    for (int m = 0; m < micro_batches; ++m) out.push_back({m, b, false});
  return out;
}

// Forward of a micro-batch, then backward of the one before: as one of the first pipeline stages.
std::vector<Pass> one_ahead(std::int64_t blocks) {
  std::vector<Pass> out;
  for (int m = 0; m <= micro_batches; ++m) {
    for (std::int64_t b = 0; b < blocks && m < micro_batches; ++b) out.push_back({m, b, true});
    for (auto b = blocks; b-- > 0 && m > 0;) out.push_back({m - 1, b, false});
  }
  return out;
}

struct Moved {
  std::string bits;
  base::StorageTotals bytes;
  std::int64_t peak = 0, planned = 0;
};

// Two steps over the same weights. share: of the inputs in the storage. With `abandoned`, the first step ends after so
// many passes.
Moved moved(const plan::ModelConfig& m, DType dtype, const std::vector<Pass>& passes, double share,
            std::size_t abandoned = 0) {
  const plan::MicroShape shape = Runner::on_device({{sequences, tokens}, {dtype, 1}});
  const plan::ActivationOffload offload(m, shape,
                                        share > 0 ? plan::Placement{plan::Place::disk, share} : plan::Placement{},
                                        plan::Recompute::layers, {micro_batches});
  Moved out;
  out.planned = plan::stream_bytes(m, shape) +
                plan::saved_bytes(m, shape, plan::Recompute::layers, share > 0 ? offload.layers() : 0).most;
  std::vector<base::StorageExtent> extents = {{"of another owner", 1 << 20}};
  for (std::int64_t i = 0; i < offload.extents(); ++i) extents.push_back({fmt::format("input {}", i), offload.bytes()});
  MemoryStorage storage(extents);
  tensor::Arena buffers(tensor::Category::offload_buffers, offload.buffer_bytes());
  std::unique_ptr<model::OffloadedInputs> inputs;
  if (offload.any()) inputs = std::make_unique<model::OffloadedInputs>(offload, storage, 1, buffers);
  model::Decoder decoder(m, plan::Recompute::layers);
  PlainStore store(m, dtype, 1);
  std::vector<int> reads;
  for (const auto& pass : passes)
    if (const auto layer = pass.block - 1; !pass.forward && layer >= 0 && layer < m.layers && offload.any())
      if (const auto extent = offload.extent(0, layer, pass.micro); extent >= 0) reads.push_back(extent);
  if (inputs) inputs->set_reads(reads);
  const auto step_of = [&](std::size_t end, int first_batch = 0) {
    if (inputs) inputs->begin_step();
    std::vector<std::unique_ptr<Micro>> micros;
    std::vector<std::unique_ptr<model::Step>> steps;
    std::vector<model::Flow> flows(micro_batches);
    for (int i = 0; i < micro_batches; ++i) {
      micros.push_back(std::make_unique<Micro>(m, shape, out.planned, first_batch + i));
      auto& micro = *micros.back();
      steps.push_back(std::make_unique<model::Step>(
          model::Step{*micro.exec, &store, micro.batch.micro, dtype, 7, plan::Pass::train, 0, 0}));
      steps.back()->lists = &micro.lists, steps.back()->inputs = inputs.get(), steps.back()->slot = i;
    }
    for (std::size_t i = 0; i < end; ++i) {
      const auto& pass = passes[i];
      auto& micro = *micros[base::size(pass.micro)];
      auto& step = *steps[base::size(pass.micro)];
      auto& flow = flows[base::size(pass.micro)];
      if (pass.forward && pass.block == 0) flow = decoder.open(step, micro.saved);
      if (pass.forward) {
        decoder.forward_block(pass.block, step, flow, micro.saved);
        continue;
      }
      store.committed.clear();
      decoder.backward_block(pass.block, step, flow, micro.saved);
      const auto bits = store.gradient_bits();
      out.bits.append(bits.begin(), bits.end());
    }
    for (int i = 0; i < micro_batches; ++i) {
      if (end == passes.size()) out.peak = std::max(out.peak, micros[base::size(i)]->activations.peak_bytes());
      out.bits += fmt::format(" {}", steps[base::size(i)]->loss_sum);
      micros[base::size(i)]->saved.clear();
    }
  };
  if (abandoned > 0) {
    step_of(abandoned, 10);  // other tokens, so that its inputs differ
    out.bits.clear();
    storage.wait_all();
    const auto before = storage.totals();
    step_of(passes.size());
    storage.wait_all();
    out.bytes = {storage.totals().read - before.read, storage.totals().written - before.written};
  } else {
    step_of(passes.size());
    storage.wait_all();
    out.bytes = storage.totals();
  }
  EXPECT_EQ(buffers.peak_bytes(), offload.buffer_bytes());
  return out;
}

TEST(OffloadedInputs, SameBitsAndPlannedBytes) {
  for (const auto& base : {small_gpt2(), small_llama(), small_post()})
    for (const auto dtype : {DType::f32, DType::bf16})
      for (const auto layers : {1, 2, 4}) {
        const auto m = of_layers(base, layers);
        const auto pages = base::storage_bytes(sequences * tokens * m.hidden * base::size_of(dtype));
        for (const auto& passes : {depth_first(layers + 2), breadth_first(layers + 2), one_ahead(layers + 2)}) {
          const auto want = moved(m, dtype, passes, 0);
          EXPECT_EQ(want.bytes, base::StorageTotals());
          EXPECT_EQ(want.peak, want.planned);
          for (const double share : {0.25, 0.5, 1.0}) {
            const auto got = moved(m, dtype, passes, share);
            const auto where = fmt::format("{} {}, {} layers, share {}", m.name, base::name_of(dtype), layers, share);
            EXPECT_TRUE(got.bits == want.bits) << where;
            EXPECT_EQ(got.peak, got.planned) << where;
            const auto there = static_cast<std::int64_t>(std::ceil(share * layers)) * micro_batches * pages;
            EXPECT_EQ(got.bytes, (base::StorageTotals{there, there})) << where;
          }
        }
      }
}

// Wherever a step ends, the next one has nothing of it.
TEST(OffloadedInputs, AnAbandonedStepLeavesTheNextOneRight) {
  const auto m = of_layers(small_gpt2(), 3);
  for (const auto& passes : {depth_first(5), breadth_first(5), one_ahead(5)}) {
    const auto bytes = moved(m, DType::f32, passes, 1).bytes;
    for (std::size_t end = 1; end < passes.size(); ++end) {
      const auto got = moved(m, DType::f32, passes, 1, end);
      // The same passes in memory: gradients that are not made again are those of the abandoned step.
      EXPECT_TRUE(got.bits == moved(m, DType::f32, passes, 0, end).bits) << end;
      EXPECT_EQ(got.bytes, bytes) << end;
    }
  }
}

TEST(OffloadedInputs, TakesAreInTheirOrder) {
  const auto m = of_layers(small_gpt2(), 2);
  const plan::MicroShape shape{{sequences, tokens}, {DType::f32, 1}};
  const plan::ActivationOffload offload(m, shape, {plan::Place::disk, 1}, plan::Recompute::layers, {1});
  MemoryStorage storage({{"input 0", offload.bytes()}, {"input 1", offload.bytes()}});
  tensor::Arena buffers(tensor::Category::offload_buffers, offload.buffer_bytes());
  model::OffloadedInputs inputs(offload, storage, 0, buffers);
  inputs.set_reads({1, 0});
  inputs.begin_step();
  std::vector<float> values(base::size(offload.bytes() / 4), 1.5f);
  const auto input = base::View::of(values.data(), {sequences * tokens, m.hidden});
  const auto exec = test_exec(nullptr, 1);
  EXPECT_THROW(inputs.take(1, input), std::logic_error) << "nothing was written";
  inputs.write(*exec, 0, input);
  EXPECT_THROW(inputs.take(0, input), std::logic_error) << "1 comes first";
  std::fill(values.begin(), values.end(), -2.0f);
  inputs.write(*exec, 1, input);
  EXPECT_THROW(inputs.take(0, input), std::logic_error);
  EXPECT_EQ(inputs.take(1, input).ptr<float>()[7], -2.0f);
  inputs.release();
  EXPECT_EQ(inputs.take(0, input).ptr<float>()[7], 1.5f);
  inputs.release();
  EXPECT_THROW(inputs.take(1, input), std::logic_error) << "the order has ended";
  EXPECT_THROW(inputs.write(*exec, 0, base::View::of(values.data(), {1, m.hidden})), std::logic_error);
  // A step in another order, after one that is abandoned with an input that was not read.
  inputs.begin_step();
  inputs.write(*exec, 0, input);
  inputs.set_reads({0, 1});
  inputs.begin_step();
  const auto before = storage.totals().read;
  inputs.write(*exec, 1, input);
  EXPECT_EQ(storage.totals().read, before) << "the input of the step before";
  EXPECT_THROW(inputs.take(0, input), std::logic_error);
}

}  // namespace offloaded_inputs_test
}  // namespace trainyard::test
