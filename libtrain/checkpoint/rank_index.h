// The index of a rank file, rank-00003.index: a binary file of which boxes lie where in its datasets, and of the
// checksums of all of its parts.
#pragma once

#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/manifest.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

// checkpoints/README.md defines every byte. It has no checksum of its own: the manifest has one of the whole file.
struct RankIndex {
  std::int64_t step = 0;
  int rank = 0, ranks = 1;
  FileEntry file;   // payloads and metadata; bytes and crc stand in the manifest
  RankBoxes boxes;
};

std::string index_name(int rank);   // "rank-00003.index"
std::string index_bytes(const RankIndex& index, const std::vector<ParameterEntry>& parameters);
// Every count is held against the bytes that are left before anything is allocated, and every number against its
// bounds: boxes name one of `parameters`, lie inside of it, and do not overlap in the file. InputError that begins with
// `where`.
RankIndex index_from_bytes(const std::string& bytes, const std::vector<ParameterEntry>& parameters,
                           const std::string& where);

// Reads the indices that a manifest of version 2 names from the folder it lies in, which gives it its boxes, payloads
// and metadata; then as require_boxes. Of version 1: nothing to do, the manifest has all of it.
void read_indices(Manifest& manifest, const std::string& folder);

}  // namespace trainyard::checkpoint
