// A world of one, or of MPI's ranks.
#include "tools/train/launch.h"

#include "libtrain/base/error.h"
#include "libtrain/io/atomic_file.h"
#include "tools/common/launcher.h"

#include <nlohmann/json.hpp>

namespace trainyard::tools {

Launch::Launch() {
  if (!launched()) {
    world_ = engine::solo_world();
    return;
  }
  mpi_ = std::make_unique<comm::MpiRuntime>();
  world_ = engine::make_world("mpi", mpi_->rank(), mpi_->size(), [this](std::string group) { return mpi_->communicator(group); });
  world_.local_rank = local_rank();
}

int Launch::ranks_on_node() const { return tools::ranks_on_node(world_.size); }

void Launch::fail(const std::string& output, int exit_code, const std::string& reason) {
  if (world_.size == 1) return;
  if (!output.empty()) try {
    io::make_folders(output + "/exit");
    const nlohmann::json j{{"rank", world_.rank}, {"exit_code", exit_code}, {"reason", reason}};
    io::write_file(fmt::format("{}/exit/rank-{:05}.json", output, world_.rank), j.dump(1) + "\n");
  } catch (const std::exception&) {
    // The reason is on stderr already.
  }
  mpi_->abort(exit_code);
}

}  // namespace trainyard::tools
