// Holds a manifest against its model, its files and itself.
#include "libtrain/checkpoint/manifest_checks.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/io/bulk.h"
#include "libtrain/plan/model_json.h"

#include <algorithm>
#include <set>

namespace trainyard::checkpoint {

namespace {

const char* const way_out = "restore it from a copy, or resume from another checkpoint (--resume PATH)";

template <class... A> [[noreturn]] void refuse(const std::string& where, fmt::format_string<A...> format, A&&... values) {
  throw base::InputError(where + ": " + fmt::format(format, std::forward<A>(values)...), way_out);
}

struct Part {
  std::int64_t offset, bytes;
  const PayloadEntry* payload;   // nullptr: metadata
  std::uint32_t crc;
};

std::vector<Part> parts_of(const FileEntry& file) {
  std::vector<Part> parts;
  for (const auto& [name, p] : file.payloads) parts.push_back({p.offset, p.bytes, &p, 0});
  for (const auto& r : file.metadata) parts.push_back({r.offset, r.bytes, nullptr, r.crc});
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes; });
  return parts;
}

void require_identity(const RunState& state, const std::string& where) {
  const auto& identity = state.identity;
  if (const auto seed = identity.find("seed"); seed != identity.end() && *seed != nlohmann::json(state.seed))
    refuse(where, "the seed is {}, but {} in the identity", state.seed, base::excerpt(seed->dump()));
  const auto model = identity.find("model");
  if (model == identity.end() || !model->is_object()) return;
  const auto found = plan::current_form(*model);
  const nlohmann::json expected = plan::model_to_json(state.model);
  for (const auto& [name, value] : expected.items())
    if (const auto other = found.find(name); other != found.end() && *other != value)
      refuse(where, "{} of the model is {}, but {} in the identity", name, value.dump(), base::excerpt(other->dump()));
}

void require_units(const Manifest& m, const std::string& where) {
  const auto expected = plan::units(m.state.model);
  if (m.units.size() != expected.size()) refuse(where, "{} units, the model has {}", m.units.size(), expected.size());
  std::int64_t total = 0;
  for (std::size_t u = 0; u < expected.size(); ++u) {
    const auto& unit = m.units[u];
    if (unit.parameters.size() != expected[u].parameters.size())
      refuse(where, "unit {} has {} parameters, in the model {}", base::excerpt(unit.name), unit.parameters.size(), expected[u].parameters.size());
    if (unit.name != expected[u].name) refuse(where, "unit {} is called {} in the model", base::excerpt(unit.name), expected[u].name);
    std::int64_t at = 0;
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const auto& p = unit.parameters[i];
      const auto& q = expected[u].parameters[i];
      if (p.name != q.name) refuse(where, "{} stands where the model has {}", base::excerpt(p.name), q.name);
      if (p.shape != q.shape) refuse(where, "{} has shape [{}], in the model [{}]", p.name, fmt::join(p.shape, ", "), fmt::join(q.shape, ", "));
      if (p.offset < at) refuse(where, "{} begins at {}, before the end of what comes before it ({})", p.name, p.offset, at);
      at = p.offset + p.count;   // each at most 2^56
      if ((at + m.ranks - 1) / m.ranks > unit.piece) refuse(where, "{} ends at {}, beyond the {} pieces of {} elements of its unit", p.name, at, m.ranks, unit.piece);
    }
    total += unit.piece;
    if (total > largest_count) refuse(where, "the units are too large");
  }
}

void require_tensors(const Manifest& m, const std::string& where) {
  for (auto kind : kinds_of(m.state.dtype))
    for (const auto& unit : m.units)
      for (const auto& p : unit.parameters)
        if (const auto path = std::string(path_of(kind)) + "/" + p.name; !m.tensors.contains(path)) refuse(where, "tensors: {} is missing", path);
}

void require_files(const Manifest& m, const std::string& where) {
  std::int64_t sum = 0;
  for (const auto& [name, file] : m.files) {
    if (name.empty() || name.front() == '.' || name == "manifest.json" || name.find_first_of(std::string("/\0", 2)) != std::string::npos)
      refuse(where, "files: {} is no name of a file of a checkpoint", base::excerpt(name));
    sum += file.bytes;
    if (sum > largest_count) refuse(where, "files: too many bytes");
  }
  const auto total = pieces_total(m.units);
  for (int r = 0; r < m.ranks; ++r) {
    const auto name = rank_name(r) + ".h5";
    const auto file = m.files.find(name);
    if (file == m.files.end()) refuse(where, "{} ranks, but {} is not among the files", m.ranks, name);
    for (auto kind : kinds_of(m.state.dtype)) {
      const auto payload = file->second.payloads.find(path_of(kind));
      const auto expected = total * base::size_of(dtype_of(kind, m.state.dtype));
      if (payload == file->second.payloads.end() || payload->second.bytes != expected) refuse(where, "{} of {} should have {} bytes", path_of(kind), name, expected);
    }
  }
}

}  // namespace

void require_whole(const FileEntry& file, const std::string& where) {
  std::int64_t at = 0;
  for (const auto& part : parts_of(file)) {
    if (part.offset != at) refuse(where, "what should begin at byte {} begins at {}", at, part.offset);
    at += part.bytes;
    if (at > file.bytes) break;
  }
  if (!file.payloads.empty() && at != file.bytes) refuse(where, "datasets and metadata end at byte {}, the file at {}", at, file.bytes);
}

std::uint32_t crc_of_parts(const FileEntry& file) {
  std::uint32_t crc = 0;
  for (const auto& part : parts_of(file)) {
    if (part.payload == nullptr) crc = io::crc32c_combine(crc, part.crc, part.bytes);
    else
      for (std::size_t b = 0; b < part.payload->blocks.size(); ++b)
        crc = io::crc32c_combine(crc, part.payload->blocks[b], std::min(io::block_bytes, part.bytes - static_cast<std::int64_t>(b) * io::block_bytes));
  }
  return crc;
}

void require_consistent(const Manifest& m, const std::string& where) {
  if (const auto wrong = plan::problems(m.state.model); !wrong.empty()) refuse(where, "model: {}", fmt::join(wrong, "; "));
  require_identity(m.state, where);
  require_units(m, where);
  require_tensors(m, where);
  require_files(m, where);
}

bool layout_is_ours(const Manifest& m) {
  const auto ours = unit_table(m.state.model, m.ranks);
  return std::equal(m.units.begin(), m.units.end(), ours.begin(), ours.end(), [](const UnitEntry& a, const UnitEntry& b) {
    return a.piece == b.piece && std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(), b.parameters.end(),
                                            [](const ParameterEntry& p, const ParameterEntry& q) { return p.offset == q.offset; });
  });
}

}  // namespace trainyard::checkpoint
