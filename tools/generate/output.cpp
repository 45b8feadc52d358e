// Warns where several processes print.
#include "tools/generate/output.h"

#include "libtrain/base/log.h"
#include "tools/common/launcher.h"

namespace trainyard::generate {

void warn_of_several(std::string_view program, std::string_view written) {
  if (tools::tasks() > 1 && tools::rank() == 0)
    base::log_warning(
        "{} processes were started, and each writes {}: {} works on one process (start it without mpirun or srun)",
        tools::tasks(), written, program);
}

}  // namespace trainyard::generate
