// Runs that mix sets: the bits of one rank on any layout and after a stop, each set's own losses, and what is refused.
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/evaluate.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace mixed_runs_test {

using testing::ParallelLayout;
using testing::SmallRun;

// Writes a set of `documents` documents of lower-case letters beside the one that SmallRun has.
std::string write_set(const SmallRun& runs, const std::string& name, std::uint64_t documents,
                      const std::vector<const char*>& splits) {
  const auto tokenizer = data::make_tokenizer("bytes");
  const auto folder = (runs.folder() / name).string();
  testing::fs::create_directories(folder);
  data::SetIndex index;
  index.vocabulary = tokenizer->vocabulary(), index.end_of_document = tokenizer->end_of_document();
  for (const std::string split : splits) {
    data::ShardWriter writer(folder, split, *tokenizer, 900);
    for (std::uint64_t d = 0; d < documents; ++d) {
      std::vector<std::int32_t> document;
      for (std::uint64_t i = 0; i < 30 + d * 11; ++i)
        document.push_back(static_cast<std::int32_t>(base::random_words(documents, d, i)[0] % 26 + 'a'));
      document.push_back(tokenizer->end_of_document());
      writer.add(document);
    }
    (split == "train" ? index.train : index.validation) = writer.finish();
  }
  base::write_file(folder + "/index.json", data::index_to_json(index).dump());
  return folder;
}

struct Mixed {
  SmallRun runs;
  std::string base = (runs.folder() / "data").string(), code = write_set(runs, "code", 20, {"train", "validation"}),
              small = write_set(runs, "small", 6, {"train"});
  std::string all() const { return fmt::format("{}:0.5,{}:0.3:9,{}:0.2", base, code, small); }
  engine::RunConfig config(const std::string& output) const {
    auto c = runs.config(output);
    c.data = all();
    c.steps = 6, c.micro_batch = 2, c.validate_every = 3, c.validation_sequences = 4;
    return c;
  }
  std::string bits(const engine::RunConfig& c, const engine::RunResult& r) const {
    auto out = runs.bits(c, r);
    for (const auto& line : SmallRun::metrics(c))
      out += line["sets"].dump() + line.value("validation_loss", nlohmann::json()).dump() + "\n";
    return out;
  }
  // The message of a refusal, with its hint.
  std::string refusal(const engine::RunConfig& c, const ParallelLayout& layout = {}) {
    try {
      runs.run(c, layout);
    } catch (const base::Error& e) {
      return std::string(e.what()) + " | " + e.hint();
    }
    return "not refused";
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(MixedRuns, HaveTheSameBitsOnEveryLayoutAndAfterAStop) {
  Mixed mixed;
  const auto one = mixed.config("one");
  const auto expected = mixed.bits(one, mixed.runs.run(one, {}));
  ASSERT_TRUE(has(expected, "validation_loss")) << expected;
  int n = 0;
  std::vector<ParallelLayout> layouts(6);
  layouts[0].ranks = 3, layouts[0].zero = 3, layouts[1].ranks = 2, layouts[1].zero = 1, layouts[1].threads = 2;
  layouts[2].ranks = 2, layouts[2].tensor = 2, layouts[3].ranks = 2, layouts[3].pipeline = 2;
  layouts[4].ranks = 4, layouts[4].tensor = 2, layouts[4].zero = 1, layouts[5].recompute = "full";
  for (const auto& layout : layouts) {
    const auto c = mixed.config(fmt::format("layout-{}", ++n));
    EXPECT_EQ(mixed.bits(c, mixed.runs.run(c, layout)), expected) << n;
  }
  auto stopped = mixed.config("stopped");
  stopped.stop_after = 4;
  mixed.runs.run(stopped, layouts[0]);
  stopped.stop_after = 0;
  EXPECT_EQ(mixed.bits(stopped, mixed.runs.run(stopped, layouts[1])), expected);
}

// With the initial weights and no dropout, a set's loss in step 1 is that of a run with this set alone, whose batch has
// as many sequences.
TEST(MixedRuns, ASetsLossIsThatOfARunWithThisSetAlone) {
  Mixed mixed;
  const auto plain = mixed.runs.model("plain", "layers = 2\nhidden = 32\nheads = 4\nffn = 64\ncontext = 32\n");
  auto c = mixed.config("mixed");
  c.model = plain, c.steps = 1, c.validate_every = 0, c.validation_sequences = 0, c.document_mask = "on";
  mixed.runs.run(c, {});
  const auto line = SmallRun::metrics(c)[0];
  ASSERT_EQ(line["sets"].size(), 3u);
  double sum = 0, tokens = 0;
  std::int64_t sequences = 0;
  for (const auto& [name, folder] :
       {std::pair{"data", mixed.base}, std::pair{"code", mixed.code}, std::pair{"small", mixed.small}}) {
    const auto& set = line["sets"][static_cast<std::size_t>(std::string(name) == "data"   ? 0
                                                            : name == std::string("code") ? 1
                                                                                          : 2)];
    EXPECT_EQ(set["set"], name);
    auto alone = c;
    alone.data = folder, alone.output += name, alone.global_batch = set["sequences"], alone.micro_batch = 1;
    mixed.runs.run(alone, {});
    const auto of_alone = SmallRun::metrics(alone)[0];
    EXPECT_NEAR(set["loss"].get<double>(), of_alone["loss"].get<double>(), 1e-6) << name;
    EXPECT_FALSE(of_alone.contains("sets"));
    EXPECT_EQ(set["sequences_seen"], set["sequences"]);
    sequences += set["sequences"].get<std::int64_t>();
    sum += set["loss"].get<double>() * set["tokens"].get<double>(), tokens += set["tokens"].get<double>();
  }
  EXPECT_EQ(sequences, 14);
  EXPECT_NEAR(sum / tokens, line["loss"].get<double>(), 1e-12);
  EXPECT_LT(tokens, 14 * 32);  // targets that begin a document do not count
}

TEST(MixedRuns, ValidateEachSetAsAnEvaluationDoes) {
  Mixed mixed;
  const auto c = mixed.config("validated");
  mixed.runs.run(c, {});
  const auto line = SmallRun::metrics(c)[5];
  engine::EvaluateConfig e;
  e.checkpoint = c.output, e.sequences = 4;
  e.run.device = "cpu", e.run.hang_timeout = 120;
  const auto evaluated = [&](int ranks) {
    std::vector<engine::Evaluation> found;
    comm::run_ranks(ranks, [&](int rank, comm::ThreadsWorld& world) {
      auto w = engine::make_world("threads", rank, plan::replicas_of(ranks, 1), world.factory(rank));
      auto of_rank = engine::evaluate_sets(e, w, nullptr);
      if (rank == 0) found = std::move(of_rank);
    });
    return found;
  };
  const auto sets = evaluated(1), by_two = evaluated(2);
  ASSERT_EQ(sets.size(), 2u);  // the third has no validation split
  ASSERT_EQ(by_two.size(), 2u);
  e.given = {"data"}, e.run.data = mixed.small + ":1," + mixed.code + ":1";  // only the second can be evaluated
  const auto of_one = evaluated(1);
  ASSERT_EQ(of_one.size(), 1u);
  EXPECT_EQ(of_one[0].data, mixed.code);
  EXPECT_EQ(of_one[0].loss, sets[1].loss);
  e.given = {}, e.sequences = 100;  // the first set has as many, the second has not
  int printed = 0;
  comm::run_ranks(1, [&](int rank, comm::ThreadsWorld& world) {
    auto w = engine::make_world("threads", rank, plan::replicas_of(1, 1), world.factory(rank));
    EXPECT_THROW(engine::evaluate_sets(e, w, nullptr, [&](const auto&) { ++printed; }), base::Error);
  });
  EXPECT_EQ(printed, 0) << "of a set before the one that is refused";
  e.sequences = 4;
  double sum = 0;
  for (const auto& [at, folder] : {std::pair{0u, mixed.base}, std::pair{1u, mixed.code}}) {
    e.given = {"data"}, e.run.data = folder;
    const auto alone = evaluated(1);
    ASSERT_EQ(alone.size(), 1u);
    EXPECT_EQ(line["sets"][at]["validation_loss"].get<double>(), alone[0].loss);
    EXPECT_EQ(sets[at].loss, alone[0].loss);
    EXPECT_EQ(by_two[at].loss, alone[0].loss);
    EXPECT_EQ(sets[at].data, folder);
    sum += alone[0].loss / 2;
  }
  EXPECT_FALSE(line["sets"][2].contains("validation_loss"));  // the set has no validation split
  EXPECT_NEAR(line["validation_loss"].get<double>(), sum, 1e-12);
}

TEST(MixedRuns, OtherWeightsAreAnotherRun) {
  Mixed mixed;
  auto c = mixed.config("weights");
  c.stop_after = 2;
  mixed.runs.run(c, {});
  c.stop_after = 0;
  c.data = fmt::format("{}:5,{}:3,{}:2", mixed.base, mixed.code, mixed.small);  // the same proportions
  c.stop_after = 3;
  mixed.runs.run(c, {});
  c.stop_after = 0;
  c.data = fmt::format("{}:5,{}:4,{}:2", mixed.base, mixed.code, mixed.small);
  const auto said = mixed.refusal(c);
  EXPECT_TRUE(has(said, "data.set 2.weight: the checkpoint has 3, this run 4")) << said;
  c.data = mixed.base;
  EXPECT_TRUE(has(mixed.refusal(c), "data"));
  c.data = fmt::format("{}:5,{}:4,{}:2", mixed.base, mixed.code, mixed.small);
  c.change = "data";
  EXPECT_EQ(mixed.runs.run(c, {}).step, 6);
}

TEST(MixedRuns, NothingIsReadMoreOftenThanAllowed) {
  Mixed mixed;
  auto c = mixed.config("epochs");
  c.data = fmt::format("{}:0.5,{}:0.5:0.5", mixed.base, mixed.small);
  const auto said = mixed.refusal(c);
  // The small set has (30 + 41 + ... + 85 + 6 ends) tokens in one shard: 351, or 10 windows of 33.
  EXPECT_TRUE(has(said, "--steps 6 read 42 sequences of")) << said;
  EXPECT_TRUE(has(said, "small, which has 10: 4.2 epochs, and --max-epochs allows 0.5")) << said;
  EXPECT_FALSE(testing::fs::exists(c.output));
  c.data = fmt::format("{}:0.9,{}:0.1", mixed.base, mixed.small);
  c.max_epochs = 0.6;
  EXPECT_TRUE(has(mixed.refusal(c), "at most --steps 4")) << mixed.refusal(c);  // 6 of 56 sequences
  c.steps = 4;
  EXPECT_EQ(mixed.runs.run(c, {}).step, 4);
}

TEST(MixedRuns, ALimitOfEpochsMayBeMetExactly) {
  Mixed mixed;
  auto c = mixed.config("exact");
  c.data = mixed.small, c.sequence = 7, c.validate_every = 0;  // 50 windows; 0.58 * 50 is below 29 in binary
  c.global_batch = c.micro_batch = 1, c.steps = 29, c.max_epochs = 0.58;
  EXPECT_EQ(mixed.runs.run(c, {}).step, 29);
  c.output += "-own", c.data += "::0.58", c.max_epochs = 0;
  EXPECT_EQ(mixed.runs.run(c, {}).step, 29);
  c.output += "-more", c.steps = 30;
  EXPECT_TRUE(has(mixed.refusal(c), "30 sequences")) << mixed.refusal(c);
}

// The batch of today is not the batch of the steps before.
TEST(MixedRuns, AResumeCountsWhatWasRead) {
  Mixed mixed;
  auto c = mixed.config("resumed");
  c.data = mixed.small, c.validate_every = 0, c.max_epochs = 1.5;  // 15 sequences
  c.global_batch = 2, c.micro_batch = 1, c.stop_after = 3;
  mixed.runs.run(c, {});
  c.global_batch = 3, c.stop_after = 5, c.change = "global_batch";
  mixed.runs.run(c, {});
  c.stop_after = 0, c.change = "steps", c.steps = 7;
  EXPECT_TRUE(has(mixed.refusal(c), "--steps 7 read 18 sequences")) << mixed.refusal(c);
  c.change.clear(), c.steps = 6;
  EXPECT_EQ(mixed.runs.run(c, {}).step, 6);
  c.max_epochs = 0.1;
  EXPECT_EQ(mixed.runs.run(c, {}).step, 6) << "nothing is left to read";
}

TEST(MixedRuns, SetsMustGoTogether) {
  Mixed mixed;
  auto c = mixed.config("refused");
  c.data = mixed.base + "," + mixed.code;
  EXPECT_TRUE(has(mixed.refusal(c), "names 2 sets, and nothing says how much of each is read"));
  c.data_temperature = 2;
  EXPECT_EQ(mixed.runs.run(c, {}).step, 6);
  c.output += "-again";
  c.data = mixed.all();
  EXPECT_TRUE(has(mixed.refusal(c), "--data-temperature weighs sets by their sizes")) << mixed.refusal(c);
  c.data = mixed.base;
  EXPECT_TRUE(has(mixed.refusal(c), "is one set"));
  c.data_temperature = 0;
  auto index = nlohmann::json::parse(std::ifstream(mixed.small + "/index.json"));
  index["tokenizer"]["crc32c"] = 7;
  base::write_file(mixed.small + "/index.json", index.dump());
  c.data = mixed.all();
  EXPECT_TRUE(has(mixed.refusal(c), "sets of different tokens cannot be mixed")) << mixed.refusal(c);
  EXPECT_FALSE(testing::fs::exists(c.output));
}

// Documents of one value are read as a set that has no others.
TEST(MixedRuns, ASetMayHaveTheDocumentsOfOneValue) {
  SmallRun runs;
  const auto tokenizer = data::make_tokenizer("bytes");
  const auto write = [&](const std::string& name, const std::vector<std::string>& values) {
    const auto folder = (runs.folder() / name).string();
    testing::fs::create_directories(folder);
    data::SetIndex index;
    index.vocabulary = tokenizer->vocabulary(), index.end_of_document = tokenizer->end_of_document();
    for (const char* split : {"train", "validation"}) {
      data::ShardWriter writer(folder, split, *tokenizer, 100000);
      if (name == "all") writer.keep_fields({"lang"});
      for (std::uint64_t d = 0; d < 60; ++d) {
        const std::vector<std::string> lang{values[d % 3]};
        if (name != "all" && name != lang[0]) continue;
        std::vector<std::int32_t> document;
        for (std::uint64_t i = 0; i < 20 + d; ++i)
          document.push_back(static_cast<std::int32_t>(base::random_words(3, d, i)[0] % 26 + 'a'));
        document.push_back(tokenizer->end_of_document());
        if (name == "all") writer.add(document, "", {.fields = lang});
        else writer.add(document);
      }
      (split == std::string("train") ? index.train : index.validation) = writer.finish();
    }
    base::write_file(folder + "/index.json", data::index_to_json(index).dump());
  };
  const std::vector<std::string> labels{"de", "en", "en"}, others{"en", "de", "en"};
  for (const char* name : {"all", "de", "en"}) write(name, labels);
  const auto run = [&](const std::string& output, const std::string& data) {
    auto c = runs.config(output);
    c.data = data, c.steps = 4, c.validate_every = 2, c.validation_sequences = 8, c.document_mask = "on";
    const auto done = runs.run(c, {});
    std::string numbers;
    for (const auto& line : SmallRun::metrics(c))
      numbers += line["loss"].dump() + line.value("validation_loss", nlohmann::json()).dump();
    return std::pair(numbers, checkpoint::read_state(done.checkpoint).identity["data"]);
  };
  const auto folder = [&](const char* name) { return (runs.folder() / name).string(); };
  const auto apart = run("apart", fmt::format("{}:0.4,{}:0.6", folder("de"), folder("en")));
  const auto chosen = run("chosen", fmt::format("{0}[lang=de]:0.4,{0}[lang=en]:0.6", folder("all")));
  EXPECT_EQ(chosen.first, apart.first);
  EXPECT_EQ(chosen.second["set 1"]["value"], "de");
  const auto one = run("one", folder("all") + "[lang=en]");
  EXPECT_EQ(one.first, run("one-apart", folder("en")).first);
  EXPECT_EQ(one.second["set 1"]["field"], "lang");
  auto c = runs.config("refused");
  for (const auto& [data, why] :
       std::vector<std::pair<std::string, std::string>>{{folder("all") + "[lang=fr]", "no document has this value"},
                                                        {folder("all") + "[kind=x]", "the set keeps no field"},
                                                        {folder("de") + "[lang=de]", "the set keeps no field"}}) {
    c.data = data;
    try {
      runs.run(c, {});
      ADD_FAILURE() << data;
    } catch (const base::Error& e) {
      EXPECT_TRUE(has(e.what(), why)) << e.what();
    }
  }
  c.data = folder("all") + "[lang=en]", c.steps = 4, c.document_mask = "on", c.stop_after = 2;
  runs.run(c, {});
  c.stop_after = 0;
  write("all", others);  // the same tokens, and other documents have the value
  try {
    runs.run(c, {});
    ADD_FAILURE() << "a resume with other documents";
  } catch (const base::Error& e) {
    EXPECT_TRUE(has(e.what(), "data.set 1.tokens: the checkpoint has")) << e.what();
  }
  write("all", labels);
  EXPECT_EQ(runs.run(c, {}).step, 4);
}

// A value without a document in the split is a set without the split.
TEST(MixedRuns, AValueMayHaveNoValidation) {
  SmallRun runs;
  const auto tokenizer = data::make_tokenizer("bytes");
  const auto folder = (runs.folder() / "values").string();
  testing::fs::create_directories(folder);
  data::SetIndex index;
  index.vocabulary = tokenizer->vocabulary(), index.end_of_document = tokenizer->end_of_document();
  for (const std::string split : {"train", "validation"}) {
    data::ShardWriter writer(folder, split, *tokenizer, 100000);
    writer.keep_fields({"lang"});
    for (std::uint64_t d = 0; d < 20; ++d) {
      std::vector<std::int32_t> document(40, static_cast<std::int32_t>('a' + d));
      document.push_back(tokenizer->end_of_document());
      const std::vector<std::string> lang{split == "train" && d % 2 == 0 ? "e\nn" : "de"};
      writer.add(document, "", {.fields = lang});
    }
    (split == "train" ? index.train : index.validation) = writer.finish();
  }
  base::write_file(folder + "/index.json", data::index_to_json(index).dump());
  auto c = runs.config("run");
  c.data = folder + "[lang=e\nn]:0.5," + folder + "[lang=de]:0.5";
  c.steps = 2, c.global_batch = 4, c.validate_every = 2, c.validation_sequences = 4;
  runs.run(c, {});
  const auto line = SmallRun::metrics(c).back();
  EXPECT_FALSE(line["sets"][0].contains("validation_loss"));
  EXPECT_EQ(line["sets"][1]["validation_loss"], line["validation_loss"]);
  engine::EvaluateConfig e;
  e.checkpoint = c.output, e.run.device = "cpu", e.run.hang_timeout = 120;
  std::vector<engine::Evaluation> found;
  const auto evaluate = [&] {
    comm::run_ranks(1, [&](int rank, comm::ThreadsWorld& world) {
      auto w = engine::make_world("threads", rank, plan::replicas_of(1, 1), world.factory(rank));
      found = engine::evaluate_sets(e, w, nullptr);
    });
  };
  ::testing::internal::CaptureStderr();
  evaluate();
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(has(said, folder + "[lang=e\\nn] has no validation split: left out")) << said;
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].data, folder + "[lang=de]");
  // Nothing is left out that no split has.
  e.given = {"data"}, e.run.data = folder + "[lang=de]," + folder + "[lang=fr]";
  const auto mistyped = testing::error_text_of(evaluate);
  EXPECT_TRUE(has(mistyped, "[lang=fr]: no document has this value")) << mistyped;
  e.given = {"data"}, e.run.data = folder + "[lang=e\nn]";
  const auto none = folder + "[lang=e\\nn] has no validation split";
  EXPECT_TRUE(has(testing::error_text_of(evaluate), none)) << testing::error_text_of(evaluate);
  c.data = e.run.data, c.output += "-alone";
  const auto refused = testing::error_text_of([&] { runs.run(c, {}); });
  EXPECT_TRUE(has(refused, none)) << refused;
}

}  // namespace mixed_runs_test
}  // namespace trainyard
