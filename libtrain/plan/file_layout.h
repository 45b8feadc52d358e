// Layouts that files give: how a model takes one in, how long its sequences are then, and what a causal model drops.
#pragma once

#include "libtrain/base/block_map.h"
#include "libtrain/base/fields.h"
#include "libtrain/plan/model_config.h"

#include <string>
#include <vector>

namespace trainyard::plan {

// As AttentionConfig::file_blocks. InputError, which begins with `where`, for a text that is longer than
// longest_file_blocks.
std::string blocks_text(const base::BlockMap& map, const std::string& where);

// Where a layer of the model has the layout "file" and its blocks are not there yet: reads AttentionConfig::file, whose
// path counts from the folder of `model_file`, and takes blocks and attention-block from it. `fields` are those that
// the model was read into. InputError where nobody reads such files, where an attention-block was said that is not the
// file's, and for what the reader refuses.
void take_file_layout(ModelConfig& model, const std::vector<base::Field>& fields, const std::string& model_file,
                      LayoutReader read);

bool has_file_layout(const ModelConfig& model);  // in any of its layers
// What the layout is called in a sentence: its file, or the key that says its blocks.
std::string name_of_file_layout(const AttentionConfig& attention);
// Of file_blocks, which nobody has judged yet: rows of the first head; heads that it has lists for.
std::int64_t file_rows_a_side(const AttentionConfig& attention);
std::int64_t file_heads(const AttentionConfig& attention);

// The longest sequence that all layers can have: the context, or less where a file has no blocks for it.
std::int64_t longest_sequence(const ModelConfig& model);

// Why a sequence cannot go with the layout of a file, which has as many blocks, no more and no fewer; "": it can.
struct LengthProblem {
  std::string message, hint;
};
LengthProblem length_problem(const ModelConfig& model, std::int64_t sequence);

// Blocks of a file that has some, in all heads that it lists; how many of them lie above the diagonal.
struct FileBlocks {
  std::int64_t all = 0, above = 0;
};
FileBlocks count_file_blocks(const AttentionConfig& attention);
// That a causal model drops some of them, as a sentence; empty where it drops none.
std::string dropped_text(const ModelConfig& model);

}  // namespace trainyard::plan
