// The builder for job arrays: each task makes the part of its share, and the task that finds all parts makes the set.
#pragma once

#include "libtrain/data/build_options.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

struct TaskResult {
  enum class State {
    waiting,    // parts are missing
    elsewhere,  // another task makes the set from the parts, or has made it
    made        // this task made it; `set` has the counts
  } state = State::waiting;
  bool part_was_there = false;
  std::vector<int> missing;  // tasks without a part, while waiting
  std::string parts_left;    // why the folder of parts, no longer needed, was not removed; empty: it was
  BuildResult set;
};

struct TaskProgress {
  std::function<void(std::int64_t bytes)> reading;
  std::function<void(std::int64_t done, std::int64_t all)> joining;  // in tokens
};

// Tasks may run at once, on several machines with a shared folder, in any order, and may be killed and run again. A
// part is whole or not there (parts.h), and so is the set. The set equals, byte for byte, what build_shards makes from
// the same inputs, including refusals. The task that makes the set throws InputError as build_shards does. Then the
// parts stay, and any task that is run again decides anew. After success the parts are removed.
TaskResult build_task(DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options, Share share,
                      const TaskProgress& progress);

}  // namespace trainyard::data
