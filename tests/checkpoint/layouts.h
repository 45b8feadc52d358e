// Saves the sample run on any layout, and edits what a checkpoint records, with right checksums.
#pragma once

#include "tests/checkpoint/sample.h"

#include "libtrain/base/checksum.h"
#include "libtrain/checkpoint/joined_index.h"
#include "libtrain/checkpoint/manifest_text.h"
#include "libtrain/checkpoint/rank_index.h"
#include "libtrain/io/bulk.h"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace sample {

// A rank that holds these boxes. The elements between boxes are padding.
struct LayoutRank {
  std::vector<std::vector<float>> memory;
  std::vector<std::vector<char>> narrow;
  checkpoint::RankShards shards;

  LayoutRank(const checkpoint::RunState& s, int rank, int ranks, const checkpoint::RankBoxes& boxes) {
    shards.rank = rank;
    shards.ranks = ranks;
    shards.boxes = boxes;
    const auto parameters = checkpoint::parameters_of(s.model);
    const auto elements = boxes.empty() ? 0 : boxes.back().end() + 3;
    for (auto kind : checkpoint::kinds_of(s)) {
      if (is_factored(s.optimizer, kind)) {
        auto& values = memory.emplace_back();
        for (const auto& stored : boxes) {
          if (stored.box.start != checkpoint::Dims{}) continue;
          const auto& p = parameters[static_cast<std::size_t>(stored.tensor)];
          const auto whole = values_of(s, kind, p.name, p.shape);
          values.insert(values.end(), whole.begin(), whole.end());
        }
        shards.views[kind].push_back(base::View::of(values.data(), {std::ssize(values)}));
        continue;
      }
      auto& values = memory.emplace_back(static_cast<std::size_t>(elements), 0.0f);
      for (const auto& stored : boxes) {
        const auto& p = parameters[static_cast<std::size_t>(stored.tensor)];
        const ValuesOf value(kind, p.name, s.dtype);
        checkpoint::for_each_run(p.shape, stored, stored.box, [&](const checkpoint::Run& run) {
          for (std::int64_t i = 0; i < run.count; ++i)
            values[static_cast<std::size_t>(run.at + i)] = value(run.element + i);
        });
      }
      auto view = base::View::of(values.data(), {elements});
      if (const auto dtype = checkpoint::dtype_of(kind, s); base::is_narrow(dtype)) {
        auto& stored = narrow.emplace_back(values.size() * static_cast<std::size_t>(base::size_of(dtype)));
        base::from_f32(dtype, values.data(), std::ssize(values), stored.data());
        view = base::View(stored.data(), dtype, {elements});
      }
      shards.views[kind].push_back(view);
    }
  }
};

inline void save_layout(const std::string& folder, const checkpoint::RunState& s,
                        const std::vector<checkpoint::RankBoxes>& layout, const plan::Topology& grid) {
  for (int r = 0; r < grid.world(); ++r)
    checkpoint::write_rank(folder, s, LayoutRank(s, r, grid.world(), layout[static_cast<std::size_t>(r)]).shards, {});
  checkpoint::publish(folder, s, grid, 3);
}

// The boxes of a grid of ranks. Rank d * tensor + t has part t of every tensor, and of that part the rows of part d.
// Part t is a part of the columns where the product sums over ranks (attention output, feed-forward down), else of the
// rows.
inline std::vector<checkpoint::RankBoxes> grid_layout(const plan::ModelConfig& model, int data, int tensor) {
  std::vector<checkpoint::RankBoxes> layout(static_cast<std::size_t>(data * tensor));
  const auto parameters = checkpoint::parameters_of(model);
  const auto narrow = [](checkpoint::Box& box, std::size_t dim, int part, int parts) {
    const auto first = box.count[dim] * part / parts, end = box.count[dim] * (part + 1) / parts;
    box.start[dim] += first;
    box.count[dim] = end - first;
  };
  for (int r = 0; r < data * tensor; ++r)
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& p = parameters[i];
      auto box = checkpoint::whole_of(p.shape);
      const bool columns = p.name.ends_with("output.weight") || p.name.ends_with("down.weight");
      narrow(box, columns ? 1 : 0, r % tensor, tensor);
      narrow(box, 0, r / tensor, data);
      auto& of_rank = layout[static_cast<std::size_t>(r)];
      if (box.elements() > 0)
        of_rank.push_back({static_cast<std::int32_t>(i), of_rank.empty() ? 0 : of_rank.back().end(), box});
    }
  return layout;
}

// Why the checkpoint is refused; "" when it is read.
inline std::string refusal_of(const std::string& folder) {
  try {
    checkpoint::Reader{folder};
    return "";
  } catch (const base::InputError& e) {
    return e.what();
  }
}

// Edits a sealed JSON file and seals it again.
inline void edit_sealed(const std::string& path, const std::function<void(nlohmann::json&)>& edit) {
  auto j = nlohmann::json::parse(slurp(path));
  j.erase("crc32c_of_the_above");
  edit(j);
  auto text = j.dump(1);
  text.resize(text.size() - 2);
  text += ",\n \"crc32c_of_the_above\": \"" + checkpoint::hex32(base::crc32c(text.data(), text.size())) + "\"\n}\n";
  spit(path, text);
}

inline void edit_manifest(const std::string& folder, const std::function<void(nlohmann::json&)>& edit) {
  edit_sealed(folder + "/manifest.json", edit);
}

// Writes the present size and checksum of a file into the manifest.
inline void reseal(const std::string& folder, const std::string& name) {
  const auto bytes = slurp(folder + "/" + name);
  edit_manifest(folder, [&](nlohmann::json& j) {
    j["files"][name] = {{"bytes", bytes.size()},
                        {"crc32c", checkpoint::hex32(base::crc32c(bytes.data(), bytes.size()))}};
  });
}

inline void replace_joined_index(const std::string& folder, const std::string& bytes) {
  spit(folder + "/" + checkpoint::joined_index_name, bytes);
  reseal(folder, checkpoint::joined_index_name);
}

inline checkpoint::Manifest bare_manifest(const std::string& folder) {
  return checkpoint::manifest_from_text(slurp(folder + "/manifest.json"), folder);
}

// The index of each rank, as the rank wrote it.
inline std::vector<std::string> sections(const std::string& folder) {
  const auto m = bare_manifest(folder);
  const auto bytes = slurp(folder + "/" + checkpoint::joined_index_name);
  const auto found = checkpoint::sections_of(bytes, m.state.step, m.ranks, folder);
  return {found.begin(), found.end()};
}

inline void replace_index(const std::string& folder, int rank, const std::string& bytes) {
  auto all = sections(folder);
  all[static_cast<std::size_t>(rank)] = bytes;
  replace_joined_index(folder, checkpoint::joined_index_bytes(bare_manifest(folder).state.step, all));
}

inline checkpoint::RankIndex index_of(const std::string& folder, int rank) {
  return checkpoint::index_from_bytes(sections(folder)[static_cast<std::size_t>(rank)],
                                      bare_manifest(folder).parameters, folder);
}

// The bytes of an index that may contain what no writer writes.
inline std::string lying_bytes(const checkpoint::RankIndex& index, std::vector<checkpoint::ParameterEntry> parameters) {
  auto needed = parameters.size();
  for (const auto& stored : index.boxes) needed = std::max(needed, static_cast<std::size_t>(stored.tensor) + 1);
  parameters.resize(needed, {"", {1}, 1, {}});
  return checkpoint::index_bytes(index, parameters);
}

inline void edit_index(const std::string& folder, int rank, const std::function<void(checkpoint::RankIndex&)>& edit) {
  auto index = index_of(folder, rank);
  edit(index);
  replace_index(folder, rank, lying_bytes(index, bare_manifest(folder).parameters));
}

// Changes one byte of a payload of rank 1, and every checksum with it.
inline void change_payload(const std::string& folder, checkpoint::Kind kind, std::int64_t at) {
  const auto path = folder + "/rank-00001.h5";
  const auto payload = checkpoint::Reader(folder).manifest().files.at("rank-00001.h5").payloads.at(path_of(kind));
  auto bytes = slurp(path);
  bytes[static_cast<std::size_t>(payload.offset + at)] ^= 4;
  spit(path, bytes);
  edit_index(folder, 1, [&](checkpoint::RankIndex& index) {
    auto& entry = index.file.payloads.at(path_of(kind));
    const auto block = at / trainyard::io::block_bytes, first = block * trainyard::io::block_bytes;
    entry.blocks[static_cast<std::size_t>(block)] =
        base::crc32c(bytes.data() + payload.offset + first,
                     static_cast<std::size_t>(std::min(trainyard::io::block_bytes, payload.bytes - first)));
  });
  reseal(folder, "rank-00001.h5");
}

}  // namespace sample
