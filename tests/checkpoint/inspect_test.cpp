// inspect, run as a program: text, JSON, exit codes, the loss curve.
#include "tests/checkpoint/sample.h"

#include "libtrain/plan/plan.h"
#include "libtrain/plan/plan_json.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <sys/wait.h>

using namespace sample;
using trainyard::base::DType;

namespace {

struct Outcome {
  int code;
  std::string out, err;
};

class Inspect : public ::testing::Test {
 protected:
  Outcome run(const std::string& arguments, const std::string& environment = "LC_ALL=C") {
    const auto command = environment + " COLUMNS=60 timeout " LIMIT " " INSPECT " " + arguments + " >" + scratch.path +
                         "/out 2>" + scratch.path + "/err";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), slurp(scratch.path + "/out"), slurp(scratch.path + "/err")};
  }
  void SetUp() override {
    run_folder = scratch.path + "/run";
    fs::create_directories(run_folder + "/checkpoints");
    save(run_folder + "/checkpoints", state(gpt(), DType::bf16, 20), 3);
    checkpoint_folder = run_folder + "/checkpoints/step-00000020";
    std::string lines;
    for (int step = 1; step <= 20; ++step)
      lines += nlohmann::json{{"step", step}, {"loss", 5.0 - 0.2 * step}, {"tokens_seen", step * 128}}.dump() + "\n";
    spit(run_folder + "/metrics.jsonl", lines + "{\"step\": 21, \"lo");  // the last line is still being written
  }
  Scratch scratch;
  std::string run_folder, checkpoint_folder;
};

}  // namespace

TEST_F(Inspect, ACheckpointAsTextAndJson) {
  const auto text = run(checkpoint_folder);
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* part : {"trainyard.checkpoint/2", "step        20", "3 ranks (data 3)", "learning_rate",
                           "/optimizer/master/layers.01.ffn.down.weight", "24 x 40", "131 x 24"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  const auto json = run("--json " + checkpoint_folder);
  ASSERT_EQ(json.code, 0) << json.err;
  const auto j = nlohmann::json::parse(json.out);
  EXPECT_EQ(j["kind"], "checkpoint");
  EXPECT_EQ(j["step"], 20);
  EXPECT_EQ(j["axes"].dump(), R"([{"axis":"data","size":3}])");
  EXPECT_EQ(j["tensors"][0]["path"], "/model/embedding.tokens.weight");
  EXPECT_EQ(j["tensors"][0]["shape"], (std::vector<int>{131, 24}));
  EXPECT_EQ(j["tensors"][0]["fingerprint"].get<std::string>().size(), 16u);
  EXPECT_EQ(j["verified"], false);
  std::vector<std::string> files;
  for (const auto& [name, file] : j["files"].items()) files.push_back(name);
  EXPECT_EQ(files, (std::vector<std::string>{"checkpoint.h5", "rank-00000.h5", "rank-00001.h5", "rank-00002.h5",
                                             "ranks.index"}));
  EXPECT_NE(text.out.find("in 6 files"), std::string::npos) << text.out;
}

TEST_F(Inspect, AnotherOptimizerThanAdamWIsNamed) {
  auto other = state(gpt(), DType::f32, 21);
  other.optimizer = {"sgd", {"momentum"}};
  save(run_folder + "/checkpoints", other, 1);
  const auto shown = run(run_folder + "/checkpoints/step-00000021"), adamw = run(checkpoint_folder);
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("\n  optimizer   sgd: momentum\n"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("/optimizer/momentum/head.norm.weight"), std::string::npos) << shown.out;
  EXPECT_EQ(adamw.out.find("  optimizer "), std::string::npos) << adamw.out;
}

TEST_F(Inspect, StatesOfRowsAndColumnsHaveTheirShapes) {
  save(run_folder + "/checkpoints", factored_state(gpt(), DType::f32, 21), 2);
  const auto folder = run_folder + "/checkpoints/step-00000021";
  const auto shown = run("--verify " + folder);
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("\n  optimizer   factored: m, row_var of rows, column_var of columns\n"), std::string::npos)
      << shown.out;
  const auto j = nlohmann::json::parse(run("--json " + folder).out);
  EXPECT_EQ(j["optimizer"]["shapes"].dump(), R"({"column_var":"columns","row_var":"rows"})");
  std::map<std::string, std::string> shapes;
  for (const auto& t : j["tensors"]) shapes[t["path"]] = t["shape"].dump();
  EXPECT_EQ(shapes["/optimizer/m/layers.01.ffn.down.weight"], "[24,40]");
  EXPECT_EQ(shapes["/optimizer/row_var/layers.01.ffn.down.weight"], "[24]");
  EXPECT_EQ(shapes["/optimizer/column_var/layers.01.ffn.down.weight"], "[40]");
  EXPECT_EQ(shapes["/optimizer/row_var/layers.01.ffn.up.bias"], "[40]");
  EXPECT_EQ(shapes["/optimizer/column_var/layers.01.ffn.up.bias"], "[1]");
}

TEST_F(Inspect, ADamagedIndexIsNamed) {
  const auto file = checkpoint_folder + "/ranks.index";
  auto bytes = slurp(file);
  bytes.back() ^= 1;
  spit(file, bytes);
  for (const char* option : {"", "--verify "}) {
    const auto bad = run(option + checkpoint_folder);
    EXPECT_EQ(bad.code, 3);
    EXPECT_NE(bad.err.find("ranks.index is damaged"), std::string::npos) << bad.err;
  }
}

TEST_F(Inspect, VerifyNamesFileTensorAndRange) {
  const auto good = run("--verify " + checkpoint_folder);
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_NE(good.out.find("verified"), std::string::npos);
  const auto file = checkpoint_folder + "/rank-00001.h5";
  auto bytes = slurp(file);
  const auto payload =
      checkpoint::Reader(checkpoint_folder).manifest().files.at("rank-00001.h5").payloads.at("/optimizer/v");
  bytes[static_cast<std::size_t>(payload.offset)] ^= 1;
  spit(file, bytes);
  EXPECT_EQ(run(checkpoint_folder).code, 0);  // the metadata is right
  const auto bad = run("--verify " + checkpoint_folder);
  EXPECT_EQ(bad.code, 3);
  EXPECT_EQ(bad.out, "");
  for (const char* part : {"rank-00001.h5", "/optimizer/v/embedding.tokens.weight elements 2048 to", "try:"})
    EXPECT_NE(bad.err.find(part), std::string::npos) << part << "\n" << bad.err;
  EXPECT_EQ(run("--verify " + run_folder).code, 3);
}

TEST_F(Inspect, ARunShowsItsCurve) {
  const auto plain = run(run_folder);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_NE(plain.out.find("20 steps"), std::string::npos);
  EXPECT_NE(plain.out.find("|*"), std::string::npos) << plain.out;
  EXPECT_NE(plain.out.find("step-00000020"), std::string::npos);
  for (unsigned char c : plain.out) ASSERT_LT(c, 128);
  const auto braille = run(run_folder, "LC_ALL=C.UTF-8");
  EXPECT_NE(braille.out.find("\u2502"), std::string::npos);
  const auto j = nlohmann::json::parse(run("--json " + run_folder).out);
  EXPECT_EQ(j["kind"], "run");
  EXPECT_EQ(j["metrics"]["lines"], 20);
  EXPECT_EQ(j["checkpoints"][0]["step"], 20);
}

TEST_F(Inspect, MetricsAsCsv) {
  // Lines of an older version, a line with keys of later versions, and texts that CSV must quote.
  spit(run_folder + "/metrics.jsonl",
       "{\"step\":1,\"loss\":5.25,\"norm\":null}\n{\"step\":2,\"loss\":\"nan\",\"validation_loss\":4.5,\"host\":\"a,"
       "\\\"b\\\"\",\"more\":[1,2]}\n\n"
       "{\"loss\":0.1,\"step\":3,\"host\":\"n1\"}\n{\"step\": 4, \"lo");
  const auto csv = run("--csv " + run_folder);
  EXPECT_EQ(csv.code, 0) << csv.err;
  EXPECT_EQ(
      csv.out,
      "step,loss,norm,validation_loss,host,more\n1,5.25,,,,\n2,nan,,4.5,\"a,\"\"b\"\"\",\"[1,2]\"\n3,0.1,,,n1,\n");
  fs::rename(run_folder + "/metrics.jsonl", scratch.path + "/aside.jsonl");
  EXPECT_EQ(run("--csv " + scratch.path + "/aside.jsonl").out, csv.out);
  const auto aside = nlohmann::json::parse(run("--json " + scratch.path + "/aside.jsonl").out);
  EXPECT_EQ(aside["kind"], "metrics");
  EXPECT_EQ(aside["metrics"]["validation_loss"], (nlohmann::json{{2.0, 4.5}}));
  EXPECT_EQ(run("--csv " + run_folder).code, 3);  // the run folder has no metrics any more
  EXPECT_EQ(run("--csv " + checkpoint_folder).code, 3);
  for (const char* other : {"--json", "--verify", "--make-view", "--bytes"})
    EXPECT_EQ(run(fmt::format("--csv {} {}", other, run_folder)).code, 2) << other;
  // A file with a damaged line prints nothing.
  spit(run_folder + "/metrics.jsonl", "{\"step\":1}\n{\"step\":\n{\"step\":3}\n");
  const auto damaged = run("--csv " + run_folder);
  EXPECT_EQ(damaged.code, 3);
  EXPECT_EQ(damaged.out, "");
  EXPECT_NE(damaged.err.find("metrics.jsonl line 2"), std::string::npos) << damaged.err;
  // A reader that stops early causes no error.
  std::string many;
  for (int step = 1; step <= 50000; ++step) many += fmt::format("{{\"step\":{},\"loss\":1.5}}\n", step);
  spit(run_folder + "/metrics.jsonl", many);
  const auto head = std::system(fmt::format("bash -o pipefail -c '{} --csv {} 2>{}/err | head -2 >{}/out'", INSPECT,
                                            run_folder, scratch.path, scratch.path)
                                    .c_str());
  EXPECT_EQ(head, 0);
  EXPECT_EQ(slurp(scratch.path + "/out"), "step,loss\n1,1.5\n");
  EXPECT_EQ(slurp(scratch.path + "/err"), "");
  EXPECT_EQ(run("--csv " + run_folder + " | wc -l").out, "50001\n");
}

TEST_F(Inspect, ARunSaysWhenAndWhereItWasWritten) {
  spit(run_folder + "/metrics.jsonl",
       "{\"step\":1,\"loss\":5}\n{\"step\":2,\"loss\":4,\"time\":\"2026-01-31T23:59:59.123Z\",\"host\":\"n1\"}\n"
       "{\"step\":3,\"loss\":3,\"time\":\"2026-02-01T00:00:01.000Z\",\"host\":\"n2\"}\n");
  const auto text = run(run_folder).out;
  EXPECT_NE(text.find("from 2026-01-31T23:59:59.123Z to 2026-02-01T00:00:01.000Z on n2"), std::string::npos) << text;
}

TEST_F(Inspect, MakesTheView) {
  fs::remove(checkpoint_folder + "/checkpoint.h5");
  for (const char* how : {"", "--verify "}) {  // the manifest names the view, but it can be derived
    const auto without = run(how + checkpoint_folder);
    EXPECT_EQ(without.code, 0) << without.err;
    EXPECT_NE(without.out.find("checkpoint.h5 is missing: make it anew with --make-view"), std::string::npos)
        << without.out;
  }
  const auto made = run("--make-view " + checkpoint_folder);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(fs::exists(checkpoint_folder + "/checkpoint.h5"));
  EXPECT_EQ(run("--verify " + checkpoint_folder).code, 0);
  // Of a run, its newest checkpoint gets the view.
  fs::remove(checkpoint_folder + "/checkpoint.h5");
  const auto of_run = run("--make-view " + run_folder);
  EXPECT_EQ(of_run.code, 0) << of_run.err;
  EXPECT_TRUE(fs::exists(checkpoint_folder + "/checkpoint.h5"));
}

TEST_F(Inspect, ShowsWhatARunHasAbandoned) {
  checkpoint::set_aside(checkpoint::list(run_folder + "/checkpoints").front());
  save(run_folder + "/checkpoints", state(gpt(), DType::bf16, 10), 1);
  const auto text = run(run_folder);
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("abandoned-step-00000020"), std::string::npos) << text.out;
  const auto j = nlohmann::json::parse(run("--json " + run_folder).out);
  EXPECT_FALSE(j["checkpoints"][0].contains("abandoned"));
  EXPECT_EQ(j["checkpoints"][1]["abandoned"], true);
  EXPECT_EQ(run("--verify " + run_folder).code, 0);
  // A damaged abandoned checkpoint causes no error.
  fs::remove(run_folder + "/checkpoints/abandoned-step-00000020/rank-00000.h5");
  const auto damaged = run("--verify " + run_folder);
  EXPECT_EQ(damaged.code, 0) << damaged.err;
  EXPECT_NE(damaged.out.find("abandoned, damaged"), std::string::npos) << damaged.out;
  // A link to a disk that is not mounted is not reported as a run without checkpoints.
  fs::remove_all(run_folder + "/checkpoints");
  fs::create_symlink(scratch.path + "/not-mounted", run_folder + "/checkpoints");
  EXPECT_NE(run(run_folder).out.find("is its disk mounted?"), std::string::npos);
}

TEST_F(Inspect, TheDescriptionOfAModel) {
  spit(scratch.path + "/my.toml", "layers = 3\nhidden = 32\nheads = 4\nkv-heads = 2\nffn = 96\ncontext = 40\n");
  const auto text = run(scratch.path + "/my.toml");
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* part : {"layers", "from the shards", "parameters with byte tokens"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  const auto j = nlohmann::json::parse(run("--json " + scratch.path + "/my.toml").out);
  EXPECT_EQ(j["kind"], "model");
  EXPECT_TRUE(j["parameters"].is_null());
  spit(scratch.path + "/settings.toml", "steps = 5\n");
  const auto settings = run(scratch.path + "/settings.toml");
  EXPECT_EQ(settings.code, 3);
  EXPECT_NE(settings.err.find("train --config"), std::string::npos) << settings.err;
  spit(scratch.path + "/wrong.toml", "hidden = 33\nheads = 4\nkv-heads = 4\n");
  EXPECT_EQ(run(scratch.path + "/wrong.toml").code, 3);
}

TEST_F(Inspect, RefusesOtherThings) {
  fs::create_directory(scratch.path + "/empty");
  spit(scratch.path + "/text.txt", "hello");
  spit(scratch.path + "/no-plan.json", R"({"format": "trainyard.plan/1", "ranks": 4})");
  plan::Plan made;
  made.model = gpt();
  plan::predict(made);
  spit(scratch.path + "/plan.json", plan::to_json(made));
  for (const char* path :
       {"/no-plan.json", "/absent", "/empty", "/text.txt", "/run/checkpoints/step-00000020/rank-00000.h5"}) {
    const auto refused = run(scratch.path + path);
    EXPECT_EQ(refused.code, 3) << path;
    EXPECT_NE(refused.err.find("try:"), std::string::npos) << path << refused.err;
  }
  EXPECT_NE(run(scratch.path + "/text.txt").err.find("is not a file that these programs write or read"),
            std::string::npos);
  EXPECT_EQ(run("").code, 2);
  EXPECT_EQ(run("--frobnicate x").code, 2);
  EXPECT_EQ(run("--help").code, 0);
  const auto plan = run(scratch.path + "/plan.json");
  EXPECT_EQ(plan.code, 0);
  EXPECT_NE(plan.out.find("sample-gpt: 2 layers"), std::string::npos) << plan.out;
}
