// A checkpoint of four ranks for tests of damage, and what its readers report.
#pragma once

#include "tests/checkpoint/reshard_files.h"

#include "libtrain/plan/model_file/model_json.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace sample {

// Four ranks along any axes. The model is tiny: three items and a tied table, or another model made from it by
// `change`.
class GridDamage : public ::testing::Test {
 protected:
  void write(const plan::Topology& topology, const plan::Stages& stages = {},
             const std::function<void(plan::ModelConfig&)>& change = {}) {
    auto model = gpt();
    model.layers = 1, model.hidden = 8, model.heads = 4, model.kv_heads = 4, model.ffn = 16, model.vocabulary = 129,
    model.context = 8, model.lanes = 2;
    if (change) change(model);
    written = state(model, base::DType::bf16, 5);
    written.identity["seed"] = written.seed;
    written.identity["model"] = plan::model_to_json(model);
    written.identity["model"].erase("name");
    if (const auto parts = topology.size(plan::Axis::expert); parts > 1) written.plan["expert_parallel"] = parts;
    save(scratch.path, written, topology, 3, stages);
    folder = scratch.path + "/step-00000005";
  }

  std::string file(int rank) const { return folder + "/" + checkpoint::rank_name(rank) + ".h5"; }

  // What all readers report: a reader, a check of all bytes, and a reshard. "" if every reader got what was saved,
  // "another value" if one did not, else the refusal. An error that is no refusal fails the test.
  std::string refusal() {
    remove_made();
    try {
      checkpoint::Reader reader(folder);
      reader.verify_all();
      for (const auto& ranks : {plan::replicas_of(1, 1), plan::replicas_of(4, 2), plan::replicas_of(4, 4)})
        if (differences(reader, ranks) != 0) return "another value";
      reshard(folder, scratch.path + "/to", {3, {}, {}, {}, {}, 1, 1});
      checkpoint::Reader made(scratch.path + "/to");
      return differences(made, 1) == 0 ? "" : "another value";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::input_refused) << e.what();
      EXPECT_FALSE(fs::exists(scratch.path + "/to")) << e.what();
      return e.what();
    }
  }
  // What a reshard alone reports; it reads files in an order of its own.
  std::string reshard_refusal() {
    remove_made();
    try {
      reshard(folder, scratch.path + "/to", {1, {}, {}, {}, {}, 4, 1});
      return "";
    } catch (const base::Error& e) {
      EXPECT_EQ(e.code(), base::ExitCode::input_refused) << e.what();
      EXPECT_FALSE(fs::exists(scratch.path + "/to")) << e.what();
      return e.what();
    }
  }
  void remove_made() const {
    for (const char* name : {"/to", "/to.partial"}) fs::remove_all(scratch.path + name);
  }
  void expect_refused(const std::string& words, const std::string& what) {
    for (const auto& message : {refusal(), reshard_refusal()})
      EXPECT_NE(message.find(words), std::string::npos) << what << ": '" << message << "'";
  }

  Scratch scratch;
  checkpoint::RunState written;
  std::string folder;
};

}  // namespace sample
