// The tile lists that the layers of a rank's part of a model need, and their memory.
#pragma once

#include "libtrain/plan/inventory.h"

#include <cstdint>
#include <map>

namespace trainyard::plan {

// Of each layer with blocks the first layer of the part that has the same ones: layers that draw have their own.
std::map<std::int64_t, std::int64_t> list_of_layer(const ModelPart& part);

// Room for one list: 4 (heads tiles + 1) + (4 + 2) entries bytes, each array from a multiple of 64 on. A block of 64 or
// 128 is 1 or 4 entries; a smaller one has room for one of its own, whether or not it shares a tile with others, so
// that the room does not depend on what is drawn.
struct ListRoom {
  std::int64_t begins = 0, entries = 0;
  std::int64_t bytes() const;
};
ListRoom list_room(const ModelConfig& of_layer, std::int64_t sequence);

// Of all lists of the part, by queries and by keys; 0 where no layer has blocks. They lie at the bottom of the
// workspace (model::AttentionLists).
std::int64_t attention_list_bytes(const ModelPart& part, std::int64_t sequence);

}  // namespace trainyard::plan
