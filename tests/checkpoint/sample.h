// A small run to be saved: models, values that are a function of (kind, name, index) alone, and the pieces of every
// rank.
#pragma once

#include "tests/scratch.h"

#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/rank_writer.h"
#include "libtrain/checkpoint/reader.h"

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace sample {

namespace fs = std::filesystem;
namespace checkpoint = trainyard::checkpoint;
namespace base = trainyard::base;
namespace plan = trainyard::plan;

using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

inline plan::ModelConfig gpt() {
  plan::ModelConfig m;
  m.name = "sample-gpt";
  m.layers = 2, m.hidden = 24, m.heads = 3, m.kv_heads = 3, m.ffn = 40, m.vocabulary = 131, m.context = 17;
  return m;
}

// About 13 million parameters: 52 MB in f32 for each of model, m and v.
inline plan::ModelConfig large() {
  auto m = gpt();
  m.layers = 4, m.hidden = 512, m.heads = 8, m.kv_heads = 8, m.ffn = 2048, m.vocabulary = 512, m.context = 64;
  return m;
}
inline plan::ModelConfig llama() {
  auto m = gpt();
  m.name = "sample-llama";
  m.kv_heads = 1, m.norm = plan::Norm::rms, m.positions = plan::Positions::rotary,
  m.activation = plan::Activation::swiglu;
  m.biases = false, m.tied = false;
  return m;
}

// Any bits but NaN; a bf16 model value is exactly representable.
inline float value(checkpoint::Kind kind, const std::string& name, std::int64_t index, base::DType working) {
  std::uint64_t h = 1469598103934665603ull + static_cast<std::uint64_t>(kind);
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  h = (h ^ static_cast<std::uint64_t>(index)) * 0x9E3779B97F4A7C15ull;
  h ^= h >> 29;
  h *= 0xBF58476D1CE4E5B9ull;
  const auto x = static_cast<float>(static_cast<double>(h >> 11) * 0x1p-53 - 0.5);
  const bool narrow = kind == checkpoint::Kind::model && working == base::DType::bf16;
  return narrow ? static_cast<float>(base::bf16(x)) : x;
}

inline checkpoint::RunState state(const plan::ModelConfig& model, base::DType dtype, std::int64_t step) {
  checkpoint::RunState s;
  s.step = step;
  s.samples_seen = step * 8;
  s.tokens_seen = step * 8 * 16;
  s.seed = 0xfedcba9876543210ull;
  s.dtype = dtype;
  s.model = model;
  s.identity = {{"sequence", 16}, {"global_batch", 8}, {"learning_rate", 0.001}};
  s.plan = {{"zero", 1}};
  s.versions = {{"trainyard", "0.1.0"}};
  s.provenance = {{"command", "train --model sample"}};
  s.isa = "baseline";
  return s;
}

// One rank's pieces, with memory of their own.
struct Rank {
  std::vector<std::vector<char>> memory;
  checkpoint::RankPieces pieces;

  Rank(const checkpoint::RunState& s, int rank, int ranks) {
    pieces.rank = rank;
    pieces.ranks = ranks;
    const auto units = plan::units(s.model);
    for (auto kind : checkpoint::kinds_of(s.dtype))
      for (const auto& unit : units) list_of(kind).push_back(piece(s, kind, unit, rank, ranks));
    pieces.boxes = checkpoint::boxes_of_pieces(s.model, rank, ranks);
  }
  std::vector<base::View>& list_of(checkpoint::Kind kind) {
    switch (kind) {
      case checkpoint::Kind::model: return pieces.model;
      case checkpoint::Kind::master: return pieces.master;
      case checkpoint::Kind::m: return pieces.m;
      default: return pieces.v;
    }
  }
  base::View piece(const checkpoint::RunState& s, checkpoint::Kind kind, const plan::Unit& unit, int rank, int ranks) {
    const auto layout = plan::layout(unit, ranks);
    std::vector<float> whole(static_cast<std::size_t>(layout.padded), 0.0f);
    for (std::size_t p = 0; p < unit.parameters.size(); ++p)
      for (std::int64_t i = 0; i < unit.parameters[p].count(); ++i)
        whole[static_cast<std::size_t>(layout.offsets[p] + i)] = value(kind, unit.parameters[p].name, i, s.dtype);
    const bool narrow = kind == checkpoint::Kind::model && s.dtype == base::DType::bf16;
    memory.emplace_back(static_cast<std::size_t>(layout.piece) * (narrow ? 2 : 4));
    for (std::int64_t i = 0; i < layout.piece; ++i) {
      const float x = whole[static_cast<std::size_t>(rank * layout.piece + i)];
      if (narrow) reinterpret_cast<base::bf16*>(memory.back().data())[i] = base::bf16(x);
      else reinterpret_cast<float*>(memory.back().data())[i] = x;
    }
    return base::View(memory.back().data(), narrow ? base::DType::bf16 : base::DType::f32, {layout.piece});
  }
};

inline void save(const std::string& folder, const checkpoint::RunState& s, int ranks, int keep = 3) {
  for (int r = 0; r < ranks; ++r) checkpoint::write_rank(folder, s, Rank(s, r, ranks).pieces, {});
  checkpoint::publish(folder, s, plan::Topology({{plan::Axis::data, ranks}}), keep);
}

// The number of elements that differ from what was saved, read as `ranks` ranks read.
inline std::int64_t differences(checkpoint::Reader& reader, int ranks) {
  const auto& s = reader.state();
  const auto units = plan::units(s.model);
  std::int64_t wrong = 0;
  for (auto kind : checkpoint::all_kinds)
    for (int r = 0; r < ranks; ++r)
      for (std::size_t u = 0; u < units.size(); ++u) {
        const auto layout = plan::layout(units[u], ranks);
        std::vector<float> got(static_cast<std::size_t>(layout.piece), -7.0f),
            expected(static_cast<std::size_t>(layout.padded), 0.0f);
        reader.read_unit_piece(kind, static_cast<int>(u), units[u], layout, r * layout.piece, layout.piece, got.data());
        const auto source =
            kind == checkpoint::Kind::master && s.dtype == base::DType::f32 ? checkpoint::Kind::model : kind;
        for (std::size_t p = 0; p < units[u].parameters.size(); ++p)
          for (std::int64_t i = 0; i < units[u].parameters[p].count(); ++i)
            expected[static_cast<std::size_t>(layout.offsets[p] + i)] =
                value(source, units[u].parameters[p].name, i, s.dtype);
        for (std::int64_t i = 0; i < layout.piece; ++i)
          wrong += std::bit_cast<std::uint32_t>(got[static_cast<std::size_t>(i)]) !=
                   std::bit_cast<std::uint32_t>(expected[static_cast<std::size_t>(r * layout.piece + i)]);
      }
  return wrong;
}

}  // namespace sample
