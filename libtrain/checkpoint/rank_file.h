// A rank file under construction: the HDF5 library lays it out, payloads go past it in any order, then it gets its
// index and its sidecar.
#pragma once

#include "libtrain/checkpoint/manifest.h"
#include "libtrain/io/bulk.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

class RankFile {
 public:
  // Creates BASE.h5, each of its datasets `elements` long and filled by nobody (zeros where nothing is written). What
  // said that an earlier one was finished goes first. `parameters`, those of the state's model, outlive it.
  RankFile(std::string base_path, const RunState& state, const std::vector<ParameterEntry>& parameters, int rank,
           int ranks, std::int64_t elements);

  const std::string& path() const { return path_; }  // BASE.h5
  // Where the payload of a kind lies; the checksums of its blocks are for the writer to enter before finish().
  PayloadEntry& payload(Kind kind) { return index_.payloads.at(path_of(kind)); }

  // All payloads are written to `file`, which is path() open for writing, and their checksums entered: syncs and closes
  // it, writes BASE.index and BASE.json. Durable when it returns.
  void finish(io::BulkFile& file, RankBoxes boxes, std::map<std::string, Statistics> tensors);

 private:
  std::string base_path_, path_;
  std::int64_t step_;
  int rank_, ranks_;
  std::string writer_;
  const std::vector<ParameterEntry>& parameters_;
  FileEntry index_;
};

// Removes BASE.h5, BASE.index and BASE.json, whole or not. Throws nothing.
void remove_rank_files(const std::string& base_path);

}  // namespace trainyard::checkpoint
