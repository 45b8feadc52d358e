// JSON of a profile. Times in microseconds, six digits: more would be noise.
#include "libtrain/plan/links/profile.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/plan/grid/ranges.h"

#include <cmath>
#include <cstdlib>

namespace trainyard::plan {

namespace {

using Json = nlohmann::ordered_json;

double six_digits(double v) { return std::isfinite(v) ? std::strtod(fmt::format("{:.6g}", v).c_str(), nullptr) : 0; }
Json six_digits(const base::Interval& i, double unit) { return {six_digits(i.low * unit), six_digits(i.high * unit)}; }
Json six_digits(const std::vector<double>& values, double unit) {
  Json list = Json::array();
  for (const double v : values) list.push_back(six_digits(v * unit));
  return list;
}

Json json_of(const LinkFit& fit) {
  Json segments = Json::array();
  for (const auto& s : fit.segments)
    segments.push_back({{"from_bytes", s.from_bytes},
                        {"latency_us", six_digits(s.latency_seconds * 1e6)},
                        {"latency_us_90", six_digits(s.latency, 1e6)},
                        {"ns_per_byte", six_digits(s.seconds_per_byte * 1e9)},
                        {"ns_per_byte_90", six_digits(s.per_byte, 1e9)},
                        {"repeat_90", six_digits(s.repeat, 1)}});
  return {{"held_out_error", six_digits(fit.held_out_error)},
          {"held_out_repeats_error", six_digits(fit.held_out_repeats_error)},
          {"segments", segments}};
}

Json json_of(const CommSeries& s) {
  Json sizes = Json::array();
  const double factor = bus_factor(s.operation, s.ranks);
  for (const auto& p : s.points) {
    const double rate = static_cast<double>(p.bytes) / six_digits(p.seconds * 1e6) / 1e3;  // from the time as written
    sizes.push_back({{"bytes", p.bytes},
                     {"count", p.count},
                     {"time_us", six_digits(p.seconds * 1e6)},
                     {"time_us_95", six_digits(p.interval, 1e6)},
                     {"p95_us", six_digits(p.p95 * 1e6)},
                     {"p99_us", six_digits(p.p99 * 1e6)},
                     {"algbw_gb_s", six_digits(rate)},
                     {"busbw_gb_s", six_digits(rate * factor)},
                     {"calls", p.calls},
                     {"slowest_rank", p.slowest_rank},
                     {"slowest_share", six_digits(p.slowest_share)},
                     {"wrong", p.wrong},
                     {"repeats_us", six_digits(p.repeats, 1e6)}});
  }
  return {{"group", s.group},         {"ranks", s.ranks}, {"groups", s.groups},
          {"operation", s.operation}, {"type", s.type},   {"noise_floor", six_digits(s.noise_floor)},
          {"fit", json_of(s.fit)},    {"sizes", sizes}};
}

Json json_of(const LocalRate& r) {
  return {{"name", r.name},
          {"shape", r.shape},
          {"threads", r.threads},
          {"unit", r.unit},
          {"value", six_digits(r.value)},
          {"value_90", six_digits(r.interval, 1)},
          {"repeats", six_digits(r.repeats, 1)}};
}

// Puts arrays of numbers on one line, so that the text is short and easy to diff.
std::string compact(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] != '[') continue;
    const auto end = text.find_first_of("[]{}\"", i + 1);
    if (end == std::string::npos || text[end] != ']') continue;
    for (std::size_t k = i + 1; k <= end; ++k)
      if (text[k] != '\n' && (text[k] != ' ' || text[k - 1] == ',')) out += text[k];
      else if (text[k] == '\n' && text[k - 1] == ',') out += ' ';
    i = end;
  }
  return out;
}

// Every time, rate or size lies between these limits. So quotients and products of a few of them stay finite.
constexpr double least = 1e-30, most = 1e30;
bool possible(double v) { return v == 0 || (v >= least && v <= most); }

class Reader {
 public:
  Reader(const Json& json, std::string where) : o_(json, where), where_(std::move(where)) {}
  base::JsonObject& object() { return o_; }
  double positive(const std::string& key) {
    const double v = o_.number(key);
    if (!possible(v) || v < least) refuse(key, fmt::format("{} is not above 0 or out of range", v));
    return v;
  }
  double nonnegative(const std::string& key) {
    const double v = o_.number(key);
    if (!possible(v)) refuse(key, fmt::format("{} is below 0 or out of range", v));
    return v;
  }
  std::int64_t whole(const std::string& key, std::int64_t low, std::int64_t high = ranges::most_stated_bytes) {
    const auto v = o_.integer(key);
    if (v < low || v > high) refuse(key, fmt::format("{} is out of range", v));
    return v;
  }
  std::vector<double> numbers(const std::string& key, double unit) {
    std::vector<double> out;
    for (const auto& v : o_.array(key)) {
      if (!v.is_number() || !possible(v.get<double>())) refuse(key, "not a list of numbers of at least 0 and in range");
      out.push_back(v.get<double>() * unit);
    }
    return out;
  }
  base::Interval interval(const std::string& key, double unit) {
    const auto v = numbers(key, unit);
    if (v.size() != 2 || v[0] > v[1]) refuse(key, "not an interval of two numbers");
    return {v[0], v[1]};
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& what) const {
    throw base::InputError(fmt::format("{}: '{}': {}", where_, key, what), "measure again with profile-comm");
  }
  void done() { o_.done(); }

 private:
  base::JsonObject o_;
  std::string where_;
};

LinkFit read_fit(const Json& json, const std::string& where) {
  Reader r(json, where);
  LinkFit fit;
  fit.held_out_error = r.nonnegative("held_out_error");
  fit.held_out_repeats_error = r.nonnegative("held_out_repeats_error");
  std::int64_t before = -1;
  for (const auto& item : r.object().array("segments")) {
    Reader s(item, where + ": segments");
    LinkSegment segment;
    segment.from_bytes = s.whole("from_bytes", before + 1);
    before = segment.from_bytes;
    segment.latency_seconds = s.nonnegative("latency_us") * 1e-6;
    segment.latency = s.interval("latency_us_90", 1e-6);
    segment.seconds_per_byte = s.nonnegative("ns_per_byte") * 1e-9;
    segment.per_byte = s.interval("ns_per_byte_90", 1e-9);
    segment.repeat = s.interval("repeat_90", 1);
    s.done();
    fit.segments.push_back(segment);
  }
  if (fit.segments.empty()) r.refuse("segments", "is empty");
  r.done();
  return fit;
}

CommPoint read_point(const Json& json, const std::string& where) {
  Reader r(json, where);
  CommPoint p;
  p.bytes = r.whole("bytes", 1);
  p.count = r.whole("count", 1);
  p.seconds = r.positive("time_us") * 1e-6;
  p.interval = r.interval("time_us_95", 1e-6);
  p.p95 = r.positive("p95_us") * 1e-6;
  p.p99 = r.positive("p99_us") * 1e-6;
  r.positive("algbw_gb_s");  // follows from the other values
  r.nonnegative("busbw_gb_s");
  p.calls = r.whole("calls", 1);
  p.slowest_rank = static_cast<int>(r.whole("slowest_rank", 0, ranges::most_stated_ranks));
  p.slowest_share = r.nonnegative("slowest_share");
  p.wrong = r.whole("wrong", 0);
  p.repeats = r.numbers("repeats_us", 1e-6);
  if (p.repeats.empty()) r.refuse("repeats_us", "is empty");
  for (const double v : p.repeats)
    if (!(v > 0)) r.refuse("repeats_us", "a time of 0");
  r.done();
  return p;
}

CommSeries read_series(const Json& json, const std::string& where) {
  Reader r(json, where);
  CommSeries s;
  s.group = r.object().text("group");
  s.operation = r.object().text("operation");
  s.type = r.object().text("type");
  const auto here =
      fmt::format("{}: {} {} {}", where, base::excerpt(s.group), base::excerpt(s.operation), base::excerpt(s.type));
  s.ranks = static_cast<int>(r.whole("ranks", 2, ranges::most_stated_ranks));
  s.groups = static_cast<int>(r.whole("groups", 1, ranges::most_stated_ranks));
  s.noise_floor = r.nonnegative("noise_floor");
  s.fit = read_fit(r.object().at("fit"), here + ": fit");
  for (const auto& item : r.object().array("sizes")) {
    s.points.push_back(read_point(item, here));
    if (s.points.size() > 1 && s.points.back().bytes <= s.points[s.points.size() - 2].bytes)
      r.refuse("sizes", "bytes do not ascend");
  }
  if (s.points.empty()) r.refuse("sizes", "is empty");
  r.done();
  return s;
}

LocalRate read_local(const Json& json, const std::string& where) {
  Reader r(json, where + ": local");
  LocalRate l;
  l.name = r.object().text("name");
  l.shape = r.object().text("shape");
  l.threads = static_cast<int>(r.whole("threads", 1, INT32_MAX));
  l.unit = r.object().text("unit");
  if (l.unit != "FLOP/s" && l.unit != "B/s" && l.unit != "s")
    r.refuse("unit", fmt::format("{} is not FLOP/s, B/s or s", base::excerpt(l.unit)));
  l.value = r.positive("value");
  l.interval = r.interval("value_90", 1);
  l.repeats = r.numbers("repeats", 1);
  r.done();
  return l;
}

}  // namespace

bool adds(const std::string& operation) {
  return operation == "all_reduce" || operation == "reduce_scatter" || operation == "ordered_reduce_scatter";
}

double bus_factor(const std::string& operation, int ranks) {
  const double n = ranks;
  if (operation == "all_reduce") return 2 * (n - 1) / n;
  if (operation == "broadcast" || operation == "exchange") return 1;
  return (n - 1) / n;
}

std::vector<LinkSamples> CommSeries::samples() const {
  std::vector<LinkSamples> out;
  for (const auto& p : points) out.push_back({p.bytes, p.repeats});
  return out;
}

const CommSeries* Profile::find(const std::string& group, const std::string& operation, const std::string& type) const {
  for (const auto& s : communication)
    if (s.group == group && s.operation == operation && s.type == type) return &s;
  return nullptr;
}

const LocalRate* Profile::find_local(const std::string& name, const std::string& shape, int threads) const {
  for (const auto& l : local)
    if (l.name == name && l.shape == shape && l.threads == threads) return &l;
  return nullptr;
}

std::string to_json(const Profile& p) {
  Json communication = Json::array(), local = Json::array();
  for (const auto& s : p.communication) communication.push_back(json_of(s));
  for (const auto& l : p.local) local.push_back(json_of(l));
  Json j{{"format", profile_format}, {"measured_at", p.measured_at}, {"version", p.version}, {"backend", p.backend},
         {"library", p.library},     {"device", p.device},           {"isa", p.isa},         {"ranks", p.ranks},
         {"threads", p.threads}};
  if (p.cores > 0) j["cores"] = p.cores;
  j["nodes"] = p.nodes, j["communication"] = communication, j["local"] = local;
  return compact(j.dump(2)) + "\n";
}

Profile profile_from_json(const std::string& text, const std::string& where) {
  const auto j = base::parse_json(text, where);
  Reader r(j, where);
  auto& o = r.object();
  const auto format = o.text("format");
  if (format != profile_format)
    throw base::InputError(fmt::format("{}: format is {}, expected {}", where, base::excerpt(format), profile_format),
                           "give a file that profile-comm wrote, and the programs that came with it");
  Profile p;
  p.measured_at = o.text("measured_at");
  p.version = o.text("version");
  p.backend = o.text("backend");
  p.library = o.text("library");
  p.device = o.text("device");
  p.isa = o.text("isa");
  p.ranks = static_cast<int>(r.whole("ranks", 1, ranges::most_stated_ranks));
  p.threads = static_cast<int>(r.whole("threads", 1, INT32_MAX));
  if (o.has("cores")) p.cores = static_cast<int>(r.whole("cores", 1, INT32_MAX));
  for (const auto& node : o.array("nodes")) {
    if (!node.is_string()) r.refuse("nodes", "not a list of names");
    p.nodes.push_back(node.get<std::string>());
  }
  for (const auto& item : o.array("communication")) p.communication.push_back(read_series(item, where));
  for (const auto& item : o.array("local")) p.local.push_back(read_local(item, where));
  r.done();
  return p;
}

}  // namespace trainyard::plan
