// The line of progress: its content, the validation loss that it remembers, and that it fits into 80 columns.
#include "tools/train/step_line.h"

#include <gtest/gtest.h>

namespace trainyard {
namespace {

engine::StepMetrics metrics(std::int64_t step, double loss, double seconds, double tokens) {
  engine::StepMetrics m;
  m.step = step, m.loss = loss, m.step_seconds = seconds, m.tokens_per_second = tokens;
  return m;
}

TEST(StepLine, SaysLossValidationSpeedAndTimeLeft) {
  tools::StepLine line;
  EXPECT_EQ(line.text(metrics(299, 1.84771, 0.1, 45526), 600), "step 299/600  loss 1.848  45,500 tokens/s  30 s left");
  auto m = metrics(300, 1.8, 0.3, 45526);
  m.step_seconds = 0.1, m.validation_loss = 1.89281, m.validation_seconds = 0.2;
  EXPECT_EQ(line.text(m, 600), "step 300/600  loss 1.800  val 1.893  45,500 tokens/s  1 min left");
  EXPECT_EQ(line.text(metrics(301, 1.79, 0.2, 900), 600),
            "step 301/600  loss 1.790  val 1.893  23,200 tokens/s  1 min left");  // the last validation loss
  EXPECT_EQ(line.text(metrics(600, 1.79, 0.2, 900), 600),
            "step 600/600  loss 1.790  val 1.893  15,800 tokens/s  0 s left");
}

TEST(StepLine, SaysHowEvenExpertsAre) {
  tools::StepLine line;
  auto m = metrics(299, 1.84771, 0.1, 45526);
  m.gates.emplace();
  m.gates->fullest = 1.3062, m.gates->dropped_share = 0.0213;
  EXPECT_EQ(line.text(m, 600), "step 299/600  loss 1.848  load 1.3  drop 2 %  45,500 tokens/s  30 s left");
  m.gates->dropped_share = 0.004;
  EXPECT_EQ(line.text(m, 600), "step 299/600  loss 1.848  load 1.3  45,500 tokens/s  30 s left");
  m.gates->dropped_share = 0.0213;
  m.step = 300, m.loss = 1.8, m.step_seconds = 0.3, m.validation_loss = 1.89281;  // the speed comes first
  EXPECT_EQ(line.text(m, 600), "step 300/600  loss 1.800  val 1.893  45,500 tokens/s  50 s left");
}

TEST(StepLine, SaysHowLongTheDiskBlocks) {
  tools::StepLine line;
  auto m = metrics(299, 1.84771, 0.1, 45526);
  m.disk_wait_seconds = 0.0124;
  EXPECT_EQ(line.text(m, 600), "step 299/600  loss 1.848  disk 12 %  45,500 tokens/s  30 s left");
  m.disk_wait_seconds = 0;
  EXPECT_EQ(line.text(m, 600), "step 299/600  loss 1.848  disk 0 %  45,500 tokens/s  30 s left");
}

TEST(StepLine, FitsEightyColumns) {
  for (const std::int64_t steps : {1, 600, 100000, 1000000})
    for (const double seconds : {1e-3, 0.5, 35.9, 3600.0, 86400.0})
      for (const double tokens : {0.5, 999.0, 45526.0, 1.234e9})
        for (const double loss : {10.8471234, 0.000123456, 123456.7, 1.5e30}) {
          tools::StepLine line;
          auto m = metrics(1, loss, seconds, tokens);
          m.validation_loss = loss;
          m.step = steps > 1 ? steps - 1 : 1;
          for (const bool experts : {false, true}) {
            m.disk_wait_seconds = seconds;
            if (experts) m.gates.emplace().fullest = 127.62, m.gates->dropped_share = 0.994;
            const auto text = line.text(m, steps);
            EXPECT_LE(text.size() + 7, 79u) << text;
            EXPECT_NE(text.find(" left"), std::string::npos);
          }
        }
}

}  // namespace
}  // namespace trainyard
