// The feed-forward part as an expert: down(activation(up(x))).
#pragma once

#include "kernels/activation/activation_form.h"
#include "libtrain/model/expert.h"

namespace trainyard::model {

// Described by plan::FeedForwardExpertKind. One call makes each product for all experts.
class FeedForwardExpert : public Expert {
 public:
  explicit FeedForwardExpert(const ExpertSpec& spec);
  void forward(Step& step, const kernels::RowGroups& groups, const ExpertParameters& weights, base::View x,
               const SavedSet& tensors, base::View y) const override;
  void make_again(Step& step, const SavedSet& tensors) const override;
  void input_gradients(Step& step, const kernels::RowGroups& groups, const ExpertParameters& weights, base::View dy,
                       base::View x, const SavedSet& tensors, base::View dx) const override;
  void weight_gradients(Step& step, const kernels::RowGroups& groups, const ExpertParameters& gradients, base::View dy,
                        base::View x, const SavedSet& tensors) const override;

 private:
  struct Layer {
    int weight, bias;  // -1: none
  };
  static Layer layer_of(const plan::FlatGroup& one, const std::string& name);
  base::View part(base::View inner, std::size_t i) const;  // columns of layer inner_[i]
  std::int64_t width_, lanes_;
  kernels::Activation form_;  // of the gate, if there is one
  std::vector<Layer> inner_;  // up, or gate and up
  Layer down_;
};

}  // namespace trainyard::model
