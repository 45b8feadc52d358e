// The build of this program: what may change the bits of a result although no setting has changed.
#pragma once

#include <nlohmann/json.hpp>

namespace trainyard::engine {

// The manifest's `versions`. `trainyard` is the version; `build` is the id that the linker gave this executable (the
// start of its GNU build id: other code, flags or compiler give another id). `compiler` made it; `hdf5` and `libc` are
// the libraries in use. All values are texts.
nlohmann::json build_versions();

}  // namespace trainyard::engine
