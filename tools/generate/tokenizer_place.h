// Where the tokenizer of a checkpoint is to be found.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace trainyard::generate {

// "bytes", or the path of a model file: the copy in the run's folder (above the checkpoint's, or beside it),
// else the one in the shard set, else the file that the data was made with, by what the checkpoint recorded. When none
// of them is there, the last; "" when nothing was recorded.
std::string tokenizer_place(const std::string& checkpoint, const nlohmann::json& provenance);

}  // namespace trainyard::generate
