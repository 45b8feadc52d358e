// The message of an error that a test expects.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace trainyard::testing {

// The message of what `call` throws as an Error; "" if it throws nothing.
template <class Error = std::logic_error> std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

}  // namespace trainyard::testing
