// Sealed JSON: the last line of the text holds the CRC32C of everything before it. Also values that both manifests and
// sidecars hold.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/checkpoint/file_entry.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard::checkpoint {

inline constexpr const char* seal_key = "crc32c_of_the_above";

std::string sealed_text(const nlohmann::json& json);  // `json` must not have seal_key
// Parses a sealed text; the result has seal_key, too. InputError that begins with `where`, as for the functions below,
// for a text that is damaged.
nlohmann::json unsealed_json(const std::string& text, const std::string& where);

// A number of exactly 2 * sizeof(T) hexadecimal digits. T is std::uint32_t or std::uint64_t.
template <class T> T hex_of(std::string_view text, const std::string& where);
template <class T> T hex_of(base::SortedJsonObject& object, const std::string& key) {
  return hex_of<T>(object.text(key), object.where() + ": " + key);
}

double finite_or_nan(base::SortedJsonObject& object, const std::string& key);  // null stands for NaN

// The size and the checksum of a file.
nlohmann::json file_to_json(const FileEntry& file);
FileEntry file_from_json(base::SortedJsonObject& object);

}  // namespace trainyard::checkpoint
