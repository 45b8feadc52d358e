// A rank file under construction. The HDF5 library lays it out. Payloads are written past the library in any order.
// Then the file gets its index and its sidecar.
#pragma once

#include "libtrain/checkpoint/kind_boxes.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/tensor_statistics.h"
#include "libtrain/io/bulk.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

class RankFile {
 public:
  // Creates BASE.h5. `boxes` says how many elements each dataset has. They are not filled (zeros where nothing is
  // written). The sidecar of an earlier file, which marked it as finished, is removed first. `parameters`, those of the
  // state's model, outlive this object.
  RankFile(std::string base_path, const RunState& state, const std::vector<ParameterEntry>& parameters, int rank,
           int ranks, const KindBoxes& boxes);

  const std::string& path() const { return path_; }  // BASE.h5
  // Where the payload of a kind lies. The writer must enter the checksums of its blocks before finish().
  PayloadEntry& payload(const Kind& kind) { return index_.payloads.at(path_of(kind)); }

  // Call it once all payloads are written to `file`, which is path() opened for writing, and their checksums are
  // entered. Syncs and closes the file, and writes BASE.index and BASE.json. Durable when it returns.
  void finish(io::BulkFile& file, RankBoxes boxes, std::map<std::string, Statistics> tensors);

 private:
  std::string base_path_, path_;
  std::int64_t step_;
  int rank_, ranks_;
  std::string writer_;
  const std::vector<ParameterEntry>& parameters_;
  FileEntry index_;
};

// Removes BASE.h5, BASE.index and BASE.json, whether whole or partial. Throws nothing.
void remove_rank_files(const std::string& base_path);

}  // namespace trainyard::checkpoint
