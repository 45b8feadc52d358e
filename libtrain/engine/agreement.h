// Agreement: rank 0 does what only one rank should do, and all ranks learn the result or the error.
#pragma once

#include "libtrain/engine/world.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace trainyard::engine {

// Runs `work` on rank 0 and hands its text to every rank. If it throws a base::Error, every rank throws the same error. Collective.
std::string on_rank_zero(World& world, tensor::Exec& exec, const std::function<std::string()>& work);

// Every rank runs `work`; if any throws, all throw: the error of the lowest failing rank, with its number. Collective.
void on_every_rank(World& world, tensor::Exec& exec, const std::function<void()>& work);

}  // namespace trainyard::engine
