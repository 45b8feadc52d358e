// Parses events one after another. Every number of the file is compared with its bounds before it is used.
#include "tools/inspect/trace.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/engine/trace_file.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

namespace trainyard::inspect {

namespace {

using Json = nlohmann::json;
using Kind = plan::Action::Kind;

constexpr int deepest = 8;
constexpr std::int64_t most_ranks = 1'000'000, most_threads = 1000, most_chunks = 1000, most_slots = 100'000,
                       most_blocks = 1'000'000, most_micros = 1'000'000'000;
constexpr double longest_microseconds = 1e15;

std::optional<Kind> action_named(const std::string& name) {
  for (int k = 0; k <= static_cast<int>(Kind::update); ++k)
    if (name == plan::name_of(static_cast<Kind>(k))) return static_cast<Kind>(k);
  return {};
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  Trace read() {
    const auto text = base::read_file(file_);
    Json rest;
    try {
      rest = Json::parse(
          text, [this](int depth, Json::parse_event_t event, Json& parsed) { return seen(depth, event, parsed); });
    } catch (const Json::exception& e) {
      refuse(fmt::format("is damaged or was cut short: {}", e.what()));
    }
    if (!rest.is_object() || !rest.contains("otherData") || !rest["otherData"].is_object() ||
        !rest["otherData"].contains("format") || !rest["otherData"]["format"].is_string())
      refuse("is a trace of another program");
    about(rest["otherData"]);
    if (!rest.contains("traceEvents") || !rest["traceEvents"].is_array() || !rest["traceEvents"].empty())
      refuse("has no list of events");
    place_spans();
    return std::move(trace_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw base::InputError(fmt::format("{} {}", file_, what), "give a trace that train --trace wrote");
  }

  // A callback of the parser; returns whether it keeps the value. An event is taken and dropped as soon as it is
  // parsed, so a large file needs little memory beside its spans.
  bool seen(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (depth > deepest) refuse(fmt::format("is nested more than {} deep", deepest));
    if (event == Event::key && depth == 1) in_events_ = parsed == "traceEvents";
    if (event != Event::object_end || depth != 2 || !in_events_) return true;
    take(parsed);
    return false;
  }

  std::int64_t integer(const Json& of, const char* key, std::int64_t low, std::int64_t high) const {
    const auto at = of.find(key);
    if (at == of.end() || !at->is_number_integer() ||
        (at->is_number_unsigned() && at->get<std::uint64_t>() > static_cast<std::uint64_t>(INT64_MAX)) ||
        at->get<std::int64_t>() < low || at->get<std::int64_t>() > high)
      refuse(
          fmt::format("is damaged: {} of {} is no number between {} and {}", key, base::excerpt(of.dump()), low, high));
    return at->get<std::int64_t>();
  }
  std::int64_t integer_or(std::int64_t absent, const Json& of, const char* key, std::int64_t low,
                          std::int64_t high) const {
    return of.contains(key) ? integer(of, key, low, high) : absent;
  }
  double time(const Json& of, const char* key, double low) const {
    const auto at = of.find(key);
    if (at == of.end() || !at->is_number() || !(at->get<double>() >= low) || at->get<double>() > longest_microseconds)
      refuse(fmt::format("is damaged: {} of {} is no time", key, base::excerpt(of.dump())));
    return at->get<double>() / 1e6;
  }
  std::string text(const Json& of, const char* key) const {
    const auto at = of.find(key);
    if (at == of.end() || !at->is_string() || at->get_ref<const std::string&>().size() > 200)
      refuse(fmt::format("is damaged: {} of {} is no name", key, base::excerpt(of.dump())));
    return at->get<std::string>();
  }

  void take(const Json& event) {
    const auto phase = text(event, "ph");
    if (phase != "X" && phase != "M") refuse("is a trace of another program");
    const auto rank = integer(event, "pid", 0, most_ranks), thread = integer(event, "tid", 0, most_threads);
    const auto args = event.find("args");
    if (args == event.end() || !args->is_object()) refuse("is damaged: an event without args");
    auto& of_rank = ranks_[rank];
    if (phase == "M") {
      const auto what = text(event, "name");
      if (what == "process_name") of_rank.name = text(*args, "name");
      if (what == "thread_name") of_rank.threads[thread].name = text(*args, "name");
      return;
    }
    TracedSpan span;
    span.kind = text(event, "cat"), span.name = text(event, "name");
    span.begin = time(event, "ts", -longest_microseconds);
    span.end = span.begin + time(event, "dur", 0);
    span.place = trace_.spans;
    span.step = integer_or(-1, *args, "step", 0, INT64_MAX);
    if (span.kind == "collective")
      span.bytes = integer(*args, "bytes", 0, INT64_MAX), span.group = text(*args, "group");
    if (span.kind == "action") take_action(span, *args);
    of_rank.threads[thread].spans.push_back(std::move(span));
    ++trace_.spans;
  }

  void take_action(TracedSpan& span, const Json& args) const {
    const auto kind = action_named(span.name);
    if (!kind) refuse(fmt::format("names an action {} that this build does not know", base::excerpt(span.name)));
    span.step = integer(args, "step", 1, INT64_MAX);
    auto& a = span.action;
    a.kind = *kind;
    a.round = integer_or(-1, args, "round", -1, most_micros), a.place = integer_or(-1, args, "place", -1, most_micros);
    a.micro = integer_or(-1, args, "micro", -1, most_micros);
    a.chunk = static_cast<int>(integer_or(-1, args, "chunk", -1, most_chunks));
    a.slot = static_cast<int>(integer_or(-1, args, "slot", -1, most_slots));
    a.block = integer_or(-1, args, "block", 0, most_blocks);
  }

  void about(const Json& other) {
    if (const auto& format = other["format"].get_ref<const std::string&>(); format != engine::trace_format)
      refuse(format.starts_with("trainyard.trace/")
                 ? fmt::format("has the format {}, this build reads {}", base::excerpt(format), engine::trace_format)
                 : "is a trace of another program");
    trace_.about = other;
    const auto ranks = integer(other, "ranks", 1, most_ranks);
    trace_.stages = integer(other, "stages", 1, ranks), trace_.data = integer(other, "data", 1, ranks),
    trace_.tensor = integer(other, "tensor", 1, ranks), trace_.chunks = integer(other, "chunks", 1, most_chunks);
    trace_.micro_batches = integer(other, "micro_batches", 1, most_micros);
    trace_.host_only = text(other, "device") == "cuda";
    text(other, "schedule"), text(other, "model");
    const auto of_ranks = other.find("of_ranks");
    if (trace_.stages * trace_.data * trace_.tensor != ranks || of_ranks == other.end() || !of_ranks->is_array() ||
        of_ranks->size() != static_cast<std::size_t>(ranks))
      refuse(fmt::format("is damaged: {} ranks are not {} stages of {} x {}", ranks, trace_.stages, trace_.data,
                         trace_.tensor));
    for (const auto& rank : *of_ranks) {
      if (!rank.is_object()) refuse("is damaged: what it says of a rank");
      integer(rank, "spans", 0, INT64_MAX), integer(rank, "left_out", 0, INT64_MAX);
    }
    trace_.ranks.resize(static_cast<std::size_t>(ranks));
  }

  void place_spans() {
    for (auto& [rank, of_rank] : ranks_) {
      if (rank >= static_cast<std::int64_t>(trace_.ranks.size()))
        refuse(fmt::format("is damaged: an event of rank {} of {}", rank, trace_.ranks.size()));
      for (auto& [number, thread] : of_rank.threads) {
        std::stable_sort(thread.spans.begin(), thread.spans.end(), [](const TracedSpan& a, const TracedSpan& b) {
          return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
        });
        for (const auto& s : thread.spans)
          if (s.kind == "action" && s.action.chunk >= trace_.chunks)
            refuse(fmt::format("is damaged: chunk {} of {}", s.action.chunk, trace_.chunks));
      }
      trace_.ranks[static_cast<std::size_t>(rank)] = std::move(of_rank);
    }
  }

  const std::string& file_;
  Trace trace_;
  std::map<std::int64_t, TracedRank> ranks_;
  bool in_events_ = false;
};

}  // namespace

const TracedThread* TracedRank::computing() const {
  for (const auto& [number, thread] : threads)
    if (thread.name == "compute") return &thread;
  return nullptr;
}

std::vector<std::int64_t> Trace::full_steps() const {
  std::vector<std::int64_t> out;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::set<std::int64_t> updated;
    if (const auto* thread = ranks[r].computing())
      for (const auto& s : thread->spans)
        if (s.kind == "action" && s.action.kind == Kind::update) updated.insert(s.step);
    if (r == 0) out.assign(updated.begin(), updated.end());
    else std::erase_if(out, [&](auto step) { return !updated.contains(step); });
  }
  return out;
}

Trace read_trace(const std::string& file) { return Reader(file).read(); }

}  // namespace trainyard::inspect
