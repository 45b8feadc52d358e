// What a user means by the path of a checkpoint to start from: its folder, or the folder of a run, whose newest
// checkpoint is meant.
#pragma once

#include "libtrain/base/system_error.h"
#include "libtrain/plan/spec/model_config.h"

#include <optional>
#include <string>
#include <vector>

namespace trainyard::engine {

struct RunConfig;

// The checkpoints that `path`, the value of `flag`, may mean, newest first: itself, or the checkpoints of a run's
// folder or of a folder of checkpoints. Looks only at names, so that every rank may ask. InputError for a folder that
// is neither; it says what is there instead.
std::vector<std::string> checkpoints_named(const std::string& flag, const std::string& path);

// The checkpoint that is taken, as in every program (checkpoint/named.h): itself, or the newest that is whole.
// InputError if there is none. On rank 0.
std::string checkpoint_named(const std::string& flag, const std::string& path);

// The model of the first of `checkpoints` with a whole description; all checkpoints of a run are of one model. nullopt
// if none is whole. base::Unreadable if one cannot be read.
struct ModelOfCheckpoint {
  plan::ModelConfig model;
  std::string checkpoint;
};
std::optional<ModelOfCheckpoint> model_of_newest(const std::vector<std::string>& checkpoints);

// Throws the EnvironmentError for a checkpoint that cannot be read. Only a damaged checkpoint makes a run go back by
// itself: what one rank cannot read now may be whole, and hold days of work. The hint names the checkpoint before the
// unreadable one, if there is one, with the flag that takes it.
[[noreturn]] void throw_unread(const RunConfig& config, const base::Unreadable& unread);
template <class Work> auto or_stop_unread(const RunConfig& config, Work&& work) {
  try {
    return work();
  } catch (const base::Unreadable& e) {
    throw_unread(config, e);
  }
}

}  // namespace trainyard::engine
