// Imports and exports that must not be taken: other tensors than config.json says, what this library cannot compute,
// damage, full disks, folders of others; and what may be otherwise than transformers writes it today.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/f16.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/export_model.h"
#include "libtrain/checkpoint/import_model.h"
#include "libtrain/io/safetensors.h"
#include "tests/io/safetensors_sample.h"
#include "tests/scratch.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

using namespace trainyard;
using safetensors_sample::file_of, safetensors_sample::floats, safetensors_sample::Tensor;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;
namespace fs = std::filesystem;

namespace {

// A golden model in memory, to be changed and written elsewhere.
struct Loaded {
  nlohmann::json config;
  std::vector<Tensor> tensors;

  explicit Loaded(const std::string& name) {
    const auto folder = std::string(GOLDEN) + "/" + name;
    config = base::parse_json<nlohmann::json>(slurp(folder + "/config.json"), name);
    const io::SafetensorsModel model(folder);
    for (const auto& [tensor, place] : model.tensors()) {
      std::string bytes(static_cast<std::size_t>(place.tensor->bytes), '\0');
      place.file->file.read(place.tensor->offset, bytes.data(), place.tensor->bytes);
      tensors.push_back({tensor, place.tensor->dtype, place.tensor->shape, bytes});
    }
  }
  Tensor& at(const std::string& name) {
    for (auto& t : tensors)
      if (t.name == name) return t;
    throw std::logic_error(name);
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const auto& t) { return t.name == name; });
  }
  void write(const std::string& folder) const {
    fs::create_directories(folder);
    spit(folder + "/config.json", config.dump());
    spit(folder + "/model.safetensors", file_of(tensors));
  }
};

checkpoint::ImportResult import(const std::string& from, const std::string& to, checkpoint::ImportOptions o = {}) {
  return checkpoint::import_model(from, to, o);
}

// The sentence with which the import of the model is refused (exit 3), after which nothing is there; "" when it passes.
std::string refusal(const Loaded& model) {
  Scratch scratch;
  model.write(scratch.path + "/model");
  try {
    import(scratch.path + "/model", scratch.path + "/imported");
    return "";
  } catch (const base::InputError& e) {
    EXPECT_FALSE(e.hint().empty()) << e.what();
    EXPECT_LT(std::string(e.what()).size(), 2000u);
    EXPECT_FALSE(fs::exists(scratch.path + "/imported"));
    EXPECT_FALSE(fs::exists(scratch.path + "/imported.partial"));
    return e.what();
  }
}

void expect_refused(const Loaded& model, const std::string& words) {
  const auto said = refusal(model);
  EXPECT_NE(said.find(words), std::string::npos) << "said: " << said << "\n  not: " << words;
}

std::map<std::string, std::uint64_t> fingerprints(const checkpoint::Manifest& manifest) {
  std::map<std::string, std::uint64_t> all;
  for (const auto& [path, t] : manifest.tensors) all[path] = t.fingerprint;
  return all;
}

std::map<std::string, std::uint64_t> fingerprints_of(const Loaded& model) {
  Scratch scratch;
  model.write(scratch.path + "/model");
  return fingerprints(import(scratch.path + "/model", scratch.path + "/imported").manifest);
}

// A checkpoint of the golden model, changed before.
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

}  // namespace

TEST(Import, FilesWithoutPrefixAndWithBuffersAreTheSameModel) {
  for (const char* name : {"gpt2", "llama-2"}) {
    const Loaded model(name);
    const std::string prefix = std::string(name) == "gpt2" ? "transformer." : "model.";
    auto older = model;
    for (auto& t : older.tensors)
      if (t.name.starts_with(prefix)) t.name.erase(0, prefix.size());
    if (prefix == "transformer.") {
      older.tensors.push_back({"h.0.attn.bias", "BOOL", {1, 1, 2, 2}, std::string("\1\0\1\1", 4)});
      older.tensors.push_back({"h.1.attn.masked_bias", "F32", {}, floats({-1e4f})});
    } else {
      older.tensors.push_back({"layers.1.self_attn.rotary_emb.inv_freq", "F32", {2}, floats({1, 2})});
    }
    EXPECT_EQ(fingerprints_of(older), fingerprints_of(model)) << name;
  }
}

TEST(Import, OlderConfigsSayTheSame) {
  const Loaded model("llama-3");
  auto older = model;
  for (const char* key : {"rope_parameters", "head_dim", "attention_bias", "mlp_bias"}) older.config.erase(key);
  older.config["rope_theta"] = 500000;
  older.config["rope_scaling"] = nullptr;
  Scratch scratch;
  model.write(scratch.path + "/a/model");
  older.write(scratch.path + "/b/model");
  const auto a = import(scratch.path + "/a/model", scratch.path + "/a/imported"),
             b = import(scratch.path + "/b/model", scratch.path + "/b/imported");
  EXPECT_EQ(a.manifest.state.model, b.manifest.state.model);
  EXPECT_EQ(a.manifest.state.model.rotary_base, 500000);
  EXPECT_TRUE(a.notes.empty() && b.notes.empty());
  older.config["sliding_windows"] = 7;
  older.write(scratch.path + "/c/model");
  const auto c = import(scratch.path + "/c/model", scratch.path + "/c/imported");
  ASSERT_EQ(c.notes.size(), 1u);
  EXPECT_NE(c.notes[0].find("sliding_windows"), std::string::npos);
}

TEST(Import, RecordsTheTokenizerBesideTheModel) {
  Scratch s;
  Loaded("gpt2").write(s.path + "/model");
  EXPECT_FALSE(import(s.path + "/model", s.path + "/without").manifest.state.provenance.contains("tokenizer"));
  spit(s.path + "/model/tokenizer.json", "123456789");
  const auto state = import(s.path + "/model", s.path + "/with").manifest.state;
  EXPECT_EQ(state.provenance["tokenizer"]["source"], s.path + "/model/tokenizer.json");
  EXPECT_EQ(state.provenance["tokenizer"]["crc32c"], 0xE3069283u);  // the check value of CRC32C
}

TEST(Import, ListsTensorsThatAreMissingUnknownOrOtherwise) {
  const Loaded model("gpt2");
  const std::string layer = "transformer.h.1.";
  auto m = model;
  m.remove(layer + "ln_1.bias");
  m.remove("transformer.wpe.weight");
  expect_refused(m, "2 missing: transformer.wpe.weight, " + layer + "ln_1.bias");
  m = model;
  m.tensors.push_back({"score.weight", "F32", {1}, floats({1})});
  m.tensors.push_back({"transformer.h.2.ln_1.bias", "F32", {1}, floats({1})});
  expect_refused(m, "2 unknown: \"score.weight\", \"transformer.h.2.ln_1.bias\"");
  m = model;
  std::swap(m.at(layer + "mlp.c_fc.weight").shape[0], m.at(layer + "mlp.c_fc.weight").shape[1]);
  expect_refused(m, "1 of another shape: " + layer + "mlp.c_fc.weight is [48, 12], config.json makes it [12, 48]");
  m = model;
  m.at(layer + "ln_2.weight") = {layer + "ln_2.weight", "I8", {12}, std::string(12, 'x')};
  expect_refused(m, layer + "ln_2.weight is I8");
  m = model;
  m.config["n_layer"] = 5000;
  expect_refused(m, " more");
  m = Loaded("llama-2");
  m.remove("lm_head.weight");
  expect_refused(m, "1 missing: lm_head.weight");
}

TEST(Import, ATiedHeadMayBeThereTwiceIfItIsTheSame) {
  const Loaded model("gpt2");
  auto twice = model;
  twice.tensors.push_back(twice.at("transformer.wte.weight"));
  twice.tensors.back().name = "lm_head.weight";
  EXPECT_EQ(fingerprints_of(twice), fingerprints_of(model));
  auto other = twice;
  other.tensors.back().bytes[100] ^= 1;
  expect_refused(other, "ties the head to transformer.wte.weight, but lm_head.weight holds other values");
  other.config["tie_word_embeddings"] = false;
  EXPECT_EQ(refusal(other), "");
}

TEST(Import, RefusesByNameWhatItCannotCompute) {
  const auto refuse = [](const char* golden, const char* key, const nlohmann::json& value, const std::string& words) {
    Loaded m(golden);
    m.config[key] = value;
    expect_refused(m, words);
  };
  for (const char* type : {"llama3", "linear", "dynamic", "yarn", "longrope"}) {
    refuse("llama-3", "rope_scaling", {{"rope_type", type}, {"factor", 8.0}}, "of type \"" + std::string(type) + "\"");
    refuse("llama-3", "rope_scaling", {{"type", type}, {"factor", 8.0}}, "of type \"" + std::string(type) + "\"");
    refuse("llama-3", "rope_parameters", {{"rope_type", type}, {"rope_theta", 1e4}}, type);
  }
  refuse("llama-3", "model_type", "mistral", "model_type \"mistral\" is none that is known");
  refuse("llama-3", "hidden_act", "gelu", "'hidden_act' is \"gelu\"");
  refuse("llama-3", "attention_bias", true, "'attention_bias' is true and 'mlp_bias' is false");
  refuse("llama-3", "head_dim", 8, "'head_dim' is 8");
  refuse("llama-3", "quantization_config", {{"bits", 4}}, "quantized weights");
  refuse("llama-3", "num_key_value_heads", 3, "is not a multiple of kv-heads 3");
  refuse("llama-3", "num_attention_heads", 0, "heads");
  refuse("llama-3", "hidden_size", -16, "hidden");
  refuse("llama-3", "hidden_size", "wide", "'hidden_size' must be a whole number");
  refuse("llama-3", "vocab_size", 1e300, "vocab_size");
  refuse("gpt2", "activation_function", "relu", "'activation_function' is \"relu\"");
  refuse("gpt2", "scale_attn_weights", false, "'scale_attn_weights' is false");
  refuse("gpt2", "scale_attn_by_inverse_layer_idx", true, "'scale_attn_by_inverse_layer_idx' is true");
  refuse("gpt2", "add_cross_attention", true, "'add_cross_attention' is true");
  refuse("gpt2", "n_embd", std::int64_t{1} << 62, "hidden");
  Loaded none("gpt2");
  none.config.erase("n_head");
  expect_refused(none, "'n_head' is missing");
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
}

TEST(Export, F16ThatCannotHoldAWeightIsRefused) {
  Loaded m("gpt2");
  auto values = std::vector<float>(12, 65504.0f);
  m.at("transformer.ln_f.weight").bytes = floats(values);
  checkpoint::ExportOptions o;
  o.dtype = checkpoint::WeightType::f16;
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
    EXPECT_EQ(file.header.metadata.at("format"), "pt");  // transformers asks for it
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
  Loaded("gpt2").write(from.out);  // of somebody else
  EXPECT_THROW(from.write(force), base::UsageError);
  EXPECT_TRUE(fs::exists(from.out + "/config.json"));
  fs::remove_all(from.out);
  from.write();
  const auto whole = slurp(from.out + "/model.safetensors");
  for (const std::size_t written : {std::size_t{0}, std::size_t{100}, whole.size() / 2}) {  // by one that was killed
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
}

// What lies there at the end is compared with what was sent: a byte that changes on the way is seen.
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
    EXPECT_NE(std::string(e.what()).find("/model/embedding.tokens.weight has fingerprint"), std::string::npos)
        << e.what();
  }
  EXPECT_TRUE(flipped);
  EXPECT_FALSE(fs::exists(s.path + "/to") || fs::exists(s.path + "/to.partial"));
}

TEST(Export, WhatChangesWhileItIsWrittenIsSeen) {
  const Imported from(Loaded("gpt2"));
  checkpoint::ExportOptions o;
  o.watch = [&](std::int64_t done, std::int64_t total) {
    if (2 * done != total) return;  // all is written, nothing is read back
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

// Tables and transposed matrices that are moved in several slabs, by several threads.
TEST(Import, LargeTensorsComeAndGoPieceByPiece) {
  constexpr std::int64_t hidden = 16, wide = 150'001;
  static_assert(hidden * wide > checkpoint::slab_elements);
  Loaded m("gpt2");
  m.config.update({{"n_layer", 1}, {"n_embd", hidden}, {"n_head", 2}, {"n_inner", wide}, {"vocab_size", wide}});
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
  std::vector<float> up(static_cast<std::size_t>(hidden * wide)), down(up.size());
  reader.read_tensor(checkpoint::Kind::model, "layers.00.ffn.up.weight", 0, hidden * wide, up.data());
  reader.read_tensor(checkpoint::Kind::model, "layers.00.ffn.down.weight", 0, hidden * wide, down.data());
  for (std::int64_t i = 0, wrong = 0; i < hidden && wrong == 0; ++i)
    for (std::int64_t j = 0; j < wide && wrong == 0; ++j) {  // theirs are [in, out]
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

TEST(Export, RefusesModelsOfNoFamily) {
  auto m = plan::preset("gpt2-nano");
  m.vocabulary = 257;
  EXPECT_STREQ(checkpoint::family_of(m).model_type, "gpt2");
  for (const auto& change : std::vector<std::function<void(plan::ModelConfig&)>>{
           [](auto& c) { c.biases = false; }, [](auto& c) { c.kv_heads = 2; },
           [](auto& c) { c.norm = plan::Norm::rms; }, [](auto& c) { c.positions = plan::Positions::rotary; },
           [](auto& c) { c.activation = plan::Activation::swiglu; }, [](auto& c) { c.branches = {"ffn"}; }}) {
    auto other = m;
    change(other);
    EXPECT_THROW(checkpoint::family_of(other), base::InputError);
  }
  std::vector<std::string> left_out;
  m.dropout_ffn_residual = 0.1;
  checkpoint::config_of(checkpoint::family_of(m), m, "float32", left_out);
  EXPECT_EQ(left_out.size(), 1u);
}

// Against the definition: sign, five bits of exponent, ten of mantissa.
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
