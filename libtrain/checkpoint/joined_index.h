// ranks.index: the indices of all rank files of a checkpoint in one file, so that no reader opens one for each rank.
#pragma once

#include "libtrain/checkpoint/manifest.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::checkpoint {

inline constexpr const char* joined_index_name = "ranks.index";

// checkpoints/README.md defines every byte: a table of where the section of each rank lies, then the sections, which
// are the bytes of rank-NNNNN.index.
std::string joined_index_bytes(std::int64_t step, const std::vector<std::string>& sections);

// The sections by rank, each a part of `bytes`. The table is held against step, ranks and size before anything is taken
// by it: sections follow one another without gaps up to the end, and have the checksums that it says. InputError that
// begins with `where`.
std::vector<std::string_view> sections_of(std::string_view bytes, std::int64_t step, int ranks,
                                          const std::string& where);

// Makes FOLDER/ranks.index from FOLDER/rank-NNNNN.index of every rank, whatever lay there, durable when it returns.
// `indices` are their sizes and checksums by rank. Returns its own. InputError for one that is missing or another.
FileEntry join_indices(const std::string& folder, std::int64_t step, const std::vector<FileEntry>& indices);

// Reads the joined index of a manifest of version 2 from the folder it lies in, which gives it its boxes, payloads and
// metadata; then as require_boxes. Of version 1: nothing to do, the manifest has all of it.
void read_indices(Manifest& manifest, const std::string& folder);

}  // namespace trainyard::checkpoint
