// The index of a rank file, rank-00003.index: binary, which boxes lie where in its datasets, and the checksums of all
// of its parts. It lies beside the rank file until the checkpoint is published, then it is a section of the joined one.
#pragma once

#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/manifest.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::checkpoint {

// checkpoints/README.md defines every byte. It has no checksum of its own: who names it has one.
struct RankIndex {
  std::int64_t step = 0;
  int rank = 0, ranks = 1;
  FileEntry file;  // payloads and metadata; bytes and crc stand in the manifest
  RankBoxes boxes;
};

std::string index_name(int rank);  // "rank-00003.index"
std::string index_bytes(const RankIndex& index, const std::vector<ParameterEntry>& parameters);
// Every count is held against the bytes that are left before anything is allocated, and every number against its
// bounds: boxes name one of `parameters`, lie inside of it, and do not overlap in the file. InputError that begins with
// `where`.
RankIndex index_from_bytes(std::string_view bytes, const std::vector<ParameterEntry>& parameters,
                           const std::string& where);

}  // namespace trainyard::checkpoint
