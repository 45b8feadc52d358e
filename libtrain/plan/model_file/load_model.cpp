// Presets and TOML files.
#include "libtrain/plan/model_file/load_model.h"

#include "libtrain/base/advice.h"
#include "libtrain/base/error.h"
#include "libtrain/base/fields.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/model_file/expert_problems.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/spec/presets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace trainyard::plan {

namespace {

// InputError for problems that no flag could fix. The flags for vocabulary and lanes come later.
void require_whole(ModelConfig m, const std::string& path) {
  if (m.vocabulary == 0) m.vocabulary = ranges::vocabulary.low;
  m.lanes = 1;
  auto wrong = problems(m);
  for (auto& text : unread_expert_keys(m)) wrong.push_back(std::move(text));
  if (!wrong.empty())
    throw base::InputError(fmt::format("{}: {}", path, fmt::join(wrong, "; ")),
                           "change the model: train --help-model describes its keys");
}

// What a folder is that was given as a model.
[[noreturn]] void refuse_folder(const std::string& path) {
  std::error_code error;
  const auto has = [&](const char* name) { return std::filesystem::exists(path + "/" + name, error); };
  auto way = base::advice().on_folder(path);
  if (has("manifest.json") || has("checkpoints"))
    way = fmt::format("train --init-from {} takes the model and the weights of a checkpoint or a run", path);
  throw base::InputError(fmt::format("{} is a folder, and a model is a preset or a TOML file", path),
                         way.empty() ? "train --help-model describes the file" : way);
}

}  // namespace

ModelConfig load_model(const std::string& preset_or_toml, LayoutReader read_layout) {
  const auto presets = preset_names();
  const bool preset_name = std::find(presets.begin(), presets.end(), preset_or_toml) != presets.end();
  std::error_code error;
  ModelConfig m;
  if (preset_name || (!preset_or_toml.ends_with(".toml") && !std::filesystem::exists(preset_or_toml, error))) {
    m = preset(preset_or_toml);
    m.lanes = 0;
    return m;
  }
  if (std::filesystem::is_directory(preset_or_toml, error)) refuse_folder(preset_or_toml);
  auto fields = fields_of(m);
  base::read_toml(fields, preset_or_toml);
  follow(m, fields);
  take_file_layout(m, fields, preset_or_toml, read_layout);
  require_whole(m, preset_or_toml);
  return m;
}

}  // namespace trainyard::plan
