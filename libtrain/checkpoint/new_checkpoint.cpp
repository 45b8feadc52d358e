// Makes the folder of a checkpoint that is made from others.
#include "libtrain/checkpoint/new_checkpoint.h"

#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/checkpoint/destination.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/kept_tokenizer.h"
#include "libtrain/checkpoint/own_files.h"
#include "libtrain/checkpoint/parts.h"
#include "libtrain/checkpoint/rank_writer.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>

namespace trainyard::checkpoint {

namespace fs = std::filesystem;

void require_free_destination(const std::string& destination, base::Existing existing,
                              const std::vector<std::string>& sources) {
  require_name_of_something_whole(destination);
  require_outside(destination, sources);
  require_outside_of_runs(destination);
  std::error_code error;
  if (existing == base::Existing::refuse && fs::exists(fs::symlink_status(destination, error)))
    throw base::UsageError(fmt::format("{} exists already", destination),
                           base::text("give another place, or $force to replace it"));
  auto own = own_checkpoints();
  own.precious = sources;
  base::require_own(destination, own);
}

NewCheckpoint::NewCheckpoint(std::string destination, RunState state, LayoutRanks ranks, NewCheckpointOptions options)
    : final_(base::without_slashes(std::move(destination))), partial_(final_ + std::string(base::partial_suffix)),
      state_(std::move(state)), options_(std::move(options)), topology_(std::move(ranks.topology)) {
  require_free_destination(final_, options_.existing, options_.sources);
  base::require_own(partial_, own_checkpoints());
  base::make_folders(partial_);
  const SavedShards shards(state_.model, topology_, ranks.stages);
  places_ = std::make_unique<const Places>(shards);
  parameters_ = parameters_of(state_.model);
  tensors_ = std::make_unique<const KindTensors>(state_.optimizer, parameters_);
  try {
    lock_ = std::make_unique<base::FolderLock>(partial_, "wait until it has ended, or give another place");
    for (int r = 0; r < topology_.world(); ++r)
      ranks_.push_back(std::make_unique<ScatteredRank>(partial_ + "/" + rank_name(r), state_, *tensors_, shards, r));
    prepare();
  } catch (...) {
    if (judged_) {
      remove_unfinished();
    } else if (lock_ != nullptr) {  // finished rank files stay for a start that checks all of them
      lock_.reset();
      std::error_code not_empty;
      fs::remove(partial_, not_empty);
    }
    throw;
  }
}

NewCheckpoint::~NewCheckpoint() {
  if (!published_) remove_unfinished();
}

void NewCheckpoint::prepare() {
  if (options_.existing == base::Existing::refuse) {
    std::atomic<int> kept{0};
    std::mutex one_at_a_time;
    for_each_part(ranks_.size(), options_.threads, [&](std::size_t r, int) {
      if (options_.between) {
        const std::lock_guard held(one_at_a_time);
        options_.between();
      }
      if (ranks_[r]->keep_finished()) ++kept;
    });
    kept_ = kept;
  }
  judged_ = true;
  std::set<std::string> stays{base::lock_name};
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (ranks_[r]->is_finished())
      for (const char* suffix : {".h5", ".index", ".json"}) stays.insert(rank_name(static_cast<int>(r)) + suffix);
  std::vector<std::string> goes;
  for (const auto& entry : fs::directory_iterator(partial_))
    if (!stays.contains(entry.path().filename().string())) goes.push_back(entry.path().string());
  for (const auto& path : goes) base::remove_tree(path);
  require_room();
  WritingHands hands;
  for (auto& rank : ranks_) {
    if (options_.between) options_.between();
    if (!rank->is_finished()) rank->lay_out(hands);
  }
}

std::int64_t NewCheckpoint::bytes_to_write() const {
  std::int64_t bytes = 0;
  for (const auto& rank : ranks_) bytes += rank->is_kept() ? 0 : rank->payload_bytes();
  return bytes;
}

void NewCheckpoint::require_room() const {
  // Bytes of HDF5's structures, the indices and the manifest.
  constexpr std::int64_t of_a_file = 16 << 10, of_a_box = 100, of_all = 64 << 10;
  auto needed = of_all + bytes_to_write();
  for (const auto& rank : ranks_) {
    for (const auto& kind : kinds_of(state_)) needed += std::ssize(rank->boxes(kind)) * of_a_box;
    needed += rank->is_kept() ? 0 : of_a_file;
  }
  checkpoint::require_room(partial_, final_, needed, options_.free_bytes);
}

void NewCheckpoint::remove_unfinished() {
  std::size_t finished = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const auto base = partial_ + "/" + rank_name(static_cast<int>(r));
    if (ranks_[r]->is_finished()) ++finished;
    else remove_rank_files(base);
  }
  if (finished > 0)
    return base::log_info("{} of {} stay in {}: the same command goes on from there", finished,
                          base::counted(static_cast<std::int64_t>(ranks_.size()), "rank file"), partial_);
  try {
    base::remove_tree(partial_, std::move(lock_));
  } catch (const std::exception& e) {
    base::log_debug("{} could not be removed: {}", partial_, e.what());
  }
}

// What makes checkpoints of others may be far from their data.
void NewCheckpoint::keep_tokenizer() const {
  for (const auto& source : options_.sources)
    if (const auto kept = kept_tokenizer(source, state_.provenance); !kept.path.empty())
      return base::write_file(partial_ + "/" + kept.name, kept.content);
}

Manifest NewCheckpoint::publish(const std::function<void(const Manifest&)>& prove) {
  Manifest m;
  try {
    m = complete_folder(partial_, state_, topology_);
    prove(m);
    if (!options_.history.empty()) base::write_file(partial_ + "/" + history_name, options_.history);
    keep_tokenizer();
  } catch (const base::InputError&) {  // finished rank files cannot be trusted now
    ranks_.clear();
    throw;
  }
  lock_->require_alone();
  require_free_destination(final_, options_.existing, options_.sources);
  base::publish_folder(partial_, final_);
  published_ = true;
  try {  // sidecars and indices let a next start keep the rank files; after the rename nobody needs them
    remove_reports_of_ranks(final_, m);
  } catch (const std::exception& e) {
    base::log_warning("{} is whole, but tidying up failed: {}", final_, e.what());
  }
  lock_.reset();  // a file server would keep a file that is open
  std::error_code error;
  fs::remove(fs::path(final_) / base::lock_name, error);  // a process that opened it earlier sees that its name is gone
  return m;
}

void NewCheckpoint::require_fingerprints(const Manifest& written, std::map<std::string, std::uint64_t> made) const {
  for (const auto& [path, tensor] : written.tensors) {
    auto expected = made[path];
    for (const auto& rank : ranks_)
      if (rank->is_kept() && rank->tensors().contains(path)) expected += rank->tensors().at(path).fingerprint;
    if (tensor.fingerprint != expected)
      throw base::InputError(fmt::format("{}: {} was written with fingerprint {}, expected {}", final_, path,
                                         hex64(tensor.fingerprint), hex64(expected)),
                             "memory or a disk of this machine is at fault");
  }
}

}  // namespace trainyard::checkpoint
