// The settings of shard-data.
#pragma once

#include "libtrain/data/tokenizer.h"
#include "tools/shard-data/new_tokenizer.h"
#include "tools/shard-data/pairs.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainyard::tools {

struct Settings {
  std::vector<std::string> inputs, include, fields;
  std::optional<std::string> json_key, split, chat;
  std::string task;                      // such as "3/8"; empty: one process does all the work
  std::optional<std::string> tokenizer;  // bytes, unless one is trained
  std::string output, rejects, largest = "16MiB", progress = "auto", special = "read";
  data::DocumentTokens around;
  NewTokenizerFlags train;
  PairFlags pairs;
  bool deduplicate = false;
  std::string pack = "none";
  std::int64_t sequence = 0;
  std::int64_t shard_tokens = std::int64_t{64} << 20;
  double validation = 0.01, max_rejects = 0.01;
  int threads = 0;
  bool force = false, json = false, dry_run = false;
};

}  // namespace trainyard::tools
