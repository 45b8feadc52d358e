// Share: the part of the inputs that one of several tasks reads. Its ends are at beginnings of documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

struct Share {
  int task = 0, tasks = 1;  // counted from 0, like $SLURM_ARRAY_TASK_ID with --array=0-7
};
inline constexpr int most_tasks = 99'999;

// A range of bytes of one input, and what was found in it once it has been read.
struct Piece {
  std::size_t input = 0;
  std::int64_t begin = 0, end = 0;  // in the file; a whole pipe is [0, -1)
  bool first = true, last = true;   // whether it is the first or last piece of its input
  std::int64_t lines = 0, refused = 0;
  bool silent = true;  // nothing was taken or refused
  bool whole() const { return first && last; }
};

// Where documents begin in an input that is not packed: after a line, after a blank line, or only at the input's
// beginning.
enum class Cuts { lines, paragraphs, nowhere };

// The pieces of a share. Each task gets about as many bytes of the files. A file that is packed or cannot be split goes
// to one task. An end of a share depends only on the file and the nominal position, so tasks agree without
// communication. Reads a little beyond both ends of the share. `sizes` are the sizes of `inputs`; `cuts` is called with
// the number of an input.
std::vector<Piece> pieces_of(const std::vector<std::string>& inputs, const std::vector<std::int64_t>& sizes,
                             Share share, const std::function<Cuts(std::size_t)>& cuts,
                             const std::function<void()>& poll);

}  // namespace trainyard::data
