// Share: the part of the inputs that one of several tasks reads, cut where documents begin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

struct Share {
  int task = 0, tasks = 1;  // counted from 0, as $SLURM_ARRAY_TASK_ID of --array=0-7 is
};
inline constexpr int most_tasks = 99'999;

// A run of bytes of one input, and what was found in it once it has been read.
struct Piece {
  std::size_t input = 0;
  std::int64_t begin = 0, end = 0;  // of the file; a whole pipe is [0, -1)
  bool first = true, last = true;   // of its input
  std::int64_t lines = 0, refused = 0;
  bool silent = true;  // nothing was taken or refused
  bool whole() const { return first && last; }
};

// Where documents begin in an input that is not packed: behind a line, behind a blank line, or nowhere but at its
// beginning.
enum class Cuts { lines, paragraphs, nowhere };

// The pieces of a share. Each task has about as many bytes of the files; a file that is packed or cannot be cut goes to
// one task. A cut depends on the file and its nominal place alone, so that every task finds the same without asking
// another. Reads a little behind the two ends of the share. `sizes` are those of `inputs`, `cuts` is asked for an
// input by its number.
std::vector<Piece> pieces_of(const std::vector<std::string>& inputs, const std::vector<std::int64_t>& sizes,
                             Share share, const std::function<Cuts(std::size_t)>& cuts,
                             const std::function<void()>& poll);

}  // namespace trainyard::data
