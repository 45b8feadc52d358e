// Reads both checkpoints part by part and combines the results of the parts.
#include "libtrain/checkpoint/compare.h"

#include "libtrain/base/index.h"
#include "libtrain/checkpoint/parts.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>

namespace trainyard::checkpoint {

namespace {

constexpr std::int64_t compared_at_once = std::int64_t{1} << 20;

struct ComparedPart {
  std::size_t tensor = 0;  // index into Plan::tensors
  std::int64_t first = 0, count = 0;
};

// The sums of one part, which are added to the difference of its tensor.
struct Sums {
  std::int64_t different = 0, absolute_at = 0, relative_at = 0;
  double absolute = 0, relative = 0, dot = 0, squares_a = 0, squares_b = 0;
};

Sums compare_part(const std::vector<float>& a, const std::vector<float>& b, const ComparedPart& part) {
  Sums s;
  for (std::int64_t i = 0; i < part.count; ++i) {
    const auto k = base::size(i);
    const double x = static_cast<double>(a[k]), y = static_cast<double>(b[k]);
    s.dot += x * y, s.squares_a += x * x, s.squares_b += y * y;
    if (std::bit_cast<std::uint32_t>(a[k]) == std::bit_cast<std::uint32_t>(b[k])) continue;
    ++s.different;
    auto absolute = std::fabs(x - y), relative = absolute / std::max(std::fabs(x), std::fabs(y));
    if (absolute == 0) relative = 0;
    if (!std::isfinite(absolute)) absolute = relative = std::numeric_limits<double>::infinity();
    if (absolute > s.absolute) s.absolute = absolute, s.absolute_at = part.first + i;
    if (relative > s.relative) s.relative = relative, s.relative_at = part.first + i;
  }
  return s;
}

double cosine_of(const Sums& s) {
  if (s.squares_a == 0 && s.squares_b == 0) return 1;
  return s.dot / (std::sqrt(s.squares_a) * std::sqrt(s.squares_b));
}

// What is to be compared, without the elements.
struct Plan {
  std::vector<TensorDifference> tensors;
  std::vector<std::pair<Kind, std::string>> names;  // of each of the tensors
  std::vector<ComparedPart> parts;
  std::int64_t elements = 0;
};

// Returns whether a kind can be compared: the master of an f32 checkpoint is its model.
bool is_comparable(const RunState& state, const Kind& kind) {
  return has(state, kind) || (kind == Kind::master && !base::is_narrow(state.dtype));
}

std::vector<Kind> kinds_to_compare(const RunState& a, const RunState& b, Contents what) {
  std::vector<Kind> kinds{Kind::model};
  if (what == Contents::model) return kinds;
  if (has(a, Kind::master) || has(b, Kind::master)) kinds.push_back(Kind::master);
  for (const auto* s : {&a, &b})
    for (const auto& kind : kinds_of(*s))
      if (kind.is_state() && std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  return kinds;
}

Plan plan_of(const Reader& a, const Reader& b, Contents what) {
  Plan plan;
  for (const auto& kind : kinds_to_compare(a.state(), b.state(), what)) {
    std::map<std::string, const ParameterEntry*> left;  // of b
    // A frozen parameter has a model alone, which is compared as such.
    const auto is_left_out = [&](const ParameterEntry& p) { return p.frozen && kind != Kind::model; };
    for (const auto& p : b.tensors_of(kind))
      if (!is_left_out(p)) left[p.name] = &p;
    const auto add = [&](const ParameterEntry& p, std::string problem) {
      plan.names.push_back({kind, p.name});
      plan.tensors.push_back({path_of(kind, p.name), std::move(problem), p.shape, p.count});
    };
    for (const auto& p : a.tensors_of(kind)) {
      if (is_left_out(p)) continue;
      const auto other = left.find(p.name);
      const bool in_a = is_comparable(a.state(), kind), in_b = is_comparable(b.state(), kind) && other != left.end();
      if (in_a && !in_b) add(p, "only the first has it");
      if (in_b && !in_a) add(*other->second, "only the second has it");
      if (in_a && in_b && other->second->shape == p.shape) add(p, "");
      if (in_a && in_b && other->second->shape != p.shape)
        add(p, fmt::format("in the second its shape is [{}]", fmt::join(other->second->shape, ", ")));
      if (other != left.end()) left.erase(other);
    }
    if (is_comparable(b.state(), kind))
      for (const auto& [name, p] : left) add(*p, "only the second has it");
  }
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const auto& t = plan.tensors[i];
    if (!t.problem.empty()) continue;
    plan.elements += t.elements;
    for (std::int64_t first = 0; first < t.elements; first += compared_at_once)
      plan.parts.push_back({i, first, std::min(compared_at_once, t.elements - first)});
  }
  return plan;
}

// The readers and buffers of one thread.
struct Hands {
  Reader a, b;
  std::vector<float> x = std::vector<float>(base::size(compared_at_once)), y = x;
  Hands(const Reader& first, const Reader& second) : a(first.another()), b(second.another()) {}
};

}  // namespace

std::vector<TensorDifference> compare(const Reader& a, const Reader& b, Contents what, int threads,
                                      const std::function<void(std::int64_t, std::int64_t)>& watch) {
  auto plan = plan_of(a, b, what);
  std::vector<Sums> sums(plan.parts.size());
  std::vector<std::unique_ptr<Hands>> hands(base::size(threads));
  std::mutex mutex;
  std::int64_t done = 0;
  for_each_part(plan.parts.size(), threads, [&](std::size_t i, int thread) {
    auto& h = base::at(hands, thread);
    if (h == nullptr) h = std::make_unique<Hands>(a, b);
    const auto& part = plan.parts[i];
    const auto& [kind, name] = plan.names[part.tensor];
    h->a.read_tensor(kind, name, part.first, part.count, h->x.data());
    h->b.read_tensor(kind, name, part.first, part.count, h->y.data());
    sums[i] = compare_part(h->x, h->y, part);
    const std::lock_guard lock(mutex);
    done += part.count;
    if (watch) watch(done, plan.elements);
  });
  std::vector<Sums> whole(plan.tensors.size());
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    auto& t = whole[plan.parts[i].tensor];
    const auto& s = sums[i];
    t.different += s.different, t.dot += s.dot, t.squares_a += s.squares_a, t.squares_b += s.squares_b;
    if (s.absolute > t.absolute) t.absolute = s.absolute, t.absolute_at = s.absolute_at;
    if (s.relative > t.relative) t.relative = s.relative, t.relative_at = s.relative_at;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    auto& t = plan.tensors[i];
    const auto& s = whole[i];
    t.different = s.different, t.largest_absolute = s.absolute, t.largest_relative = s.relative;
    t.absolute_at = s.absolute_at, t.relative_at = s.relative_at, t.cosine = cosine_of(s);
  }
  return std::move(plan.tensors);
}

std::vector<std::int64_t> index_of(const Shape& shape, std::int64_t element) {
  std::vector<std::int64_t> index(shape.size());
  for (auto dim = shape.size(); dim-- > 0; element /= shape[dim]) index[dim] = element % shape[dim];
  return index;
}

}  // namespace trainyard::checkpoint
