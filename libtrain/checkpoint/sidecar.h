// The sidecar of a rank file: what a rank reports to the rank that publishes.
#pragma once

#include "libtrain/checkpoint/file_entry.h"
#include "libtrain/checkpoint/tensor_statistics.h"

#include <cstdint>
#include <map>
#include <string>

namespace trainyard::checkpoint {

inline constexpr const char* rank_format = "trainyard.checkpoint.rank/2";

// The sidecar of a rank file in an unfinished checkpoint: what publish() needs besides the index. It is removed when
// the manifest is there.
struct Sidecar {
  std::int64_t step = 0;
  int rank = 0, ranks = 1;
  FileEntry file, index;                      // only sizes and checksums
  std::map<std::string, Statistics> tensors;  // statistics of the rank's parts
  std::string writer;                         // RunState::writer
};
std::string sidecar_text(const Sidecar& sidecar);
Sidecar sidecar_from_text(const std::string& text, const std::string& where);
std::string writer_of_sidecar(const std::string& text, const std::string& where);  // of any version

}  // namespace trainyard::checkpoint
