// Writes metrics lines whole, and cuts the file back on a resume.
#include "libtrain/engine/metrics.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::engine {

namespace {

nlohmann::ordered_json number(double x) {  // JSON has no NaN
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

std::optional<std::int64_t> step_of(const std::string& line) {
  try {
    const auto json = base::parse_json<nlohmann::json>(line, "line");
    return base::SortedJsonObject(json, "line").integer("step", 0);
  } catch (const base::InputError&) {
    return std::nullopt;
  }
}

}  // namespace

std::int64_t MetricsFile::length_through(const std::string& path, std::int64_t step) {
  std::ifstream in(path);
  std::string line;
  std::int64_t good = 0;
  std::int64_t read = 0;
  while (std::getline(in, line) && !in.eof()) {
    read += static_cast<std::int64_t>(line.size()) + 1;
    const auto found = step_of(line);
    if (found && *found > step) break;
    if (found) good = read;
  }
  return good;
}

std::string to_json_line(const StepMetrics& m) {
  nlohmann::ordered_json j;
  j["step"] = m.step;
  j["loss"] = number(m.loss);
  j["learning_rate"] = m.learning_rate;
  j["gradient_norm"] = number(m.gradient_norm);
  j["tokens_seen"] = m.tokens_seen;
  j["tokens_per_second"] = m.tokens_per_second;
  j["model_flops_per_second"] = m.model_flops_per_second;
  j["step_seconds"] = m.step_seconds;
  j["compute_seconds"] = m.compute_seconds;
  j["communication_seconds"] = m.communication_seconds;
  j["hidden_communication_seconds"] = m.hidden_communication_seconds;
  j["peak_bytes"] = m.peak_bytes;
  if (m.validation_loss) j["validation_loss"] = number(*m.validation_loss);
  return j.dump();
}

MetricsFile::MetricsFile(const std::string& path, std::int64_t keep_through_step) : path_(path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) throw base::InputError(fmt::format("{} is not a file", path), "move it away: metrics are written there");
  file_ = ::open(path.c_str(), O_CREAT | O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0644);
  if (file_ < 0) throw base::EnvironmentError(fmt::format("cannot write {}: {}", path, std::strerror(errno)), "check the permissions of the output folder");
  const auto length = length_through(path, keep_through_step);
  if (::ftruncate(file_, length) != 0 || ::lseek(file_, length, SEEK_SET) < 0)
    throw base::EnvironmentError(fmt::format("cannot cut {} back to step {}: {}", path, keep_through_step, std::strerror(errno)));
}

MetricsFile::~MetricsFile() {
  if (file_ >= 0) ::close(file_);
}

void MetricsFile::write(const StepMetrics& m) {
  const auto line = to_json_line(m) + "\n";
  for (std::string_view left = line; !left.empty();) {
    const auto written = ::write(file_, left.data(), left.size());   // a disk that becomes full takes a part, and says why at the next call
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0)
      throw base::EnvironmentError(fmt::format("cannot write {}: {}", path_, std::strerror(written < 0 ? errno : ENOSPC)), "is the disk full? The last published checkpoint stands; resume with --resume auto");
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace trainyard::engine
