// Cases of tests/golden/denoising.py: sequences and what a second implementation makes of them.
#pragma once

#include "libtrain/base/decimal.h"
#include "libtrain/data/keyed_draws.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

namespace denoising_golden {

using nlohmann::json;
using Tokens = std::vector<std::int32_t>;

inline json all() {
  std::ifstream file(GOLDEN_DENOISING);
  return json::parse(file);
}

inline trainyard::base::Fraction fraction(const std::string& text) { return trainyard::base::decimal_of(text).value(); }

inline trainyard::data::SampleKey key_of(const json& c) {
  return {c.at("seed").get<std::uint64_t>(), c.at("sample").get<std::uint64_t>(), c.at("evaluation").get<bool>()};
}

}  // namespace denoising_golden
