// Writing and reading the text of a manifest, in both versions.
#include "libtrain/checkpoint/manifest_text.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/bounds.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/checkpoint/sealed_json.h"
#include "libtrain/checkpoint/version_1.h"
#include "libtrain/io/bulk.h"
#include "libtrain/plan/model_file/model_problems.h"

#include <charconv>
#include <cmath>
#include <string_view>

namespace trainyard::checkpoint {

using nlohmann::json;
using Object = base::SortedJsonObject;

namespace {

int major_of(Object& o, const std::string& where) {
  const auto format = o.text("format");
  const auto slash = format.rfind('/');
  int major = 0;
  if (slash != std::string::npos) std::from_chars(format.data() + slash + 1, format.data() + format.size(), major);
  if (format.substr(0, slash) != format_name || major < 1)
    throw base::InputError(fmt::format("{}: format is {}, expected {}/1 to {}/{}", where, base::excerpt(format),
                                       format_name, format_name, format_major),
                           "this folder is something else: look at it with inspect");
  if (major > format_major)
    throw base::InputError(fmt::format("{}: format is {}, this build reads up to {}/{}", where, base::excerpt(format),
                                       format_name, format_major),
                           "use the newer version of the programs that wrote it");
  return major;
}

// A file entry of version 1, which includes its datasets and metadata.
FileEntry whole_file_from_json(Object& o) {
  auto f = file_from_json(o);
  if (!o.has("datasets")) return f;
  auto datasets = o.object("datasets");
  for (const auto& [name, json] : o.at("datasets").items()) {
    Object p = datasets.object(name);
    PayloadEntry entry{p.integer("offset", 0, largest_count), p.integer("bytes", 0, largest_count), {}};
    const auto blocks = p.text("crc32c_of_blocks", std::string::npos);
    if (static_cast<std::int64_t>(blocks.size()) != 8 * io::blocks_of(entry.bytes))
      throw base::InputError(fmt::format("{}: {} bytes have {} block checksums, expected {}", p.where(), entry.bytes,
                                         blocks.size() / 8, io::blocks_of(entry.bytes)));
    for (std::size_t i = 0; i < blocks.size(); i += 8)
      entry.blocks.push_back(hex_of<std::uint32_t>(std::string_view(blocks).substr(i, 8), p.where()));
    f.payloads[name] = std::move(entry);
  }
  for (const auto& item : o.array("metadata")) {
    Object r(item, o.where() + ": metadata");
    f.metadata.push_back({r.integer("offset", 0, largest_count), r.integer("bytes", 0, largest_count),
                          hex_of<std::uint32_t>(r, "crc32c")});
  }
  require_whole(f, o.where());
  return f;
}

json parameters_to_json(const std::vector<ParameterEntry>& parameters) {
  json out = json::array();
  for (const auto& p : parameters) {
    json entry{{"name", p.name}, {"shape", p.shape}};
    if (!p.aliases.empty()) entry["aliases"] = p.aliases;
    out.push_back(std::move(entry));
  }
  return out;
}

json axes_to_json(const std::vector<AxisEntry>& axes) {
  json out = json::array();
  for (const auto& a : axes) out.push_back({{"axis", a.axis}, {"size", a.size}});
  return out;
}

std::vector<std::int64_t> shape_from_json(Object& o) {
  std::vector<std::int64_t> shape;
  for (const auto& d : o.array("shape")) {
    if (!d.is_number_unsigned() || d.get<std::uint64_t>() < 1 ||
        d.get<std::uint64_t>() > static_cast<std::uint64_t>(largest_count))
      throw base::InputError(
          fmt::format("{}: 'shape' must be a list of sizes, found {}", o.where(), base::excerpt(d.dump())));
    shape.push_back(d.get<std::int64_t>());
  }
  return shape;
}

ParameterEntry parameter_from_json(Object& o) {
  ParameterEntry entry{o.text("name"), shape_from_json(o), 1, {}};
  for (const auto d : entry.shape)
    if (__builtin_mul_overflow(entry.count, d, &entry.count))
      throw base::InputError(fmt::format("{}: the shape of {} is too large", o.where(), base::excerpt(entry.name)));
  if (!o.has("aliases")) return entry;
  for (const auto& alias : o.array("aliases")) {
    if (!alias.is_string()) throw base::InputError(fmt::format("{}: 'aliases' must be a list of names", o.where()));
    entry.aliases.push_back(alias.get<std::string>());
  }
  return entry;
}

std::vector<FlatGroupEntry> flat_groups_from_json(Object& o) {
  std::vector<FlatGroupEntry> flat_groups;
  for (const auto& u : o.array("units")) {
    Object flat_group(u, o.where() + ": units");
    flat_groups.push_back({flat_group.text("name"), flat_group.integer("piece", 1, largest_count), {}, {}});
    for (const auto& p : flat_group.array("parameters")) {
      Object parameter(p, o.where() + ": units: parameters");
      flat_groups.back().parameters.push_back(parameter_from_json(parameter));
      flat_groups.back().offsets.push_back(parameter.integer("offset", 0, largest_count));
    }
  }
  return flat_groups;
}

std::vector<ParameterEntry> parameters_from_json(Object& o) {
  std::vector<ParameterEntry> parameters;
  for (const auto& p : o.array("parameters")) {
    Object parameter(p, o.where() + ": parameters");
    parameters.push_back(parameter_from_json(parameter));
  }
  return parameters;
}

void read_grid(Object& o, Manifest& m) {
  for (const auto& a : o.array("axes")) {
    Object axis(a, o.where() + ": axes");
    m.axes.push_back({axis.text("axis"), static_cast<int>(axis.integer("size", 1, largest_ranks))});
  }
  for (const auto& of_rank : o.array("coordinates")) {
    m.coordinates.emplace_back();
    if (!of_rank.is_array())
      throw base::InputError(
          fmt::format("{}: 'coordinates' must be a list of lists, found {}", o.where(), base::excerpt(of_rank.dump())));
    for (const auto& c : of_rank) {
      if (!c.is_number_unsigned() || c.get<std::uint64_t>() >= static_cast<std::uint64_t>(largest_ranks))
        throw base::InputError(
            fmt::format("{}: 'coordinates' must be small numbers, found {}", o.where(), base::excerpt(c.dump())));
      m.coordinates.back().push_back(c.get<int>());
    }
  }
}

// Version 1 has only shards of flat groups on data-parallel ranks.
void read_version_1(Object& o, Manifest& m) {
  const auto flat_groups = flat_groups_from_json(o);
  m.parameters = parameters_of(flat_groups);
  m.axes = {{"data", m.ranks}};
  require_consistent(m, o.where());
  require_shards(flat_groups, m, o.where());
  for (int r = 0; r < m.ranks; ++r) {
    m.coordinates.push_back({r});
    m.boxes.push_back(boxes_of_shards(flat_groups, r));
  }
  require_boxes(m, o.where());
}

}  // namespace

std::string manifest_text(const Manifest& m) {
  json tensors = json::object(), files = json::object();
  for (const auto& [name, t] : m.tensors) {
    const json norm = std::isfinite(t.norm) ? json(t.norm) : json(nullptr);
    tensors[name] = {{"fingerprint", hex64(t.fingerprint)}, {"norm", norm}};
  }
  for (const auto& [name, f] : m.files) files[name] = file_to_json(f);
  TRAINYARD_ASSERT(m.major == format_major, "a manifest of version {} is not written any more", m.major);
  auto j = state_to_json(m.state);
  j["format"] = fmt::format("{}/{}", format_name, format_major);
  j["ranks"] = m.ranks;
  j["block_bytes"] = io::block_bytes;
  j["axes"] = axes_to_json(m.axes);
  j["coordinates"] = m.coordinates;
  j["parameters"] = parameters_to_json(m.parameters);
  j["tensors"] = tensors;
  j["files"] = files;
  return sealed_text(j);
}

Manifest manifest_from_text(const std::string& text, const std::string& where) {
  const auto j = unsealed_json(text, where);
  Object o(j, where);
  Manifest m;
  m.major = major_of(o, where);
  m.state = state_from_json(j, where);
  m.ranks = static_cast<int>(o.integer("ranks", 1, largest_ranks));
  if (const auto bytes = o.integer("block_bytes"); bytes != io::block_bytes)
    throw base::InputError(fmt::format("{}: blocks of {} bytes, this build knows {}", where, bytes, io::block_bytes));
  auto tensors = o.object("tensors");
  for (const auto& [name, json] : o.at("tensors").items()) {
    auto t = tensors.object(name);
    m.tensors[name] = {hex_of<std::uint64_t>(t, "fingerprint"), finite_or_nan(t, "norm")};
    if (m.tensors[name].norm < 0) throw base::InputError(fmt::format("{}: 'norm' is below 0", t.where()));
  }
  auto files = o.object("files");
  for (const auto& [name, json] : o.at("files").items()) {
    auto file = files.object(name);
    m.files[name] = m.major == 1 ? whole_file_from_json(file) : file_from_json(file);
  }
  if (m.major == 1) {
    read_version_1(o, m);
  } else {
    m.parameters = parameters_from_json(o);
    if (plan::problems(m.state.model).empty()) mark_frozen(m.state.model, m.parameters);
    read_grid(o, m);
    require_consistent(m, where);
  }
  return m;
}

std::string with_view(const std::string& text, const std::string& where, const std::optional<FileEntry>& view) {
  manifest_from_text(text, where);  // throws if this is no valid manifest
  auto j = unsealed_json(text, where);
  j.erase(seal_key);
  auto& files = j.at("files");
  files.erase(view_name);
  if (view) files[view_name] = file_to_json(*view);
  return sealed_text(j);
}

}  // namespace trainyard::checkpoint
