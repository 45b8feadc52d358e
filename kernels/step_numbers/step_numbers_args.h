// What an update needs to know of its step, and how it is computed: the same on the host and on a GPU.
#pragma once

#include "kernels/square_sum/fixed_point.h"
#include "libtrain/base/reduction_order.h"

namespace trainyard::kernels {

// The results of one optimizer step, equal on every rank.
struct StepNumbers {
  double loss = 0;           // mean over the counted targets; 0 if there are none
  double gradient_norm = 0;  // of the gradient of that mean, before clipping
  std::int64_t targets = 0;
  float gradient_scale = 0;  // the factor for gradients of the loss sum: clip factor / targets / loss_scale
  // 0: an update changes nothing, because loss or norm is not finite (StepNumbersArgs::lasting), or of an outlier.
  std::int32_t finite = 1;
  std::int32_t outlier = 0;  // 1: loss and norm are finite, and one of them is above its limit
};

struct StepNumbersArgs {
  // [rows][2 * places]: loss sum and target count of each place; a rank has a place for every micro-batch. `rows` says
  // which row is that of a position in the reduction order.
  const double* losses = nullptr;
  std::int64_t places = 0, micros = 0, local_accumulation = 1;
  base::RowsOfPositions rows = {};
  const std::int64_t* limbs = nullptr;  // square_sum_limbs digits: the sum of squares of all gradients
  double clip = 0;                      // largest norm; 0: none
  double loss_scale = 1;                // the factor of these gradients, a power of two: it is taken out exactly
  // Whether a step that is not finite makes all later steps so, as of a run that ends with it. Else each step is judged
  // alone, as of a run that skips it.
  bool lasting = true;
  StepNumbers* out = nullptr;
  // Above one of these a finite step is an outlier; 0: no limit. Each step is judged alone, whatever `lasting` says. A
  // step without targets has no loss, and its norm is no mean over targets: it is no outlier.
  double most_norm = 0, most_loss = 0;
};

// Sums losses and targets in ascending micro-batch index (decision 5).
TRAINYARD_ANYWHERE inline void make_step_numbers(const StepNumbersArgs& a) {
  double sum = 0, targets = 0;
  for (std::int64_t m = 0; m < a.micros; ++m) {
    const auto at = base::place_of_micro_batch(m, a.local_accumulation, a.rows.ranks);
    const double* pair = a.losses + 2 * (a.rows.row(at.rank) * a.places + at.place);
    sum += pair[0];
    targets += pair[1];
  }
  StepNumbers n;
  n.targets = static_cast<std::int64_t>(targets);
  n.loss = targets > 0 ? sum / targets : 0;
  const double counted = targets > 1 ? targets : 1;
  n.gradient_norm = sqrt(value_of_digits(a.limbs)) / counted / a.loss_scale;
  const double within = a.clip / (n.gradient_norm + 1e-6);
  n.gradient_scale = static_cast<float>((a.clip > 0 && within < 1 ? within : 1) / counted / a.loss_scale);
  const bool lost = a.lasting && a.out->finite == 0 && a.out->outlier == 0;  // since an earlier step
  const bool finite = !lost && n.loss - n.loss == 0 && n.gradient_norm - n.gradient_norm == 0;
  const bool above = n.targets > 0 &&
                     ((a.most_norm > 0 && n.gradient_norm > a.most_norm) || (a.most_loss > 0 && n.loss > a.most_loss));
  n.outlier = finite && above ? 1 : 0;
  n.finite = finite && !above ? 1 : 0;
  *a.out = n;
}

}  // namespace trainyard::kernels
