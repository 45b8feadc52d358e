// What an offload's bytes cost: seconds at the rates of folders that were measured, the tokens from which a step hides
// them, and what is written to each drive.
#pragma once

#include "libtrain/base/storage.h"
#include "libtrain/plan/links/profile.h"
#include "libtrain/plan/offload_folders.h"
#include "libtrain/plan/plan.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::plan {

// Bytes a second of one rank, while all ranks of the profile do the same. both: read and written back at once, which
// count twice.
struct StorageRates {
  double read = 0, written = 0, both = 0;
  // Seconds of these bytes. Reads and writes go on at once, as far as there are as many of them.
  double seconds(const base::StorageTotals& bytes) const;
};

// What profile-comm --storage measured, in the order of its folders.
struct MeasuredFolders {
  struct Folder {
    std::string path;
    StorageRates rates;
  };
  std::vector<Folder> folders;           // empty: nothing was measured
  std::optional<StorageRates> together;  // of several folders with equal shares
  // InputError, which names `path`, if it was not measured.
  const StorageRates& of(const std::string& path) const;
};
MeasuredFolders measured_folders(const Profile& profile);

// FLOP/s at which a rank multiplies matrices of the dtype: all products of the profile (gemm.*), each once. nullopt if
// it has none.
std::optional<double> product_rate(const Profile& profile, base::DType dtype);

// Of a rank of one pipeline stage, in the largest step.
struct OffloadTime {
  int stage = 0;             // of which the bytes take longest, compared with its computing
  std::int64_t space = 0;    // bytes of its files
  base::StorageTotals step;  // that a step reads and writes
  struct Folder {
    std::string path;
    std::int64_t space = 0;
    base::StorageTotals step;  // its share of the step's bytes, by its space
    StorageRates rates;        // 0: not known
  };
  std::vector<Folder> folders;  // empty: they are not known
  // Seconds of a step's bytes, if the profile has rates of the folders. A folder takes as long as its own bytes, and
  // longer by the same factor by which equal shares took longer together than alone.
  std::optional<double> disk_seconds;
  LinkBytes link;                      // that a step copies between a GPU and its host, both ways at once
  std::optional<double> link_seconds;  // if the profile has rates of copies (copy.to_device, copy.from_device)
  bool together = false;               // the profile measured these folders at once, or there is one
  // Seconds of a step's FLOPs, recomputation included, at the rate of products: no step is shorter. With a profile that
  // has products of the plan's dtype.
  std::optional<double> flops_per_second, compute_seconds;
  // The smallest global batch, in whole accumulation steps, whose computing takes as long as its bytes; if both times
  // are known. none: no batch, because each accumulation step moves more than it hides.
  std::optional<std::int64_t> hiding_batch;
  int ranks_on_node = 1;                                               // of the profile: as many write to each folder
  bool lacks_rates_of_folders = false, lacks_rates_of_copies = false;  // the profile, of what a step moves

  // Of what a step moves, the one that takes longer. nullopt if a time is not known.
  std::optional<double> moving_seconds() const;
  // If both times are known.
  std::optional<double> step_seconds() const;
  // Bytes that all ranks of a node write to the folder in a day; if step_seconds() is known.
  std::optional<double> written_a_day(const Folder& folder) const;
};

// `folders`: those of the run; empty: those of the profile, with equal shares, and none without a profile. The plan is
// predicted and has something elsewhere. InputError if the profile has rates of folders, but not of these.
OffloadTime offload_time(const Plan& plan, const Profile* profile, const std::vector<OffloadFolder>& folders);

// The folders of the profile with weights by which all of them take equally long; empty for fewer than two.
std::vector<OffloadFolder> folders_by_speed(const MeasuredFolders& measured);

}  // namespace trainyard::plan
