// What a person means by the path of a checkpoint to start from: its folder, or a run whose newest is meant.
#pragma once

#include "libtrain/base/system_error.h"
#include "libtrain/plan/model_config.h"

#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

struct RunConfig;

// What `path`, the value of `flag`, may mean, newest first: itself, or the checkpoints of a run's folder or of a folder
// of checkpoints. Only names are looked at, so that every rank may ask. InputError, which says what is there instead,
// for a folder that is neither.
std::vector<std::string> checkpoints_named(const std::string& flag, const std::string& path);

// The one that is taken, as by every program (checkpoint/named.h): itself, or the newest that is whole. InputError when
// there is none. On rank 0.
std::string checkpoint_named(const std::string& flag, const std::string& path);

// The model that the first of `checkpoints` with a whole description has: all of a run are of one. nullopt where none
// is whole; what cannot be read is base::Unreadable.
struct ModelOfCheckpoint {
  plan::ModelConfig model;
  std::string checkpoint;
};
std::optional<ModelOfCheckpoint> model_of_newest(const std::vector<std::string>& checkpoints);

// Only what is wrong makes a run go back by itself: what one rank cannot read now may be whole, and hold days of work.
// The EnvironmentError of that, whose hint names the checkpoint before the one that could not be read, where there is
// one, with the flag that takes it.
[[noreturn]] void throw_unread(const RunConfig& config, const base::Unreadable& unread);
template <class Work> auto or_stop_unread(const RunConfig& config, Work&& work) {
  try {
    return work();
  } catch (const base::Unreadable& e) {
    throw_unread(config, e);
  }
}

}  // namespace trainyard::engine
