// The index of a rank file, rank-00003.index. It is binary and holds which boxes lie where in the datasets, and the
// checksums of all parts of the file. It lies beside the rank file until the checkpoint is published. Then it is a
// section of the joined index.
#pragma once

#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/file_entry.h"
#include "libtrain/checkpoint/tensor_table.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::checkpoint {

// checkpoints/README.md defines every byte. The index has no checksum of its own; whoever refers to it stores one.
struct RankIndex {
  std::int64_t step = 0;
  int rank = 0, ranks = 1;
  FileEntry file;  // payloads and metadata; bytes and crc are in the manifest
  RankBoxes boxes;
};

std::string index_bytes(const RankIndex& index, const std::vector<ParameterEntry>& parameters);
// Every count is compared with the bytes that are left before anything is allocated, and every number with its bounds.
// Each box names one of `parameters`, lies inside it, and does not overlap another box in the file. InputError that
// begins with `where`.
RankIndex index_from_bytes(std::string_view bytes, const std::vector<ParameterEntry>& parameters,
                           const std::string& where);

}  // namespace trainyard::checkpoint
