// Tensors of Hugging Face models: names, layouts, types.
#include "libtrain/checkpoint/hugging_face.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/blocks/experts.h"
#include "libtrain/plan/blocks/layer.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/layer_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

namespace trainyard::checkpoint {

namespace {

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  if (const auto at = text.find(what); at != std::string::npos) text.replace(at, what.size(), by);
  return text;
}

bool of_layers(const char* pattern) { return std::string_view(pattern).find("{}") != std::string_view::npos; }
bool of_experts(const char* pattern) { return std::string_view(pattern).find("[]") != std::string_view::npos; }

std::string their_name(const char* pattern, const plan::ModelConfig& model, const std::string& prefix,
                       std::int64_t layer, std::int64_t expert = 0) {
  auto name = replaced(replaced(pattern, "@", prefix), "{}", std::to_string(plan::layer_in_tower(model, layer)));
  name = replaced(replaced(name, "{gate}", "_0"), "{up}", plan::is_gated(model) ? "_1" : "");
  return replaced(name, "[]", std::to_string(expert));
}

// Whether a line of the table is for the layer.
bool is_for(const char* pattern, const plan::ModelConfig& model, std::int64_t layer) {
  if (!plan::has_encoder(model) || !of_layers(pattern)) return true;
  return std::string_view(pattern).starts_with(plan::is_in_encoder(model, layer) ? "encoder." : "decoder.");
}

constexpr WeightTypeName weight_types[] = {{base::DType::f32, "f32", "F32", "float32", 4},
                                           {base::DType::bf16, "bf16", "BF16", "bfloat16", 2},
                                           {base::DType::f16, "f16", "F16", "float16", 2}};

}  // namespace

std::vector<ForeignTensor> foreign_tensors(const Family& family, const plan::ModelConfig& model,
                                           const std::vector<ParameterEntry>& parameters, const std::string& prefix) {
  std::unordered_map<std::string, std::int32_t> numbers;
  for (std::size_t i = 0; i < parameters.size(); ++i) numbers[parameters[i].name] = static_cast<std::int32_t>(i);
  std::size_t placed = 0;
  std::vector<ForeignTensor> all;
  const auto add = [&](const ForeignRule& rule, std::int64_t layer, std::int64_t expert, const std::string& ours) {
    ForeignTensor t;
    if (!is_for(rule.theirs, model, layer)) return;
    t.name = their_name(rule.theirs, model, prefix, layer, expert);
    t.transposed = rule.layout == ForeignRule::Layout::transposed;
    if (rule.layout == ForeignRule::Layout::by_head) t.head_rows = model.head_dim();
    for (const auto* pattern : rule.ours) {
      const auto found = numbers.find(replaced(replaced(pattern, "{}", plan::layer_name(model, layer)), "[]", ours));
      if (found == numbers.end()) return;
      const auto& shape = base::at(parameters, found->second).shape;
      t.parts.push_back({found->second, t.rows, shape[0]});
      t.rows += shape[0];
      t.shape = shape;
    }
    placed += t.parts.size();
    if (t.shape.size() == 2) t.cols = t.shape[1];
    t.shape[0] = t.rows;
    if (t.transposed) std::swap(t.shape[0], t.shape[1]);
    all.push_back(std::move(t));
  };
  using Rules = std::vector<ForeignRule>::const_iterator;
  const auto add_experts = [&](Rules first, Rules end, std::int64_t layer) {
    const auto of_layer = plan::layer_model(model, layer);
    if (!plan::layer_has_experts(model, layer)) return;
    for (std::int64_t e = 0, count = plan::expert_count(of_layer); e < count; ++e)
      for (auto r = first; r != end; ++r) add(*r, layer, e, plan::expert_name(count, e));
  };
  const auto add_layer = [&](Rules first, Rules end, std::int64_t layer) {
    for (auto r = first; r != end;) {
      const auto others =
          std::find_if(r, end, [&](const auto& x) { return of_experts(x.theirs) != of_experts(r->theirs); });
      if (of_experts(r->theirs)) add_experts(r, others, layer);
      else
        for (auto x = r; x != others; ++x) add(*x, layer, 0, "");
      r = others;
    }
  };
  for (auto rule = family.rules.begin(); rule != family.rules.end();) {
    const auto once = std::find_if(rule, family.rules.end(), [](const auto& r) { return !of_layers(r.theirs); });
    if (rule != once)  // layer by layer, as files have them
      for (std::int64_t layer = 0; layer < model.layers; ++layer) add_layer(rule, once, layer);
    else add(*rule, 0, 0, "");
    rule = rule == once ? rule + 1 : once;
  }
  TRAINYARD_ASSERT(placed == parameters.size(), "{} of {} parameters have a place in {}", placed, parameters.size(),
                   family.model_type);
  return all;
}

std::vector<std::string> their_names(const char* pattern, const plan::ModelConfig& model, const std::string& prefix) {
  std::vector<std::string> names;
  for (std::int64_t layer = 0; layer < (of_layers(pattern) ? model.layers : 1); ++layer)
    if (is_for(pattern, model, layer)) names.push_back(their_name(pattern, model, prefix, layer));
  return names;
}

std::string older_name(const Family& family, const std::string& name) {
  for (const auto& [older, now] : family.older)
    if (name.ends_with(now)) return name.substr(0, name.size() - std::string_view(now).size()) + older;
  return name;
}

const WeightTypeName& weight_type(base::DType dtype) {
  const auto* at = std::find_if(std::begin(weight_types), std::end(weight_types),
                                [dtype](const auto& t) { return t.type == dtype; });
  TRAINYARD_ASSERT(at != std::end(weight_types), "weights in {}", base::name_of(dtype));
  return *at;
}

const WeightTypeName* weight_type_in_safetensors(std::string_view name) {
  for (const auto& t : weight_types)
    if (name == t.in_safetensors) return &t;
  return nullptr;
}

std::int64_t from_f32_counting(base::DType dtype, const float* from, std::int64_t count, void* to) {
  base::from_f32(dtype, from, count, to);
  if (!base::is_narrow(dtype)) return 0;
  return base::with_value_type(dtype, [&]<class T>(T*) {
    std::int64_t lost = 0;
    for (std::int64_t i = 0; i < count; ++i)
      lost += std::isinf(static_cast<float>(static_cast<const T*>(to)[i])) && std::isfinite(from[i]) ? 1 : 0;
    return lost;
  });
}

void NotFinite::look(std::size_t tensor, const float* values, std::int64_t count) {
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < count; ++i) found += std::isfinite(values[i]) ? 0 : 1;
  NotFinite here;
  here.count_ = found, here.first_ = tensor;
  add(here);
}

void NotFinite::add(const NotFinite& other) {
  if (other.count_ == 0) return;
  first_ = count_ == 0 ? other.first_ : std::min(first_, other.first_);
  count_ += other.count_;
}

std::string NotFinite::warning(const std::vector<ForeignTensor>& tensors) const {
  if (count_ == 0) return {};
  return fmt::format("{} {} NaN or infinite, the first in {}", base::counted(count_, "weight"),
                     count_ == 1 ? "is" : "are", base::one_line(tensors[first_].name));
}

std::vector<Slab> slabs_of(const std::vector<ForeignTensor>& tensors) {
  std::vector<Slab> slabs;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    for (std::size_t p = 0; p < tensors[i].parts.size(); ++p) {
      const auto rows = tensors[i].parts[p].rows, each = std::max<std::int64_t>(1, slab_elements / tensors[i].cols);
      for (std::int64_t first = 0; first < rows; first += each)
        slabs.push_back({i, p, first, std::min(each, rows - first)});
    }
  return slabs;
}

void transpose(const float* from, std::int64_t rows, std::int64_t cols, float* to) {
  constexpr std::int64_t tile = 16;
  for (std::int64_t r0 = 0; r0 < rows; r0 += tile)
    for (std::int64_t c0 = 0; c0 < cols; c0 += tile)
      for (auto r = r0; r < std::min(rows, r0 + tile); ++r)
        for (auto c = c0; c < std::min(cols, c0 + tile); ++c) to[c * rows + r] = from[r * cols + c];
}

}  // namespace trainyard::checkpoint
