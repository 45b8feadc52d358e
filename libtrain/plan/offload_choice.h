// What --offload auto takes: the least that lies elsewhere so that a rank fits its memory.
#pragma once

#include "libtrain/plan/plan.h"

#include <cstdint>
#include <string>

namespace trainyard::plan {

// The first of these whose ranks need at most `bytes`: nothing; more and more of the optimizer's states, by twentieths;
// then of the gradients; then of the weights; then of the activations. A kind is left out where it is refused, such as
// weights without ZeRO 3. So what moves least for the memory that it frees goes first. With `bytes` 0 nothing. If none
// of them fits, the one that needs least. They lie on disk, and of a GPU on its host. If that has more than
// `host_bytes` then, the states of the optimizer lie on disk instead, and if that is not enough, everything; 0: its
// host has no limit. Reads no prediction, and nothing of plan.offload.
Offload fitting_offload(const Plan& plan, std::int64_t bytes, std::int64_t host_bytes = 0);

// Bytes of memory that a rank of the stage that needs most has with the offload. Reads no prediction.
std::int64_t memory_with(Plan plan, const Offload& offload);

// "optimizer=disk:0.35 on 2 ranks: 5.80 GB a rank of the 6.00 GB that it may use (none would need 9.10 GB)".
std::string offload_choice_text(const Plan& plan, const Offload& chosen, std::int64_t bytes);

}  // namespace trainyard::plan
