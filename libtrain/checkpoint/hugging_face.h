// Hugging Face's way of keeping a model: a folder with config.json and tensors in safetensors. A family is a table: of
// the names and layouts of its tensors, and of the keys of its config.json. Both directions go by it, so that another
// family is another table.
#pragma once

#include "libtrain/checkpoint/manifest.h"
#include "libtrain/plan/model_config.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard::checkpoint {

// A line of the table. In `theirs` "@" is the family's prefix and "{}" the number of the layer, in `ours` "{}" is
// "layers.07". Where the model has none of `ours` (biases, the head of a tied model) the line is passed over.
struct ForeignRule {
  const char* theirs;
  enum class Layout { same, transposed } layout;  // transposed: [in, out], ours are [out, in]
  std::vector<const char*> ours;                  // one behind the other along their first dim
};

// A tensor that a file may hold besides, with the values of another.
struct ForeignTwin {
  const char *name, *of;  // as ForeignRule::theirs
};

struct Family {
  const char* model_type;    // of config.json
  const char* architecture;  // the class that loads it
  const char* prefix;        // of most names; files without it are read, too
  std::vector<ForeignRule> rules;
  std::vector<const char*> ignored;  // buffers that older versions saved: they can be computed, and are passed over
  std::vector<const char*> unused;   // weights that no block here has: they are passed over with a note
  std::vector<ForeignTwin> tied;     // of models whose head is their token table
  std::vector<std::pair<const char*, const char*>> older;  // ends of names in older files, and what they are now

  // What config.json says. Whatever this library would compute otherwise goes to `objections`, a sentence each; keys
  // that mean nothing to it to `unknown`.
  plan::ModelConfig (*model)(const nlohmann::json& config, const std::string& where,
                             std::vector<std::string>& objections, std::vector<std::string>& unknown);
  // Why a model is none of this family; empty: it is.
  std::vector<std::string> (*problems)(const plan::ModelConfig& model);
  // config.json of such a model, without what is alike in all families; what it has no key for goes to `left_out`.
  nlohmann::ordered_json (*config)(const plan::ModelConfig& model, std::vector<std::string>& left_out);
};
const std::vector<Family>& families();

struct ForeignModel {
  const Family* family = nullptr;
  plan::ModelConfig model;
  std::vector<std::string> unknown;  // keys of config.json that mean nothing to this library
};
// InputError, beginning with `where`, that lists all that this library cannot compute: another family, a scaling of
// rotary angles, an activation, ...
ForeignModel model_of_config(const nlohmann::json& config, const std::string& name, const std::string& where);

// The family that a model can be written as; InputError with what differs from each of them.
const Family& family_of(const plan::ModelConfig& model);
// What goes into config.json; `dtype` as PyTorch calls it ("bfloat16"). Sentences about what is left out go to
// `left_out`.
nlohmann::ordered_json config_of(const Family& family, const plan::ModelConfig& model, const char* dtype,
                                 std::vector<std::string>& left_out);

// A tensor of theirs, and what of ours lies in it.
struct ForeignTensor {
  struct Part {
    std::int32_t tensor = 0;     // number of the parameter
    std::int64_t first_row = 0;  // of their first dim, as it is before it is transposed
    std::int64_t rows = 0;
  };
  std::string name;
  Shape shape;
  bool transposed = false;
  std::int64_t rows = 0, cols = 1;  // of all parts together, in our layout
  std::vector<Part> parts;
};
// Of a model of the family, whose parameters these are; every parameter is in one of them. `prefix`: the family's, or
// "".
std::vector<ForeignTensor> foreign_tensors(const Family& family, const plan::ModelConfig& model,
                                           const std::vector<ParameterEntry>& parameters, const std::string& prefix);
// The names that a pattern has, of each layer where it is of layers.
std::vector<std::string> their_names(const char* pattern, const plan::ModelConfig& model, const std::string& prefix);
// As an older file has it; the same where that is no other.
std::string older_name(const Family& family, const std::string& name);

// The types of weights that are read and written.
enum class WeightType { f32, bf16, f16 };
struct WeightTypeName {
  WeightType type;
  const char *ours, *in_safetensors, *in_config;  // "bf16", "BF16", "bfloat16"
  int bytes;
};
const WeightTypeName& name_of(WeightType type);
const WeightTypeName* weight_type_in_safetensors(std::string_view name);  // null: none of them

void to_f32(WeightType type, const void* from, std::int64_t count, float* to);
// Rounds to nearest, ties to even. Returns how many finite values became infinite.
std::int64_t from_f32(WeightType type, const float* from, std::int64_t count, void* to);

// Rows [first, first + count) of one part of a foreign tensor, as they are moved at once.
struct Slab {
  std::size_t tensor = 0, part = 0;  // of the list of foreign tensors
  std::int64_t first = 0, count = 0;
};
std::vector<Slab> slabs_of(const std::vector<ForeignTensor>& tensors);
inline constexpr std::int64_t slab_elements = std::int64_t{1} << 21;  // at most, unless one row has more

// Calls f(element, at, count): elements [element, element + count) of the foreign tensor are elements [at, at + count)
// of a slab in their layout, which is [cols, count] where it is transposed.
template <class F> void for_each_foreign_run(const ForeignTensor& t, const Slab& slab, F&& f) {
  const auto row = t.parts[slab.part].first_row + slab.first;
  if (!t.transposed) return f(row * t.cols, std::int64_t{0}, slab.count * t.cols);
  for (std::int64_t col = 0; col < t.cols; ++col) f(col * t.rows + row, col * slab.count, slab.count);
}

// Memory for `count` elements in a buffer that only grows, so that nothing is cleared again and again.
template <class T> T* at_least(std::vector<T>& buffer, std::int64_t count) {
  if (static_cast<std::int64_t>(buffer.size()) < count) buffer.resize(static_cast<std::size_t>(count));
  return buffer.data();
}

void transpose(const float* from, std::int64_t rows, std::int64_t cols, float* to);  // [rows, cols] to [cols, rows]

}  // namespace trainyard::checkpoint
