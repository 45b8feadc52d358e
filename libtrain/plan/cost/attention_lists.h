// The tile lists that the layers of a rank's part of a model need, and the memory of these lists.
#pragma once

#include "libtrain/plan/blocks/inventory.h"

#include <cstdint>
#include <map>

namespace trainyard::plan {

// For each sparse layer, the first layer of the part that has the same blocks. Layers that draw random blocks have
// lists of their own.
std::map<std::int64_t, std::int64_t> list_of_layer(const ModelPart& part);

// Room for one list: 4 (heads tiles + 1) + (4 + 2) entries bytes. Each array starts at a multiple of 64 bytes. A block
// of 64 or 128 takes 1 or 4 entries. A smaller block has room for an entry of its own, even if it shares a tile with
// other blocks. So the room does not depend on the random draws.
struct ListRoom {
  std::int64_t begins = 0, entries = 0;
  std::int64_t bytes() const;
};
ListRoom list_room(const ModelConfig& of_layer, std::int64_t sequence);

// Bytes of all lists of the part, by queries and by keys; 0 if no layer is sparse. The lists lie at the bottom of the
// workspace (model::AttentionLists).
std::int64_t attention_list_bytes(const ModelPart& part, std::int64_t sequence);

}  // namespace trainyard::plan
