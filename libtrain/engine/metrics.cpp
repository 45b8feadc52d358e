// Writes metrics lines whole, and cuts the file back on a resume.
#include "libtrain/engine/metrics.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/descriptor.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/system_error.h"
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

// The first `bytes` of a file, or as many as the system gives.
std::string read_back(int file, std::int64_t bytes) {
  std::string text(base::size(bytes), '\0');
  std::size_t done = 0;
  base::Interruptions interruptions;
  for (ssize_t n = 1; done < text.size() && n != 0;) {
    n = ::pread(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n < 0 && interruptions.again()) continue;
    if (n < 0) break;
    done += base::size(n);
  }
  text.resize(done);
  return text;
}

// Replaces a file that has other names by a copy, because appending would change somebody else's file.
void make_own(const std::string& path, std::int64_t length) {
  struct stat named {
  }, info{};
  if (::lstat(path.c_str(), &named) != 0) {
    if (base::is_unreadable(errno)) base::throw_cannot_read("look at", path, errno);
    return;
  }
  const bool link = S_ISLNK(named.st_mode);
  if (::stat(path.c_str(), &info) != 0 || (!link && info.st_nlink < 2)) return;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) base::throw_cannot_read("read", path, errno);
  const auto text = read_back(file, length);
  ::close(file);
  if (std::ssize(text) != length) base::throw_cannot_read("read", path, EIO);
  base::write_file(path, text);
  base::log_warning("{} {}: this run goes on in a copy", path,
                    link ? "was a symbolic link" : "had other names too (a copy by hard links?)");
}

}  // namespace

// Unreadable lines stay if good ones follow them, because nobody knows what they hold.
std::int64_t MetricsFile::length_through(const std::string& path, std::int64_t step) {
  std::int64_t good = 0;
  std::error_code error;
  const bool there = std::filesystem::exists(path, error);
  if (base::is_unreadable(error.value())) base::throw_cannot_read("look at", path, error.value());
  if (!there) return 0;
  each_metrics_line(path, [&](const MetricsLine& line) {
    if (!line.damage.empty() || !line.terminated) return true;
    if (line.step > step) return false;
    good = line.end;
    return true;
  });
  return good;
}

namespace {

nlohmann::ordered_json json_of(const GateMetrics& gates) {
  nlohmann::ordered_json out;
  out["dropped_share"] = gates.dropped_share;
  out["fullest"] = gates.fullest;
  auto& layers = out["layers"] = nlohmann::ordered_json::array();
  for (const auto& g : gates.layers)
    layers.push_back({{"layer", g.layer},
                      {"experts", g.experts},
                      {"kept", g.kept},
                      {"dropped", g.dropped},
                      {"dropped_share", g.dropped_share},
                      {"fullest", g.fullest},
                      {"emptiest", g.emptiest},
                      {"fullest_expert", g.fullest_expert},
                      {"balance_loss", g.balance_loss},
                      {"z_loss", g.z_loss},
                      {"entropy", g.entropy}});
  return out;
}

nlohmann::ordered_json json_of(const SetMetrics& set) {
  nlohmann::ordered_json out{{"set", set.name}, {"sequences", set.sequences}, {"tokens", set.tokens}};
  if (set.loss) out["loss"] = number(*set.loss);
  out["sequences_seen"] = set.sequences_seen;
  out["epochs"] = set.epochs;
  if (set.validation_loss) out["validation_loss"] = number(*set.validation_loss);
  return out;
}

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  nlohmann::ordered_json j;
  j["step"] = m.step;
  if (m.steps > 0) j["steps"] = m.steps;
  if (m.loss) j["loss"] = number(*m.loss);
  j["learning_rate"] = m.learning_rate;
  j["gradient_norm"] = number(m.gradient_norm);
  if (m.skipped_steps > 0) j["skipped_steps"] = m.skipped_steps;
  if (m.loss_scale > 0) j["loss_scale"] = static_cast<std::int64_t>(m.loss_scale);
  if (!m.outlier.empty()) {
    j["outlier"] = m.outlier;
    j["outlier_limit"] = m.outlier_limit;
  }
  j["tokens_seen"] = m.tokens_seen;
  j["tokens_per_second"] = m.tokens_per_second;
  j["model_flops_per_second"] = m.model_flops_per_second;
  j["step_seconds"] = m.step_seconds;
  if (m.predicted_step_seconds) j["predicted_step_seconds"] = *m.predicted_step_seconds;
  j["compute_seconds"] = m.compute_seconds;
  j["communication_seconds"] = m.communication_seconds;
  j["hidden_communication_seconds"] = m.hidden_communication_seconds;
  if (m.disk_wait_seconds) j["disk_wait_seconds"] = *m.disk_wait_seconds;
  j["peak_bytes"] = m.peak_bytes;
  if (m.validation_loss) {
    j["validation_loss"] = number(*m.validation_loss);
    j["validation_seconds"] = m.validation_seconds;
  }
  if (m.save_seconds) j["save_seconds"] = *m.save_seconds;
  if (m.gates) {
    j["balance_loss"] = m.gates->weighted_balance_loss;
    j["z_loss"] = m.gates->weighted_z_loss;
    j["experts"] = json_of(*m.gates);
  }
  if (m.expert_rounds > 0) j["expert_rounds"] = m.expert_rounds;
  for (const auto& set : m.sets) j["sets"].push_back(json_of(set));
  if (!m.time.empty()) j["time"] = m.time;
  if (!m.host.empty()) j["host"] = m.host;
  return j.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void MetricsFile::require_file_or_nothing(const std::string& path) {
  struct stat named {
  }, info{};
  if (::lstat(path.c_str(), &named) != 0) return;
  const bool there = ::stat(path.c_str(), &info) == 0;
  if (!there && S_ISLNK(named.st_mode))
    throw base::InputError(fmt::format("{} is a link to what is not there", path),
                           "is its disk mounted? To begin new metrics, remove the link");
  if (there && !S_ISREG(info.st_mode))
    throw base::InputError(fmt::format("{} is not a file", path), "move it away: metrics are written there");
}

MetricsFile::MetricsFile(const std::string& path, std::int64_t keep_through_step)
    : path_(path), host_(base::host_name()) {
  require_file_or_nothing(path);
  end_ = length_through(path, keep_through_step);
  make_own(path, end_);
  open();
  if (::ftruncate(file_, end_) != 0)
    throw base::EnvironmentError(
        fmt::format("cannot cut {} back to step {}: {}", path, keep_through_step, std::strerror(errno)));
}

void MetricsFile::open() {
  if (file_ >= 0) ::close(file_);
  file_ = ::open(path_.c_str(), O_CREAT | O_RDWR | O_APPEND | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file_ < 0) base::throw_cannot_write("write", path_, errno);
}

MetricsFile::~MetricsFile() {
  if (file_ >= 0) ::close(file_);
}

void MetricsFile::write(StepMetrics m) {
  m.time = base::utc_now(base::Precision::milliseconds), m.host = host_;
  mend();
  append(to_json_line(m) + "\n");
}

void MetricsFile::mend() {
  struct stat held {
  }, named{};
  const int looked = ::lstat(path_.c_str(), &named);
  if (looked != 0 && base::is_unreadable(errno)) return;  // not known; writing will show
  const bool same =
      looked == 0 && ::fstat(file_, &held) == 0 && held.st_dev == named.st_dev && held.st_ino == named.st_ino;
  if (!same) make_again(looked == 0);
  else if (held.st_size != end_) go_on_at_end(held.st_size);
}

void MetricsFile::make_again(bool replaced) {
  const auto lines = read_back(file_, end_);
  const auto again = base::free_name(path_ + ".again"), other = base::free_name(path_ + ".of-somebody");
  base::write_file(again, lines);
  if (replaced) base::rename_durably(path_, other);
  base::rename_durably(again, path_);
  base::log_warning(
      "{} was {} while this run wrote to it: it is written again {}", path_, replaced ? "replaced" : "removed",
      std::ssize(lines) == end_ ? "with all its lines" : "without its earlier lines, which cannot be read any more");
  if (replaced) base::log_warning("the file that replaced it is now called {}", other);
  end_ = std::ssize(lines);
  open();
}

void MetricsFile::go_on_at_end(std::int64_t found) {
  base::log_warning(
      "another program wrote to {} during this run: it has {} bytes, {} were written; lines go on at its end", path_,
      found, end_);
  char last = '\n';
  const bool known = found == 0 || ::pread(file_, &last, 1, found - 1) == 1;
  end_ = found;
  if (!known || last != '\n') append("\n");
}

void MetricsFile::append(const std::string& line) {
  base::Interruptions interruptions;
  // A disk that is nearly full takes a part, and gives a reason only when asked for the rest.
  for (std::size_t done = 0; done < line.size();) {
    const auto n = ::write(file_, line.data() + done, line.size() - done);
    if (n < 0 && interruptions.again()) continue;
    if (n <= 0) {
      const int reason = n < 0 ? errno : ENOSPC;
      const auto hint = base::hint_for(reason);
      throw base::EnvironmentError(fmt::format("cannot write {}: {}", path_, std::strerror(reason)),
                                   base::text("{}{}$resume auto goes on from the newest checkpoint, or begins anew "
                                              "if none was saved",
                                              hint, hint.empty() ? "" : "; "));
    }
    done += base::size(n);
    end_ += n;
  }
}

}  // namespace trainyard::engine
