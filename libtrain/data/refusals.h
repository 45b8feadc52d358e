// Refusals: documents that were refused, in a list and as a count.
#pragma once

#include "libtrain/data/build_options.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace trainyard::data {

// Both arguments outlive it.
class Refusals {
 public:
  Refusals(const BuildOptions& options, BuildResult& result) : options_(options), result_(result) {}
  // UsageError where the list may not be written.
  static void check(const BuildOptions& options, const std::vector<std::string>& precious);

  void open();  // the list, if the options ask for one
  void add(const Refusal& refusal);
  // Closes the list. InputError where more than the allowed share of documents was refused.
  void finish();

 private:
  [[noreturn]] void too_many(std::int64_t all) const;

  const BuildOptions& options_;
  BuildResult& result_;
  std::ofstream list_;
};

}  // namespace trainyard::data
