// Compares a manifest with its model, its files and itself.
#include "libtrain/checkpoint/manifest_checks.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/bounds.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/kind_boxes.h"
#include "libtrain/checkpoint/refuse.h"
#include "libtrain/checkpoint/saved_shards.h"
#include "libtrain/checkpoint/version_1.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/model_file/field_json.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/plan_json.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace trainyard::checkpoint {

namespace {

void require_identity(const RunState& state, const std::string& where) {
  const auto& identity = state.identity;
  if (const auto seed = identity.find("seed"); seed != identity.end() && *seed != nlohmann::json(state.seed))
    refuse(where, "the seed is {}, but {} in the identity", state.seed, base::excerpt(seed->dump()));
  const auto model = identity.find("model");
  if (model == identity.end() || !model->is_object()) return;
  const auto found = plan::current_form(*model);
  const nlohmann::json expected = plan::model_to_json(state.model);
  plan::ModelConfig usual;
  const auto always = plan::model_to_json(usual);
  for (const auto& field : plan::fields_of(usual)) {
    const auto name = plan::key_of(field);
    if ((always.contains(name) || plan::is_name(field)) && !found.contains(name)) continue;
    // A key that is left out means the default.
    const auto value = [&](const nlohmann::json& of) {
      return of.contains(name) ? of.at(name) : nlohmann::json(plan::json_of(field));
    };
    if (value(found) != value(expected))
      refuse(where, "{} of the model is {}, but {} in the identity", name, base::shortened(value(expected).dump()),
             base::excerpt(value(found).dump()));
  }
}

void require_parameters(const Manifest& m, const std::string& where) {
  std::vector<plan::Parameter> expected;
  for (const auto& flat_group : plan::flat_groups(m.state.model))
    expected.insert(expected.end(), flat_group.parameters.begin(), flat_group.parameters.end());
  if (m.parameters.size() != expected.size())
    refuse(where, "{} parameters, the model has {}", m.parameters.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& p = m.parameters[i];
    const auto& q = expected[i];
    if (p.name != q.name) refuse(where, "{} stands where the model has {}", base::excerpt(p.name), q.name);
    if (p.shape != q.shape)
      refuse(where, "{} has shape [{}], in the model [{}]", p.name, fmt::join(p.shape, ", "), fmt::join(q.shape, ", "));
  }
}

void require_tensors(const Manifest& m, const std::string& where) {
  for (const auto& kind : kinds_of(m.state))
    for (const auto& p : m.parameters)
      if (const auto path = path_of(kind, p.name); (kind == Kind::model || !p.frozen) && !m.tensors.contains(path))
        refuse(where, "tensors: {} is missing", path);
}

void require_files(const Manifest& m, const std::string& where) {
  std::int64_t sum = 0;
  for (const auto& [name, file] : m.files) {
    if (name.empty() || name.front() == '.' || name == "manifest.json" ||
        name.find_first_of(std::string("/\0", 2)) != std::string::npos)
      refuse(where, "files: {} is no name of a file of a checkpoint", base::excerpt(name));
    sum += file.bytes;
    if (sum > largest_count) refuse(where, "files: too many bytes");
  }
  for (int r = 0; r < m.ranks; ++r)
    if (const auto name = rank_name(r) + ".h5"; !m.files.contains(name))
      refuse(where, "{} ranks, but {} is not among the files", m.ranks, name);
  if (m.major > 1 && !m.files.contains(joined_index_name))
    refuse(where, "{} is not among the files", joined_index_name);
}

void require_grid(const Manifest& m, const std::string& where) {
  std::int64_t product = 1;
  std::set<std::string> names;
  for (const auto& a : m.axes) {
    if (!names.insert(a.axis).second) refuse(where, "axes: {} is there twice", base::excerpt(a.axis));
    product *= a.size;  // both factors are at most 2^24
    if (product > m.ranks) break;
  }
  if (product != m.ranks) refuse(where, "the axes do not make {} ranks", m.ranks);
  if (std::ssize(m.coordinates) != m.ranks)
    refuse(where, "{} coordinates, but {} ranks", m.coordinates.size(), m.ranks);
  for (const auto& c : m.coordinates) {
    bool inside = c.size() == m.axes.size();
    for (std::size_t i = 0; inside && i < c.size(); ++i) inside = c[i] < m.axes[i].size;
    if (!inside) refuse(where, "coordinates [{}] are not of the axes", fmt::join(c, ", "));
  }
  if (std::set<std::vector<int>>(m.coordinates.begin(), m.coordinates.end()).size() != m.coordinates.size())
    refuse(where, "two ranks have the same coordinates");
}

void require_elements(const Manifest& m, int rank, const Kind& kind, std::int64_t elements, const std::string& where) {
  const auto name = rank_name(rank) + ".h5";
  const auto size = base::size_of(dtype_of(kind, m.state)), bytes = m.files.at(name).payloads.at(path_of(kind)).bytes;
  if (bytes != elements * size)
    refuse(where, "{} of {} should have {} bytes, not {}", path_of(kind), name, elements * size, bytes);
}

// Returns the elements of the datasets of a rank that have the shape of the parameters, which must be the same for
// each of them. The others follow from the boxes, which nobody has checked yet.
std::int64_t elements_of_rank(const Manifest& m, int rank, const std::string& where) {
  const auto name = rank_name(rank) + ".h5";
  const auto& payloads = m.files.at(name).payloads;
  for (const auto& kind : kinds_of(m.state))
    if (!payloads.contains(path_of(kind))) refuse(where, "{} has no dataset {}", name, path_of(kind));
  const auto elements = payloads.at(path_of(Kind::model)).bytes / base::size_of(m.state.dtype);
  const KindTensors tensors(m.state.optimizer, m.parameters);
  for (const auto& kind : kinds_of(m.state))
    if (!tensors.factored().contains(kind)) require_elements(m, rank, kind, elements, where);
  return elements;
}

// The grid as a plan::Topology, if its axes are known here and its ranks are numbered as this build numbers them.
std::optional<plan::Topology> topology_of(const Manifest& m) {
  std::vector<plan::AxisSize> axes;
  for (const auto& a : m.axes) {
    const auto* known = std::find_if(std::begin(plan::axis_names), std::end(plan::axis_names),
                                     [&](auto& n) { return a.axis == n.name; });
    if (known == std::end(plan::axis_names)) return std::nullopt;
    axes.push_back({known->axis, a.size});
  }
  plan::Topology topology(std::move(axes));
  for (int r = 0; r < m.ranks; ++r)
    for (std::size_t i = 0; i < m.axes.size(); ++i)
      if (base::at(m.coordinates, r)[i] != topology.coordinate(r, topology.axes()[i].axis)) return std::nullopt;
  return topology;
}

bool inside(const Box& box, const Shape& shape) {
  const auto whole = whole_of(shape);
  for (std::size_t i = 0; i < most_dims; ++i)  // start and count are at most 2^56
    if (box.start[i] < 0 || box.count[i] < 1 || box.start[i] + box.count[i] > whole.count[i]) return false;
  return true;
}

}  // namespace

void require_consistent(const Manifest& m, const std::string& where) {
  if (const auto wrong = plan::problems(m.state.model); !wrong.empty())
    refuse(where, "model: {}", fmt::join(wrong, "; "));
  require_identity(m.state, where);
  require_parameters(m, where);
  require_tensors(m, where);
  require_files(m, where);
  if (m.major > 1) require_grid(m, where);
}

void require_shards(const std::vector<FlatGroupEntry>& flat_groups, const Manifest& m, const std::string& where) {
  const auto expected = plan::flat_groups(m.state.model);
  if (flat_groups.size() != expected.size())
    refuse(where, "{} flat groups, the model has {}", flat_groups.size(), expected.size());
  std::int64_t total = 0;
  for (std::size_t u = 0; u < flat_groups.size(); ++u) {
    const auto& flat_group = flat_groups[u];
    if (flat_group.parameters.size() != expected[u].parameters.size())
      refuse(where, "flat group {} has {} parameters, in the model {}", base::excerpt(flat_group.name),
             flat_group.parameters.size(), expected[u].parameters.size());
    if (flat_group.name != expected[u].name)
      refuse(where, "flat group {} is called {} in the model", base::excerpt(flat_group.name), expected[u].name);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < flat_group.parameters.size(); ++i) {
      const auto& p = flat_group.parameters[i];
      const auto offset = flat_group.offsets[i];
      if (offset < at)
        refuse(where, "{} begins at {}, before the end of what comes before it ({})", p.name, offset, at);
      at = offset + p.count;  // each at most 2^56
      if ((at + m.ranks - 1) / m.ranks > flat_group.shard)
        refuse(where, "{} ends at {}, beyond the {} shards of {} elements of its flat group", p.name, at, m.ranks,
               flat_group.shard);
    }
    total += flat_group.shard;
    if (total > largest_count / m.ranks) refuse(where, "the flat groups are too large");
  }
}

void require_boxes(const Manifest& m, const std::string& where) {
  std::vector<std::vector<const Box*>> boxes(m.parameters.size());
  const KindTensors tensors(m.state.optimizer, m.parameters);
  for (int r = 0; r < m.ranks; ++r) {
    const auto elements = elements_of_rank(m, r, where);
    std::int64_t at = 0;
    for (const auto& stored : m.boxes.at(base::size(r))) {
      if (stored.tensor < 0 || stored.tensor >= std::ssize(boxes))
        refuse(where, "{} has a box of tensor {}, there are {}", rank_name(r), stored.tensor, boxes.size());
      const auto& p = base::at(m.parameters, stored.tensor);
      if (!inside(stored.box, p.shape)) refuse(where, "{} has a box that is not inside of {}", rank_name(r), p.name);
      if (stored.offset < at || stored.offset > elements || stored.box.elements() > elements - stored.offset)
        refuse(
            where,
            "{} has a box of {} at {}, which overlaps the one before it or ends beyond the {} elements of its datasets",
            rank_name(r), p.name, stored.offset, elements);
      at = stored.end();
      base::at(boxes, stored.tensor).push_back(&stored.box);
    }
    const KindBoxes of_kinds(base::at(m.boxes, r), elements, tensors);
    for (const auto& [kind, factored] : tensors.factored())
      if (has(m.state, kind)) require_elements(m, r, kind, of_kinds.elements(kind), where);
  }
  for (std::size_t i = 0; i < boxes.size(); ++i)
    if (!cover_once(m.parameters[i].shape, boxes[i]))
      refuse(where, "the boxes of {} do not hold each of its elements once", m.parameters[i].name);
}

std::optional<plan::Stages> stages_of(const Manifest& m) {
  const auto pipe = std::find_if(m.axes.begin(), m.axes.end(),
                                 [](const AxisEntry& a) { return a.axis == plan::name_of(plan::Axis::pipe); });
  if (pipe == m.axes.end() || pipe->size == 1) return plan::Stages{};
  const auto axis = base::size(pipe - m.axes.begin());
  const auto item_of = items_of_parameters(m.state.model);
  std::vector<int> stage_of(base::size(plan::item_count(m.state.model)), -1);
  for (std::size_t r = 0; r < m.boxes.size(); ++r)
    for (const auto& stored : m.boxes[r]) {
      auto& stage = base::at(stage_of, base::at(item_of, stored.tensor));
      if (stage >= 0 && stage != m.coordinates[r][axis]) return std::nullopt;
      stage = m.coordinates[r][axis];
    }
  plan::Stages out{pipe->size, {}};
  for (std::size_t i = 0; i < stage_of.size(); ++i) {
    if (i > 0 && stage_of[i] == stage_of[i - 1]) continue;
    if (stage_of[i] != static_cast<int>(out.boundaries.size()) % out.stages) return std::nullopt;
    out.boundaries.push_back(static_cast<std::int64_t>(i));
  }
  if (out.boundaries.size() % base::size(out.stages) != 0) return std::nullopt;
  out.boundaries.push_back(static_cast<std::int64_t>(stage_of.size()));
  return out;
}

int expert_parts_of(const Manifest& m) {
  const auto& plan = m.state.plan;
  const auto degree = plan.is_object() ? plan.find("expert_parallel") : plan.end();
  if (degree == plan.end() || !degree->is_number_integer()) return 1;
  const auto parts = degree->get<std::int64_t>();  // a number above 2^63 - 1 comes out negative
  const auto size_of = [&](plan::Axis axis) -> std::int64_t {
    for (const auto& a : m.axes)
      if (a.axis == plan::name_of(axis)) return a.size;
    return 1;
  };
  const auto ranks = size_of(plan::Axis::data);
  return parts >= 1 && ranks % parts == 0 && divides_experts(m.state.model, parts * size_of(plan::Axis::tensor))
             ? static_cast<int>(parts)
             : 1;
}

bool layout_is_ours(const Manifest& m) {
  auto topology = topology_of(m);
  if (!topology || topology->size(plan::Axis::expert) > 1 || topology->size(plan::Axis::expert_data) > 1) return false;
  topology = topology->with_experts(expert_parts_of(m));
  if (!divides(m.state.model, *topology)) return false;
  const auto stages = stages_of(m);
  if (!stages) return false;
  const SavedShards ours(m.state.model, *topology, *stages);
  for (int r = 0; r < m.ranks; ++r)
    if (base::at(m.boxes, r) != ours.boxes(r)) return false;
  return true;
}

}  // namespace trainyard::checkpoint
