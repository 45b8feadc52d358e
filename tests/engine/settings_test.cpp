// The settings that a run accepts: plans, fields that a resume may change, models of older checkpoints. Also what is
// reported of checkpoints when a run fails.
#include "libtrain/engine/identity.h"
#include "libtrain/engine/model_of_weights.h"
#include "libtrain/engine/report.h"
#include "libtrain/engine/restore.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/setup.h"
#include "libtrain/plan/model_file/load_model.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/plan.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/checkpoint/sample.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

namespace trainyard::engine {
namespace {

namespace fs = std::filesystem;
using testing::SmallRun;

base::ExitCode code_of(const RunConfig& c, std::string* text = nullptr) {
  try {
    make_setup(c, 1, 1);
  } catch (const base::Error& e) {
    if (text != nullptr) *text = std::string(e.what()) + " | " + e.hint();
    return e.code();
  }
  return base::ExitCode::done;
}

TEST(Setup, RefusesNumbersThatAreNone) {
  SmallRun runs;
  const auto good = runs.config("numbers");
  EXPECT_EQ(code_of(good), base::ExitCode::done);
  for (double bad : {std::nan(""), std::numeric_limits<double>::infinity(), -1.0})
    for (double RunConfig::*member : std::initializer_list<double RunConfig::*>{
             &RunConfig::learning_rate, &RunConfig::beta1, &RunConfig::beta2, &RunConfig::epsilon, &RunConfig::momentum,
             &RunConfig::weight_decay, &RunConfig::clip, &RunConfig::hang_timeout, &RunConfig::collective_delay}) {
      auto c = good;
      c.*member = bad;
      EXPECT_EQ(code_of(c), base::ExitCode::usage) << bad;
    }
  auto c = good;
  c.change = "nonsense";
  std::string text;
  EXPECT_EQ(code_of(c, &text), base::ExitCode::usage);
  EXPECT_NE(text.find("warmup-steps"), std::string::npos) << text;
  c.change = "lanes";
  EXPECT_EQ(code_of(c, &text), base::ExitCode::usage);
  EXPECT_NE(text.find("| 'lanes' belongs to the model: --change model"), std::string::npos) << text;
  c.change = "tensor";
  EXPECT_EQ(code_of(c, &text), base::ExitCode::usage);
  EXPECT_NE(text.find("| leave 'tensor' out: a run may go on with another one anyway"), std::string::npos) << text;
  for (const auto* free : {"ranks", "dtype", "save-every"}) {
    c.change = free;
    EXPECT_EQ(code_of(c, &text), base::ExitCode::usage);
    EXPECT_NE(text.find("may go on with another one anyway"), std::string::npos) << text;
  }
  for (const auto* of_a_start : {"output", "init-from", "resume", "change", "plan", "stop-after"}) {
    c.change = of_a_start;
    EXPECT_EQ(code_of(c, &text), base::ExitCode::usage);
    EXPECT_NE(text.find("out: it belongs to a start, not to the run"), std::string::npos) << text;
  }
  c.change = "momentum";
  EXPECT_EQ(code_of(c, &text), base::ExitCode::usage);
  EXPECT_NE(text.find("leave 'momentum' out: the run's optimizer does not read it"), std::string::npos) << text;
  c.change = "optimizer";
  EXPECT_EQ(code_of(c, &text), base::ExitCode::usage);
  EXPECT_NE(text.find("| a run keeps its optimizer"), std::string::npos) << text;
  auto by_sgd = c;
  by_sgd.optimizer = "sgd";
  EXPECT_EQ(code_of(by_sgd, &text), base::ExitCode::usage);
  EXPECT_NE(text.find("goes on with another optimizer; --change takes alternate-sets, "), std::string::npos) << text;
  EXPECT_NE(text.find(", answers-only, clip, data, "), std::string::npos) << text;
  EXPECT_NE(text.find(", objective, reduction, "), std::string::npos) << text;
  EXPECT_NE(text.find(", weight-decay, tokenizer | a run keeps its optimizer"), std::string::npos) << text;
  for (const auto* nothing : {",", " , ,"}) {
    c.change = nothing;
    EXPECT_EQ(code_of(c, &text), base::ExitCode::usage);
    EXPECT_EQ(text.find("--change names no setting | --change takes alternate-sets, answers-only, beta1, "), 0u)
        << text;
  }
  c.change = "steps,tokenizer,";
  EXPECT_EQ(code_of(c), base::ExitCode::done);
  c.change = "learning-rate,steps";
  EXPECT_EQ(code_of(c), base::ExitCode::done);
  c = good;  // gpt() has dropout of hidden states
  c.steps = 1'000'000'000;
  text = testing::error_text_of([&] { runs.run(c, {}); });
  EXPECT_TRUE(text.find("dropout has random numbers") != text.npos && !fs::exists(c.output)) << text;
}

TEST(Setup, APlanForOtherTokensIsRefused) {
  SmallRun runs;
  auto c = runs.config("vocabulary");
  c.plan = "plan.json";
  c.from_plan.model = plan::load_model(c.model);
  c.from_plan.model->vocabulary = 50257;
  std::string text;
  EXPECT_EQ(code_of(c, &text), base::ExitCode::input_refused);
  EXPECT_NE(text.find("partition-model --vocabulary 257"), std::string::npos) << text;
  c.from_plan.model->vocabulary = 200;
  EXPECT_EQ(code_of(c), base::ExitCode::input_refused);
  for (int same : {257, 384}) {  // 384 rows are stored in any case
    c.from_plan.model->vocabulary = same;
    EXPECT_EQ(code_of(c), base::ExitCode::done) << same;
  }
}

TEST(Setup, AnEvaluationHasTheModelOfItsCheckpointWhateverThePlanSays) {
  SmallRun runs;
  auto c = runs.config("evaluated");
  c.plan = "plan.json", c.from_plan.model = plan::load_model(c.model);
  c.from_checkpoint.model = c.from_plan.model;
  c.from_checkpoint.model->lanes = 2;
  c.from_checkpoint.lanes_of = {plan::Lanes::evaluated, "run/checkpoints/step-00000004"};
  c.from_checkpoint.model->vocabulary = 500;  // more than the shards need, as a model file may ask for
  EXPECT_EQ(make_setup(c, 1, 1).plan.model, *c.from_checkpoint.model);
  c.tensor = 4;
  try {
    make_setup(c, 4, 1);
    FAIL() << "two lanes are shared by four ranks";
  } catch (const base::Error& e) {
    EXPECT_EQ(std::string(e.what()),
              "--tensor-parallel 4 does not divide lanes 2, the lanes of " + c.from_checkpoint.lanes_of.checkpoint);
    EXPECT_EQ(e.hint(), "--tensor-parallel 2");
  }
}

// Lanes that no setting gives are the run's, else those that suit the model. They are part of the run's identity.
TEST(Lanes, AreThoseThatAreSaidElseOfTheRunElseOfTheModel) {
  SmallRun runs;
  auto c = runs.config("lanes");
  c.steps = 2;
  const auto lanes_of = [](const engine::RunConfig& config) { return make_setup(config, 1, 1).plan.model.lanes; };
  const auto again = [](engine::RunConfig config) {  // as a run does first
    take_lanes(config, lanes_of_run(config));
    return config;
  };
  EXPECT_EQ(lanes_of(c), 4);
  EXPECT_EQ(again(c).from_checkpoint.lanes, 0);
  auto said = c;
  said.lanes = 2;
  EXPECT_EQ(lanes_of(said), 2);
  EXPECT_EQ(make_setup(said, 1, 1).identity["model"]["lanes"], 2);
  said.model = runs.model("slices", "layers = 1\nhidden = 32\nheads = 4\nffn = 64\ncontext = 32\nlanes = 1\n");
  said.lanes = 0;
  EXPECT_EQ(lanes_of(said), 1);
  EXPECT_FALSE(make_setup(said, 1, 1).identity["model"].contains("lanes")) << "as before there were any";
  c.lanes = 2;
  c.stop_after = 1;
  const auto first = runs.run(c, {1, 0, 1});
  c.lanes = 0, c.stop_after = 0;
  EXPECT_EQ(again(c).from_checkpoint.lanes, 2);
  EXPECT_EQ(lanes_of(again(c)), 2);
  EXPECT_EQ(runs.run(c, {1, 0, 1}).code, base::ExitCode::done);
  auto named = runs.config("elsewhere");
  named.resume = first.checkpoint;
  EXPECT_EQ(lanes_of(again(named)), 2);
  named.resume = "never";
  EXPECT_EQ(lanes_of(again(named)), 4);
  auto other = c;
  other.lanes = 4, other.steps = 3;
  try {
    runs.run(other, {1, 0, 1});
    FAIL() << "other lanes are another run";
  } catch (const base::Error& e) {
    EXPECT_NE(std::string(e.what()).find("model.lanes: the checkpoint has 2, this run 4"), std::string::npos)
        << e.what();
  }
  other.change = "model,steps";
  EXPECT_EQ(runs.run(other, {1, 0, 1}).code, base::ExitCode::done);
}

// On the CPU the tree of lanes keeps the bits. On a GPU with one lane the library adds, so a warning follows.
TEST(TensorRanks, ThatRoundOtherwiseThanBeforeAreToldOf) {
  SmallRun runs;
  auto c = runs.config("degrees");
  c.lanes = 1;
  auto setup = make_setup(c, 1, 1);
  auto s = sample::state(setup.plan.model, base::DType::f32, 15);
  s.identity = setup.identity, s.seed = c.seed, s.device_kind = "cuda";
  sample::save(checkpoints_folder(c.output), s, 1);
  const auto said = [&](const char* device, int tensor, std::int64_t lanes) {
    setup.config.device = device, setup.plan.tensor = tensor, setup.plan.model.lanes = lanes;
    setup.plan.device = setup.config.device == "cuda" ? base::DeviceKind::cuda : base::DeviceKind::cpu;
    ::testing::internal::CaptureStderr();
    choose_start(setup, {});
    return ::testing::internal::GetCapturedStderr();
  };
  const std::string told = "resuming with tensor ranks 2 (the checkpoint was written with 1)",
                    warned = "its rounding depends on the number of tensor ranks";
  EXPECT_NE(said("cuda", 2, 1).find(told), std::string::npos);
  EXPECT_NE(said("cuda", 2, 1).find(warned), std::string::npos);
  EXPECT_NE(said("cuda", 2, 4).find(told), std::string::npos);
  EXPECT_EQ(said("cuda", 2, 4).find(warned), std::string::npos);
  EXPECT_EQ(said("cuda", 1, 1).find("tensor ranks"), std::string::npos);
  EXPECT_EQ(said("cpu", 2, 1).find(warned), std::string::npos);
}

TEST(TensorRanks, AreRefusedWhereRanksOrLanesAreNotDivided) {
  SmallRun runs;
  auto c = runs.config("tensor");
  const auto refusal = [&](int ranks) {
    try {
      make_setup(c, ranks, 1);
      return std::string();
    } catch (const base::Error& e) {
      return fmt::format("{} ({})", e.what(), e.hint());
    }
  };
  c.tensor = 2;
  EXPECT_EQ(refusal(2), "");
  EXPECT_EQ(refusal(3), "--tensor-parallel 2 does not divide 3 ranks (--tensor-parallel 1, or 4 ranks)");
  c.tensor = 4, c.lanes = 2;
  EXPECT_EQ(refusal(4),
            "--tensor-parallel 4 does not divide lanes 2 (--tensor-parallel 2; --lanes 4 allows it, in another run)");
  c.lanes = 0;
  EXPECT_EQ(refusal(8), "");
  const auto setup = make_setup(c, 8, 1);
  EXPECT_EQ(setup.plan.topology.size(plan::Axis::data), 2);
  EXPECT_EQ(setup.plan.topology.size(plan::Axis::tensor), 4);
  auto alone = c;
  alone.tensor = 1;
  EXPECT_EQ(setup.identity, make_setup(alone, 2, 1).identity) << "the ranks are no part of what a run is";
}

// As with runs from before lanes existed: their checkpoints do not record lanes, and a new plan has more of them.
TEST(Lanes, OfARunThatHasOneStayWhereThePlanHasMore) {
  SmallRun runs;
  auto c = runs.config("old");
  c.steps = 2, c.lanes = 1, c.stop_after = 1;
  const auto first = runs.run(c, {1, 0, 1});
  c.stop_after = 0;
  const auto refusal = [&](const RunConfig& config) {
    try {
      return fmt::format("{}", static_cast<int>(runs.run(config, {1, 0, 1}).code));
    } catch (const base::Error& e) {
      return std::string(e.what());
    }
  };
  c.lanes = 4;
  EXPECT_NE(refusal(c).find("model.lanes: the checkpoint has 1, this run 4"), std::string::npos) << refusal(c);
  c.lanes = 0;
  auto sharing = c;
  sharing.tensor = 2;
  take_lanes(sharing, lanes_of_run(c));
  try {
    make_setup(sharing, 2, 1);
    FAIL() << "one lane is shared by two ranks";
  } catch (const base::Error& e) {
    EXPECT_EQ(e.what(), "--tensor-parallel 2 does not divide lanes 1, the lanes of " + first.checkpoint);
    EXPECT_EQ(e.hint(),
              "--tensor-parallel 1; --lanes 2 --change model goes on with sums of 2 lanes, which round differently");
  }

  plan::Plan p;
  p.model = plan::load_model(c.model);
  p.model.vocabulary = 257, p.model.lanes = 4;
  p.global_batch = c.global_batch, p.micro_batch = c.micro_batch, p.sequence = 32;
  plan::predict(p);
  const auto path = (runs.folder() / "anew.json").string();
  base::write_file(path, plan::to_json(p));
  const auto planned = [&](const char* lanes, const std::string& source) {
    auto config = c;
    auto fields = fields_of(config);
    base::field_named(fields, "model", "").source = base::from_default;
    if (lanes != nullptr) {
      auto& f = base::field_named(fields, "lanes", "");
      f.set(lanes, "lanes"), f.source = source;
    }
    config.plan = path;
    read_plan(fields, config);
    return config;
  };
  const auto model_of = [](RunConfig config) {
    take_lanes(config, lanes_of_run(config));
    return make_setup(config, 1, 1).plan.model.lanes;
  };
  EXPECT_EQ(planned(nullptr, "").lanes, 4);
  EXPECT_EQ(model_of(planned(nullptr, "")), 1);
  EXPECT_EQ(model_of(planned("2", "file.toml")), 1) << "a plan goes before a file";
  EXPECT_EQ(model_of(planned("2", base::from_flag)), 2);
  auto new_run = planned("2", "file.toml");
  new_run.resume = "never";
  EXPECT_EQ(model_of(new_run), 4);
  EXPECT_EQ(refusal(planned(nullptr, "")), "0");
}

// The checkpoint's model has a preset's name but is another model, like an imported one named after its folder.
TEST(InitFrom, HasTheModelOfItsCheckpointAgainWhenItsSettingsArePrintedAndRead) {
  SmallRun runs;
  auto c = runs.config("begun");
  const auto said = make_setup(c, 1, 1);
  auto state = sample::state(said.plan.model, base::DType::f32, 15);
  state.model.name = "gpt2-nano", state.model.norm_epsilon = 2e-5;
  const auto from = fs::path(c.output).parent_path() / "from";
  sample::save(from.string(), state, 1);
  c.init_from = (from / "step-00000015").string();
  const auto read = [&](RunConfig& config, std::vector<base::Field>& fields) {
    read_model_of_weights(fields, config);
    return make_setup(config, 1, 1);
  };
  auto fields = fields_of(c);
  const auto identity = read(c, fields).identity;
  EXPECT_NE(identity["model"], said.identity["model"]);
  const auto file = (from / "printed.toml").string();
  testing::spit(file, print_config(fields, c));
  RunConfig again;
  auto its = fields_of(again);
  base::read_toml(its, file);
  EXPECT_EQ(read(again, its).identity, identity) << print_config(fields, c);
  EXPECT_EQ(print_config(its, again).find("\nmodel ="), std::string::npos);
  RunConfig of_plan;  // what each start decides is not printed as a setting
  of_plan.plan = "auto", of_plan.from_plan.open.zero = true;
  const auto printed = print_config(fields_of(of_plan), of_plan);
  EXPECT_EQ(printed.find("\nzero ="), std::string::npos) << printed;
  EXPECT_NE(printed.find("\nrecompute ="), std::string::npos) << printed;

  // A run that goes on takes the model of its own checkpoints, even if the newest of them is damaged.
  sample::save(checkpoints_folder(c.output), state, 1);
  fs::create_directories(checkpoints_folder(c.output) + "/step-00000016");
  testing::spit(checkpoints_folder(c.output) + "/step-00000016/manifest.json", "{");
  fs::remove_all(c.init_from);
  c.from_checkpoint.model.reset();
  EXPECT_EQ(read(c, fields).identity, identity);
  c.resume = "never";
  EXPECT_THROW(read_model_of_weights(fields, c), base::InputError);
  c.resume = "auto", c.model = "said", base::field_named(fields, "model", "").source = base::from_flag;
  c.from_checkpoint.model.reset();
  read_model_of_weights(fields, c);
  EXPECT_FALSE(c.from_checkpoint.model);
}

TEST(Resume, DropoutCountsTheSamplesThatWereSeen) {
  SmallRun runs;
  auto c = runs.config("counted");  // gpt() has dropout of hidden states
  c.change = "global_batch";
  c.global_batch = 10;
  const auto setup = make_setup(c, 1, 1);
  const auto start_after = [&](std::int64_t samples) {
    auto s = sample::state(setup.plan.model, base::DType::f32, 15);
    s.identity = setup.identity, s.seed = c.seed, s.samples_seen = samples;
    fs::remove_all(c.output);
    sample::save(checkpoints_folder(c.output), s, 1);
    return choose_start(setup, {}).samples_seen;
  };
  const auto most = std::int64_t{1} << 30;  // 5 steps of 10 samples are left
  EXPECT_EQ(start_after(most - 50), most - 50);
  EXPECT_THROW(start_after(most - 49), base::UsageError);
  EXPECT_THROW(start_after(2 * most), base::UsageError);
  // The batch has grown: today's batch times all steps would be too large an estimate.
  c.steps = 100, c.global_batch = most / 50, c.micro_batch = 1;
  EXPECT_THROW(require_counters(setup.plan.model, c, 0, 0), base::UsageError);
  require_counters(setup.plan.model, c, 90, 900);
}

TEST(Plan, GoesBeforeTheFileAndBehindEnvironmentAndFlags) {
  SmallRun runs;
  plan::Plan p;
  p.model = plan::preset("gpt2-nano");
  p.model.vocabulary = 257, p.model.lanes = 1;
  p.global_batch = 12, p.micro_batch = 3, p.sequence = 16, p.local_accumulation = 2;
  plan::predict(p);
  const auto path = (runs.folder() / "plan.json").string();
  std::ofstream(path) << plan::to_json(p);
  RunConfig c;
  auto fields = fields_of(c);
  const auto set = [&](const char* name, const std::string& value, const std::string& source) {
    auto& f = base::field_named(fields, name, "");
    f.set(value, name);
    f.source = source;
  };
  set("plan", path, "file.toml"), set("micro-batch", "5", "file.toml"), set("global-batch", "24", base::from_flag),
      set("fold", "4", base::from_environment);
  read_plan(fields, c);
  EXPECT_EQ(c.micro_batch, 3);
  EXPECT_EQ(c.global_batch, 24);
  EXPECT_EQ(c.local_accumulation, 4);
  EXPECT_EQ(c.sequence, 16);
  EXPECT_TRUE(c.from_plan.model.has_value());
  std::ofstream(path) << [&] {
    p.zero = 2, p.local_accumulation = 3;
    auto text = plan::to_json(p);
    return text;
  }();
  EXPECT_THROW(read_plan(fields, c), base::InputError);
}

TEST(Setup, ARunDoesNotMoveIntoAShardSet) {
  SmallRun runs;
  auto c = runs.config("beside");
  require_output_beside_data(c);
  c.output = c.data + "/../data";
  EXPECT_THROW(require_output_beside_data(c), base::UsageError);
  c.output = c.data, c.data = "elsewhere";
  EXPECT_THROW(require_output_beside_data(c), base::UsageError);
}

TEST(Setup, ValidationWithoutASplitSaysHowToMakeOne) {
  SmallRun runs;
  auto c = runs.config("unvalidated");
  auto index = data::read_index(c.data);
  index.validation.clear();
  base::write_file(c.data + "/index.json", data::index_to_json(index).dump());
  EXPECT_EQ(code_of(c), base::ExitCode::done);
  c.validate_every = 5, c.validation_sequences = 4;
  std::string text;
  EXPECT_EQ(code_of(c, &text), base::ExitCode::input_refused);
  EXPECT_NE(text.find("shard-data --split lines"), std::string::npos) << text;
}

// Checkpoints of older programs hold the identity's model as text.
TEST(Identity, OldAndNewFormsOfAModelAreTheSameRun) {
  auto model = plan::preset("llama-nano");
  model.vocabulary = 257, model.lanes = 1, model.dropout_attention = 0.1;
  auto old = nlohmann::json::object();
  for (const auto& f : plan::fields_of(model))
    if (f.name != "name") old[f.name] = f.get();
  nlohmann::json now = plan::model_to_json(model);
  now.erase("name");
  ASSERT_NE(old, now);
  require_same_run({{"model", old}, {"seed", 1}}, {{"model", now}, {"seed", 1}}, {}, "x");
  old["kv-heads"] = "4";
  EXPECT_THROW(require_same_run({{"model", old}}, {{"model", now}}, {}, "x"), base::InputError);
  try {
    require_same_run({{"model", old}}, {{"model", now}}, {"model"}, "x");  // its tensors have other shapes
    ADD_FAILURE() << "not refused";
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("another shape"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("\n  model.kv_heads: the checkpoint has 4, this run 2"), std::string::npos)
        << e.what();
    EXPECT_EQ(std::string(e.what()).find("hidden"), std::string::npos) << e.what();
    EXPECT_EQ(e.hint().find("--change"), std::string::npos) << e.hint();
  }
  old["kv-heads"] = "2", old["rotary-base"] = "5000";
  EXPECT_THROW(require_same_run({{"model", old}}, {{"model", now}}, {}, "x"), base::InputError);
  require_same_run({{"model", old}}, {{"model", now}}, {"model"}, "x");
}

TEST(Identity, WhyTwoCheckpointsDiffer) {
  auto a = sample::state(sample::gpt(), base::DType::f32, 8);
  nlohmann::json model = plan::model_to_json(a.model);
  a.identity = {{"model", model}, {"seed", 1}, {"data", {{"crc32c", "1"}, {"tokens", 5}}}};
  auto b = a;
  EXPECT_TRUE(differences(a, b).empty());
  b.plan["ranks"] = 4;
  EXPECT_TRUE(differences(a, b).empty()) << "cuts have the same bits";
  b.step = 12, b.dtype = base::DType::bf16;
  b.identity["model"]["lanes"] = 4, b.identity["data"]["tokens"] = 6, b.identity.erase("seed");
  std::string all;
  for (const auto& d : differences(a, b)) all += text_of(d, "the first", "b") + "\n";
  EXPECT_EQ(all,
            "step: the first has 8, b 12\ndata.tokens: the first has 5, b 6\nmodel.lanes: the first has 1, b 4\n"
            "seed: the first has 1, b the default\ndtype: the first has \"f32\", b \"bf16\"\n");
  b = a, b.identity = nlohmann::json::object();
  ASSERT_EQ(differences(a, b).size(), 1u);
  EXPECT_EQ(text_of(differences(a, b)[0], "a", "b"), "identity: a has one, b none");
}

// No reader checks the plan in a checkpoint, which is there for people to read.
TEST(CheckpointCut, SaysWhatThePlanSays) {
  auto s = sample::state(sample::gpt(), base::DType::f32, 8);
  s.model.lanes = 4, s.plan = nlohmann::json::object();
  EXPECT_EQ(checkpoint_layout(s), "4 lanes");
  s.plan = {{"ranks", 4}, {"zero", 1}};
  EXPECT_EQ(checkpoint_layout(s), "ZeRO 1, 4 lanes");
  s.plan["tensor"] = 2;
  EXPECT_EQ(checkpoint_layout(s), "2 x 2 tensor, ZeRO 1, 4 lanes");
  s.plan["sequence_parallel"] = true;
  EXPECT_EQ(checkpoint_layout(s), "2 x 2 tensor with sequence parallelism, ZeRO 1, 4 lanes");
  s.plan = {{"ranks", 8}, {"zero", 1}, {"pipeline", 4}, {"schedule", "1f1b"}};
  EXPECT_EQ(checkpoint_layout(s), "4 stages (1f1b) x 2 data, ZeRO 1, 4 lanes");
  s.plan = {{"ranks", 32}, {"tensor", 4}, {"pipeline", 4}, {"schedule", "interleaved"}, {"virtual_stages", 2}};
  EXPECT_EQ(checkpoint_layout(s), "4 stages (interleaved, 2 virtual stages) x 2 x 4 tensor, 4 lanes");
  s.plan = {{"ranks", 8}, {"pipeline", 2}, {"schedule", 7}};
  EXPECT_EQ(checkpoint_layout(s), "2 stages x 4 data, 4 lanes");
  s.plan = {{"ranks", 2}, {"pipeline", 4}, {"zero", 1}};  // a plan that no number of ranks can have
  EXPECT_EQ(checkpoint_layout(s), "ZeRO 1, 4 lanes");
  s.plan = {{"ranks", "four"},
            {"tensor", -2},
            {"pipeline", 0},
            {"zero", nlohmann::json::array({1})},
            {"sequence_parallel", 3}};
  EXPECT_EQ(checkpoint_layout(s), "4 lanes");
  s.plan = {1, 2};
  EXPECT_EQ(checkpoint_layout(s), "4 lanes");
}

}  // namespace
}  // namespace trainyard::engine
