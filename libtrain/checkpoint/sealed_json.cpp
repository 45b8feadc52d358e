// Sealing and checking seals.
#include "libtrain/checkpoint/sealed_json.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/checkpoint/bounds.h"
#include "libtrain/checkpoint/refuse.h"

#include <charconv>
#include <limits>

namespace trainyard::checkpoint {

using nlohmann::json;
using Object = base::SortedJsonObject;

namespace {

constexpr std::string_view seal_before = ",\n \"crc32c_of_the_above\": \"", seal_after = "\"\n}\n";

}  // namespace

std::string sealed_text(const json& j) {
  auto text = j.dump(1, ' ', false, json::error_handler_t::replace);  // a name that is not UTF-8 must not stop a save
  text.erase(text.size() - 2);                                        // "\n}"
  return text + std::string(seal_before) + hex32(base::crc32c(text.data(), text.size())) + std::string(seal_after);
}

json unsealed_json(const std::string& text, const std::string& where) {
  const auto damaged = [&](const std::string& why) {
    return base::InputError(fmt::format("{} is damaged: {}", where, why), way_to_whole());
  };
  const auto length = seal_before.size() + 8 + seal_after.size();
  if (text.size() < length) throw damaged(fmt::format("it has only {} bytes", text.size()));
  const std::string_view seal = std::string_view(text).substr(text.size() - length);
  if (!seal.starts_with(seal_before) || !seal.ends_with(seal_after))
    throw damaged("the checksum in its last line is missing");
  const auto found = hex32(base::crc32c(text.data(), text.size() - length));
  const auto expected = seal.substr(seal_before.size(), 8);
  if (found != expected) throw damaged(fmt::format("its checksum is {}, expected {}", found, expected));
  return base::parse_json<json>(text, where);
}

template <class T> T hex_of(std::string_view text, const std::string& where) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 2 * sizeof(T))
    throw base::InputError(
        fmt::format("{}: {} is not a number of {} hexadecimal digits", where, base::excerpt(text), 2 * sizeof(T)));
  return value;
}

template std::uint32_t hex_of(std::string_view, const std::string&);
template std::uint64_t hex_of(std::string_view, const std::string&);

double finite_or_nan(Object& o, const std::string& key) {
  return o.at(key).is_null() ? std::numeric_limits<double>::quiet_NaN() : o.number(key);
}

json file_to_json(const FileEntry& f) { return {{"bytes", f.bytes}, {"crc32c", hex32(f.crc)}}; }

FileEntry file_from_json(Object& o) {
  FileEntry f;
  f.bytes = o.integer("bytes", 0, largest_count);
  f.crc = hex_of<std::uint32_t>(o, "crc32c");
  return f;
}

}  // namespace trainyard::checkpoint
