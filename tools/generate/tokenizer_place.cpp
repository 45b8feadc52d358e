// Looks for a tokenizer's model file around a checkpoint.
#include "tools/generate/tokenizer_place.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/kept_tokenizer.h"
#include "libtrain/data/mixture.h"

#include <filesystem>
#include <vector>

namespace trainyard::generate {

namespace fs = std::filesystem;

namespace {

bool is_recorded(const std::string& path, const nlohmann::json& recorded) try {
  if (base::file_size(path) < 0) return false;
  const auto model = base::read_file(path);
  return recorded.is_object() && recorded.value("crc32c", 0u) == base::crc32c(model.data(), model.size());
} catch (const base::InputError&) {
  return false;
}

}  // namespace

std::string tokenizer_place(const std::string& folder, const nlohmann::json& provenance) {
  const auto recorded = provenance.value("tokenizer", nlohmann::json());
  const fs::path source = recorded.is_string()   ? recorded.get<std::string>()
                          : recorded.is_object() ? recorded.value("source", "")
                                                 : "";
  if (source == "bytes" || source.empty()) return source.string();
  // Files beside the tokenizer of an imported model say more than the copy does.
  if (source.is_absolute() && is_recorded(source.string(), recorded)) return source.string();
  std::vector<fs::path> places;
  std::error_code error;
  for (const auto& place : checkpoint::places_of_tokenizer(folder, provenance)) places.emplace_back(place);
  places.push_back(source.is_absolute()
                       ? source
                       : fs::path(data::first_folder(base::path_of_text(provenance.value("data", "")))) / source);
  for (const auto& place : places)
    if (fs::is_regular_file(place, error)) return place.string();
  return places.back().string();
}

}  // namespace trainyard::generate
