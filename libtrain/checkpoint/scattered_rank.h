// A rank file whose elements arrive in any order and from several threads. Each block is checked by reading it back as
// soon as it is complete. The last block finishes the file.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/checkpoint/kind_boxes.h"
#include "libtrain/checkpoint/rank_file.h"
#include "libtrain/checkpoint/saved_shards.h"
#include "libtrain/checkpoint/tensor_statistics.h"
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

// The open files of one thread. The few that it used last stay open, so that descriptors do not grow with the number of
// ranks. All threads together keep at most a quarter of the files that the process may have open, but each thread at
// least one.
class OpenFiles {
 public:
  explicit OpenFiles(io::BulkFile::Mode mode) : mode_(mode) {}
  io::BulkFile& at(const std::string& path);

 private:
  static constexpr std::size_t most = 8;
  static std::atomic<std::int64_t> all_;  // open files of all threads
  struct Kept {
    io::BulkFile file;
    Kept(const std::string& path, io::BulkFile::Mode mode) : file(path, mode) { ++all_; }
    ~Kept() { --all_; }
    Kept(const Kept&) = delete;
  };
  io::BulkFile::Mode mode_;
  std::list<Kept> files_;  // most recently used first
};

// The buffers and files that each writing thread needs of its own.
struct WritingHands {
  OpenFiles files{io::BulkFile::Mode::update};
  std::vector<char> block = std::vector<char>(base::size(io::block_bytes));
};

class ScatteredRank {
 public:
  // `state` and `tensors` are shared by all ranks and must outlive this object.
  ScatteredRank(std::string base_path, const RunState& state, const KindTensors& tensors, const SavedShards& shards,
                int rank);

  std::int64_t payload_bytes() const;
  const RankBoxes& boxes(const Kind& kind) const { return of_kinds_.of(kind); }
  // Where element `at` of the datasets of parameters (Places) lies in the dataset of a kind whose tensors have the
  // shape of their parameters: elsewhere if the kind leaves out frozen parameters.
  std::int64_t place_in(const Kind& kind, std::int64_t at) const;
  bool is_finished() const { return finished_; }
  bool is_kept() const { return finished_ && file_ == nullptr; }  // by an earlier start: nothing more is written
  // Statistics of what was written of each tensor, once the file is finished.
  const std::map<std::string, Statistics>& tensors() const { return tensors_; }

  // Keeps a file that an earlier start finished. Sidecar, index and every byte must show that it is this rank, written
  // for the same purpose (RunState::writer). Reads the whole file. Returns whether it is kept.
  bool keep_finished();
  // Creates the file with empty payloads, replacing any earlier file.
  void lay_out(WritingHands& hands);
  // Writes elements [at, at + count) of the dataset of `kind`, in its dtype. Each element of each box must be written
  // once. Several threads may call it.
  void write(const Kind& kind, std::int64_t at, std::int64_t count, const void* data, WritingHands& hands);

 private:
  struct Payload {
    std::unique_ptr<std::atomic<std::int32_t>[]> missing;  // elements of boxes still missing, by block
    std::vector<std::uint32_t> checksums;
    std::vector<std::vector<std::pair<std::int32_t, Statistics>>> statistics;  // by block, for each box in it
  };
  std::int64_t per_block(const Kind& kind) const;
  void count_missing(const Kind& kind);
  void check_block(const Kind& kind, std::int64_t block, WritingHands& hands);
  void block_is_done();
  void finish();

  std::string base_path_;
  const RunState& state_;
  const KindTensors& all_tensors_;
  int rank_, ranks_;
  RankBoxes boxes_;
  KindBoxes of_kinds_;
  // Of each box, where it lies in the datasets of kinds that leave out frozen parameters; -1: nowhere.
  std::vector<std::int64_t> trained_offsets_;
  std::unique_ptr<RankFile> file_;
  std::map<Kind, Payload> payloads_;
  std::atomic<std::int64_t> blocks_left_{0};
  std::atomic<bool> finished_{false};
  std::map<std::string, Statistics> tensors_;
};

}  // namespace trainyard::checkpoint
