// Atomic writes of files that are too large to be put together in memory.
#pragma once

#include "libtrain/base/atomic_file.h"

#include <functional>
#include <string>
#include <string_view>

namespace trainyard::base {

// write_file of base/atomic_file.h for content that comes in pieces. `produce` gets a Sink and calls it with the pieces
// in order. If `produce` throws, no file is left.
using Sink = std::function<void(std::string_view piece)>;
void write_file(const std::string& path, const std::function<void(const Sink&)>& produce, Existing existing);

// The same with Existing::replace and with a temporary name in the same folder that the caller chooses. It is for
// folders whose readers would take write_file's temporary name for a whole file.
void replace_file(const std::string& path, const std::string& partial, const std::function<void(const Sink&)>& produce);

}  // namespace trainyard::base
