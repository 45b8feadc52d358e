// Exports. Event files are compared with a reader written from the format's definition, and with the bytes of
// TensorBoard's own writer (tests/golden/events.py). Also CSV, and what an export replaces.
#include "tools/inspect/export.h"

#include "tests/inspect/lines.h"
#include "tests/scratch.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/io/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

using namespace trainyard;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;
namespace fs = std::filesystem;

namespace {

// CRC32C bit by bit, from its polynomial.
std::uint32_t slow_crc32c(std::string_view data) {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const unsigned char c : data) {
    crc ^= c;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
  }
  return ~crc;
}
std::uint32_t masked(std::string_view data) {
  const auto crc = slow_crc32c(data);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

struct Bytes {
  std::string_view left;
  bool empty() const { return left.empty(); }
  std::string_view take(std::uint64_t n) {
    if (n > left.size()) throw std::runtime_error("too short");
    const auto out = left.substr(0, n);
    left.remove_prefix(n);
    return out;
  }
  template <class T> T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<std::uint8_t>();
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  }
};

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version, writer;
  std::map<std::string, float> values;
};

std::pair<std::string, float> value_of(std::string_view data) {
  std::pair<std::string, float> out;
  for (Bytes in{data}; !in.empty();) {
    const auto key = in.varint();
    if (key == (1 << 3 | 2)) out.first = in.take(in.varint());
    else if (key == (2 << 3 | 5)) out.second = in.number<float>();
    else throw std::runtime_error("a field of a value that is not known");
  }
  return out;
}

Event event_of(std::string_view data) {
  Event e;
  for (Bytes in{data}; !in.empty();) switch (in.varint()) {
      case 1 << 3 | 1: e.wall_time = in.number<double>(); break;
      case 2 << 3 | 0: e.step = static_cast<std::int64_t>(in.varint()); break;
      case 3 << 3 | 2: e.version = in.take(in.varint()); break;
      case 5 << 3 | 2:
        for (Bytes summary{in.take(in.varint())}; !summary.empty();) {
          if (summary.varint() != (1 << 3 | 2)) throw std::runtime_error("a field of a summary that is not known");
          if (!e.values.insert(value_of(summary.take(summary.varint()))).second)
            throw std::runtime_error("a tag is there twice");
        }
        break;
      case 10 << 3 | 2: {
        Bytes source{in.take(in.varint())};
        source.varint();
        e.writer = source.take(source.varint());
        break;
      }
      default: throw std::runtime_error("a field of an event that is not known");
    }
  return e;
}

std::vector<Event> events_of(const std::string& file) {
  std::vector<Event> out;
  for (Bytes in{file}; !in.empty();) {
    const auto head = in.take(8);
    std::uint64_t length = 0;
    std::memcpy(&length, head.data(), 8);
    if (in.number<std::uint32_t>() != masked(head)) throw std::runtime_error("the checksum of a length is wrong");
    const auto data = in.take(length);
    if (in.number<std::uint32_t>() != masked(data)) throw std::runtime_error("the checksum of a record is wrong");
    out.push_back(event_of(data));
  }
  return out;
}

struct Export : ::testing::Test {
  Scratch scratch;
  std::string run = scratch.path + "/run", metrics = run + "/metrics.jsonl", place = scratch.path + "/events";
  void SetUp() override { fs::create_directory(run); }
};

}  // namespace

TEST_F(Export, ByteForByteWhatTensorBoardWrites) {
  fs::copy_file(std::string(GOLDEN) + "/events.jsonl", metrics);
  EXPECT_EQ(slurp(inspect::export_tensorboard(run, place)), slurp(std::string(GOLDEN) + "/events.tfevents"));
}

TEST_F(Export, EveryNumberOfEveryLine) {
  spit(metrics, lines::text(1, 300, 300));
  const auto path = inspect::export_tensorboard(run, place + "/deeper/");
  const auto events = events_of(slurp(path));
  ASSERT_EQ(events.size(), 301u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(events[0].values.empty());
  for (std::int64_t step = 1; step <= 300; ++step) {
    const auto& e = events[static_cast<std::size_t>(step)];
    EXPECT_EQ(e.step, step);
    EXPECT_EQ(e.wall_time, 1769903940 + static_cast<double>(step % 60) + 0.25);
    EXPECT_EQ(e.values.at("loss/train"), static_cast<float>(5.0 / static_cast<double>(step)));
    EXPECT_EQ(e.values.count("loss/validation"), step % 4 == 0 ? 1u : 0u);
    EXPECT_EQ(e.values.at("progress/tokens_seen"), static_cast<float>(1000 * step));
    EXPECT_EQ(e.version, "");
  }
  EXPECT_NE(fs::path(path).filename().string().find("tfevents"), std::string::npos);
}

TEST_F(Export, EachSetOfAMixture) {
  auto m = lines::of_step(4);
  m.sets = {{.name = "wiki", .tokens = 9, .loss = 1.5, .epochs = 0.25, .validation_loss = 1.75}, {.name = "a\nb"}};
  spit(metrics, engine::to_json_line(m) + "\n{\"step\":5,\"sets\":[7,{\"set\":1,\"loss\":2}]}\n");
  const auto events = events_of(slurp(inspect::export_tensorboard(run, place)));
  ASSERT_EQ(events.size(), 3u);
  const auto& values = events[1].values;
  EXPECT_EQ(values.at("loss/train/wiki"), 1.5f);
  EXPECT_EQ(values.at("loss/validation/wiki"), 1.75f);
  EXPECT_EQ(values.at("progress/epochs/wiki"), 0.25f);
  EXPECT_EQ(values.at("progress/epochs/a\\nb"), 0.0f);
  EXPECT_EQ(values.count("loss/train/a\\nb"), 0u) << "no target of the set counts in this step";
  EXPECT_EQ(values.at("loss/train"), 1.25f);
  EXPECT_TRUE(events[2].values.empty());
}

TEST_F(Export, OddLines) {
  spit(metrics,
       "{\"step\":1,\"loss\":\"-inf\",\"a\\nb\\u001b\":1e300}\n\n{\"step\":9223372036854775807,\"loss\":\"nan\"}\n{"
       "\"st");
  const auto events = events_of(slurp(inspect::export_tensorboard(run, place)));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[1].values.at("loss/train"), -INFINITY);
  EXPECT_EQ(events[1].values.at("other/a\\nb\\x1b"), INFINITY);
  EXPECT_EQ(events[1].wall_time, 0);
  EXPECT_EQ(events[2].step, 9223372036854775807);
  EXPECT_TRUE(std::isnan(events[2].values.at("loss/train")));
  for (const char* text : {"", "{\"step\":1}\nx\n{\"step\":2}\n"}) {
    spit(metrics, text);
    EXPECT_THROW(inspect::export_tensorboard(run, scratch.path + "/other"), base::InputError);
    EXPECT_FALSE(fs::exists(scratch.path + "/other"));
  }
  EXPECT_THROW(inspect::export_tensorboard(scratch.path, place), base::InputError);
}

TEST_F(Export, OnlyItsOwnFileIsReplaced) {
  spit(metrics, lines::text(1, 5));
  const auto path = inspect::export_tensorboard(run, place);
  spit(place + "/events.out.tfevents.1.other", "theirs");
  spit(metrics, lines::text(1, 9));
  EXPECT_EQ(inspect::export_tensorboard(run, place), path);
  EXPECT_EQ(events_of(slurp(path)).size(), 10u);
  EXPECT_EQ(slurp(place + "/events.out.tfevents.1.other"), "theirs");
  EXPECT_EQ(std::distance(fs::directory_iterator(place), fs::directory_iterator()), 2);
  // The next export removes what a killed one left; TensorBoard reads none of it.
  fs::copy_file(path, place + "/trainyard-export.17.partial");
  spit(place + "/theirs.partial", "theirs");
  inspect::export_tensorboard(run, place);
  EXPECT_FALSE(fs::exists(place + "/trainyard-export.17.partial"));
  EXPECT_TRUE(fs::exists(place + "/theirs.partial"));
  // A failed export leaves the existing file.
  const auto before = slurp(path);
  spit(metrics, "{\"step\":1}\nx\n{\"step\":2}\n");
  EXPECT_THROW(inspect::export_tensorboard(run, place), base::InputError);
  EXPECT_EQ(slurp(path), before);
  spit(metrics, lines::text(1, 9));
  spit(path, "somebody else's");
  EXPECT_THROW(inspect::export_tensorboard(run, place), base::UsageError);
  fs::remove(path);
  fs::create_symlink(metrics, path);
  EXPECT_THROW(inspect::export_tensorboard(run, place), base::UsageError);
  EXPECT_THROW(inspect::export_tensorboard(run, metrics), base::InputError);  // not a folder
}

TEST_F(Export, CsvIsAFile) {
  spit(metrics, lines::text(1, 5));
  const auto file = scratch.path + "/m.csv";
  EXPECT_EQ(inspect::export_csv(run, file), file);
  const auto text = slurp(file);
  EXPECT_EQ(text.substr(0, 16), "step,steps,loss,");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
  inspect::export_csv(run, file);
  EXPECT_EQ(slurp(file), text);
  EXPECT_THROW(inspect::export_csv(run, metrics), base::UsageError);
  for (const char* theirs :
       {"step,notes\n1,my precious notebook\n", "step,loss,\n", "step,loss", "loss,step\n", "\n"}) {
    spit(scratch.path + "/theirs.csv", theirs);
    EXPECT_THROW(inspect::export_csv(run, scratch.path + "/theirs.csv"), base::UsageError) << theirs;
    EXPECT_EQ(slurp(scratch.path + "/theirs.csv"), theirs);
  }
  spit(scratch.path + "/bare.jsonl", "{\"step\":1}\n");
  for (int again = 0; again < 2; ++again) inspect::export_csv(scratch.path + "/bare.jsonl", scratch.path + "/bare.csv");
  EXPECT_EQ(slurp(scratch.path + "/bare.csv"), "step\n1\n");
  // Keys that only some runs have are columns of ours, too.
  spit(scratch.path + "/rare.jsonl",
       "{\"step\":1,\"skipped_steps\":1,\"loss_scale\":8,\"outlier\":\"loss\","
       "\"outlier_limit\":2.5,\"save_seconds\":1,\"expert_rounds\":2,\"disk_wait_seconds\":3}\n");
  for (int again = 0; again < 2; ++again) inspect::export_csv(scratch.path + "/rare.jsonl", scratch.path + "/rare.csv");
  EXPECT_EQ(slurp(scratch.path + "/rare.csv"),
            "step,skipped_steps,loss_scale,outlier,outlier_limit,save_seconds,expert_rounds,disk_wait_seconds\n1,1,8,"
            "loss,2.5,1,2,3\n");
  spit(scratch.path + "/notes", "mine");
  EXPECT_THROW(inspect::export_csv(run, scratch.path + "/notes"), base::UsageError);
  EXPECT_EQ(slurp(scratch.path + "/notes"), "mine");
}

TEST(Utc, TextsToSeconds) {
  EXPECT_EQ(base::seconds_of_utc("1970-01-01T00:00:00Z"), 0);
  EXPECT_EQ(base::seconds_of_utc("2026-01-31T23:59:59.125Z"), 1769903999.125);
  EXPECT_EQ(base::seconds_of_utc("2024-02-29T00:00:00Z"), 1709164800);
  EXPECT_EQ(base::utc_text(1769903999), "2026-01-31T23:59:59Z");
  for (const char* text :
       {"", "Z", "2026-01-31", "2026-13-01T00:00:00Z", "2025-02-29T00:00:00Z", "2026-01-31T24:00:00Z",
        "2026-01-31T23:59:59", "2026-01-31T23:59:59.Z", "2026-01-31T23:59:59.1x3Z", "2026-01-31T23:59:59+1Z"})
    EXPECT_FALSE(base::seconds_of_utc(text)) << text;
}
