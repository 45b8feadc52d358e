// Imports and exports that must be refused: damage, full disks, other programs' folders, weights that a type cannot
// hold. Also what imports and exports write, piece by piece.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/f16.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/export_model.h"
#include "libtrain/checkpoint/import_model.h"
#include "libtrain/io/safetensors.h"
#include "libtrain/plan/spec/presets.h"
#include "tests/checkpoint/layouts.h"
#include "tests/convert/golden_model.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

using namespace trainyard;
using safetensors_sample::floats, safetensors_sample::Tensor;
using trainyard::testing::import, trainyard::testing::Loaded;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;
namespace fs = std::filesystem;

namespace models_test {

// A checkpoint of a golden model that was changed before.
struct Imported {
  Scratch scratch;
  std::string path = scratch.path + "/checkpoint", out = scratch.path + "/out";
  explicit Imported(const Loaded& model) {
    model.write(scratch.path + "/model");
    import(scratch.path + "/model", path);
  }
  checkpoint::ExportResult write(checkpoint::ExportOptions o = {}) const {
    return checkpoint::export_model(checkpoint::Reader(path), out, o);
  }
};

TEST(Import, RecordsTheTokenizerBesideTheModel) {
  Scratch s;
  Loaded("gpt2").write(s.path + "/model");
  EXPECT_FALSE(import(s.path + "/model", s.path + "/without").manifest.state.provenance.contains("tokenizer"));
  spit(s.path + "/model/tokenizer.json", "123456789");
  const auto state = import(s.path + "/model", s.path + "/with").manifest.state;
  EXPECT_EQ(state.provenance["tokenizer"]["source"], s.path + "/model/tokenizer.json");
  EXPECT_EQ(state.provenance["tokenizer"]["crc32c"], 0xE3069283u);                   // the check value of CRC32C
  fs::resize_file(s.path + "/model/tokenizer.json", (std::uintmax_t{1} << 30) + 1);  // more than is read
  const auto without = import(s.path + "/model", s.path + "/large");
  EXPECT_FALSE(without.manifest.state.provenance.contains("tokenizer"));
  ASSERT_EQ(without.notes.size(), 1u);
  EXPECT_NE(without.notes[0].find("does not name its tokenizer"), std::string::npos) << without.notes[0];
}

TEST(Import, StoppedOrWithoutRoomLeavesNothing) {
  Scratch s;
  Loaded("gpt2").write(s.path + "/model");
  checkpoint::ImportOptions o;
  o.free_bytes = [](const std::string&) { return std::int64_t{1000}; };
  EXPECT_THROW(import(s.path + "/model", s.path + "/to", o), base::EnvironmentError);
  o = {};
  o.watch = [](std::int64_t done, std::int64_t) {
    if (done > 5000) throw std::runtime_error("stopped");
  };
  EXPECT_THROW(import(s.path + "/model", s.path + "/to", o), std::runtime_error);
  EXPECT_FALSE(fs::exists(s.path + "/to") || fs::exists(s.path + "/to.partial"));
  EXPECT_THROW(import(s.path + "/model", s.path + "/model/inside"), base::UsageError);
  import(s.path + "/model", s.path + "/to");
  EXPECT_THROW(import(s.path + "/model", s.path + "/to"), base::UsageError);
}

TEST(Import, Bf16IsTheWeightsRoundedOnce) {
  Loaded m("gpt2");
  auto& t = m.at("transformer.ln_f.weight");
  std::vector<float> values(12, 1.0f);
  values[0] = 1 + 0x1p-8f, values[1] = 1 + 0x1.8p-8f, values[2] = 1 + 0x1.8p-7f, values[3] = -0.1f;
  t.bytes = floats(values);
  Scratch s;
  m.write(s.path + "/model");
  checkpoint::ImportOptions o;
  o.dtype = base::DType::bf16;
  import(s.path + "/model", s.path + "/to", o);
  std::vector<float> found(12);
  checkpoint::Reader(s.path + "/to").read_tensor(checkpoint::Kind::model, "head.norm.weight", 0, 12, found.data());
  EXPECT_EQ(found[0], 1.0f);         // a tie, to even
  EXPECT_EQ(found[1], 1 + 0x1p-7f);  // nearest
  EXPECT_EQ(found[2], 1 + 0x1p-6f);  // a tie, to even
  EXPECT_EQ(found[3], -0x1.9ap-4f);

  // Finite weights stay finite, or are refused. Infinite weights may stay.
  values[0] = std::numeric_limits<float>::max(), values[1] = INFINITY;
  t.bytes = floats(values);
  m.write(s.path + "/model");
  try {
    import(s.path + "/model", s.path + "/beyond", o);
    ADD_FAILURE() << "not refused";
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("transformer.ln_f.weight has 1 weight that bf16 cannot hold"),
              std::string::npos)
        << e.what();
    EXPECT_EQ(e.hint(), "--dtype f32 can");
  }
  EXPECT_FALSE(fs::exists(s.path + "/beyond") || fs::exists(s.path + "/beyond.partial"));
  const Imported wide(m);
  checkpoint::ExportOptions out;
  out.dtype = base::DType::bf16;
  try {
    wide.write(out);
    ADD_FAILURE() << "not refused";
  } catch (const base::InputError& e) {
    EXPECT_EQ(e.hint(), "--dtype f32 can");
  }
}

TEST(Convert, WeightsThatAreNotFiniteAreCounted) {
  Loaded m("gpt2");
  std::vector<float> values(12, 1.0f);
  values[3] = NAN, values[5] = -INFINITY;
  m.at("transformer.ln_f.weight").bytes = floats(values);
  m.at("transformer.h.1.ln_2.bias").bytes = floats(std::vector<float>(12, INFINITY));
  Scratch s;
  m.write(s.path + "/model");
  for (const int threads : {1, 3}) {
    checkpoint::ImportOptions in;
    in.threads = threads, in.existing = base::Existing::replace;
    const auto notes = import(s.path + "/model", s.path + "/checkpoint", in).notes;
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_TRUE(notes[0].starts_with("14 weights are NaN or infinite, the first in transformer.h.1.ln_2.bias"))
        << notes[0];
    checkpoint::ExportOptions out;
    out.threads = threads, out.existing = base::Existing::replace;
    const auto warnings =
        checkpoint::export_model(checkpoint::Reader(s.path + "/checkpoint"), s.path + "/out", out).warnings;
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0], notes[0]);
  }
  EXPECT_TRUE(Imported(Loaded("gpt2")).write().warnings.empty());
}

TEST(Export, F16ThatCannotHoldAWeightIsRefused) {
  Loaded m("gpt2");
  auto values = std::vector<float>(12, 65504.0f);
  m.at("transformer.ln_f.weight").bytes = floats(values);
  checkpoint::ExportOptions o;
  o.dtype = base::DType::f16;
  EXPECT_EQ(Imported(m).write(o).files.size(), 1u);
  values[7] = 65520.0f;
  m.at("transformer.ln_f.weight").bytes = floats(values);
  const Imported beyond(m);
  try {
    beyond.write(o);
    FAIL();
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("head.norm.weight has 1 weight that f16 cannot hold"), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(beyond.out) || fs::exists(beyond.out + ".partial"));
}

TEST(Export, FilesAndIndexAreThoseThatMaxShardAllows) {
  const Imported from(Loaded("llama-2"));
  checkpoint::ExportOptions o;
  o.max_shard = 6000;
  const auto r = from.write(o);
  ASSERT_GT(r.files.size(), 2u);
  const auto index = base::parse_json(slurp(from.out + "/model.safetensors.index.json"), "index");
  EXPECT_EQ(index["metadata"]["total_size"], r.bytes_written);
  std::int64_t sum = 0;
  for (const auto& name : r.files) {
    EXPECT_TRUE(io::is_safetensors_shard_name(name));
    const io::SafetensorsFile file(from.out + "/" + name);
    std::int64_t bytes = 0;
    for (const auto& t : file.header.tensors) {
      bytes += t.bytes;
      EXPECT_EQ(index["weight_map"][t.name], name);
    }
    EXPECT_LE(bytes, o.max_shard);
    EXPECT_EQ(file.header.metadata.at("format"), "pt");  // transformers needs it
    sum += bytes;
  }
  EXPECT_EQ(sum, r.bytes_written);
}

TEST(Export, ReplacesOnlyWhatItWrote) {
  const Imported from(Loaded("gpt2"));
  from.write();
  EXPECT_THROW(from.write(), base::UsageError);
  checkpoint::ExportOptions force;
  force.existing = base::Existing::replace;
  from.write(force);
  fs::remove_all(from.out);
  Loaded("gpt2").write(from.out);  // of another program
  EXPECT_THROW(from.write(force), base::UsageError);
  EXPECT_TRUE(fs::exists(from.out + "/config.json"));
  fs::remove_all(from.out);
  from.write();
  const auto whole = slurp(from.out + "/model.safetensors");
  for (const std::size_t written : {std::size_t{0}, std::size_t{100}, whole.size() / 2}) {  // left by a killed export
    fs::create_directory(from.out + ".partial");
    spit(from.out + ".partial/model.safetensors", whole.substr(0, written));
    from.write(force);
    EXPECT_TRUE(slurp(from.out + "/model.safetensors") == whole);
  }
  spit(from.out + "/notes.txt", "mine");
  EXPECT_THROW(from.write(force), base::UsageError);
  fs::remove_all(from.out);
  auto inside = from.path + "/inside";
  EXPECT_THROW(checkpoint::export_model(checkpoint::Reader(from.path), inside, {}), base::UsageError);
}

TEST(Export, DamageFullDisksAndStopsLeaveNothing) {
  const Imported from(Loaded("gpt2"));
  checkpoint::ExportOptions o;
  o.free_bytes = [](const std::string&) { return std::int64_t{1000}; };
  EXPECT_THROW(from.write(o), base::EnvironmentError);
  o = {};
  o.watch = [](std::int64_t done, std::int64_t) {
    if (done > 5000) throw std::runtime_error("stopped");
  };
  EXPECT_THROW(from.write(o), std::runtime_error);
  const checkpoint::Reader reader(from.path);
  auto content = slurp(from.path + "/rank-00000.h5");
  const auto& payload = reader.manifest().files.at("rank-00000.h5").payloads.begin()->second;
  content[static_cast<std::size_t>(payload.offset) + 4000] ^= 1;
  spit(from.path + "/rank-00000.h5", content);
  EXPECT_THROW(checkpoint::export_model(reader, from.out, {}), base::InputError);
  EXPECT_FALSE(fs::exists(from.out) || fs::exists(from.out + ".partial"));
  content[static_cast<std::size_t>(payload.offset) + 4000] ^= 1;
  spit(from.path + "/rank-00000.h5", content);
  sample::edit_manifest(from.path, [](nlohmann::json& j) {  // like payloads that changed with their checksums
    j["tensors"].front()["fingerprint"] = "0123456789abcdef";
  });
  EXPECT_THROW(checkpoint::export_model(checkpoint::Reader(from.path), from.out, {}), base::InputError);
  EXPECT_FALSE(fs::exists(from.out) || fs::exists(from.out + ".partial"));
}

// The final file is compared with what was sent: a byte that changes on the way is found.
TEST(Import, WhatChangesWhileItIsWrittenIsSeen) {
  Scratch s;
  const Loaded model("gpt2");
  model.write(s.path + "/model");
  auto first = Loaded("gpt2").at("transformer.wte.weight").bytes;
  checkpoint::ImportOptions o;
  bool flipped = false;
  o.watch = [&](std::int64_t, std::int64_t) {
    const auto file = s.path + "/to.partial/rank-00000.h5";
    auto content = slurp(file);
    if (const auto at = content.find(first); at != std::string::npos && !flipped) {
      std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
          .seekp(static_cast<std::streamoff>(at + 5))
          .put('x');
      flipped = true;
    }
  };
  try {
    import(s.path + "/model", s.path + "/to", o);
    ADD_FAILURE() << "not seen";
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("/model/embedding.tokens.weight was written with fingerprint"),
              std::string::npos)
        << e.what();
  }
  EXPECT_TRUE(flipped);
  EXPECT_FALSE(fs::exists(s.path + "/to") || fs::exists(s.path + "/to.partial"));
}

TEST(Export, WhatChangesWhileItIsWrittenIsSeen) {
  const Imported from(Loaded("gpt2"));
  checkpoint::ExportOptions o;
  o.watch = [&](std::int64_t done, std::int64_t total) {
    if (2 * done != total) return;  // all is written, nothing is read back yet
    const auto file = from.out + ".partial/model.safetensors";
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(static_cast<std::streamoff>(fs::file_size(file) - 3))
        .put('x');
  };
  try {
    from.write(o);
    ADD_FAILURE() << "not seen";
  } catch (const base::InputError& e) {
    EXPECT_NE(std::string(e.what()).find("transformer.ln_f.bias reads back with fingerprint"), std::string::npos)
        << e.what();
  }
  EXPECT_FALSE(fs::exists(from.out) || fs::exists(from.out + ".partial"));
}

// Tables and transposed matrices that several threads move in several slabs.
void come_and_go(std::int64_t hidden, std::int64_t wide) {
  Loaded m("gpt2");
  m.config.update({{"n_layer", 1}, {"n_embd", hidden}, {"n_head", 8}, {"n_inner", wide}, {"vocab_size", wide}});
  const auto value = [](const std::string& name, std::int64_t i) {
    return static_cast<float>((static_cast<std::int64_t>(name.size()) * 7919 + i * 31) % 1'000'003) - 5e5f;
  };
  std::vector<Tensor> tensors;
  for (auto& t : m.tensors) {
    if (t.name.starts_with("transformer.h.1.")) continue;
    std::int64_t n = 1;
    for (auto& extent : t.shape)
      n *= extent = extent == 12 ? hidden : extent == 36 ? 3 * hidden : extent == 48 || extent == 41 ? wide : extent;
    std::vector<float> values(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i)] = value(t.name, i);
    tensors.push_back({t.name, "F32", t.shape, floats(values)});
  }
  m.tensors = tensors;
  Scratch s;
  m.write(s.path + "/model");
  checkpoint::ImportOptions in;
  in.threads = 3;
  import(s.path + "/model", s.path + "/checkpoint", in);
  checkpoint::Reader reader(s.path + "/checkpoint");
  // In the file, the fused matrix is [in, 3 out]: each part has a run in every row of it.
  std::vector<float> part(static_cast<std::size_t>(hidden * hidden));
  for (const std::int64_t p : {0, 1, 2}) {
    const auto name = fmt::format("layers.00.attention.{}.weight", "qkv"[p]);
    reader.read_tensor(checkpoint::Kind::model, name, 0, hidden * hidden, part.data());
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < hidden; ++i)
      for (std::int64_t j = 0; j < hidden; ++j)
        wrong += part[static_cast<std::size_t>(j * hidden + i)] !=
                 value("transformer.h.0.attn.c_attn.weight", i * 3 * hidden + p * hidden + j);
    EXPECT_EQ(wrong, 0) << name;
  }
  std::vector<float> up(static_cast<std::size_t>(hidden * wide)), down(up.size());
  reader.read_tensor(checkpoint::Kind::model, "layers.00.ffn.up.weight", 0, hidden * wide, up.data());
  reader.read_tensor(checkpoint::Kind::model, "layers.00.ffn.down.weight", 0, hidden * wide, down.data());
  for (std::int64_t i = 0, wrong = 0; i < hidden && wrong == 0; ++i)
    for (std::int64_t j = 0; j < wide && wrong == 0; ++j) {  // the file's matrices are [in, out]
      wrong += up[static_cast<std::size_t>(j * hidden + i)] != value("transformer.h.0.mlp.c_fc.weight", i * wide + j);
      wrong +=
          down[static_cast<std::size_t>(i * wide + j)] != value("transformer.h.0.mlp.c_proj.weight", j * hidden + i);
      EXPECT_EQ(wrong, 0) << i << ", " << j;
    }
  checkpoint::ExportOptions out;
  out.threads = 3;
  checkpoint::export_model(reader, s.path + "/out", out);
  const io::SafetensorsModel written(s.path + "/out");
  for (const auto& t : tensors) {
    const auto& place = written.tensors().at(t.name);
    std::string bytes(t.bytes.size(), '\0');
    ASSERT_EQ(place.tensor->bytes, static_cast<std::int64_t>(bytes.size())) << t.name;
    place.file->file.read(place.tensor->offset, bytes.data(), place.tensor->bytes);
    EXPECT_TRUE(bytes == t.bytes) << t.name;
  }
}

TEST(Import, LargeTensorsComeAndGoPieceByPiece) {
  static_assert(std::int64_t{16} * 150'001 > checkpoint::slab_elements);
  come_and_go(16, 150'001);
  static_assert(std::int64_t{1456} * 1456 > checkpoint::slab_elements);
  come_and_go(1456, 41);
}

std::string written_as(const plan::ModelConfig& model) {
  try {
    return checkpoint::family_of(model).model_type;
  } catch (const base::InputError&) {
    return "";
  }
}

TEST(Export, RefusesModelsOfNoFamily) {
  auto m = plan::preset("gpt2-nano");
  m.vocabulary = 257;
  EXPECT_STREQ(checkpoint::family_of(m).model_type, "gpt2");
  for (const auto& change : std::vector<std::function<void(plan::ModelConfig&)>>{
           [](auto& c) { c.biases = plan::Biases::off; }, [](auto& c) { c.kv_heads = 2; },
           [](auto& c) { c.norm = plan::Norm::rms; },
           [](auto& c) {
             c.attention.window_tokens = {0, 8};
           },
           [](auto& c) { c.positions = plan::Positions::rotary, c.rotary.local_base = 100; },
           [](auto& c) { c.activation = plan::Activation::swiglu; },
           [](auto& c) { c.norm_position = plan::NormPosition::post; }, [](auto& c) { c.embedding_norm = true; },
           [](auto& c) { c.segments = 2; }, [](auto& c) { c.head = plan::HeadForm::masked; },
           [](auto& c) { c.parallel_residual = true; }, [](auto& c) { c.norm_offset = 1; },
           [](auto& c) { c.embedding_scale = 2; }, [](auto& c) { c.logit_softcap = 30; },
           [](auto& c) { c.position_offset = 2; }, [](auto& c) { c.activation = plan::Activation::relu_squared; },
           [](auto& c) { c.branches = {"ffn"}; }, [](auto& c) { c.attention.causal = false; },
           [](auto& c) {
             c.attention.layout = {"dense", "sliding"};
           }}) {
    auto other = m;
    change(other);
    EXPECT_EQ(written_as(other), "");
  }
  std::vector<std::string> left_out;
  m.dropout_ffn_residual = 0.1;
  checkpoint::config_of(checkpoint::family_of(m), m, "float32", left_out);
  EXPECT_EQ(left_out.size(), 1u);

  m = plan::preset("bert-nano");
  m.vocabulary = 257;
  EXPECT_STREQ(checkpoint::family_of(m).model_type, "bert");
  for (const auto& change : std::vector<std::function<void(plan::ModelConfig&)>>{
           [](auto& c) { c.biases = plan::Biases::off; }, [](auto& c) { c.kv_heads = 2; },
           [](auto& c) { c.tied = false; }, [](auto& c) { c.norm = plan::Norm::rms; },
           [](auto& c) { c.positions = plan::Positions::rotary, c.rotary.local_base = 100; },
           [](auto& c) { c.activation = plan::Activation::swiglu; },
           [](auto& c) { c.norm_position = plan::NormPosition::pre; }, [](auto& c) { c.embedding_norm = false; },
           [](auto& c) { c.segments = 0; }, [](auto& c) { c.head = plan::HeadForm::linear; },
           [](auto& c) { c.norm_offset = 1; }, [](auto& c) { c.embedding_scale = 2; },
           [](auto& c) { c.logit_softcap = 30; }, [](auto& c) { c.activation = plan::Activation::relu_squared; },
           [](auto& c) { c.attention.causal = true; }, [](auto& c) { c.attention.layout = {"bigbird"}; }}) {
    auto other = m;
    change(other);
    EXPECT_EQ(written_as(other), "");
  }
  left_out.clear();
  m.dropout_embedding = m.dropout_attention_residual = 0.1;
  checkpoint::config_of(checkpoint::family_of(m), m, "float32", left_out);
  EXPECT_EQ(left_out.size(), 1u);
}

// Compared with the definition: sign, five bits of exponent, ten of mantissa.
TEST(F16, EveryValueAndTheMiddlesBetweenNeighbours) {
  const auto plain = [](std::uint32_t bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
    return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  };
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits)
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const auto value = (sign != 0 ? -1 : 1) * plain(bits);
      EXPECT_EQ(static_cast<double>(base::f16::widen(static_cast<std::uint16_t>(bits | sign))), value);
      EXPECT_EQ(base::f16(static_cast<float>(value)).bits, bits | sign);
      const auto middle = static_cast<float>((plain(bits) + plain(bits + 1)) / 2);  // exact in f32
      const auto even = bits % 2 == 0 ? bits : bits + 1;
      EXPECT_EQ(base::f16(sign != 0 ? -middle : middle).bits, even | sign);
      EXPECT_EQ(base::f16(std::nextafter(middle, 0.0f)).bits, bits);
      EXPECT_EQ(base::f16(std::nextafter(middle, 1e9f)).bits, bits + 1);
    }
  EXPECT_EQ(base::f16(INFINITY).bits, 0x7c00);
  EXPECT_EQ(base::f16(1e30f).bits, 0x7c00);
  EXPECT_EQ(base::f16::widen(0xfc00), -INFINITY);
  EXPECT_TRUE(std::isnan(base::f16::widen(0x7e01)));
  EXPECT_EQ(base::f16(std::bit_cast<float>(0x7f800001u)).bits & 0x7e00, 0x7e00);
}

}  // namespace models_test
