// Models in the format of Hugging Face: a folder with config.json and tensors in safetensors. A family is a table of
// its tensors (names, layouts) and of the keys of its config.json. Import and export use the same table, so another
// family is another table.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/plan/spec/model_config.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard::checkpoint {

// One line of the table. In `theirs`, "@" is the family's prefix, "{}" the number of the layer and "[]" the number of
// the expert; in `ours`, "{}" is "layers.07" and "[]" is "03". In a model with an encoder a line for layers is for
// those of the part with whose name `theirs` begins, "encoder" or "decoder"; they are numbered in their part, and "{}"
// is "encoder.layers.07". "wi{up}" and "wi{gate}" are T5's names, which depend on the activation. The line is skipped
// where the model has none of `ours` (biases, the head of a tied model, experts of another layer).
struct ForeignRule {
  const char* theirs;
  // transposed: theirs is [in, out], ours is [out, in]. by_head: theirs has the rows of the first head of each of
  // `ours`, then those of the second head, and so on.
  enum class Layout { same, transposed, by_head } layout;
  std::vector<const char*> ours;  // concatenated along their first dim
};

// An optional tensor of a file that repeats the values of another tensor.
struct ForeignTwin {
  const char *name, *of;  // patterns, as in ForeignRule::theirs
};

struct Family {
  const char* model_type;    // of config.json
  const char* architecture;  // the class that loads it
  const char* prefix;        // of most names; files without it are read too
  std::vector<ForeignRule> rules;
  std::vector<const char*> ignored;  // buffers that older versions saved; skipped, because they can be computed
  std::vector<const char*> unused;   // weights that no block here has; skipped with a note
  std::vector<ForeignTwin> tied;     // of models whose head is the token table
  std::vector<std::pair<const char*, const char*>> older;  // name suffixes in older files, and the current ones

  // Converts config.json to a model. Settings that this library would compute differently go to `objections`, one
  // sentence each. Keys without a meaning here go to `unknown`.
  plan::ModelConfig (*model)(const nlohmann::json& config, const std::string& where,
                             std::vector<std::string>& objections, std::vector<std::string>& unknown);
  // config.json of such a model, without what all families share. A model belongs to the family if `model` reads the
  // same model from it, so it may be called with any model.
  nlohmann::ordered_json (*config)(const plan::ModelConfig& model);
  std::vector<ForeignTwin> copies = {};  // of all models: other names under which files hold a tensor once more
};
const std::vector<Family>& families();

struct ForeignModel {
  const Family* family = nullptr;
  plan::ModelConfig model;
};
// Throws InputError, beginning with `where`, that lists everything this library cannot compute: another family, an
// unsupported activation, ... A key without a meaning here is refused by name, unless `ignored` has it. A UsageError
// names a key of `ignored` that is not in the file, or has a meaning here.
ForeignModel model_of_config(const nlohmann::json& config, const std::string& name, const std::string& where,
                             const std::vector<std::string>& ignored = {});

// The family that a model can be written as: the one of that model_type if it can, else the first of the list.
// InputError says how the model differs from the families that are nearest.
const Family& family_of(const plan::ModelConfig& model, const std::string& model_type = "");
// Whether two models compute the same. Names, reduction lanes and what only training reads may differ.
bool computes_same(const plan::ModelConfig& one, const plan::ModelConfig& other);
// The content of config.json; `dtype` is PyTorch's name ("bfloat16"). Sentences about what is left out go to
// `left_out`.
nlohmann::ordered_json config_of(const Family& family, const plan::ModelConfig& model, const char* dtype,
                                 std::vector<std::string>& left_out);

// A tensor of a Hugging Face file, and which of our tensors lie in it.
struct ForeignTensor {
  struct Part {
    std::int32_t tensor = 0;     // number of the parameter
    std::int64_t first_row = 0;  // first row of the part in our layout, before transposing
    std::int64_t rows = 0;
  };
  std::string name;
  Shape shape;
  bool transposed = false;
  std::int64_t rows = 0, cols = 1;  // of all parts together, in our layout
  std::vector<Part> parts;
  std::int64_t head_rows = 0;  // of each part in turn; 0: each part as a whole
};
// The tensors of a model of the family. `parameters` are the model's, and each is in exactly one tensor. `prefix` is
// the family's, or "".
std::vector<ForeignTensor> foreign_tensors(const Family& family, const plan::ModelConfig& model,
                                           const std::vector<ParameterEntry>& parameters, const std::string& prefix);
// The names that a pattern stands for: one for each layer if the pattern contains "{}".
std::vector<std::string> their_names(const char* pattern, const plan::ModelConfig& model, const std::string& prefix);
// The name in an older file; the same name if it has not changed.
std::string older_name(const Family& family, const std::string& name);

// Types of weights that can be read and written.
struct WeightTypeName {
  base::DType type;
  const char *ours, *in_safetensors, *in_config;  // "bf16", "BF16", "bfloat16"
  int bytes;
};
const WeightTypeName& weight_type(base::DType dtype);                     // f32, bf16 or f16
const WeightTypeName* weight_type_in_safetensors(std::string_view name);  // null: another type

// base::from_f32, which returns how many finite values became infinite.
std::int64_t from_f32_counting(base::DType dtype, const float* from, std::int64_t count, void* to);

// How many weights of several tensors are NaN or infinite, and which of the tensors is the first that has one.
class NotFinite {
 public:
  void look(std::size_t tensor, const float* values, std::int64_t count);
  void add(const NotFinite& other);
  // A sentence about them; "" if there are none.
  std::string warning(const std::vector<ForeignTensor>& tensors) const;

 private:
  std::int64_t count_ = 0;
  std::size_t first_ = 0;
};

// Rows [first, first + count) of one part of a foreign tensor; the unit of one move.
struct Slab {
  std::size_t tensor = 0, part = 0;  // index into the list of foreign tensors
  std::int64_t first = 0, count = 0;
};
std::vector<Slab> slabs_of(const std::vector<ForeignTensor>& tensors);
inline constexpr std::int64_t slab_elements = std::int64_t{1} << 21;  // at most, unless one row is larger

// Calls f(element, at, count) for runs of a slab. Elements [element, element + count) of the foreign tensor are
// elements [at, at + count) of the slab. The slab is in the foreign layout, which is [cols, count] if transposed.
template <class F> void for_each_foreign_run(const ForeignTensor& t, const Slab& slab, F&& f) {
  if (t.head_rows > 0) {
    const auto parts = static_cast<std::int64_t>(t.parts.size()), part = static_cast<std::int64_t>(slab.part);
    for (std::int64_t done = 0; done < slab.count;) {
      const auto row = slab.first + done, head = row / t.head_rows, in_head = row % t.head_rows;
      const auto count = std::min(t.head_rows - in_head, slab.count - done);
      f(((head * parts + part) * t.head_rows + in_head) * t.cols, done * t.cols, count * t.cols);
      done += count;
    }
    return;
  }
  const auto row = t.parts[slab.part].first_row + slab.first;
  if (!t.transposed) return f(row * t.cols, std::int64_t{0}, slab.count * t.cols);
  for (std::int64_t col = 0; col < t.cols; ++col) f(col * t.rows + row, col * slab.count, slab.count);
}

// Returns memory for `count` elements in a buffer that only grows, so it is not cleared repeatedly.
template <class T> T* at_least(std::vector<T>& buffer, std::int64_t count) {
  if (static_cast<std::int64_t>(buffer.size()) < count) buffer.resize(base::size(count));
  return buffer.data();
}

void transpose(const float* from, std::int64_t rows, std::int64_t cols, float* to);  // [rows, cols] to [cols, rows]

}  // namespace trainyard::checkpoint
