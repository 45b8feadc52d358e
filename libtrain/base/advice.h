// Advice: what a program knows of other tools' files and names, for the hints of errors.
#pragma once

#include <string>
#include <vector>

namespace trainyard::base {

// The library asks where it refuses something that may be another tool's. "" is no advice.
struct Advice {
  // About the name of a setting or key that is not among `names`. Without a program: a name that resembles it.
  std::string (*on_name)(const std::string& asked, const std::vector<std::string>& names);
  // About JSON where TOML is read: throws InputError if it knows the file, which is at `path`.
  void (*on_json)(const std::string& text, const std::string& path);
  // About a folder that is no checkpoint, run or model.
  std::string (*on_folder)(const std::string& path);
  // About a file or folder with weights, which is not in safetensors.
  std::string (*on_weights)(const std::string& path);
};

// A program gives its advice before it calls anything else of the library.
void give_advice(const Advice& advice);
const Advice& advice();

}  // namespace trainyard::base
