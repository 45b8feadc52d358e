// Writes metrics files for other programs.
#include "tools/inspect/export.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/atomic_stream.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/engine/metrics.h"
#include "libtrain/engine/metrics_reader.h"
#include "libtrain/io/event_file.h"
#include "tools/common/interrupt.h"
#include "tools/inspect/history.h"
#include "tools/inspect/metrics_csv.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <unistd.h>

namespace trainyard::inspect {

namespace {

// In the first record of a file, by which it is recognised as ours.
constexpr const char* writer = "trainyard inspect";
// Always the same name, so that a second export replaces the first. TensorBoard looks for "tfevents".
constexpr const char* event_file_name = "events.out.tfevents.trainyard";
// The name while the file is written; a killed process may leave a file of this name.
constexpr const char* unfinished_name = "trainyard-export";
constexpr std::size_t flushed_at = std::size_t{1} << 18;

std::string beginning_of(const std::string& path) {
  std::string text(4096, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(text.data(), std::ssize(text));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return text;
}

// Accepts only a regular file that begins like one of ours, or an empty one.
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

// The first time in a metrics file, for the header, which must not be younger than its events. InputError if a line is
// damaged, or there is none.
double first_time(const std::string& metrics) {
  std::optional<double> time;
  std::int64_t lines = 0;
  engine::each_whole_metrics_line(metrics, [&](const engine::MetricsLine& line) {
    tools::require_not_interrupted();
    ++lines;
    if (time) return true;
    const auto found = line.values.find("time");
    if (found != line.values.end() && found->is_string())
      time = base::seconds_of_utc(found->get_ref<const std::string&>());
    return true;
  });
  if (lines == 0)
    throw base::InputError(fmt::format("{} holds no line of metrics", metrics), "train writes one after every step");
  return time.value_or(0);
}

bool is_event_file(const std::string& beginning) {
  return beginning.find("brain.Event:2") != std::string::npos && beginning.find(writer) != std::string::npos;
}

// The keys that train writes into a line.
std::set<std::string> keys_of_train() {
  engine::StepMetrics all;
  all.steps = 1, all.loss = 0, all.validation_loss = 0, all.gates.emplace(), all.time = all.host = "x";
  all.skipped_steps = 1, all.loss_scale = 1, all.save_seconds = 0, all.expert_rounds = 1, all.disk_wait_seconds = 0,
  all.outlier = "loss", all.predicted_step_seconds = 0, all.sets.emplace_back();
  const auto line = nlohmann::json::parse(engine::to_json_line(all));
  std::set<std::string> keys;
  for (const auto& item : line.items()) keys.insert(item.key());
  return keys;
}

// Recognises a CSV header that has only keys of train. Another table with a column "step" is not ours.
bool is_metrics_csv(const std::string& beginning) {
  const auto feed = beginning.find('\n');
  if (feed == std::string::npos) return false;
  const auto known = keys_of_train();
  std::istringstream header(beginning.substr(0, feed));
  std::string column;
  for (bool first = true; std::getline(header, column, ','); first = false)
    if (first ? column != "step" : !known.contains(column)) return false;
  return feed > 0 && beginning[feed - 1] != ',';
}

// What a run that mixes sets says of each.
void add_sets(const nlohmann::ordered_json& line, std::vector<io::TaggedValue>& values) {
  const auto sets = line.find("sets");
  if (sets == line.end() || !sets->is_array()) return;
  for (const auto& set : *sets) {
    const auto name = set.find("set");
    if (!set.is_object() || name == set.end() || !name->is_string()) continue;
    for (const auto& [key, tag] : {std::pair("loss", "loss/train"), std::pair("validation_loss", "loss/validation"),
                                   std::pair("epochs", "progress/epochs")})
      if (const auto number = number_at(set, key))
        values.push_back({fmt::format("{}/{}", tag, base::one_line(name->get_ref<const std::string&>())),
                          static_cast<float>(*number)});
  }
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
      {"predicted_step_seconds", "seconds/predicted_step"},
      {"validation_seconds", "seconds/validation"},
      {"compute_seconds", "seconds/compute"},
      {"communication_seconds", "seconds/communication"},
      {"hidden_communication_seconds", "seconds/hidden_communication"},
      {"disk_wait_seconds", "seconds/disk_wait"},
      {"peak_bytes", "memory/peak_bytes"},
      {"balance_loss", "experts/balance_loss"},
      {"z_loss", "experts/z_loss"}};
  const auto known = tags.find(key);
  return known != tags.end() ? known->second : "other/" + base::one_line(key);
}

std::string export_tensorboard(const std::string& run, const std::string& folder) {
  const auto metrics = metrics_file(run, "--export");
  const auto place = base::without_slashes(folder), path = place + "/" + event_file_name;
  const auto own = own_files("an event file that inspect wrote", is_event_file, metrics);
  base::require_folder_or_nothing(folder);
  base::require_own(path, own);
  auto time = first_time(metrics);
  std::map<std::string, std::string> tags;
  const auto produce = [&](const base::Sink& take) {
    auto out = io::event_file_header(time, writer);
    engine::each_whole_metrics_line(metrics, [&](const engine::MetricsLine& line) {
      tools::require_not_interrupted();
      std::vector<io::TaggedValue> values;
      for (const auto& item : line.values.items()) {
        if (item.key() == "step") continue;
        const auto number = number_at(line.values, item.key().c_str());
        if (!number) continue;
        auto tag = tags.find(item.key());
        if (tag == tags.end()) tag = tags.emplace(item.key(), tag_of(item.key())).first;
        values.push_back({tag->second, static_cast<float>(*number)});
      }
      if (const auto experts = line.values.find("experts"); experts != line.values.end() && experts->is_object())
        for (const char* key : {"dropped_share", "fullest"})
          if (const auto number = number_at(*experts, key))
            values.push_back({fmt::format("experts/{}", key), static_cast<float>(*number)});
      add_sets(line.values, values);
      if (const auto found = line.values.find("time"); found != line.values.end() && found->is_string())
        time = base::seconds_of_utc(found->get_ref<const std::string&>()).value_or(time);
      out += io::event_record(time, line.step, values);
      if (out.size() > flushed_at) take(out), out.clear();
      return true;
    });
    take(out);
  };
  base::make_folders(folder);
  base::remove_stale_partials(
      place, [](std::string_view name) { return name.starts_with(std::string(unfinished_name) + "."); }, own);
  base::replace_file(path, fmt::format("{}/{}.{}{}", place, unfinished_name, ::getpid(), base::partial_suffix),
                     produce);
  return path;
}

std::string export_csv(const std::string& run, const std::string& file) {
  const auto metrics = metrics_file(run, "--export");
  base::require_own(file, own_files("a CSV file of metrics", is_metrics_csv, metrics));
  base::write_file(
      file,
      [&](const base::Sink& take) {
        write_metrics_csv(metrics, [&](std::string_view shard) {
          tools::require_not_interrupted();
          take(shard);
        });
      },
      base::Existing::replace);
  return file;
}

}  // namespace trainyard::inspect
