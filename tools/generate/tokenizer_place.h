// Where to find the tokenizer of a checkpoint.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace trainyard::generate {

// Returns "bytes", or the path of a model file, by what the checkpoint recorded. The first that exists is returned: the
// copy in the run's folder (above the checkpoint's folder, or beside it), the one in the shard set, the file that the
// data was made with. When none of them exists, it is the last one; "" when nothing was recorded.
std::string tokenizer_place(const std::string& checkpoint, const nlohmann::json& provenance);

}  // namespace trainyard::generate
