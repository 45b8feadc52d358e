// Settings of masked runs: contradictions with the model, the choice of the mask token, what a resume compares, what is
// planned.
#include "libtrain/engine/batches.h"
#include "libtrain/engine/identity.h"
#include "libtrain/engine/run_windows.h"
#include "libtrain/engine/setup.h"
#include "libtrain/plan/cost/memory.h"
#include "libtrain/plan/model_file/load_model.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using testing::SmallRun;

std::string refusal(const RunConfig& c, base::ExitCode code) {
  try {
    make_setup(c, 1, 1);
  } catch (const base::Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return std::string(e.what()) + " | " + e.hint();
  }
  return "nothing is wrong";
}

class Masked : public ::testing::Test {
 protected:
  RunConfig both_ways(const std::string& more = "") const {
    auto c = runs.config("masked");
    c.model = runs.model("both-ways" + std::to_string(more.size()),
                         "layers = 1\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\n" + more +
                             "[attention]\ncausal = \"off\"\n");
    return c;
  }
  SmallRun runs;
};

void expect_words(const std::string& text, const char* words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST_F(Masked, TheObjectiveFollowsFromTheModel) {
  auto causal = runs.config("causal"), masked = both_ways();
  EXPECT_EQ(make_setup(causal, 1, 1).identity["objective"], "causal");
  EXPECT_FALSE(make_setup(causal, 1, 1).masking.has_value());
  const auto setup = make_setup(masked, 1, 1);
  EXPECT_EQ(setup.identity["objective"], "masked");
  EXPECT_EQ(setup.identity["mask_rate"], 0.15);
  EXPECT_EQ(setup.identity["mask_words"], "off");
  EXPECT_EQ(setup.masking->rate, 0.15);
  causal.objective = "causal", masked.objective = "masked", masked.mask_rate = 0.15;
  EXPECT_EQ(make_setup(causal, 1, 1).identity["objective"], "causal");
  EXPECT_EQ(make_setup(masked, 1, 1).identity, setup.identity) << "the usual rate, said";
}

TEST_F(Masked, ContradictionsAreRefused) {
  auto c = runs.config("causal");
  c.objective = "masked";
  expect_words(refusal(c, base::ExitCode::usage), "--objective masked: the attention of model \"custom\" is causal");
  c.objective = "auto", c.mask_rate = 0.2, c.mask_words = "on";
  expect_words(refusal(c, base::ExitCode::usage), "--mask-rate 0.2: model \"custom\" learns the next token");
  expect_words(refusal(c, base::ExitCode::usage), "--mask-words on: model");
  auto m = both_ways();
  m.objective = "causal";
  expect_words(refusal(m, base::ExitCode::usage),
               "--objective causal: the attention of model \"custom\" is not causal");
  m.objective = "auto", m.mask_rate = 1.5;
  expect_words(refusal(m, base::ExitCode::usage), "mask-rate 1.5");
}

// The bytes tokenizer has no mask token: the mask is the id behind its vocabulary.
TEST_F(Masked, TheMaskIsATokenOfTheModel) {
  const auto setup = make_setup(both_ways(), 1, 1);
  EXPECT_EQ(setup.plan.model.vocabulary, 258);
  EXPECT_EQ(setup.masking->mask_token, 257);
  EXPECT_EQ(setup.masking->vocabulary, 257);
  EXPECT_EQ(setup.identity["mask_token"], 257);
  expect_words(refusal(both_ways("vocabulary = 257\n"), base::ExitCode::input_refused),
               "have 257 and no mask token, which gets the id 257 | leave the vocabulary out of the model: it comes "
               "from the shards; or give 258");
  EXPECT_EQ(make_setup(both_ways("vocabulary = 300\n"), 1, 1).plan.model.vocabulary, 300);
  auto planned = both_ways();
  planned.plan = "plan.json";
  planned.from_plan.model = plan::load_model(planned.model);
  planned.from_plan.model->vocabulary = 257;
  expect_words(refusal(planned, base::ExitCode::input_refused), "--vocabulary 258");
  planned.from_plan.model->vocabulary = 258;
  EXPECT_EQ(make_setup(planned, 1, 1).plan.model.vocabulary, 258);
}

TEST_F(Masked, WordsNeedTheTokenizerOfTheSet) {
  auto c = both_ways();
  c.mask_words = "on";
  EXPECT_FALSE(make_setup(c, 1, 1).masking->word_starts.empty());
  const auto path = c.data + "/index.json";
  auto index = nlohmann::json::parse(std::ifstream(path));
  index["tokenizer"] = {{"name", "gone.model"}, {"source", "gone.model"}, {"crc32c", 5}};
  base::write_file(path, index.dump(), base::Existing::replace);
  expect_words(refusal(c, base::ExitCode::input_refused), "are not known: tokenizer");
}

TEST_F(Masked, AResumeComparesWhatIsHidden) {
  const auto was = make_setup(both_ways(), 1, 1).identity;
  auto c = both_ways();
  c.mask_rate = 0.3;
  const auto now = make_setup(c, 1, 1).identity;
  try {
    require_same_run(was, now, {}, "it");
    FAIL() << "another mask rate";
  } catch (const base::InputError& e) {
    expect_words(e.what(), "--mask-rate: the checkpoint has 0.15, this run 0.3");
  }
  require_same_run(was, now, {"mask_rate"}, "it");
  auto causal = make_setup(runs.config("causal"), 1, 1).identity, older = causal;
  older.erase("objective");
  require_same_run(older, causal, {}, "an older checkpoint");
  older = was;
  older.erase("objective");
  EXPECT_THROW(require_same_run(older, was, {}, "an older checkpoint"), base::InputError);
}

// What the model gets of a window: hidden tokens, the number of counted targets, and where documents end.
TEST_F(Masked, MicroBatchesSayWhereDocumentsEnd) {
  for (const char* mask : {"off", "on"}) {
    auto c = both_ways();
    c.document_mask = mask, c.micro_batch = 2, c.global_batch = 4;
    c.validate_every = 1, c.validation_sequences = 4;
    const auto setup = make_setup(c, 1, 1);
    RunWindows windows(setup);
    Batches batches(windows.training(), windows.validation(), setup.plan.batch(), 0);
    bool inside = false;
    const auto look = [&](const model::MicroBatch& batch) {
      std::int64_t hidden = 0, masks = 0;
      const auto* weights = batch.weights.ptr<std::uint8_t>();
      const auto *tokens = batch.tokens.ptr<std::int32_t>(), *targets = batch.targets.ptr<std::int32_t>(),
                 *starts = batch.document_start.ptr<std::int32_t>();
      for (std::int64_t i = 0; i < 64; ++i) {
        hidden += weights[i], masks += tokens[i] == 257 ? 1 : 0;
        EXPECT_TRUE(weights[i] == 1 || tokens[i] == targets[i]);
      }
      EXPECT_EQ(batch.counted, hidden);
      EXPECT_TRUE(hidden >= 2 && hidden < 32 && masks > 0 && masks <= hidden) << hidden << " " << masks;
      ASSERT_EQ(static_cast<bool>(batch.key_end), c.document_mask == "on");
      if (!batch.key_end) return;
      const auto* ends = batch.key_end.ptr<std::int32_t>();
      for (std::int64_t i = 0; i < 64; ++i) {
        std::int64_t end = i % 32 + 1;  // the next token that begins a document
        while (end < 32 && starts[i - i % 32 + end] != end) ++end;
        EXPECT_EQ(ends[i], end) << i;
        inside = inside || end < 32;
      }
    };
    for (const std::int64_t step : {0, 1, 2})
      for (const std::int64_t micro : {0, 1}) look(batches.training(step, micro));
    for (const std::int64_t micro : {0, 1}) look(batches.validation(micro));
    EXPECT_EQ(inside, c.document_mask == "on") << "no document ends inside of a window";
  }
  auto causal = runs.config("causal");
  causal.document_mask = "on";
  const auto setup = make_setup(causal, 1, 1);
  RunWindows windows(setup);
  Batches batches(windows.training(), nullptr, setup.plan.batch(), 0);
  EXPECT_FALSE(batches.training(0, 0).key_end) << "nobody reads it";
}

// A set in which no target counts is refused: it would train with a loss of 0.
TEST_F(Masked, DataThatTeachesNothingIsRefused) {
  const auto tokenizer = data::make_tokenizer("bytes");
  auto causal = runs.config("causal"), masked = both_ways();
  const auto folder = std::filesystem::path(causal.data).parent_path() / "ends";
  std::filesystem::create_directories(folder);
  data::SetIndex index;
  index.vocabulary = tokenizer->vocabulary(), index.end_of_document = tokenizer->end_of_document();
  data::ShardWriter writer(folder.string(), "train", *tokenizer, 3000);
  const std::vector<std::int32_t> end{tokenizer->end_of_document()};
  for (int d = 0; d < 500; ++d) writer.add(end);
  index.train = writer.finish();
  base::write_file((folder / "index.json").string(), data::index_to_json(index).dump());
  const auto refused = [&](RunConfig c) -> std::string {
    c.data = folder.string();
    try {
      const RunWindows windows(make_setup(c, 1, 1));
    } catch (const base::InputError& e) {
      return e.what();
    }
    return "nothing is wrong";
  };
  EXPECT_EQ(refused(causal), "nothing is wrong") << "all targets count while documents are not told apart";
  causal.document_mask = "on";
  expect_words(refused(causal), "counts: every one begins a document");
  expect_words(refused(masked), "counts: all tokens are ends of documents");
  // A validation reads only the first of its windows: targets in later windows do not count.
  data::ShardWriter taught(folder.string(), "taught", *tokenizer, 3000),
      late(folder.string(), "late", *tokenizer, 9000);
  for (int d = 0; d < 500; ++d) late.add(end);
  std::vector<std::int32_t> text(60, 'x');
  text.push_back(tokenizer->end_of_document());
  for (int d = 0; d < 40; ++d) taught.add(text), late.add(text);
  index.train = taught.finish(), index.validation = late.finish();
  base::write_file((folder / "index.json").string(), data::index_to_json(index).dump());
  for (auto* c : {&causal, &masked}) {
    c->validate_every = 1, c->validation_sequences = 8;
    expect_words(refused(*c), "no target of the first 8 windows of the validation split of");
    c->validation_sequences = 24;
    EXPECT_EQ(refused(*c), "nothing is wrong");
    c->validate_every = 0;
  }
  causal.data = masked.data = runs.config("good").data;
  EXPECT_NO_THROW(RunWindows(make_setup(causal, 1, 1)));
  EXPECT_NO_THROW(RunWindows(make_setup(masked, 1, 1)));
}

// For masked models alone, a micro-batch has one more array: where documents end.
TEST_F(Masked, TheLoaderHasPlaceForTheEndsOfDocuments) {
  const plan::MicroShape shape{{3, 50}, {}};
  EXPECT_EQ(plan::loaded_bytes(shape, plan::Objective::masked) - plan::loaded_bytes(shape, plan::Objective::causal),
            640);
}

}  // namespace
}  // namespace trainyard::engine
