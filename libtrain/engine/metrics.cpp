// Writes metrics lines whole, and cuts the file back on a resume.
#include "libtrain/engine/metrics.h"

#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/engine/metrics_reader.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace trainyard::engine {

namespace {

nlohmann::ordered_json number(double x) {  // JSON has no NaN
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

}  // namespace

// Lines that cannot be read stay where good ones follow them: nobody knows what they hold.
std::int64_t MetricsFile::length_through(const std::string& path, std::int64_t step) {
  std::int64_t good = 0;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return 0;
  each_metrics_line(path, [&](const MetricsLine& line) {
    if (!line.damage.empty() || !line.terminated) return true;
    if (line.step > step) return false;
    good = line.end;
    return true;
  });
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
  if (!m.time.empty()) j["time"] = m.time;
  if (!m.host.empty()) j["host"] = m.host;
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

MetricsFile::MetricsFile(const std::string& path, std::int64_t keep_through_step) : path_(path), host_(base::host_name()) {
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

void MetricsFile::write(StepMetrics m) {
  m.time = base::utc_now(base::Precision::milliseconds), m.host = host_;
  const auto line = to_json_line(m) + "\n";
  for (std::size_t done = 0; done < line.size();) {   // a disk that is nearly full takes a part, and says why only when asked for the rest
    const auto n = ::write(file_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      throw base::EnvironmentError(fmt::format("cannot write {}: {}", path_, std::strerror(n < 0 ? errno : ENOSPC)), "is the disk full? The last published checkpoint stands; resume with --resume auto");
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace trainyard::engine
