// The last few models of a thread.
#include "libtrain/plan/blocks/known_model.h"

#include "libtrain/base/memo.h"
#include "libtrain/plan/blocks/named_kinds.h"
#include "libtrain/plan/spec/layer_model.h"

#include <algorithm>
#include <utility>

namespace trainyard::plan {

const std::vector<AlikeLayers>& KnownModel::layers() const {
  const auto& m = *model_;
  std::vector<AlikeLayers> all;
  for (std::int64_t layer = 0; layers_.empty() && layer < m.layers;) {
    auto model = layer_model(m, layer);
    const auto same = std::find_if(all.begin(), all.end(), [&](const auto& other) { return *other.model == model; });
    auto shared = same == all.end() ? std::make_shared<const ModelConfig>(std::move(model)) : same->model;
    const auto end = layer + alike_layers(m, layer, m.layers);
    all.push_back({layer, end, std::move(shared)});
    layer = end;
  }
  if (layers_.empty()) layers_ = std::move(all);
  return layers_;
}

namespace {

struct LastModels : base::Forgetful {
  std::vector<std::shared_ptr<const KnownModel>> all;  // the latest first
  std::int64_t registrations = 0;
  void forget() override { all.clear(); }
};

}  // namespace

std::shared_ptr<const KnownModel> known_model(const ModelConfig& m) {
  constexpr std::size_t most = 4;
  thread_local LastModels models;
  auto& last = models.all;
  if (models.registrations != kind_registrations()) last.clear(), models.registrations = kind_registrations();
  const auto known = std::find_if(last.begin(), last.end(), [&](const auto& k) { return *k->model() == m; });
  if (known != last.end()) {
    std::rotate(last.begin(), known, known + 1);
    return last.front();
  }
  if (last.size() == most) last.pop_back();
  return *last.insert(last.begin(), std::make_shared<const KnownModel>(m));
}

}  // namespace trainyard::plan
