// ranks.index: the indices of all rank files of a checkpoint in one file, so that a reader need not open one for each
// rank.
#pragma once

#include "libtrain/checkpoint/manifest.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::checkpoint {

// Makes the bytes of the file, which checkpoints/README.md defines. A table says where the section of each rank lies.
// The sections follow; each has the bytes of rank-NNNNN.index.
std::string joined_index_bytes(std::int64_t step, const std::vector<std::string>& sections);

// Returns the section of each rank, each a part of `bytes`. First the table is compared with step, ranks and size.
// Sections must follow one another without gaps up to the end and have the checksums of the table. InputError begins
// with `where`.
std::vector<std::string_view> sections_of(std::string_view bytes, std::int64_t step, int ranks,
                                          const std::string& where);

// Writes FOLDER/ranks.index from the FOLDER/rank-NNNNN.index of every rank, replacing any earlier one. It is durable
// when this returns. `indices` are the sizes and checksums of the rank indices, by rank. Returns the entry of the new
// file. InputError for an index that is missing or differs.
FileEntry join_indices(const std::string& folder, std::int64_t step, const std::vector<FileEntry>& indices);

// Reads the joined index of a version 2 manifest from its folder, and fills in the boxes, payloads and metadata. Then
// checks as require_boxes does. For version 1 it does nothing, because the manifest itself holds all of this.
void read_indices(Manifest& manifest, const std::string& folder);

}  // namespace trainyard::checkpoint
