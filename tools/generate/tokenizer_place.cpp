// Looks for a tokenizer's model file around a checkpoint.
#include "tools/generate/tokenizer_place.h"

#include "libtrain/base/text.h"
#include "libtrain/data/mixture.h"
#include "libtrain/data/tokenizer.h"

#include <filesystem>
#include <vector>

namespace trainyard::generate {

namespace fs = std::filesystem;

std::string tokenizer_place(const std::string& checkpoint, const nlohmann::json& provenance) {
  const auto recorded = provenance.value("tokenizer", nlohmann::json());
  const fs::path source = recorded.is_string()   ? recorded.get<std::string>()
                          : recorded.is_object() ? recorded.value("source", "")
                                                 : "";
  if (source == "bytes" || source.empty()) return source.string();
  std::vector<fs::path> places;
  std::error_code error;
  if (recorded.is_object()) {
    const auto kept = data::kept_tokenizer_name(source.string(), recorded.value("crc32c", 0u));
    for (const auto& folder : {fs::absolute(checkpoint, error).lexically_normal(), fs::canonical(checkpoint, error)})
      for (const auto& place : {folder.parent_path().parent_path(), folder.parent_path(), folder})
        places.push_back(place / kept);
  }
  places.push_back(source.is_absolute()
                       ? source
                       : fs::path(data::first_folder(base::path_of_text(provenance.value("data", "")))) / source);
  for (const auto& place : places)
    if (fs::is_regular_file(place, error)) return place.string();
  return places.back().string();
}

}  // namespace trainyard::generate
