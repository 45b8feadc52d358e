// The manifest of a checkpoint: which run and step it holds, which ranks wrote it, and the sizes and checksums of all
// files. Together with the indices of the rank files (joined_index.h) it says which part of which tensor lies where. It
// is self-describing: reading it needs no formula.
#pragma once

#include "libtrain/checkpoint/boxes.h"
#include "libtrain/checkpoint/file_entry.h"
#include "libtrain/checkpoint/run_state.h"
#include "libtrain/checkpoint/tensor_table.h"

#include <map>
#include <string>
#include <vector>

namespace trainyard::checkpoint {

inline constexpr const char* format_name = "trainyard.checkpoint";
inline constexpr int format_major = 2;  // the version that is written; every older one can be read

// One axis of the grid of ranks that wrote the checkpoint. Ranks that differ along one axis alone are a group of that
// axis.
struct AxisEntry {
  std::string axis;
  int size = 1;
};

struct Manifest {
  int major = format_major;
  RunState state;
  int ranks = 1;
  std::vector<AxisEntry> axes;                // from outer to inner
  std::vector<std::vector<int>> coordinates;  // by rank, one coordinate for each axis
  std::vector<ParameterEntry> parameters;     // in the order of the model
  // By rank; together the boxes hold each element of each parameter once. In version 2 the boxes, and the payloads and
  // metadata of the files, come from the indices.
  std::vector<RankBoxes> boxes;
  std::map<std::string, TensorEntry> tensors;  // by "/model/NAME", "/optimizer/m/NAME", ...
  std::map<std::string, FileEntry> files;      // by name; "checkpoint.h5" only if the view exists
};

}  // namespace trainyard::checkpoint
