// The rules of element-wise updates: each is a header of this folder, and listed here.
#pragma once

#include "kernels/update/adamw.h"
#include "kernels/update/average.h"
#include "kernels/update/lamb.h"
#include "kernels/update/lion.h"
#include "kernels/update/muon.h"
#include "kernels/update/sgd.h"

#include <variant>

namespace trainyard::kernels {

// X(update_NAME, Args) of each rule: the name of its compiled variants and of its operation of a GPU module, and their
// arguments (kernels/update/update_args.h). A step profile counts names that begin with update_ as the optimizer.
#define TRAINYARD_UPDATE_RULES(X)                 \
  X(update_adamw, UpdateArgs<AdamW>)              \
  X(update_average, UpdateArgs<Average>)          \
  X(update_lamb, UpdateArgs<Lamb>)                \
  X(update_lamb_moments, UpdateArgs<LambMoments>) \
  X(update_lion, UpdateArgs<Lion>)                \
  X(update_muon, UpdateArgs<Muon>)                \
  X(update_sgd, UpdateArgs<Sgd>)

using UpdateRule = std::variant<AdamW, Average, Lamb, LambMoments, Lion, Muon, Sgd>;

}  // namespace trainyard::kernels
