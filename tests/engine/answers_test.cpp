// Runs that learn answers alone: the same bits on every layout, sequences without answers, and what is refused.
#include "libtrain/comm/agreement.h"
#include "libtrain/engine/evaluate.h"
#include "tests/engine/small_run.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard {
namespace answers_test {

using testing::ParallelLayout;
using testing::SmallRun;

// Writes a set whose every `every`-th document has an answer in its second half; inverted: all else is one.
std::string write_set(const SmallRun& runs, const std::string& name, std::uint64_t every, bool inverted) {
  const auto tokenizer = data::make_tokenizer("bytes");
  const auto folder = (runs.folder() / name).string();
  testing::fs::create_directories(folder);
  data::SetIndex index;
  index.vocabulary = tokenizer->vocabulary(), index.end_of_document = tokenizer->end_of_document();
  index.answers = true;
  data::ShardWriter writer(folder, "train", *tokenizer, 3000);
  writer.mark_answers();
  for (std::uint64_t d = 0; d < 40; ++d) {
    std::vector<std::int32_t> document;
    for (std::uint64_t i = 0; i < 50 + d * 5; ++i)
      document.push_back(static_cast<std::int32_t>(base::random_words(3, d, i)[0] % 26 + 'a'));
    document.push_back(tokenizer->end_of_document());
    const auto half = std::ssize(document) / 2, end = std::ssize(document);
    std::vector<data::AnswerSpan> answers;
    if (d % every == 0) answers.push_back(inverted ? data::AnswerSpan{0, half} : data::AnswerSpan{half, end});
    else if (inverted) answers.push_back({0, end});
    writer.add(document, "", {answers});
  }
  index.train = writer.finish();
  base::write_file(folder + "/index.json", data::index_to_json(index).dump());
  return folder;
}

engine::RunConfig config(const SmallRun& runs, const std::string& data, const std::string& output) {
  auto c = runs.config(output);
  c.data = data, c.answers_only = true, c.document_mask = "on";
  c.steps = 8, c.global_batch = 3, c.micro_batch = 1;
  return c;
}

TEST(Answers, HaveTheSameBitsOnEveryLayout) {
  SmallRun runs;
  const auto data = write_set(runs, "chat", 13, false);
  const auto one = config(runs, data, "one");
  const auto expected = runs.bits(one, runs.run(one, {}));
  int without = 0;
  for (const auto& line : SmallRun::metrics(one)) {
    ASSERT_TRUE(line["gradient_norm"].is_number()) << line;
    EXPECT_EQ(line.contains("loss"), line["gradient_norm"] != 0.0) << line;
    if (line.contains("loss")) EXPECT_GT(line["loss"], 1) << line;
    else ++without;
  }
  EXPECT_GT(without, 0);  // no step of the three sequences has an answer
  EXPECT_LT(without, 8);
  std::vector<ParallelLayout> layouts(4);
  layouts[0].ranks = 3, layouts[0].zero = 3, layouts[1].ranks = 2, layouts[1].tensor = 2;
  layouts[2].ranks = 2, layouts[2].pipeline = 2, layouts[3].ranks = 3, layouts[3].zero = 2,
  layouts[3].recompute = "full";
  int n = 0;
  for (const auto& layout : layouts) {
    const auto c = config(runs, data, fmt::format("layout-{}", ++n));
    EXPECT_EQ(runs.bits(c, runs.run(c, layout)), expected) << n;
  }
}

// Steps without an answer are no measure for those with one.
TEST(Answers, AStepWithoutOneEntersNoWatch) {
  SmallRun runs;
  auto c = config(runs, write_set(runs, "chat", 5, false), "watched");
  c.steps = 60, c.global_batch = 1, c.learning_rate = 1e-4, c.skip_outliers = "norm:20,loss:2,window:4";
  ::testing::internal::CaptureStderr();
  const auto done = runs.run(c, {});
  const auto said = ::testing::internal::GetCapturedStderr();
  int with = 0;
  for (const auto& line : SmallRun::metrics(c)) {
    EXPECT_FALSE(line.contains("outlier")) << line;
    with += line.contains("loss") ? 1 : 0;
  }
  EXPECT_GE(with, 5);
  EXPECT_LT(with, 30);
  EXPECT_GT(done.loss.value_or(0), 1);
  const auto window = checkpoint::read_state(done.checkpoint).outlier_window;
  ASSERT_TRUE(window);
  ASSERT_EQ(window->losses.size(), 4u);
  for (const auto* values : {&window->losses, &window->gradient_norms})
    for (const double value : *values) EXPECT_GT(value, 0.1);
  EXPECT_EQ(said.find("diverged"), std::string::npos) << said;
  EXPECT_NE(said.find(fmt::format("{} of the first 60 sequences of this run have no answer", 60 - with)),
            std::string::npos)
      << said;
}

TEST(Answers, NobodyIsWarnedWhereEachStepHasOne) {
  SmallRun runs;
  auto c = config(runs, write_set(runs, "chat", 1, false), "most");
  c.global_batch = 14;  // a third of the sequences has no answer
  ::testing::internal::CaptureStderr();
  runs.run(c, {});
  const auto said = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("have no answer"), std::string::npos) << said;
}

// The losses of answers and of all other tokens add up to the loss of all tokens.
TEST(Answers, AndAllOtherTokensAreAllTokens) {
  SmallRun runs;
  const auto data = write_set(runs, "chat", 2, false), inverted = write_set(runs, "others", 2, true);
  const auto c = config(runs, data, "run");
  runs.run(c, {});
  const auto evaluate = [&](const std::string& set, std::optional<bool> answers_only) {
    engine::EvaluateConfig e;
    e.checkpoint = c.output, e.sequences = 40, e.split = "train", e.given = {"data"};
    if (answers_only) e.given.insert("answers-only"), e.run.answers_only = *answers_only;
    e.run.data = set, e.run.device = "cpu", e.run.hang_timeout = 120;
    engine::Evaluation found;
    comm::run_ranks(1, [&](int rank, comm::ThreadsWorld& world) {
      auto w = engine::make_world("threads", rank, plan::replicas_of(1, 1), world.factory(rank));
      found = engine::evaluate(e, w, nullptr);
    });
    return found;
  };
  const auto all = evaluate(data, false), answers = evaluate(data, {}), others = evaluate(inverted, {});
  EXPECT_EQ(all.tokens, answers.tokens + others.tokens);
  EXPECT_FALSE(all.answers_only);
  EXPECT_TRUE(answers.answers_only) << "as the run";
  const auto unmarked = (runs.folder() / "data").string();
  const auto refused = testing::error_text_of([&] { evaluate(unmarked, {}); });
  EXPECT_NE(refused.find("or --answers-only off, where all tokens count"), std::string::npos) << refused;
  EXPECT_FALSE(evaluate(unmarked, false).answers_only);
  EXPECT_GT(answers.tokens, 100);
  EXPECT_GT(others.tokens, 100);
  EXPECT_NEAR(all.loss * static_cast<double>(all.tokens),
              answers.loss * static_cast<double>(answers.tokens) + others.loss * static_cast<double>(others.tokens),
              1e-9 * all.loss * static_cast<double>(all.tokens));
  EXPECT_EQ(all.bytes, answers.bytes + others.bytes);
}

std::string refusal(SmallRun& runs, const engine::RunConfig& c) {
  try {
    runs.run(c, {});
  } catch (const base::Error& e) {
    return e.what();
  }
  return "not refused";
}

TEST(Answers, AreRefusedWhereNothingMarksThem) {
  SmallRun runs;
  auto c = config(runs, (runs.folder() / "data").string(), "refused");
  EXPECT_NE(refusal(runs, c).find("does not say which of its tokens are answers"), std::string::npos);
  c.data = write_set(runs, "none", 1000, false);  // only document 0 has an answer
  c.sequence = 20;
  EXPECT_EQ(refusal(runs, c), "not refused");
  const auto line = nlohmann::json(SmallRun::metrics(c).back());
  EXPECT_TRUE(line["gradient_norm"].is_number());
}

// A run without the setting does not know it, and a resume may not begin with it.
TEST(Answers, AreAPartOfARun) {
  SmallRun runs;
  auto c = config(runs, write_set(runs, "chat", 2, false), "resumed");
  c.answers_only = false, c.stop_after = 2;
  const auto done = runs.run(c, {});
  EXPECT_FALSE(checkpoint::read_state(done.checkpoint).identity.contains("answers_only"));
  c.answers_only = true, c.stop_after = 0;
  const auto said = refusal(runs, c);
  EXPECT_NE(said.find("--answers-only: the checkpoint has false, this run true"), std::string::npos) << said;
  c.change = "answers-only", c.stop_after = 3;
  const auto changed = runs.run(c, {});
  EXPECT_EQ(checkpoint::read_state(changed.checkpoint).identity["answers_only"], true);
  c.answers_only = false, c.change = "", c.stop_after = 0;
  EXPECT_NE(refusal(runs, c).find("--answers-only: the checkpoint has true, this run false"), std::string::npos);
}

}  // namespace answers_test
}  // namespace trainyard
