// NamedKinds: kinds under the names by which a model asks for them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::plan {

// The check of registrations: `what` has the name `name`, and is `complete`. UsageError for an incomplete one, and for
// a name that is empty or has other characters than letters, digits, '_', '-' and '.'.
void require_registrable(const char* what, const std::string& name, bool complete);
// UsageError that names the nearest of `known`.
[[noreturn]] void refuse_unknown_kind(const char* what, const std::string& name, const std::vector<std::string>& known);

// How many kinds have been registered so far, beside those of the library.
std::int64_t kind_registrations();
void count_kind_registration();

// A registry. It begins with the kinds of the library. Not thread-safe: register before anything is planned.
template <class Kind> class NamedKinds {
 public:
  using Kinds = std::map<std::string, std::shared_ptr<const Kind>>;
  NamedKinds(const char* what, Kinds kinds) : what_(what), kinds_(std::move(kinds)) {}

  // Replaces an earlier registration of the same name. UsageError as require_registrable, and for a null kind.
  void add(const std::string& name, std::shared_ptr<const Kind> kind) {
    require_registrable(what_, name, kind != nullptr);
    kinds_[name] = std::move(kind);
    count_kind_registration();
  }
  // `wanted`: what the message calls a kind that is not there.
  const Kind& at(const std::string& name, const char* wanted) const {
    const auto found = kinds_.find(name);
    if (found == kinds_.end()) refuse_unknown_kind(wanted, name, names());
    return *found->second;
  }
  std::vector<std::string> names() const {  // sorted
    std::vector<std::string> names;
    for (const auto& [name, kind] : kinds_) names.push_back(name);
    return names;
  }

 private:
  const char* what_;
  Kinds kinds_;
};

}  // namespace trainyard::plan
