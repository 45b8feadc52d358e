// Damaged manifests and rank files whose checksums are right again: refused, or read to the same bits.
#include "tests/checkpoint/sample.h"
#include "tests/mutation/harness.h"

#include "libtrain/base/checksum.h"
#include "libtrain/io/bulk.h"
#include "libtrain/io/hdf5_file.h"
#include "libtrain/plan/model_json.h"
#include "tools/inspect/report.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <map>

using namespace sample;

namespace {

class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = gpt();
    model.layers = 1, model.hidden = 8, model.heads = 2, model.kv_heads = 2, model.ffn = 16, model.vocabulary = 129, model.context = 8;
    written = state(model, base::DType::bf16, 5);
    written.identity["model"] = plan::model_to_json(model);
    written.identity["model"].erase("name");
    written.identity["seed"] = written.seed;
    save(scratch.path, written, 2);
    folder = scratch.path + "/step-00000005";
    manifest = slurp(folder + "/manifest.json");
    rank_file = slurp(folder + "/rank-00001.h5");
  }

  // The manifest with a right last line.
  static std::string sealed(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '}')) {
      const bool last = text.back() == '}';
      text.pop_back();
      if (last) break;
    }
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text + ",\n \"crc32c_of_the_above\": \"" + checkpoint::hex32(base::crc32c(text.data(), text.size())) + "\"\n}\n";
  }
  std::string unsealed() const { return manifest.substr(0, manifest.rfind(",\n \"crc32c")) + "\n}"; }

  // What a resume and generate use: every element by the names of the model that was saved, and the state that follows from the files.
  std::string difference() {
    checkpoint::Reader reader(folder);
    const auto same = [&](const char* key) { return checkpoint::state_to_json(reader.state())[key] == checkpoint::state_to_json(written)[key]; };
    for (const char* key : {"step", "seed", "dtype"})
      if (!same(key)) return std::string("another ") + key;
    for (const char* key : {"samples_seen", "tokens_seen"})
      if (reader.manifest().files.contains("checkpoint.h5") && !same(key)) return std::string("another ") + key;
    auto model = plan::model_to_json(reader.state().model), saved = plan::model_to_json(written.model);
    model["name"] = saved["name"];
    if (reader.state().identity.contains("model") && model != saved) return "another model";
    const auto units = plan::units(written.model);
    for (auto kind : checkpoint::all_kinds)
      for (std::size_t u = 0; u < units.size(); ++u) {
        const auto layout = plan::layout(units[u], 1);
        std::vector<float> got(static_cast<std::size_t>(layout.piece));
        reader.read_unit_piece(kind, static_cast<int>(u), units[u], layout, 0, layout.piece, got.data());
        for (std::size_t p = 0; p < units[u].parameters.size(); ++p)
          for (std::int64_t i = 0; i < units[u].parameters[p].count(); ++i)
            if (std::bit_cast<std::uint32_t>(got[static_cast<std::size_t>(layout.offsets[p] + i)]) != std::bit_cast<std::uint32_t>(value(kind, units[u].parameters[p].name, i, written.dtype)))
              return fmt::format("another value of {}", units[u].parameters[p].name);
      }
    return "";
  }

  std::string judge() {
    auto wrong = difference();
    trainyard::inspect::report_on(folder, {});
    try {
      trainyard::inspect::report_on(folder, {trainyard::inspect::Verify::everything, {}, {}});
    } catch (const base::InputError&) {
    }
    return wrong;
  }

  Scratch scratch;
  checkpoint::RunState written;
  std::string folder, manifest, rank_file;
};

// Keeps ids of the library from leaking over thousands of cases.
struct Hid {
  hid_t id;
  ~Hid() { if (id >= 0) H5Idec_ref(id); }
};

// One attribute or dataset of a rank file changed by the library itself.
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
  const std::int64_t numbers[] = {0, -1, 1, 2, 5, 6, std::int64_t{1} << 31, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 5, INT64_MAX, INT64_MIN};
  switch (mutation::below(random, 10)) {
    case 0: H5Adelete(file.id, name.c_str()); return name + " removed";
    case 1: H5Arename(file.id, name.c_str(), (name + "x").c_str()); return name + " renamed";
    case 2: case 3: case 4: {
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
    case 8: H5Lmove(file.id, "/optimizer/m", file.id, "/optimizer/x", H5P_DEFAULT, H5P_DEFAULT), H5Lmove(file.id, "/optimizer/v", file.id, "/optimizer/m", H5P_DEFAULT, H5P_DEFAULT),
        H5Lmove(file.id, "/optimizer/x", file.id, "/optimizer/v", H5P_DEFAULT, H5P_DEFAULT); return "m and v exchanged";
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

// Sizes and checksums of the manifest made right for rank-00001.h5 as it is now.
std::string resealed(const std::string& manifest, const std::string& path) {
  auto m = checkpoint::manifest_from_text(manifest, path);
  auto& entry = m.files.at("rank-00001.h5");
  const trainyard::io::BulkFile file(path, trainyard::io::BulkFile::Mode::read);
  std::map<std::int64_t, std::int64_t> payloads;
  for (const auto& [name, p] : entry.payloads) payloads[p.offset] = p.bytes;
  entry.bytes = file.size();
  entry.metadata.clear();
  std::int64_t at = 0;
  payloads[entry.bytes] = 0;
  for (const auto& [offset, bytes] : payloads) {
    if (offset > at) entry.metadata.push_back({at, offset - at, trainyard::io::crc32c_of(file, at, offset - at)});
    at = offset + bytes;
  }
  entry.crc = trainyard::io::crc32c_of(file, 0, entry.bytes);
  return checkpoint::manifest_text(m);
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
                   spit(folder + "/manifest.json", resealed(manifest, folder + "/rank-00001.h5"));
                   return judge();
                 }});
}

// Bytes of what only the HDF5 library understands.
TEST_F(Checkpoint, MetadataOfRankFiles) {
  const auto m = checkpoint::manifest_from_text(manifest, "manifest.json");
  std::vector<std::size_t> places;   // most of it is nothing but zeros, up to the next page
  for (const auto& range : m.files.at("rank-00001.h5").metadata)
    for (auto at = range.offset; at < range.offset + range.bytes; ++at)
      if (rank_file[static_cast<std::size_t>(at)] != 0) places.push_back(static_cast<std::size_t>(at));
  ASSERT_GT(places.size(), 200u);
  mutation::run({"rank file metadata",
                 [&](mutation::Random& random) {
                   const auto at = places[mutation::below(random, places.size())];
                   auto bytes = rank_file;
                   bytes[at] = static_cast<char>(mutation::below(random, 2) == 0 ? bytes[at] ^ (1 << mutation::below(random, 8)) : static_cast<int>(random() % 256));
                   return mutation::Mutation{bytes, fmt::format("byte {} is {}", at, static_cast<int>(bytes[at]))};
                 },
                 [&](const std::string& content) {
                   spit(folder + "/rank-00001.h5", content);
                   spit(folder + "/manifest.json", resealed(manifest, folder + "/rank-00001.h5"));
                   return judge();
                 }});
}

TEST_F(Checkpoint, TheUndamagedOnePasses) {
  spit(folder + "/manifest.json", sealed(unsealed()));
  EXPECT_EQ(slurp(folder + "/manifest.json"), manifest);
  EXPECT_EQ(judge(), "");
  EXPECT_EQ(resealed(manifest, folder + "/rank-00001.h5"), manifest);
}

// A layout of another version is believed when the fingerprints of all tensors agree, and only then.
TEST_F(Checkpoint, AnotherLayoutIsVerified) {
  auto j = nlohmann::json::parse(unsealed());
  auto& parameters = j["units"][3]["parameters"];
  ASSERT_EQ(parameters[1]["name"], "head.norm.bias");
  parameters[1]["offset"] = parameters[1]["offset"].get<std::int64_t>() + 8;   // padding
  spit(folder + "/manifest.json", sealed(j.dump(1)));
  try {
    checkpoint::Reader reader(folder);
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("fingerprint"), std::string::npos) << e.what();
  }
}
