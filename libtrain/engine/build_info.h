// The build of this program: what may change the bits of a result without any setting having changed.
#pragma once

#include <nlohmann/json.hpp>

namespace trainyard::engine {

// For the manifest's `versions`: `trainyard`; `build`, the linker's id of this executable (the start of its GNU build
// id: other code, flags or compiler, another id); `compiler`; `hdf5` and `libc`, the libraries in use. All are texts.
nlohmann::json build_versions();

}  // namespace trainyard::engine
