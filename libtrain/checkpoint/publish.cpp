// Publishing a checkpoint: makes a manifest of the sidecars, joins the ranks' indices, renames the partial folder, and
// removes old checkpoints.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/log.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/joined_index.h"
#include "libtrain/checkpoint/kept_tokenizer.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/checkpoint/manifest_text.h"
#include "libtrain/checkpoint/own_files.h"
#include "libtrain/checkpoint/rank_writer.h"
#include "libtrain/checkpoint/sidecar.h"
#include "libtrain/checkpoint/tensor_statistics.h"
#include "libtrain/checkpoint/view.h"

#include <filesystem>
#include <set>

namespace trainyard::checkpoint {

namespace fs = std::filesystem;

namespace {

Sidecar read_sidecar(const std::string& partial, const RunState& state, int rank, int ranks) {
  const auto path = partial + "/" + rank_name(rank) + ".json";
  if (base::file_size(path) < 0)
    throw base::InputError(
        fmt::format("{} is missing: rank {} of {} has not written its part of step {}", path, rank, ranks, state.step));
  auto sidecar = sidecar_from_text(base::read_file(path), path);
  if (sidecar.step != state.step || sidecar.rank != rank || sidecar.ranks != ranks)
    throw base::InputError(fmt::format("{} is of step {}, rank {} of {}; expected step {}, rank {} of {}", path,
                                       sidecar.step, sidecar.rank, sidecar.ranks, state.step, rank, ranks));
  if (sidecar.writer != state.writer) base::throw_shared(partial, state.writer, sidecar.writer);
  const auto file = partial + "/" + rank_name(rank) + ".h5";
  if (base::file_size(file) != sidecar.file.bytes)
    throw base::InputError(
        fmt::format("{} has {} bytes, expected {}", file, base::file_size(file), sidecar.file.bytes));
  return sidecar;
}

Manifest gather(const std::string& partial, const RunState& state, const plan::Topology& grid) {
  Manifest m;
  m.state = state;
  m.ranks = grid.world();
  m.parameters = parameters_of(state.model);
  for (const auto& a : grid.axes()) m.axes.push_back({plan::name_of(a.axis), a.size});
  std::map<std::string, Statistics> statistics;
  std::vector<FileEntry> indices;
  for (int r = 0; r < m.ranks; ++r) {
    auto& coordinates = m.coordinates.emplace_back();
    for (const auto& axis : grid.axes()) coordinates.push_back(grid.coordinate(r, axis.axis));
    const auto sidecar = read_sidecar(partial, state, r, m.ranks);
    for (const auto& [name, s] : sidecar.tensors) statistics[name].add(s);
    m.files[rank_name(r) + ".h5"] = sidecar.file;
    indices.push_back(sidecar.index);
  }
  m.files[joined_index_name] = join_indices(partial, state.step, indices);
  for (const auto& [name, s] : statistics) m.tensors[name] = {s.fingerprint, s.norm()};
  require_consistent(m, partial);
  read_indices(m, partial);
  return m;
}

bool has_other_writer(const std::string& partial, const std::string& writer) {
  std::error_code error;
  for (fs::directory_iterator it(partial, error), end; !error && it != end; it.increment(error)) {
    const auto path = it->path().string();
    if (it->path().extension() != ".json" || it->path().filename() == "manifest.json") continue;
    try {
      if (writer_of_sidecar(base::read_file(path), path) != writer) return true;
    } catch (const base::Unreadable&) {  // it may have another writer
      return true;
    } catch (const base::InputError&) {  // damaged: no writer can publish it
    }
  }
  return false;
}

// Replaces only what our programs wrote. A checkpoint that holds foreign files is renamed.
void keep_foreign(const std::string& folder, std::int64_t step) {
  const auto path = folder + "/" + step_name(step);
  try {
    base::require_own(path, own_checkpoints());
  } catch (const base::UsageError& e) {
    base::log_warning("{}; it is now called {}", e.what(), set_aside({step, path, {}}));
  }
}

void remove_oldest(const std::string& folder, std::int64_t published, int keep) {
  if (keep < 1) return;
  auto whole = list(folder);  // newest first
  // A checkpoint without a manifest is damaged. It is neither counted nor removed, because parts of it may be restored.
  std::erase_if(whole, [](const Found& f) { return base::file_size(f.path + "/manifest.json") < 0; });
  for (auto left = static_cast<int>(whole.size()); left > keep && whole.size() > 1; whole.pop_back()) {
    if (whole.back().step == published) continue;
    try {
      base::require_own(whole.back().path, own_checkpoints());
      base::remove_tree(whole.back().path);
    } catch (const base::UsageError& e) {  // it holds foreign files
      base::log_warning("an old checkpoint is not removed: {}", e.what());
    }
    --left;
  }
}

}  // namespace

Manifest complete_folder(const std::string& partial, const RunState& state, const plan::Topology& grid) {
  auto m = gather(partial, state, grid);
  const auto boxes = boxes_in_view(m);
  if (boxes <= largest_view) m.files[view_name] = write_view(partial, m);
  else
    base::log_info("{}: the view would have {} mappings, more than {}: make it with inspect --make-view",
                   step_name(state.step), boxes, largest_view);
  base::write_file(partial + "/manifest.json", manifest_text(m));
  for (int r = 0; r < m.ranks; ++r)
    read_sidecar(partial, state, r, m.ranks);  // checks that no other writer has begun meanwhile
  base::sync_folder(partial);
  return m;
}

void remove_reports_of_ranks(const std::string& folder, const Manifest& m) {
  std::vector<std::string> extra;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (name != "manifest.json" && name != base::lock_name && name != history_name && !is_kept_tokenizer_name(name) &&
        !m.files.contains(name))
      extra.push_back(entry.path().string());
  }
  for (const auto& path : extra) base::remove_tree(path);
  base::sync_folder(folder);
}

void publish(const std::string& folder, const RunState& state, const plan::Topology& ranks, int keep) {
  const auto name = step_name(state.step);
  const auto partial = folder + "/" + name + std::string(base::partial_suffix);
  try {
    remove_reports_of_ranks(partial, complete_folder(partial, state, ranks));
    keep_foreign(folder, state.step);
    base::publish_folder(partial, folder + "/" + name);
  } catch (const fs::filesystem_error& e) {
    discard_partial(folder, state);
    throw base::EnvironmentError(e.what());
  } catch (...) {
    discard_partial(folder, state);
    throw;
  }
  // The checkpoint is published. What follows is housekeeping and must not end a run.
  try {
    base::write_file(folder + "/latest", name + "\n");
    remove_oldest(folder, state.step, keep);
  } catch (const base::Error& e) {
    base::log_warning("{} is saved, but tidying up failed: {}", name, e.what());
  }
}

void discard_partial(const std::string& folder, const RunState& state) {
  const auto partial = folder + "/" + step_name(state.step) + std::string(base::partial_suffix);
  try {
    if (!has_other_writer(partial, state.writer)) base::remove_tree(partial);
  } catch (const base::Error& e) {
    base::log_warning("{}", e.what());
  }
}

}  // namespace trainyard::checkpoint
