// The array form of the builder: each task makes the part of its share, and the one that finds all parts makes the set.
#pragma once

#include "libtrain/data/builder.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

struct TaskResult {
  enum class State {
    waiting,    // parts are missing
    elsewhere,  // another task makes the set of the parts, or has made it
    made        // by this one; `set` says what it holds
  } state = State::waiting;
  bool part_was_there = false;
  std::vector<int> missing;  // tasks, while waiting
  std::string parts_left;    // why the folder of parts, which nobody needs any more, was not removed; empty: it was
  BuildResult set;
};

struct TaskProgress {
  std::function<void(std::int64_t bytes)> reading;
  std::function<void(std::int64_t done, std::int64_t all)> joining;  // tokens
};

// Tasks may run at once, on several machines over a shared folder, in any order, and be killed and run again: a part is
// whole or not there (parts.h), and so is the set. It is the very set that build_shards makes of the same inputs, byte
// for byte, refusals included. InputError as there, by the task that makes the set; the parts stay then, and any task
// that is run again judges anew. Afterwards the parts are removed.
TaskResult build_task(DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options, Share share,
                      const TaskProgress& progress);

}  // namespace trainyard::data
