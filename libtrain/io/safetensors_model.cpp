// Finds the files of a model, by its index or by name.
#include "libtrain/io/safetensors.h"

#include "libtrain/base/advice.h"
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace trainyard::io {

namespace {

// Joins the first few lines, so that a message stays short.
std::string first_of(const std::vector<std::string>& lines) {
  constexpr std::size_t most = 10;
  const auto shown = std::min(most, lines.size());
  auto text = fmt::format("{}", fmt::join(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(shown), "; "));
  if (lines.size() > shown) text += fmt::format("; and {} more", lines.size() - shown);
  return text;
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() < 256 && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

}  // namespace

std::string safetensors_shard_name(std::size_t shard, std::size_t shards) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

bool is_safetensors_shard_name(std::string_view name) {
  constexpr std::string_view pattern = "model-#####-of-#####.safetensors";
  return name.size() == pattern.size() && std::equal(name.begin(), name.end(), pattern.begin(), [](char c, char p) {
           return p == '#' ? c >= '0' && c <= '9' : c == p;
         });
}

SafetensorsModel::SafetensorsModel(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(path, error))
    throw base::InputError(fmt::format("{}: no such folder or file", path), "give the folder of a model");
  auto file = path;
  const auto pickled = base::advice().on_weights(path);
  if (fs::is_directory(path, error)) {
    const auto single = path + "/" + safetensors_name, index = path + "/" + safetensors_index_name;
    const bool has_single = fs::exists(single, error), has_index = fs::exists(index, error);
    if (has_single && has_index)
      throw base::InputError(fmt::format("{} holds both {} and {}", path, safetensors_name, safetensors_index_name),
                             "say which one is meant: give its path");
    if (!has_single && !has_index)
      throw base::InputError(
          fmt::format("{} holds neither {} nor {}", path, safetensors_name, safetensors_index_name),
          pickled.empty() ? "give the folder of a model in safetensors, or the path of its file" : pickled);
    file = has_index ? index : single;
  }
  folder_ = base::parent_of(file);
  if (file.ends_with(".json")) {
    read_index(file);
    return;
  }
  try {
    files_.push_back(std::make_unique<SafetensorsFile>(file));
  } catch (const base::InputError& e) {
    if (pickled.empty()) throw;
    throw base::InputError(e.what(), pickled);
  }
  for (const auto& t : files_.front()->header.tensors) tensors_[t.name] = {files_.front().get(), &t};
}

void SafetensorsModel::read_index(const std::string& path) {
  const auto json = base::parse_json<nlohmann::json>(base::read_file(path, base::largest_description), path);
  if (json.is_object() && !json.contains("weight_map"))
    throw base::InputError(fmt::format("{}: key 'weight_map' is missing: it is no index of tensors", path),
                           "give the folder of the model, or the path of its tensors or their index");
  auto list = base::SortedJsonObject(json, path, "the index is damaged: get it again").object("weight_map");
  std::map<std::string, std::vector<std::string>> by_file;
  for (const auto& [name, value] : json.at("weight_map").items()) {
    const auto file = list.text(name);
    if (!is_plain_name(file))
      throw base::InputError(fmt::format("{}: {} shall lie in {}, which is no name of a file", path,
                                         base::excerpt(name), base::excerpt(file)),
                             "the index is damaged: get it again");
    by_file[file].push_back(name);
  }
  std::vector<std::string> wrong;
  std::error_code error;
  for (const auto& [file, names] : by_file) {
    const auto place = folder_ + "/" + file;
    if (base::file_size(place) < 0) {
      wrong.push_back(fmt::format("{} is {}, where {} {}", base::one_line(file),
                                  std::filesystem::exists(place, error) ? "no regular file" : "missing",
                                  base::counted(static_cast<std::int64_t>(names.size()), "tensor"),
                                  names.size() == 1 ? "lies" : "lie"));
      continue;
    }
    files_.push_back(std::make_unique<SafetensorsFile>(place));
    std::map<std::string, const SafeTensor*> held;
    for (const auto& t : files_.back()->header.tensors) held[t.name] = &t;
    for (const auto& name : names) {
      const auto found = held.find(name);
      if (found == held.end()) {
        wrong.push_back(fmt::format("{} does not lie in {}", base::excerpt(name), base::one_line(file)));
        continue;
      }
      tensors_[name] = {files_.back().get(), found->second};
      held.erase(found);
    }
    for (const auto& [name, tensor] : held)
      wrong.push_back(
          fmt::format("{} lies in {}, which the index does not say", base::excerpt(name), base::one_line(file)));
  }
  if (!wrong.empty())
    throw base::InputError(fmt::format("{} does not fit its files: {}", path, first_of(wrong)),
                           "get the index and all files of one version of the model");
}

}  // namespace trainyard::io
