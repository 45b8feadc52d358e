// Sparse layouts that files give: how a model takes one in, how long its sequences are then, and what a causal model
// drops.
#pragma once

#include "libtrain/base/block_map.h"
#include "libtrain/base/fields.h"
#include "libtrain/plan/spec/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// Reads a layout's file (io::read_layout_file); InputError.
using LayoutReader = base::BlockMap (*)(const std::string& path);
// The blocks as the text of AttentionConfig::file_blocks. InputError, which begins with `where`, if the text is longer
// than longest_file_blocks.
std::string blocks_text(const base::BlockMap& map, const std::string& where);

// If a layer of the model has the layout "file" and its blocks are not known yet: reads AttentionConfig::file and takes
// its blocks and attention-block. The file's path is relative to the folder of `model_file`. `fields` are the fields
// that the model was read into. InputError if there is no reader, if attention-block was set and differs from the
// file's, and for what the reader refuses.
void take_file_layout(ModelConfig& model, const std::vector<base::Field>& fields, const std::string& model_file,
                      LayoutReader read);

bool has_file_layout(const ModelConfig& model);  // in any of its layers
// The layout's name in a sentence: its file, or the key that holds its blocks.
std::string name_of_file_layout(const AttentionConfig& attention);
// From file_blocks, which may not have been checked yet: the rows of the first head, and the number of heads that have
// lists.
std::int64_t file_rows_a_side(const AttentionConfig& attention);
std::int64_t file_heads(const AttentionConfig& attention);

// The longest sequence that all layers can have: the context, or less if a file's layout is smaller.
std::int64_t longest_sequence(const ModelConfig& model);

// Why a sequence does not fit the layout of a file: the number of blocks must be equal. "": it fits.
struct LengthProblem {
  std::string message, hint;
};
LengthProblem length_problem(const ModelConfig& model, std::int64_t sequence);

// The number of blocks of a layout from a file, in all heads that it lists, and how many of them lie above the
// diagonal.
struct FileBlocks {
  std::int64_t all = 0, above = 0;
};
FileBlocks count_file_blocks(const AttentionConfig& attention);
// A sentence that a causal model drops some of these blocks; empty if it drops none.
std::string dropped_text(const ModelConfig& model);

}  // namespace trainyard::plan
