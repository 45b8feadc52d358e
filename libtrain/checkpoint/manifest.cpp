// The manifest and the sidecars as sealed JSON.
#include "libtrain/checkpoint/manifest.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/io/bulk.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

namespace trainyard::checkpoint {

using nlohmann::json;

std::string hex32(std::uint32_t value) { return fmt::format("{:08x}", value); }
std::string hex64(std::uint64_t value) { return fmt::format("{:016x}", value); }

namespace {

template <class T> T from_hex(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 2 * sizeof(T))
    throw base::InputError(fmt::format("\"{}\" is not a number of {} hexadecimal digits", text, 2 * sizeof(T)));
  return value;
}

std::uint32_t crc_from(const json& j) { return from_hex<std::uint32_t>(j.get<std::string>()); }

constexpr std::string_view seal_before = ",\n \"crc32c_of_the_above\": \"", seal_after = "\"\n}\n";

std::string sealed(const json& j) {
  auto text = j.dump(1);
  text.erase(text.size() - 2);   // "\n}"
  return text + std::string(seal_before) + hex32(base::crc32c(text.data(), text.size())) + std::string(seal_after);
}

json unsealed(const std::string& text, const std::string& where) {
  const auto damaged = [&](const std::string& why) {
    return base::InputError(fmt::format("{} is damaged: {}", where, why), "restore it from a copy, or resume from another checkpoint (--resume PATH)");
  };
  const auto length = seal_before.size() + 8 + seal_after.size();
  if (text.size() < length) throw damaged(fmt::format("it has only {} bytes", text.size()));
  const std::string_view seal = std::string_view(text).substr(text.size() - length);
  if (!seal.starts_with(seal_before) || !seal.ends_with(seal_after)) throw damaged("the checksum in its last line is missing");
  const auto found = hex32(base::crc32c(text.data(), text.size() - length));
  const auto expected = seal.substr(seal_before.size(), 8);
  if (found != expected) throw damaged(fmt::format("its checksum is {}, expected {}", found, expected));
  try {
    return json::parse(text);
  } catch (const json::exception& e) {
    throw damaged(e.what());
  }
}

void require_format(const json& j, const std::string& where) {
  const auto format = j.value("format", std::string());
  const auto slash = format.rfind('/');
  int major = 0;
  if (slash != std::string::npos) std::from_chars(format.data() + slash + 1, format.data() + format.size(), major);
  if (format.substr(0, slash) != format_name || major < 1)
    throw base::InputError(fmt::format("{}: format is \"{}\", expected {}/1 to {}/{}", where, format, format_name, format_name, format_major),
                           "this folder is something else: look at it with inspect");
  if (major > format_major)
    throw base::InputError(fmt::format("{}: format is {}, this build reads up to {}/{}", where, format, format_name, format_major),
                           "use the newer version of the programs that wrote it");
}

template <class F> auto guarded(const std::string& where, F&& f) {
  try {
    return f();
  } catch (const json::exception& e) {
    throw base::InputError(fmt::format("{}: {}", where, e.what()), "checkpoints/README.md lists every key");
  }
}

json file_to_json(const FileEntry& f) {
  json j{{"bytes", f.bytes}, {"crc32c", hex32(f.crc)}};
  if (f.payloads.empty()) return j;
  json payloads = json::object(), metadata = json::array();
  for (const auto& [name, p] : f.payloads) {
    std::string blocks;
    for (auto crc : p.blocks) blocks += hex32(crc);
    payloads[name] = {{"offset", p.offset}, {"bytes", p.bytes}, {"crc32c_of_blocks", blocks}};
  }
  for (const auto& r : f.metadata) metadata.push_back({{"offset", r.offset}, {"bytes", r.bytes}, {"crc32c", hex32(r.crc)}});
  j["datasets"] = payloads;
  j["metadata"] = metadata;
  return j;
}

FileEntry file_from_json(const json& j) {
  FileEntry f;
  f.bytes = j.at("bytes");
  f.crc = crc_from(j.at("crc32c"));
  if (!j.contains("datasets")) return f;
  for (const auto& [name, p] : j.at("datasets").items()) {
    PayloadEntry entry{p.at("offset"), p.at("bytes"), {}};
    const auto blocks = p.at("crc32c_of_blocks").get<std::string>();
    if (static_cast<std::int64_t>(blocks.size()) != 8 * io::blocks_of(entry.bytes))
      throw base::InputError(fmt::format("dataset {} of {} bytes has {} block checksums, expected {}", name, entry.bytes, blocks.size() / 8,
                                         io::blocks_of(entry.bytes)));
    for (std::size_t i = 0; i < blocks.size(); i += 8) entry.blocks.push_back(from_hex<std::uint32_t>(std::string_view(blocks).substr(i, 8)));
    f.payloads[name] = std::move(entry);
  }
  for (const auto& r : j.at("metadata")) f.metadata.push_back({r.at("offset"), r.at("bytes"), crc_from(r.at("crc32c"))});
  return f;
}

json units_to_json(const std::vector<UnitEntry>& units) {
  json out = json::array();
  for (const auto& u : units) {
    json parameters = json::array();
    for (const auto& p : u.parameters) {
      json entry{{"name", p.name}, {"shape", p.shape}, {"offset", p.offset}};
      if (!p.aliases.empty()) entry["aliases"] = p.aliases;
      parameters.push_back(entry);
    }
    out.push_back({{"name", u.name}, {"piece", u.piece}, {"parameters", parameters}});
  }
  return out;
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (auto d : shape) n *= d;
  return n;
}

std::vector<UnitEntry> units_from_json(const json& j) {
  std::vector<UnitEntry> units;
  for (const auto& u : j) {
    UnitEntry unit{u.at("name"), u.at("piece"), {}};
    for (const auto& p : u.at("parameters")) {
      ParameterEntry entry{p.at("name"), p.at("shape").get<std::vector<std::int64_t>>(), p.at("offset"), 0, {}};
      entry.count = product(entry.shape);
      if (p.contains("aliases")) entry.aliases = p.at("aliases").get<std::vector<std::string>>();
      unit.parameters.push_back(std::move(entry));
    }
    units.push_back(std::move(unit));
  }
  return units;
}

}  // namespace

std::string manifest_text(const Manifest& m) {
  json tensors = json::object(), files = json::object();
  for (const auto& [name, t] : m.tensors) {
    const json norm = std::isfinite(t.norm) ? json(t.norm) : json(nullptr);
    tensors[name] = {{"fingerprint", hex64(t.fingerprint)}, {"norm", norm}};
  }
  for (const auto& [name, f] : m.files) files[name] = file_to_json(f);
  auto j = state_to_json(m.state);
  j["format"] = fmt::format("{}/{}", format_name, format_major);
  j["ranks"] = m.ranks;
  j["block_bytes"] = io::block_bytes;
  j["units"] = units_to_json(m.units);
  j["tensors"] = tensors;
  j["files"] = files;
  return sealed(j);
}

Manifest manifest_from_text(const std::string& text, const std::string& where) {
  const auto j = unsealed(text, where);
  return guarded(where, [&] {
    require_format(j, where);
    Manifest m;
    m.state = state_from_json(j, where);
    m.ranks = j.at("ranks");
    if (j.at("block_bytes").get<std::int64_t>() != io::block_bytes)
      throw base::InputError(fmt::format("{}: blocks of {} bytes, this build knows {}", where, j.at("block_bytes").dump(), io::block_bytes));
    m.units = units_from_json(j.at("units"));
    for (const auto& [name, t] : j.at("tensors").items())
      m.tensors[name] = {from_hex<std::uint64_t>(t.at("fingerprint").get<std::string>()),
                         t.at("norm").is_null() ? std::numeric_limits<double>::quiet_NaN() : t.at("norm").get<double>()};
    for (const auto& [name, f] : j.at("files").items()) m.files[name] = file_from_json(f);
    return m;
  });
}

std::string sidecar_text(const Sidecar& s) {
  json tensors = json::object();
  for (const auto& [name, t] : s.tensors) {
    const bool finite = std::isfinite(t.squares);
    tensors[name] = {{"fingerprint", hex64(t.fingerprint)},
                     {"squares", finite ? json(t.squares) : json(nullptr)},
                     {"squares_low", finite ? json(t.squares_low) : json(nullptr)}};
  }
  return sealed({{"format", rank_format}, {"step", s.step}, {"rank", s.rank}, {"ranks", s.ranks}, {"file", file_to_json(s.file)}, {"tensors", tensors}});
}

Sidecar sidecar_from_text(const std::string& text, const std::string& where) {
  const auto j = unsealed(text, where);
  return guarded(where, [&] {
    Sidecar s{j.at("step"), j.at("rank"), j.at("ranks"), file_from_json(j.at("file")), {}};
    const auto number = [](const json& x) { return x.is_null() ? std::numeric_limits<double>::quiet_NaN() : x.get<double>(); };
    for (const auto& [name, t] : j.at("tensors").items())
      s.tensors[name] = {from_hex<std::uint64_t>(t.at("fingerprint").get<std::string>()), number(t.at("squares")), number(t.at("squares_low"))};
    return s;
  });
}

}  // namespace trainyard::checkpoint
