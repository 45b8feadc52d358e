// Lines of metrics, good and damaged.
#include "libtrain/engine/metrics_reader.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace trainyard::engine {

namespace {

void parse(MetricsLine& line, const std::string& text, const std::string& path) {
  const auto where = fmt::format("{} line {}", path, line.number);
  try {
    line.values = base::parse_json(text, where);
    line.step = base::JsonObject(line.values, where).integer("step", 0);
  } catch (const base::InputError& e) {
    line.damage = e.what();
  }
}

}  // namespace

void each_metrics_line(const std::string& path, const std::function<bool(const MetricsLine&)>& visit) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw base::InputError(fmt::format("{} is not a file", path), "metrics.jsonl is a file that train writes");
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw base::InputError(fmt::format("cannot read {}: {}", path, std::strerror(errno)), "check its permissions");
  MetricsLine line;
  for (std::string text; std::getline(in, text);) {
    MetricsLine next;
    next.number = line.number + 1;
    next.terminated = !in.eof();
    next.end = line.end + static_cast<std::int64_t>(text.size()) + (next.terminated ? 1 : 0);
    next.last = in.peek() == std::ifstream::traits_type::eof();
    line = std::move(next);
    if (text.empty()) continue;
    parse(line, text, path);
    if (!visit(line)) return;
  }
}

bool each_whole_metrics_line(const std::string& path, const std::function<bool(const MetricsLine&)>& visit) {
  bool unfinished = false;
  each_metrics_line(path, [&](const MetricsLine& line) {
    if (line.damage.empty()) return visit(line);
    if (!line.unfinished()) throw base::InputError(line.damage, "remove the line, or restore the file from a copy");
    unfinished = true;
    return false;
  });
  return unfinished;
}

}  // namespace trainyard::engine
