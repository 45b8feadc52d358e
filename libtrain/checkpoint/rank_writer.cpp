// Writing a rank file from views in memory.
#include "libtrain/checkpoint/rank_writer.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/kind_boxes.h"
#include "libtrain/checkpoint/manifest.h"
#include "libtrain/checkpoint/rank_file.h"
#include "libtrain/checkpoint/tensor_statistics.h"
#include "libtrain/io/bulk.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

namespace trainyard::checkpoint {

namespace {

const std::vector<base::View>& views_of(const RankShards& shards, const Kind& kind) {
  static const std::vector<base::View> none;
  const auto found = shards.views.find(kind);
  return found == shards.views.end() ? none : found->second;
}

std::int64_t elements_of(const std::vector<base::View>& views) {
  std::int64_t n = 0;
  for (const auto& view : views) n += view.count();
  return n;
}

void require_shards(const RunState& state, const RankShards& shards, const KindBoxes& boxes) {
  for (const auto& kind : kinds_of(state)) {
    const auto& views = views_of(shards, kind);
    const auto elements = boxes.elements(kind);
    TRAINYARD_ASSERT(elements_of(views) == elements, "{}: {} elements, expected {}", path_of(kind), elements_of(views),
                     elements);
    for (const auto& view : views)
      TRAINYARD_ASSERT(view.dtype == dtype_of(kind, state) && view.dense(), "{}: a view of {}, expected dense {}",
                       path_of(kind), base::name_of(view.dtype), base::name_of(dtype_of(kind, state)));
  }
}

// Takes the boxes that end in this view off the front of `boxes`, and adds the statistics of all their elements in it.
// The view begins at element `first` of the dataset. `of_kind` are the tensors of the kind.
void add_statistics(std::map<std::string, Statistics>& tensors, const Kind& kind,
                    const std::vector<ParameterEntry>& of_kind, const base::ConstView& view, std::int64_t first,
                    std::span<const StoredBox>& boxes) {
  const auto end = first + view.count();
  while (!boxes.empty() && boxes.front().offset < end) {
    const auto& box = boxes.front();
    const auto& p = of_kind.at(base::size(box.tensor));
    const auto from = std::max(first, box.offset), to = std::min(end, box.end());
    auto& statistics = tensors[path_of(kind, p.name)];
    const auto add = [&](const Run& run) {
      statistics.add(statistics_of(static_cast<const char*>(view.data) + (run.at - first) * base::size_of(view.dtype),
                                   run.count, view.dtype, run.element));
    };
    if (from == box.offset && to == box.end()) for_each_run(p.shape, box, box.box, add);
    else for_each_run_of_range(p.shape, box, from - box.offset, to - from, add);
    if (box.end() > end) return;
    boxes = boxes.subspan(1);
  }
}

// Calls f for a view, or for pieces of a view that is not in memory.
template <class F> void for_each_piece(const RankShards& shards, const Kind& kind, std::size_t number, F&& f) {
  const auto& view = views_of(shards, kind)[number];
  if (view) return f(view);
  constexpr std::int64_t most = std::int64_t{512} << 10;
  std::vector<std::byte> memory(base::size(std::min(most, view.count()) * base::size_of(view.dtype)));
  for (std::int64_t first = 0; first < view.count(); first += most) {
    const base::View piece(memory.data(), view.dtype, {std::min(most, view.count() - first)});
    shards.read(kind, number, first, piece);
    f(piece);
  }
}

void write_files(const std::string& base_path, const RunState& state, const RankShards& shards,
                 const WriteOptions& options) {
  const auto parameters = parameters_of(state.model);
  const KindTensors of_kinds(state.optimizer, parameters);
  const KindBoxes all_boxes(shards.boxes, elements_of(views_of(shards, Kind::model)), of_kinds);
  require_shards(state, shards, all_boxes);
  RankFile rank_file(base_path, state, parameters, shards.rank, shards.ranks, all_boxes);
  std::map<std::string, Statistics> tensors;
  io::BulkFile file(rank_file.path(), io::BulkFile::Mode::update);
  io::Pace pace(options.bytes_per_second, options.unthrottled);
  for (const auto& kind : kinds_of(state)) {
    auto& payload = rank_file.payload(kind);
    io::BlockWriter out(file, payload.offset, pace);
    std::span<const StoredBox> boxes = all_boxes.of(kind);
    std::int64_t first = 0;
    const auto& views = views_of(shards, kind);
    for (std::size_t v = 0; v < views.size(); ++v)
      for_each_piece(shards, kind, v, [&](const base::ConstView& piece) {
        out.write(piece.data, piece.bytes());
        add_statistics(tensors, kind, of_kinds.of(kind), piece, first, boxes);
        first += piece.count();
      });
    TRAINYARD_ASSERT(boxes.empty(), "a box lies at {}, beyond the {} elements of {}", boxes.front().offset, first,
                     path_of(kind));
    payload.blocks = out.finish();
  }
  rank_file.finish(file, shards.boxes, std::move(tensors));
}

}  // namespace

void write_rank(const std::string& folder, const RunState& state, const RankShards& shards,
                const WriteOptions& options) {
  TRAINYARD_ASSERT(shards.rank >= 0 && shards.rank < shards.ranks, "rank {} of {}", shards.rank, shards.ranks);
  const auto partial = folder + "/" + step_name(state.step) + std::string(base::partial_suffix);
  const auto base_path = partial + "/" + rank_name(shards.rank);
  try {
    base::make_folders(partial);
    write_files(base_path, state, shards, options);
  } catch (...) {
    remove_rank_files(base_path);
    std::error_code ignored;  // other ranks may still write there; rank 0 removes the folder
    if (shards.ranks == 1) std::filesystem::remove(partial, ignored);
    throw;
  }
}

}  // namespace trainyard::checkpoint
