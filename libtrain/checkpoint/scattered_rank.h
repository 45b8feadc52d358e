// A rank file whose elements come in any order and from several threads: each block is checked as soon as it is
// complete, by reading it back, and the file is finished with its last one.
#pragma once

#include "libtrain/checkpoint/saved_shards.h"
#include "libtrain/checkpoint/rank_file.h"
#include "libtrain/io/bulk.h"

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::checkpoint {

// Files that one thread works on: the few that it used last stay open, so that no number of ranks needs more
// descriptors. Of those that the process may have open all threads together keep a quarter, and each at least one.
class OpenFiles {
 public:
  explicit OpenFiles(io::BulkFile::Mode mode) : mode_(mode) {}
  io::BulkFile& at(const std::string& path);

 private:
  static constexpr std::size_t most = 8;
  static std::atomic<std::int64_t> all_;  // of all threads
  struct Kept {
    io::BulkFile file;
    Kept(const std::string& path, io::BulkFile::Mode mode) : file(path, mode) { ++all_; }
    ~Kept() { --all_; }
    Kept(const Kept&) = delete;
  };
  io::BulkFile::Mode mode_;
  std::list<Kept> files_;  // the last used one first
};

// What a thread that writes needs of its own.
struct WritingHands {
  OpenFiles files{io::BulkFile::Mode::update};
  std::vector<char> block = std::vector<char>(static_cast<std::size_t>(io::block_bytes));
};

class ScatteredRank {
 public:
  // `state` and `parameters`, which all ranks share, outlive it.
  ScatteredRank(std::string base_path, const RunState& state, const std::vector<ParameterEntry>& parameters,
                const SavedShards& shards, int rank);

  std::int64_t payload_bytes() const;
  const RankBoxes& boxes() const { return boxes_; }
  bool is_finished() const { return finished_; }
  bool is_kept() const { return finished_ && file_ == nullptr; }  // by an earlier start: nothing is written any more
  // What was written of each tensor, once the file is finished.
  const std::map<std::string, Statistics>& tensors() const { return tensors_; }

  // Takes what an earlier start finished, when sidecar, index and every byte of the file say that it is this very rank,
  // written for the same purpose (RunState::writer). Reads the whole file.
  bool keep_finished();
  // Creates the file with empty payloads, whatever lay there.
  void lay_out(WritingHands& hands);
  // Elements [at, at + count) of the dataset of `kind`, in its type; each element of each box comes once. Several
  // threads may.
  void write(Kind kind, std::int64_t at, std::int64_t count, const void* data, WritingHands& hands);

 private:
  struct Payload {
    std::unique_ptr<std::atomic<std::int32_t>[]> missing;  // elements of boxes, by block
    std::vector<std::uint32_t> checksums;
    std::vector<std::vector<std::pair<std::int32_t, Statistics>>> statistics;  // by block, of each box in it
  };
  std::int64_t per_block(Kind kind) const;
  void count_missing(Kind kind);
  void check_block(Kind kind, std::int64_t block, WritingHands& hands);
  void block_is_done();
  void finish();

  std::string base_path_;
  const RunState& state_;
  const std::vector<ParameterEntry>& parameters_;
  int rank_, ranks_;
  std::int64_t elements_;
  RankBoxes boxes_;
  std::unique_ptr<RankFile> file_;
  std::map<Kind, Payload> payloads_;
  std::atomic<std::int64_t> blocks_left_{0};
  std::atomic<bool> finished_{false};
  std::map<std::string, Statistics> tensors_;
};

}  // namespace trainyard::checkpoint
