// Files and folders of other trainers, recognised by what they hold: a configuration of DeepSpeed, a model of Hugging
// Face.
#pragma once

#include <string>

namespace trainyard::tools {

// Throws InputError for a file of settings whose text is JSON that it knows, where TOML is expected. For a
// configuration of DeepSpeed its hint has the flags for the keys that are there.
void refuse_known_json(const std::string& text, const std::string& path);

// A hint for a folder with a model of Hugging Face: how it becomes a checkpoint. Empty for other folders.
std::string hugging_face_hint(const std::string& folder);

// A hint for weights in PyTorch's own format: the command that writes them as safetensors. `path` is such a file by its
// name (.bin, .pt, .pth), or a folder with one. Empty for others.
std::string pickled_weights_hint(const std::string& path);

}  // namespace trainyard::tools
