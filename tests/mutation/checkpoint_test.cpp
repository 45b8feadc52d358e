// Damaged manifests and rank files whose checksums were made right again: refused, or read to the same bits.
#include "tests/checkpoint/reshard_files.h"
#include "tests/mutation/harness.h"

#include "libtrain/base/checksum.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_file.h"
#include "libtrain/plan/model_file/model_json.h"
#include "tools/inspect/report.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <map>

using namespace sample;

namespace {

class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override { make(1, plan::replicas_of(2, 1)); }
  void make(std::int64_t lanes, const plan::Topology& ranks, const checkpoint::StoredOptimizer& optimizer = {}) {
    auto model = gpt();
    model.layers = 1, model.hidden = 8, model.heads = 2, model.kv_heads = 2, model.ffn = 16, model.vocabulary = 129,
    model.context = 8, model.lanes = lanes;
    written = state(model, base::DType::bf16, 5);
    written.optimizer = optimizer;
    written.identity["model"] = plan::model_to_json(model);
    written.identity["model"].erase("name");
    written.identity["seed"] = written.seed;
    save(scratch.path, written, ranks);
    folder = scratch.path + "/step-00000005";
    manifest = slurp(folder + "/manifest.json");
    rank_file = slurp(folder + "/rank-00001.h5");
  }

  // The manifest with a right last line (its checksum).
  static std::string sealed(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '}')) {
      const bool last = text.back() == '}';
      text.pop_back();
      if (last) break;
    }
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text + ",\n \"crc32c_of_the_above\": \"" + checkpoint::hex32(base::crc32c(text.data(), text.size())) +
           "\"\n}\n";
  }
  std::string unsealed() const { return manifest.substr(0, manifest.rfind(",\n \"crc32c")) + "\n}"; }

  // What a resume and generate use: every element by its name in the saved model, and the state that follows from the
  // files.
  std::string difference() { return difference(folder); }
  std::string difference(const std::string& path) {
    checkpoint::Reader reader(path);
    const auto same = [&](const char* key) {
      return checkpoint::state_to_json(reader.state())[key] == checkpoint::state_to_json(written)[key];
    };
    for (const char* key : {"step", "dtype"})
      if (!same(key)) return std::string("another ") + key;
    // Version 1 has these numbers in the manifest alone.
    if (!version_1 && !same("seed")) return "another seed";
    for (const char* key : {"samples_seen", "tokens_seen"})
      if (!version_1 && reader.manifest().files.contains("checkpoint.h5") && !same(key))
        return std::string("another ") + key;
    auto model = plan::model_to_json(reader.state().model), saved = plan::model_to_json(written.model);
    model["name"] = saved["name"];
    if (reader.state().identity.contains("model") && model != saved) return "another model";
    const auto flat_groups = plan::flat_groups(written.model);
    for (auto kind : checkpoint::kinds_of(written))
      for (std::size_t u = 0; u < flat_groups.size(); ++u) {
        if (is_factored(written.optimizer, kind)) {
          for (const auto& p : flat_groups[u].parameters)
            if (reader.read_tensor(kind, p) != values_of(written, kind, p.name, p.shape))
              return fmt::format("another value of {}", checkpoint::path_of(kind, p.name));
          continue;
        }
        const auto layout = plan::layout(flat_groups[u], 1);
        std::vector<float> got(static_cast<std::size_t>(layout.shard));
        reader.read_shard(kind, flat_groups[u], plan::Topology(), 0, got.data());
        for (std::size_t p = 0; p < flat_groups[u].parameters.size(); ++p) {
          const ValuesOf value(kind, flat_groups[u].parameters[p].name, written.dtype);
          for (std::int64_t i = 0; i < flat_groups[u].parameters[p].count(); ++i)
            if (std::bit_cast<std::uint32_t>(got[static_cast<std::size_t>(layout.offsets[p] + i)]) !=
                std::bit_cast<std::uint32_t>(value(i)))
              return fmt::format("another value of {}", flat_groups[u].parameters[p].name);
        }
      }
    return "";
  }

  std::string judge() {
    auto wrong = difference();
    trainyard::inspect::report_on(folder, {});
    try {
      trainyard::inspect::report_on(folder, {trainyard::inspect::Verify::everything, {}, {}, {}, {}, {}});
    } catch (const base::InputError&) {}
    return wrong;
  }

  Scratch scratch;
  checkpoint::RunState written;
  std::string folder, manifest, rank_file;
  bool version_1 = false;  // the folder is a golden one of that version
};

// Two replicas of two tensor-parallel ranks, with two lanes, and states of rows and columns.
class CheckpointOfTensorRanks : public Checkpoint {
 protected:
  void SetUp() override { make(2, plan::replicas_of(4, 2), factored()); }
};

// Releases ids of the HDF5 library, which would add up over thousands of cases.
struct Hid {
  hid_t id;
  ~Hid() {
    if (id >= 0) H5Idec_ref(id);
  }
};

// Changes one attribute or dataset of a rank file with the library itself.
std::string change(const std::string& path, mutation::Random& random) {
  const Hid file{H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)};
  static const std::vector<std::string> names = {"format", "step", "rank", "ranks"};
  const auto name = names[mutation::below(random, names.size())];
  const auto remake = [&](hid_t type, hid_t space, const void* value) {
    H5Adelete(file.id, name.c_str());
    const Hid attribute{H5Acreate2(file.id, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT)};
    if (value) H5Awrite(attribute.id, type, value);
  };
  const Hid scalar{H5Screate(H5S_SCALAR)}, empty{H5Screate(H5S_NULL)};
  const std::int64_t numbers[] = {
      0,         -1,       1, 2, 5, 6, std::int64_t{1} << 31, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 5,
      INT64_MAX, INT64_MIN};
  switch (mutation::below(random, 10)) {
    case 0: H5Adelete(file.id, name.c_str()); return name + " removed";
    case 1: H5Arename(file.id, name.c_str(), (name + "x").c_str()); return name + " renamed";
    case 2:
    case 3:
    case 4: {
      const auto number = numbers[mutation::below(random, std::size(numbers))];
      remake(H5T_STD_I64LE, scalar.id, &number);
      return fmt::format("{} is {}", name, number);
    }
    case 5: {
      const double real = 5.5;
      remake(H5T_IEEE_F64LE, scalar.id, &real);
      return name + " is a real number";
    }
    case 6: {
      const Hid type{H5Tcopy(H5T_C_S1)};
      const auto size = std::size_t{1} << mutation::below(random, 15);
      H5Tset_size(type.id, size);
      remake(type.id, scalar.id, std::string(size, 'x').c_str());
      return fmt::format("{} is a text of {} bytes", name, size);
    }
    case 7: {
      const hsize_t dims[] = {3};
      const std::int64_t values[] = {5, 5, 5};
      const Hid space{mutation::below(random, 2) == 0 ? H5Screate_simple(1, dims, nullptr) : H5Scopy(empty.id)};
      remake(H5T_STD_I64LE, space.id, values);
      return name + " is a list";
    }
    case 8:
      H5Lmove(file.id, "/optimizer/m", file.id, "/optimizer/x", H5P_DEFAULT, H5P_DEFAULT),
          H5Lmove(file.id, "/optimizer/v", file.id, "/optimizer/m", H5P_DEFAULT, H5P_DEFAULT),
          H5Lmove(file.id, "/optimizer/x", file.id, "/optimizer/v", H5P_DEFAULT, H5P_DEFAULT);
      return "m and v exchanged";
    default: {
      const auto note = std::string("a note");
      const Hid type{H5Tcopy(H5T_C_S1)};
      H5Tset_size(type.id, note.size());
      const Hid attribute{H5Acreate2(file.id, "note", type.id, scalar.id, H5P_DEFAULT, H5P_DEFAULT)};
      H5Awrite(attribute.id, type.id, note.c_str());
      return "another attribute";
    }
  }
}

// Makes sizes and checksums in the index and the manifest right for the present rank-00001.h5.
void reseal_rank_file(const std::string& folder) {
  const auto path = folder + "/rank-00001.h5";
  const trainyard::io::BulkFile file(path, trainyard::io::BulkFile::Mode::read);
  edit_index(folder, 1, [&](checkpoint::RankIndex& index) {
    std::map<std::int64_t, std::int64_t> payloads;
    for (const auto& [name, p] : index.file.payloads) payloads[p.offset] = p.bytes;
    index.file.metadata.clear();
    std::int64_t at = 0;
    payloads[file.size()] = 0;
    for (const auto& [offset, bytes] : payloads) {
      if (offset > at)
        index.file.metadata.push_back({at, offset - at, trainyard::io::crc32c_of(file, at, offset - at)});
      at = offset + bytes;
    }
  });
  reseal(folder, "rank-00001.h5");
}

// Changes one number of an index, mostly to a boundary; or loses, doubles or exchanges a record.
std::string change(checkpoint::RankIndex& index, mutation::Random& random) {
  const auto number = [&](std::int64_t near) {
    const std::int64_t numbers[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    127,
                                    128,
                                    near - 1,
                                    near + 1,
                                    near + 8,
                                    near * 2,
                                    std::int64_t{1} << 31,
                                    std::int64_t{1} << 32,
                                    std::int64_t{1} << 56,
                                    std::int64_t{1} << 57};
    return std::max<std::int64_t>(0, numbers[mutation::below(random, std::size(numbers))]);
  };
  auto& box = index.boxes[mutation::below(random, index.boxes.size())];
  auto& other = index.boxes[mutation::below(random, index.boxes.size())];
  auto payload = std::next(index.file.payloads.begin(),
                           static_cast<std::ptrdiff_t>(mutation::below(random, index.file.payloads.size())));
  auto& range = index.file.metadata[mutation::below(random, index.file.metadata.size())];
  const auto dim = mutation::below(random, 2);
  switch (mutation::below(random, 16)) {
    case 0:
      box.tensor = static_cast<std::int32_t>(number(box.tensor) & 0xfff);
      return fmt::format("a box of tensor {}", box.tensor);
    case 1:
      box.box.start[dim] = number(box.box.start[dim]);
      return fmt::format("start[{}] is {}", dim, box.box.start[dim]);
    case 2:
      box.box.count[dim] = std::min(number(box.box.count[dim]), std::int64_t{1} << 50);  // the writer multiplies them
      return fmt::format("count[{}] is {}", dim, box.box.count[dim]);
    case 3: box.offset = number(box.offset); return fmt::format("offset is {}", box.offset);
    case 4: std::swap(box, other); return "two boxes exchanged";
    case 5: std::swap(box.tensor, other.tensor); return "the tensors of two boxes exchanged";
    case 6: std::swap(box.offset, other.offset); return "the offsets of two boxes exchanged";
    case 7: index.boxes.erase(index.boxes.begin() + (&box - index.boxes.data())); return "a box removed";
    case 8: index.boxes.push_back(box); return "a box doubled";
    case 9: index.step = number(index.step); return fmt::format("step is {}", index.step);
    case 10: index.rank = static_cast<int>(number(index.rank)); return fmt::format("rank is {}", index.rank);
    case 11: index.ranks = static_cast<int>(number(index.ranks)); return fmt::format("ranks is {}", index.ranks);
    case 12:
      payload->second.offset = number(payload->second.offset);
      return fmt::format("{} begins at {}", payload->first, payload->second.offset);
    case 13:
      payload->second.bytes = number(payload->second.bytes);
      return fmt::format("{} has {} bytes", payload->first, payload->second.bytes);
    case 14: range.bytes = number(range.bytes); return fmt::format("a range of {} bytes", range.bytes);
    default: {
      const auto all = std::vector<checkpoint::PayloadEntry>{payload->second};
      index.file.payloads.erase(payload);
      index.file.payloads[mutation::below(random, 2) == 0 ? "/optimizer/x" : "/model"] = all.front();
      return "a dataset renamed";
    }
  }
}

// Changes a number in the header or the table of ranks.index, or the sections that it has.
mutation::Mutation change_table(std::string bytes, std::vector<std::string> parts, std::int64_t step,
                                mutation::Random& random) {
  switch (mutation::below(random, 5)) {
    case 0: std::swap(parts[0], parts[1]); return {checkpoint::joined_index_bytes(step, parts), "sections exchanged"};
    case 1:
      parts[mutation::below(random, 2)] = parts[mutation::below(random, 2)];
      return {checkpoint::joined_index_bytes(step, parts), "a section for both ranks"};
    case 2:
      parts.resize(mutation::below(random, 5));
      return {checkpoint::joined_index_bytes(step, parts), fmt::format("{} sections", parts.size())};
    case 3:
      bytes.resize(mutation::below(random, bytes.size() + 20));
      return {bytes, fmt::format("{} bytes", bytes.size())};
    default: break;
  }
  const std::size_t places[] = {32, 40, 44, 52,
                                60, 64, 72, 80};  // step, ranks, and for each rank begin, size and checksum
  const auto at = places[mutation::below(random, std::size(places))];
  const std::size_t size = at == 40 || at == 60 || at == 80 ? 4 : 8;
  std::uint64_t old = 0;
  std::memcpy(&old, bytes.data() + at, size);
  const std::uint64_t numbers[] = {0,
                                   1,
                                   2,
                                   3,
                                   old - 1,
                                   old + 1,
                                   old + 20,
                                   old * 2,
                                   bytes.size(),
                                   ~old,
                                   std::uint64_t{1} << 31,
                                   std::uint64_t{1} << 32,
                                   std::uint64_t{1} << 56,
                                   ~std::uint64_t{0},
                                   ~std::uint64_t{0} - 43};
  const auto number = numbers[mutation::below(random, std::size(numbers))];
  std::memcpy(bytes.data() + at, &number, size);
  return {bytes, fmt::format("byte {} on is {}", at, number)};
}

}  // namespace

TEST_F(Checkpoint, Manifests) {
  mutation::run({"manifest", [&](mutation::Random& random) { return mutation::mutate_json(unsealed(), random); },
                 [&](const std::string& content) {
                   spit(folder + "/manifest.json", sealed(content));
                   return judge();
                 }});
}

TEST_F(Checkpoint, AttributesOfRankFiles) {
  mutation::run({"rank file attributes",
                 [&](mutation::Random& random) {
                   spit(folder + "/rank-00001.h5", rank_file);
                   const auto what = change(folder + "/rank-00001.h5", random);
                   return mutation::Mutation{slurp(folder + "/rank-00001.h5"), what};
                 },
                 [&](const std::string& content) {
                   spit(folder + "/rank-00001.h5", content);
                   reseal_rank_file(folder);
                   return judge();
                 }});
}

// Changes bytes that only the HDF5 library understands.
TEST_F(Checkpoint, MetadataOfRankFiles) {
  const auto m = checkpoint::Reader(folder).manifest();
  std::vector<std::size_t> places;  // most bytes are zeros, up to the next page
  for (const auto& range : m.files.at("rank-00001.h5").metadata)
    for (auto at = range.offset; at < range.offset + range.bytes; ++at)
      if (rank_file[static_cast<std::size_t>(at)] != 0) places.push_back(static_cast<std::size_t>(at));
  ASSERT_GT(places.size(), 200u);
  mutation::run({"rank file metadata",
                 [&](mutation::Random& random) {
                   const auto at = places[mutation::below(random, places.size())];
                   auto bytes = rank_file;
                   bytes[at] =
                       static_cast<char>(mutation::below(random, 2) == 0 ? bytes[at] ^ (1 << mutation::below(random, 8))
                                                                         : static_cast<int>(random() % 256));
                   return mutation::Mutation{bytes, fmt::format("byte {} is {}", at, static_cast<int>(bytes[at]))};
                 },
                 [&](const std::string& content) {
                   spit(folder + "/rank-00001.h5", content);
                   reseal_rank_file(folder);
                   return judge();
                 }});
}

TEST_F(Checkpoint, TheUndamagedOnePasses) {
  spit(folder + "/manifest.json", sealed(unsealed()));
  EXPECT_EQ(slurp(folder + "/manifest.json"), manifest);
  EXPECT_EQ(judge(), "");
  const auto index = slurp(folder + "/ranks.index");
  reseal_rank_file(folder);
  EXPECT_EQ(slurp(folder + "/ranks.index"), index);
  EXPECT_EQ(slurp(folder + "/manifest.json"), manifest);
}

TEST_F(Checkpoint, Indices) {
  const auto original = index_of(folder, 1);
  const auto parameters = bare_manifest(folder).parameters;
  mutation::run({"index",
                 [&](mutation::Random& random) {
                   auto index = original;
                   auto what = change(index, random);
                   while (mutation::below(random, 3) == 0 && !index.boxes.empty() && !index.file.payloads.empty())
                     what += ", " + change(index, random);
                   return mutation::Mutation{lying_bytes(index, parameters), what};
                 },
                 [&](const std::string& content) {
                   replace_index(folder, 1, content);
                   return judge();
                 }});
}

TEST_F(Checkpoint, BytesOfIndices) {
  const auto original = sections(folder)[1];
  mutation::run({"index bytes", [&](mutation::Random& random) { return mutation::mutate_bytes(original, random); },
                 [&](const std::string& content) {
                   replace_index(folder, 1, content);
                   return judge();
                 }});
}

// The table before the sections has false numbers, or sections are exchanged, lost or doubled. The manifest's checksum
// is right.
TEST_F(Checkpoint, TablesOfIndices) {
  const auto original = slurp(folder + "/ranks.index");
  const auto parts = sections(folder);
  mutation::run({"table of indices",
                 [&](mutation::Random& random) { return change_table(original, parts, written.step, random); },
                 [&](const std::string& content) {
                   replace_joined_index(folder, content);
                   return judge();
                 }});
}

TEST_F(CheckpointOfTensorRanks, Manifests) {
  mutation::run({"manifest of tensor ranks",
                 [&](mutation::Random& random) { return mutation::mutate_json(unsealed(), random); },
                 [&](const std::string& content) {
                   spit(folder + "/manifest.json", sealed(content));
                   return judge();
                 }});
}

// The index of a rank that holds only parts; boxes of another replica and of another tensor-parallel rank lie beside
// its own.
TEST_F(CheckpointOfTensorRanks, Indices) {
  const auto original = index_of(folder, 1);
  const auto parameters = bare_manifest(folder).parameters;
  mutation::run({"index of tensor ranks",
                 [&](mutation::Random& random) {
                   auto index = original;
                   auto what = change(index, random);
                   return mutation::Mutation{lying_bytes(index, parameters), what};
                 },
                 [&](const std::string& content) {
                   replace_index(folder, 1, content);
                   return judge();
                 }});
}

// A reshard keeps the manifest's ranks, where the model can have them. It refuses the manifest, or gives the same bits.
TEST_F(CheckpointOfTensorRanks, WhatAReshardMakesOfTheirManifests) {
  const auto to = scratch.path + "/to";
  mutation::run({"resharded manifest",
                 [&](mutation::Random& random) { return mutation::mutate_json(unsealed(), random); },
                 [&](const std::string& content) {
                   for (const auto& path : {to, to + ".partial"}) fs::remove_all(path);
                   spit(folder + "/manifest.json", sealed(content));
                   reshard(folder, to, {1, {}, {}, {}});
                   return difference(to);
                 }});
}

// The part of the manifest that says which shapes states have.
TEST_F(CheckpointOfTensorRanks, ShapesOfStates) {
  const auto all = nlohmann::json::parse(unsealed());
  const auto optimizer = all["optimizer"].dump(1);
  mutation::run({"shapes of states", [&](mutation::Random& random) { return mutation::mutate_json(optimizer, random); },
                 [&](const std::string& content) {
                   auto text = unsealed();
                   const auto at = text.find("\"optimizer\": {"), end = text.find("\n },", at);
                   text.replace(at, end + 3 - at, "\"optimizer\": " + content);
                   spit(folder + "/manifest.json", sealed(text));
                   return judge();
                 }});
}

// Version 1 is read for ever, also damaged files of it.
TEST_F(Checkpoint, ManifestsOfVersion1) {
  written.identity = state(written.model, written.dtype, 5).identity;
  written.step = 3, written.samples_seen = 3 * 8, written.tokens_seen = 3 * 8 * 16;
  version_1 = true;
  fs::remove_all(folder);
  fs::copy(ROOT "/checkpoints/golden/checkpoint-1-gpt/step-00000003", folder, fs::copy_options::recursive);
  manifest = slurp(folder + "/manifest.json");
  ASSERT_EQ(difference(), "");
  mutation::run({"manifest of version 1",
                 [&](mutation::Random& random) { return mutation::mutate_json(unsealed(), random); },
                 [&](const std::string& content) {
                   spit(folder + "/manifest.json", sealed(content));
                   return judge();
                 }});
}

// A layout that this build would not write is accepted only when the fingerprints of all tensors agree.
TEST_F(Checkpoint, AnotherLayoutIsVerified) {
  edit_index(folder, 1, [](checkpoint::RankIndex& index) { index.boxes.back().offset += 8; });  // padding
  try {
    checkpoint::Reader reader(folder);
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("fingerprint"), std::string::npos) << e.what();
  }
}
