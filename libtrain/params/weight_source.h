// WeightSource: where weights come from that a rank does not keep. A store of streamed weights reads them again and
// again (make_streamed_weights in weights.h).
#pragma once

#include "libtrain/base/view.h"

namespace trainyard::params {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Reads this rank's shard of a flat group into `shard`, [shard] elements of the working dtype in host memory; padding
  // is 0. The weights never change. Only one thread calls it, which is not the compute thread.
  virtual void read(int flat_group, base::View shard) = 0;

  double wait_seconds = 0;  // that the compute thread was blocked by reads; only this thread uses it
};

}  // namespace trainyard::params
