// Builds a kernel's dropout arguments, for the operations that fuse dropout. Not for use outside kernels/.
#pragma once

#include "kernels/dropout/dropout.h"
#include "kernels/dropout/dropout_args.h"

namespace trainyard::kernels {

// Checks shapes; the caller checks types. `residual` may be empty.
DropoutArgs dropout_args(tensor::Exec& exec, const Dropout& dropout, base::ConstView x, base::ConstView residual,
                         base::View y);

}  // namespace trainyard::kernels
