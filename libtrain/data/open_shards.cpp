// A ring of the shards whose files are open.
#include "libtrain/data/open_shards.h"

#include "libtrain/base/index.h"

namespace trainyard::data {

OpenShards::OpenShards(const std::string& folder, const SetIndex& index, const std::vector<ShardEntry>& split, int open,
                       const Kept& kept)
    : open_(base::size(open), -1) {
  shards_.reserve(split.size());
  for (const auto& entry : split) {
    shards_.emplace_back(folder, index, entry);
    if (!kept.field.empty()) shards_.back().keep_only(kept.field, kept.value);
    make_room(shards_.size() - 1);
  }
}

ShardReader& OpenShards::to_read(std::size_t shard) {
  if (!shards_[shard].is_open()) make_room(shard);
  return shards_[shard];
}

// Call it when a closed shard has been opened, or is about to be.
void OpenShards::make_room(std::size_t opened) {
  auto& place = open_[next_open_];
  if (place >= 0 && base::size(place) != opened) base::at(shards_, place).rest();
  place = static_cast<std::int64_t>(opened);
  next_open_ = (next_open_ + 1) % open_.size();
}

}  // namespace trainyard::data
