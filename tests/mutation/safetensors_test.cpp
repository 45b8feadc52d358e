// Damaged safetensors headers, files, indices and config.json: refused, or something that could have been written.
#include "tests/io/safetensors_sample.h"
#include "tests/mutation/harness.h"
#include "tests/scratch.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/hugging_face.h"
#include "libtrain/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace trainyard;
using safetensors_sample::file_of, safetensors_sample::floats, safetensors_sample::Tensor;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;

namespace safetensors_test {

std::vector<Tensor> sample() {
  return {{"model.norm.weight", "F32", {3}, floats({1, 2, 3})},
          {"model.layers.0.mlp.up_proj.weight", "BF16", {2, 2}, "abcdefgh"},
          {"scalar", "I64", {}, "12345678"},
          {"none", "F16", {0, 7}, ""},
          {"head", "F16", {2}, "xyzw"}};
}

std::string header_of(const std::string& file) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  return file.substr(8, length);
}

// What is wrong with an accepted header. The data lies between `begin` and `end`.
std::string wrong_with(const io::SafetensorsHeader& header, std::int64_t begin, std::int64_t end) {
  auto at = begin;
  for (const auto& t : header.tensors) {
    auto bytes = io::safetensors_element_bytes(t.dtype);
    for (const auto n : t.shape) bytes *= n;
    if (t.offset != at || t.bytes != bytes) return t.name + " lies elsewhere";
    at += t.bytes;
  }
  if (at != end) return "not all of the data belong to a tensor";
  auto again = header;
  const auto text = io::make_safetensors_header(again).substr(8);
  const auto read = io::parse_safetensors_header(text, end - begin, "again");
  if (read.metadata != header.metadata || read.tensors.size() != header.tensors.size())
    return "written down, it reads as another";
  return "";
}

TEST(Safetensors, Headers) {
  const auto file = file_of(sample());
  const auto original = header_of(file);
  const auto data = static_cast<std::int64_t>(file.size() - 8 - original.size());
  mutation::run({"safetensors header",
                 [&](mutation::Random& random) { return mutation::mutate_json(original, random); },
                 [&](const std::string& content) -> std::string {
                   const auto begin = static_cast<std::int64_t>(8 + content.size());
                   return wrong_with(io::parse_safetensors_header(content, data, "header"), begin, begin + data);
                 }});
}

TEST(Safetensors, Files) {
  Scratch scratch;
  const auto path = scratch.path + "/f.safetensors", original = file_of(sample());
  mutation::run({"safetensors file", [&](mutation::Random& random) { return mutation::mutate_bytes(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   const io::SafetensorsFile file(path);
                   for (const auto& t : file.header.tensors) {
                     std::string bytes(static_cast<std::size_t>(t.bytes), '\0');
                     file.file.read(t.offset, bytes.data(), t.bytes);
                   }
                   return wrong_with(file.header, static_cast<std::int64_t>(8 + header_of(content).size()),
                                     static_cast<std::int64_t>(content.size()));
                 }});
}

TEST(Safetensors, Indices) {
  Scratch scratch;
  const auto all = sample();
  const std::vector<std::string> names{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};
  spit(scratch.path + "/" + names[0], file_of({all[0], all[1]}));
  spit(scratch.path + "/" + names[1], file_of({all[2], all[3], all[4]}));
  nlohmann::ordered_json index{{"metadata", {{"total_size", 32}, {"made_by", "somebody"}}}};
  for (std::size_t i = 0; i < all.size(); ++i) index["weight_map"][all[i].name] = names[i < 2 ? 0 : 1];
  const auto original = index.dump();
  mutation::run({"safetensors index", [&](mutation::Random& random) { return mutation::mutate_json(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(scratch.path + "/model.safetensors.index.json", content);
                   const io::SafetensorsModel model(scratch.path);
                   for (const auto& t : all)
                     if (model.files() == 2 && !model.tensors().contains(t.name)) return t.name + " is lost";
                   for (const auto& [name, place] : model.tensors())
                     if (place.tensor->name != name) return name + " is another";
                   return "";
                 }});
}

TEST(Safetensors, Configs) {
  for (const char* name : {"gpt2", "llama-3"}) {
    const auto original = slurp(std::string(ROOT "/tests/golden/hugging_face/") + name + "/config.json");
    mutation::run({std::string("config.json of ") + name,
                   [&](mutation::Random& random) { return mutation::mutate_json(original, random); },
                   [&](const std::string& content) -> std::string {
                     const auto found = checkpoint::model_of_config(
                         base::parse_json<nlohmann::json>(content, "config.json"), "name", "config.json");
                     if (const auto wrong = plan::problems(found.model); !wrong.empty()) return wrong.front();
                     if (&checkpoint::family_of(found.model) != found.family) return "is of another family";
                     std::vector<std::string> left_out;
                     const auto config = checkpoint::config_of(*found.family, found.model, "float32", left_out);
                     const auto again = checkpoint::model_of_config(nlohmann::json(config), "name", "again");
                     return again.model == found.model && left_out.empty() ? "" : "written, it reads as another model";
                   }});
  }
}

}  // namespace safetensors_test
