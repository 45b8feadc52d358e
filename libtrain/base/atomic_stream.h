// Files that are whole or not there, too large to be put together in memory.
#pragma once

#include "libtrain/base/atomic_file.h"

#include <functional>
#include <string>
#include <string_view>

namespace trainyard::base {

// write_file of base/atomic_file.h for content that comes in pieces: `produce` gets what takes them, in order. Nothing
// is left where it throws.
using Sink = std::function<void(std::string_view piece)>;
void write_file(const std::string& path, const std::function<void(const Sink&)>& produce, Existing existing);

// The same with Existing::replace under a temporary name of the caller's choice in the same folder, for folders whose
// readers would take that of write_file for something whole.
void replace_file(const std::string& path, const std::string& partial, const std::function<void(const Sink&)>& produce);

}  // namespace trainyard::base
