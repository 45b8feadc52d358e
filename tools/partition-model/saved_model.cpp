// Finds the manifest, and reads its model.
#include "tools/partition-model/saved_model.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/model_file/model_json.h"

#include <filesystem>

namespace trainyard::tools {

namespace {

// The manifest of a checkpoint, or of the newest one of a run; empty where there is none. Names of steps have leading
// zeros.
std::string manifest_of(const std::string& path) {
  const auto own = path + "/manifest.json";
  if (base::exists(own)) return own;
  std::string newest;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path + "/checkpoints", error), end; !error && at != end;
       at.increment(error))
    if (const auto name = at->path().filename().string();
        name.starts_with("step-") && name > newest && base::exists((at->path() / "manifest.json").string()))
      newest = name;
  return newest.empty() ? newest : fmt::format("{}/checkpoints/{}/manifest.json", path, newest);
}

}  // namespace

std::optional<plan::ModelConfig> saved_model(const std::string& path) {
  if (!base::is_folder(path) || (!base::exists(path + "/manifest.json") && !base::exists(path + "/checkpoints")))
    return std::nullopt;
  const auto manifest = manifest_of(path);
  if (manifest.empty())
    throw base::InputError(fmt::format("{} holds no checkpoint", base::one_line(path)),
                           fmt::format("inspect {} shows what is there", base::one_line(path)));
  const auto json = base::parse_json<nlohmann::json>(base::read_file(manifest), manifest);
  base::SortedJsonObject object(json, manifest);
  if (const auto format = object.text("format"); !format.starts_with("trainyard.checkpoint/"))
    throw base::InputError(
        fmt::format("{}: format is {}, expected that of a checkpoint", manifest, base::excerpt(format)),
        "--model names a preset, a TOML file, a checkpoint or a run");
  return plan::model_from_json(plan::known_model_keys(object.at("model")), manifest + ": model",
                               fmt::format("inspect --verify {} checks the checkpoint", base::one_line(path)));
}

}  // namespace trainyard::tools
