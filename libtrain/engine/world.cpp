// Puts a world together.
#include "libtrain/engine/world.h"

namespace trainyard::engine {

void drain(tensor::Exec& communication, tensor::Exec& compute) noexcept {
  for (auto* exec : {&communication, &compute}) {
    try {
      exec->synchronize();
    } catch (const std::exception&) {
      // Nothing is under way after a failure.
    }
  }
}

World solo_world() { return make_world("solo", 0, 1, {}); }

World make_world(std::string kind, int rank, int size, comm::GroupFactory between, int tensor) {
  using plan::Axis;
  World w(std::move(kind), rank, plan::replicas_of(size, tensor), std::move(between),
          {plan::Axes{Axis::data}, plan::Axes{Axis::tensor}});
  if (size > 1) w.communication = tensor::Exec::worker("communication", nullptr);
  return w;
}

}  // namespace trainyard::engine
