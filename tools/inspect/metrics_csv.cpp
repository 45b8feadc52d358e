// Passes over the lines twice: first collects the columns, then writes rows.
#include "tools/inspect/metrics_csv.h"

#include "libtrain/base/error.h"
#include "libtrain/engine/metrics_reader.h"
#include "tools/common/program.h"
#include "tools/inspect/history.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

namespace trainyard::inspect {

namespace {

// A cell by RFC 4180: quoted if it has a comma, a quotation mark or a line break.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string value_text(const nlohmann::ordered_json& v) {
  if (v.is_null()) return {};
  return v.is_string() ? v.get<std::string>()
                       : v.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

struct NobodyReads {};

}  // namespace

void print_metrics_csv(const std::string& path) {
  try {
    write_metrics_csv(metrics_file(path, "--csv"), [](std::string_view part) {
      if (!tools::print(part)) throw NobodyReads();
    });
  } catch (const NobodyReads&) {
    // A reader that stops early is no error.
  }
}

void write_metrics_csv(const std::string& file, const std::function<void(std::string_view part)>& take) {
  std::vector<std::string> columns{"step"};
  std::unordered_set<std::string> known{"step"};
  std::int64_t through = 0;
  engine::each_whole_metrics_line(file, [&](const engine::MetricsLine& line) {
    through = line.number;
    for (const auto& item : line.values.items())
      if (known.insert(item.key()).second) columns.push_back(item.key());
    return true;
  });
  if (through == 0)
    throw base::InputError(fmt::format("{} holds no line of metrics", file), "train writes one after every step");
  std::string out;
  const auto add = [&](std::vector<std::string> cells) {
    std::transform(cells.begin(), cells.end(), cells.begin(), cell);
    out += fmt::format("{}\n", fmt::join(cells, ","));
    if (out.size() < (1 << 16)) return;
    take(out);
    out.clear();
  };
  add(columns);
  // A run may be writing: lines added since the first pass are left out.
  engine::each_whole_metrics_line(file, [&](const engine::MetricsLine& line) {
    if (line.number > through) return false;
    std::vector<std::string> cells;
    for (const auto& column : columns) {
      const auto value = line.values.find(column);
      cells.push_back(value == line.values.end() ? "" : value_text(*value));
    }
    add(std::move(cells));
    return true;
  });
  take(out);
}

}  // namespace trainyard::inspect
