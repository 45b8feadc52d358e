// Puts a world together.
#include "libtrain/engine/world.h"

#include "libtrain/comm/solo.h"

namespace trainyard::engine {

void drain(tensor::Exec& exchange, tensor::Exec& compute) noexcept {
  for (auto* exec : {&exchange, &compute}) {
    try {
      exec->synchronize();
    } catch (const std::exception&) {
      // Nothing is under way after a failure.
    }
  }
}

World solo_world() {
  return make_world("solo", 0, 1, [](std::string group) { return comm::make_solo(std::move(group)); });
}

World make_world(std::string kind, int rank, int size, const std::function<std::unique_ptr<comm::Communicator>(std::string)>& factory) {
  World w;
  w.rank = rank;
  w.size = size;
  w.kind = std::move(kind);
  w.data = factory("data");
  w.control = factory("control");
  if (size > 1) w.exchange = tensor::Exec::worker("communication", nullptr);
  return w;
}

}  // namespace trainyard::engine
