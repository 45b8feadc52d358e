// Puts a world together.
#include "libtrain/engine/world.h"

#include "libtrain/comm/solo.h"

namespace trainyard::engine {

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
