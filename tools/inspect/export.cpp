// Writes files for other programs.
#include "tools/inspect/export.h"

#include "libtrain/base/atomic_stream.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/metrics_reader.h"
#include "libtrain/io/event_file.h"
#include "tools/inspect/history.h"
#include "tools/inspect/metrics_csv.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>

namespace trainyard::inspect {

namespace {

// Said in the first record of a file, by which it is known again.
constexpr const char* writer = "trainyard inspect";
// One name for ever, so that a second export replaces the first; "tfevents" is what TensorBoard looks for.
constexpr const char* event_file_name = "events.out.tfevents.trainyard";
constexpr std::size_t flushed_at = std::size_t{1} << 18;

std::string beginning_of(const std::string& path) {
  std::string text(256, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(text.data(), std::ssize(text));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

// A regular file that begins as one of ours does.
base::Owned own_files(const std::string& kind, bool (*is_ours)(const std::string& beginning),
                      const std::string& precious) {
  return {kind,
          [kind, is_ours](const std::string& path) -> std::string {
            std::error_code error;
            if (!std::filesystem::is_regular_file(path, error)) return "is no file";
            const auto text = beginning_of(path);
            return text.empty() || is_ours(text) ? "" : "is not " + kind;
          },
          {precious}};
}

// The first time of a file: a header is older than what follows it.
double first_time(const std::string& metrics) {
  double time = 0;
  engine::each_whole_metrics_line(metrics, [&](const engine::MetricsLine& line) {
    const auto found = line.values.find("time");
    if (found == line.values.end() || !found->is_string()) return true;
    const auto seconds = base::seconds_of_utc(found->get_ref<const std::string&>());
    if (seconds) time = *seconds;
    return !seconds;
  });
  return time;
}

}  // namespace

std::string tag_of(const std::string& key) {
  static const std::map<std::string_view, const char*> tags{
      {"loss", "loss/train"},
      {"validation_loss", "loss/validation"},
      {"learning_rate", "optimizer/learning_rate"},
      {"gradient_norm", "optimizer/gradient_norm"},
      {"tokens_per_second", "throughput/tokens_per_second"},
      {"model_flops_per_second", "throughput/model_flops_per_second"},
      {"tokens_seen", "progress/tokens_seen"},
      {"steps", "progress/steps"},
      {"step_seconds", "seconds/step"},
      {"compute_seconds", "seconds/compute"},
      {"communication_seconds", "seconds/communication"},
      {"hidden_communication_seconds", "seconds/hidden_communication"},
      {"peak_bytes", "memory/peak_bytes"}};
  const auto known = tags.find(key);
  return known != tags.end() ? known->second : "other/" + base::one_line(key);
}

std::string export_tensorboard(const std::string& run, const std::string& folder) {
  const auto metrics = metrics_file(run, "--export");
  const auto path = base::without_slashes(folder) + "/" + event_file_name;
  base::require_folder_or_nothing(folder);
  base::require_own(path, own_files(
                              "an event file that inspect wrote",
                              [](const std::string& text) {
                                return text.find("brain.Event:2") != std::string::npos &&
                                       text.find(writer) != std::string::npos;
                              },
                              metrics));
  auto time = first_time(metrics);
  std::map<std::string, std::string> tags;
  std::int64_t lines = 0;
  const auto produce = [&](const base::Sink& take) {
    auto out = io::event_file_header(time, writer);
    engine::each_whole_metrics_line(metrics, [&](const engine::MetricsLine& line) {
      std::vector<io::TaggedValue> values;
      for (const auto& item : line.values.items()) {
        if (item.key() == "step") continue;
        const auto number = number_at(line.values, item.key().c_str());
        if (!number) continue;
        auto tag = tags.find(item.key());
        if (tag == tags.end()) tag = tags.emplace(item.key(), tag_of(item.key())).first;
        values.push_back({tag->second, static_cast<float>(*number)});
      }
      if (const auto found = line.values.find("time"); found != line.values.end() && found->is_string())
        time = base::seconds_of_utc(found->get_ref<const std::string&>()).value_or(time);
      ++lines;
      out += io::event_record(time, line.step, values);
      if (out.size() > flushed_at) take(out), out.clear();
      return true;
    });
    if (lines == 0)
      throw base::InputError(fmt::format("{} holds no line of metrics", metrics), "train writes one after every step");
    take(out);
  };
  base::make_folders(folder);
  base::write_file(path, produce, base::Existing::replace);
  return path;
}

std::string export_csv(const std::string& run, const std::string& file) {
  const auto metrics = metrics_file(run, "--export");
  base::require_own(
      file, own_files(
                "a CSV file of metrics", [](const std::string& text) { return text.starts_with("step,"); }, metrics));
  base::write_file(
      file, [&](const base::Sink& take) { write_metrics_csv(metrics, take); }, base::Existing::replace);
  return file;
}

}  // namespace trainyard::inspect
