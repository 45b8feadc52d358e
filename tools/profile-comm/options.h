// The options of profile-comm.
#pragma once

#include "libtrain/profile/ceilings.h"
#include "libtrain/profile/sweep.h"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace trainyard::tools {

struct ProfileOptions {
  // as given
  std::string backend = "auto", device = "auto", plan, groups, operations, min_bytes = "8", max_bytes = "64MiB",
              dtypes = "f32", confidence = "3%", budget = "60s", spread = "50%";
  std::string model = "gpt2", disk, disk_bytes = "128MiB", output, plot, from, max_regress = "5%", progress = "auto";
  int ranks = 0, factor = 2, threads = 0;
  std::int64_t micro_batch = 1, sequence = 0, vocabulary = 0;
  double hang_timeout = 300;
  bool local = false, force = false, json = false, csv = false, bytes = false, chart = false, dry_run = false;
  std::vector<std::string> compare;
  std::string storage, blocks;
  // parsed from the texts
  profile::SweepOptions sweep;
  double regress = 0.05;
  std::vector<std::string> storage_folders;
};

void add_flags(CLI::App& app, ProfileOptions& options);
// Parses the texts; UsageError naming the flag.
void resolve_texts(ProfileOptions& options);
// Text of all options that decide what is measured. Ranks compare it to find out whether they were started with the
// same options.
std::string fingerprint(const ProfileOptions& options);

}  // namespace trainyard::tools
