// Readers of a whole checkpoint add up its fingerprints, on any layout. They find payloads that changed together with
// all their checksums.
#include "tests/checkpoint/layouts.h"

#include "libtrain/base/error.h"
#include "libtrain/checkpoint/read_sums.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace sample {
namespace read_sums_test {

// Reads as the ranks of a topology do. Returns "" if all tensors have the manifest's fingerprints, else the refusal.
std::string told_by(const std::string& folder, const plan::Topology& topology, int threads = 1) {
  checkpoint::Reader reader(folder, checkpoint::Reader::Check::all_but_payloads);
  const auto kinds = checkpoint::kinds_of(reader.state());
  checkpoint::ReadSums all(reader);
  for (int r = 0; r < topology.world(); ++r) {
    checkpoint::ReadSums own(reader, threads);
    for (const auto& kind : kinds)
      for (const auto& flat_group : plan::flat_groups(part_of(reader.state().model, topology, {}, r))) {
        if (is_factored(reader.state().optimizer, kind)) {
          for (const auto& p : flat_group.parameters)
            reader.read_tensor(kind, p);  // as each rank that holds some of it
          checkpoint::for_each_begun(flat_group, plan::layout(flat_group, topology), topology, r, [&](std::size_t i) {
            const auto& p = flat_group.parameters[i];
            const auto values = reader.read_tensor(kind, p);
            own.add(kind, p.name, 0, std::ssize(values), values.data());
          });
          continue;
        }
        std::vector<float> shard(static_cast<std::size_t>(plan::layout(flat_group, topology).shard));
        reader.read_shard(kind, flat_group, topology, r, shard.data());
        own.add(kind, flat_group, topology, r, shard.data());
      }
    all.add(own);
  }
  try {
    all.require();
    return "";
  } catch (const base::InputError& e) {
    return e.what();
  }
}

TEST(read_sums, are_those_of_the_manifest_on_any_layout) {
  for (const auto& model : {gpt_of_heads(), llama_of_heads(), moe()})
    for (const auto dtype : {base::DType::f32, base::DType::bf16, base::DType::f16}) {
      const Scratch scratch;
      save(scratch.path, state(model, dtype, 5), plan::replicas_of(3, 1));
      for (const auto& topology : {plan::replicas_of(1, 1), plan::replicas_of(3, 1), plan::replicas_of(4, 2)}) {
        if (model.name == "sample-moe" && topology.size(plan::Axis::tensor) > 1) continue;
        EXPECT_EQ(told_by(scratch.path + "/step-00000005", topology), "") << model.name << " " << topology.world();
      }
    }
}

// Each state of rows or columns is counted once: one that were missing would not be checked, one too many differ.
TEST(read_sums, states_of_rows_and_columns_are_counted_once) {
  for (const auto& model : {gpt_of_heads(), moe()}) {
    const Scratch scratch;
    save(scratch.path, factored_state(model, base::DType::f32, 5), plan::replicas_of(3, 1));
    const auto folder = scratch.path + "/step-00000005";
    for (const auto& topology : {plan::replicas_of(1, 1), plan::replicas_of(4, 2), plan::replicas_of(6, 1)}) {
      if (model.name == "sample-moe" && topology.size(plan::Axis::tensor) > 1) continue;
      EXPECT_EQ(told_by(folder, topology), "") << model.name << " " << topology.world();
    }
    for (const char* name : {"column_var", "row_var"}) {
      change_payload(folder, checkpoint::Kind::state(name), 4);
      EXPECT_EQ(refusal_of(folder), "") << "every checksum is right";
      for (const auto& topology : {plan::replicas_of(1, 1), plan::replicas_of(3, 1)}) {
        const auto told = told_by(folder, topology);
        EXPECT_NE(told.find(fmt::format("/optimizer/{}/", name)), std::string::npos) << told;
      }
    }
  }
}

TEST(read_sums, payloads_that_changed_with_their_checksums_are_found) {
  for (const auto dtype : {base::DType::f32, base::DType::bf16, base::DType::f16})
    for (const auto& kind : checkpoint::kinds_of(dtype, checkpoint::Contents::all)) {
      const Scratch scratch;
      save(scratch.path, state(gpt_of_heads(), dtype, 5), plan::replicas_of(2, 1));
      const auto folder = scratch.path + "/step-00000005";
      change_payload(folder, kind, 100);
      EXPECT_EQ(refusal_of(folder), "") << "every checksum is right";
      for (const auto& topology : {plan::replicas_of(1, 1), plan::replicas_of(4, 2)}) {
        const auto told = told_by(folder, topology, 2);
        EXPECT_NE(told.find(fmt::format("{}/", path_of(kind))), std::string::npos) << told;
        EXPECT_NE(told.find("with fingerprint"), std::string::npos) << told;
      }
    }
}

// Reads as a conversion does: several threads, some tensors twice. A tensor that was not read whole is not checked.
TEST(read_sums, tensors_may_be_read_in_parts_and_again) {
  const Scratch scratch;
  const auto saved = state(large(), base::DType::f32, 5);
  save(scratch.path, saved, plan::replicas_of(2, 1));
  const auto folder = scratch.path + "/step-00000005";
  const auto read = [&](int times, std::int64_t left_out) {
    checkpoint::Reader reader(folder);
    checkpoint::ReadSums sums(reader, 3);
    for (const auto& p : reader.manifest().parameters)
      for (int again = 0; again < times; ++again)
        for (std::int64_t first = 0, step = 300'001; first < p.count - left_out; first += step) {
          const auto count = std::min(step, p.count - left_out - first);
          std::vector<float> values(static_cast<std::size_t>(count));
          reader.read_tensor(checkpoint::Kind::master, p.name, first, count, values.data());
          sums.add(checkpoint::Kind::master, p.name, first, count, values.data());
        }
    sums.require();
  };
  EXPECT_NO_THROW(read(1, 0));
  EXPECT_NO_THROW(read(2, 0));
  EXPECT_NO_THROW(read(1, 1));
  EXPECT_EQ(told_by(folder, plan::replicas_of(1, 1), 3), "") << "large pieces, by several threads";
  change_payload(folder, checkpoint::Kind::model, 4'000'001);
  EXPECT_THROW(read(1, 0), base::InputError);
  EXPECT_THROW(read(2, 0), base::InputError);
  EXPECT_NE(told_by(folder, plan::replicas_of(1, 1), 3), "");
  EXPECT_NO_THROW(read(1, 1'000'000));
}

}  // namespace read_sums_test
}  // namespace sample
