// Trace events as text.
#include "libtrain/engine/trace_file.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/destination.h"
#include "libtrain/io/bulk.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace trainyard::engine {

namespace {

// What every file of this format begins with, whatever its version.
constexpr std::string_view beginning = R"({"otherData":{"format":"trainyard.trace/)";

std::int64_t step_of(std::string_view text, const std::string& all) {
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (error != std::errc() || end != text.data() + text.size() || step < 1)
    throw base::UsageError(base::text("$trace-steps {} is no range of steps", base::one_line(all)),
                           "first and last step, as 3:6, or one, as 3");
  return step;
}

void span_text(std::string& out, const base::TraceSpan& s, int rank, std::size_t thread, const RankClock& clock,
               double origin) {
  const double begin = clock.on_rank_zero(s.begin), end = clock.on_rank_zero(s.end);
  fmt::format_to(std::back_inserter(out),
                 R"({{"name":"{}","cat":"{}","ph":"X","ts":{:.3f},"dur":{:.3f},"pid":{},"tid":{},"args":{{)", s.name,
                 s.kind->name, 1e6 * (begin - origin), 1e6 * std::max(0.0, end - begin), rank, thread);
  bool first = true;
  const auto next = [&] { return std::exchange(first, false) ? "" : ","; };
  if (s.group != nullptr) fmt::format_to(std::back_inserter(out), R"({}"group":"{}")", next(), s.group);
  for (std::size_t i = 0; i < s.values.size(); ++i)
    if (s.kind->keys[i] != nullptr && s.values[i] != base::not_traced)
      fmt::format_to(std::back_inserter(out), R"({}"{}":{})", next(), s.kind->keys[i], s.values[i]);
  out += "}}";
}

}  // namespace

TraceSteps trace_steps(const std::string& text) {
  if (text.empty()) return {};
  const auto colon = text.find(':');
  if (colon == std::string::npos) {
    const auto step = step_of(text, text);
    return {step, step};
  }
  const TraceSteps steps{step_of(std::string_view(text).substr(0, colon), text),
                         step_of(std::string_view(text).substr(colon + 1), text)};
  if (steps.first > steps.last)
    throw base::UsageError(base::text("$trace-steps {} ends before it begins", text), "the lower one comes first");
  return steps;
}

base::Owned own_traces() {
  const auto foreign = [](const std::string& path) -> std::string {
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return "is no file";
    const io::BulkFile file(path, io::BulkFile::Mode::read);
    std::string begins(base::size(std::min(file.size(), std::ssize(beginning))), ' ');
    file.read(0, begins.data(), std::ssize(begins));
    return begins.empty() || begins == beginning ? "" : "is no trace";
  };
  return {"a trace", foreign};
}

namespace {

// Refuses a trace among the files that the run reads or writes, some of which may not be there yet.
void require_beside_own_files(const RunConfig& c) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto whole = [&](const std::string& p) {
    return fs::weakly_canonical(base::absolute_path(base::without_slashes(p)), error);
  };
  const auto refuse = [&](const std::string& why) {
    throw base::UsageError(base::text("$trace {} {}", c.trace, why), "give the trace a name of its own");
  };
  if (checkpoint::is_in(c.output, c.trace)) refuse(fmt::format("is or holds the folder of the run, {}", c.output));
  if (checkpoint::is_in(c.trace, c.output)) {
    const auto name = whole(c.trace).lexically_relative(whole(c.output)).begin()->string();
    for (const char* own : {"checkpoints", "metrics.jsonl", "last-checkpoint", "lock", "report.txt", "exit"})
      if (name == own) refuse(fmt::format("is or lies in {}/{}, which the run keeps itself", c.output, own));
    for (const char* own : {"tokenizer-", "abandoned-metrics-after-"})
      if (name.starts_with(own)) refuse(fmt::format("has a name that the run gives: {}...", own));
  }
  if (fs::equivalent(base::parent_of(c.trace), c.data, error)) refuse(fmt::format("lies in the shard set {}", c.data));
}

}  // namespace

std::string traced_before(const RunConfig& c, std::int64_t completed) {
  if (c.trace.empty() || completed == 0 || trace_steps(c.trace_steps).last > completed) return {};
  return base::text("no trace is written: the steps of $trace-steps {} were done by an earlier start", c.trace_steps);
}

void require_steps_to_trace(const RunConfig& c, std::int64_t completed) {
  if (c.trace.empty()) return;
  const auto asked = trace_steps(c.trace_steps);
  const auto first = completed + 1, last = c.stop_after > 0 ? std::min(c.steps, c.stop_after) : c.steps;
  if (first > last || (asked.first <= last && asked.last >= first)) return;  // a run without steps says so
  throw base::UsageError(
      base::text("$trace-steps {} names no step of this run, which runs steps {} to {}", c.trace_steps, first, last),
      "name some of these, or leave it out for all");
}

void require_trace_place(const RunConfig& c) {
  namespace fs = std::filesystem;
  if (c.trace.empty()) return;
  if (c.trace.back() == '/') throw base::UsageError(base::text("$trace {} names a folder", c.trace), "name a file");
  checkpoint::require_name_of_something_whole(c.trace);
  checkpoint::require_outside_of_runs(c.trace);
  require_beside_own_files(c);
  base::require_own(c.trace, own_traces());
  const auto folder = base::parent_of(c.trace);
  std::error_code error;
  if (!fs::exists(folder, error)) {
    if (base::without_slashes(folder) == base::without_slashes(c.output)) return;  // the run makes it
    throw base::EnvironmentError(base::text("$trace {}: there is no folder {}", c.trace, folder),
                                 "make it first, or choose another place");
  }
  if (!fs::is_directory(folder, error))
    throw base::EnvironmentError(base::text("$trace {}: {} is no folder", c.trace, folder), "choose another place");
  if (access(folder.c_str(), W_OK | X_OK) != 0) base::throw_cannot_write("write a trace into", folder, errno);
}

std::size_t spans_of_a_thread(int ranks) {
  return base::size(std::clamp(2'000'000 / std::max(1, ranks), 500, 100'000));
}

double RankClock::on_rank_zero(double time) const {
  const double apart = last.at - first.at;
  const double share = apart > 0 ? (time - first.at) / apart : 0;
  return time - (first.offset + share * (last.offset - first.offset));
}

std::string trace_head(const nlohmann::ordered_json& other) {
  nlohmann::ordered_json named{{"format", trace_format}};
  named.update(other);
  return fmt::format("{{\"otherData\":{},\n\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n",
                     named.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::string rank_name(const plan::Topology& topology, int rank) {
  std::string where;
  for (const auto& [axis, word] : {std::pair{plan::Axis::pipe, "stage"}, std::pair{plan::Axis::data, "data"},
                                   std::pair{plan::Axis::tensor, "tensor"}})
    where += fmt::format("{}{} {}", where.empty() ? "" : ", ", word, topology.coordinate(rank, axis));
  return fmt::format("rank {} ({})", rank, where);
}

std::string trace_events(const std::vector<base::TraceRecorder::Thread>& threads, int rank, const std::string& name,
                         const RankClock& clock, double origin) {
  std::string out;
  const auto meta = [&](const char* what, std::size_t thread, const std::string& args) {
    fmt::format_to(std::back_inserter(out), R"({}{{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{{}}}}})",
                   out.empty() ? "" : ",\n", what, rank, thread, args);
  };
  meta("process_name", 0, fmt::format(R"("name":"{}")", name));
  meta("process_sort_index", 0, fmt::format(R"("sort_index":{})", rank));
  for (std::size_t t = 0; t < threads.size(); ++t) {
    meta("thread_name", t, fmt::format(R"("name":"{}")", threads[t].name));
    meta("thread_sort_index", t, fmt::format(R"("sort_index":{})", t));
  }
  for (std::size_t t = 0; t < threads.size(); ++t)
    for (const auto& span : threads[t].spans) {
      out += ",\n";
      span_text(out, span, rank, t, clock, origin);
    }
  return out;
}

}  // namespace trainyard::engine
