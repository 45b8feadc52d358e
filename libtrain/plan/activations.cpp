// What each part of a block saves.
#include "libtrain/plan/activations.h"

#include "libtrain/base/error.h"
#include "libtrain/base/scratch.h"

namespace trainyard::plan {

namespace {

base::DType statistics_of(base::DType working) { return working == base::DType::f64 ? base::DType::f64 : base::DType::f32; }

class List {
 public:
  List(const ModelConfig& model, const MicroShape& shape, Pass pass) : m_(model), s_(shape), pass_(pass) {}

  void add(const char* name, std::int64_t cols) { out_.push_back({name, s_.dtype, {s_.rows(), cols}}); }
  void statistics(const char* name, std::vector<std::int64_t> dims) { out_.push_back({name, statistics_of(s_.dtype), std::move(dims)}); }
  // The input of a norm, its statistics and its output. Evaluation needs no copy of the input: the stream still holds it.
  void norm() {
    if (pass_ == Pass::train) add("input", m_.hidden);
    if (m_.norm == Norm::layer) statistics("mean", {s_.rows()});
    statistics("inverse", {s_.rows()});
    add("normed", m_.hidden);
  }
  std::vector<SavedTensor> take() { return std::move(out_); }

 private:
  const ModelConfig& m_;
  const MicroShape& s_;
  Pass pass_;
  std::vector<SavedTensor> out_;
};

}  // namespace

std::int64_t SavedTensor::bytes() const {
  std::int64_t n = base::size_of(dtype);
  for (auto d : shape) n *= d;
  return base::scratch_aligned(n);
}

std::vector<SavedTensor> part_tensors(const ModelConfig& m, Part part, const MicroShape& s, Pass pass) {
  List list(m, s, pass);
  list.norm();
  if (part == Part::attention) {
    list.add("qkv", (m.heads + 2 * m.kv_heads) * m.head_dim());
    list.statistics("logsumexp", {s.batch * m.heads, s.sequence});
    list.add("mixed", m.hidden);
  } else if (part == Part::ffn) {
    list.add("inner", m.activation == Activation::swiglu ? 2 * m.ffn : m.ffn);
    list.add("activated", m.ffn);
  }
  return list.take();
}

std::vector<SavedTensor> saved_tensors(const ModelConfig& m, BlockKind kind, const MicroShape& s) {
  if (kind == BlockKind::embedding) return {};
  if (kind == BlockKind::head) return part_tensors(m, Part::head, s, Pass::train);
  auto list = part_tensors(m, Part::attention, s, Pass::train);
  for (auto& t : part_tensors(m, Part::ffn, s, Pass::train)) list.push_back(std::move(t));
  return list;
}

}  // namespace trainyard::plan
