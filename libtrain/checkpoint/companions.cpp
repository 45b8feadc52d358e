// Records and copies the files beside a model's weights.
#include "libtrain/checkpoint/companions.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace trainyard::checkpoint {

namespace {

constexpr const char* names[] = {"generation_config.json",
                                 "tokenizer.json",
                                 "tokenizer.model",
                                 "tokenizer_config.json",
                                 "added_tokens.json",
                                 "special_tokens_map.json",
                                 "vocab.json",
                                 "merges.txt",
                                 "vocab.txt",
                                 "sentencepiece.bpe.model",
                                 "spiece.model",
                                 "chat_template.jinja",
                                 "chat_template.json"};
constexpr std::string_view tokenizers[] = {"tokenizer.json", "tokenizer.model",         "vocab.json",
                                           "vocab.txt",      "sentencepiece.bpe.model", "spiece.model"};
constexpr std::int64_t largest_companion = std::int64_t{256} << 20;

const nlohmann::json* record_in(const nlohmann::json& provenance) {
  if (!provenance.is_object()) return nullptr;
  const auto found = provenance.find("hugging_face");
  return found == provenance.end() || !found->is_object() ? nullptr : &*found;
}

struct Companion {
  std::string name;
  std::int64_t bytes;
  std::uint32_t crc32c;
};
// The entries that can be used; a record may come from another program.
std::vector<Companion> companions_in(const nlohmann::json& record) {
  std::vector<Companion> out;
  const auto list = record.find("files");
  if (list == record.end() || !list->is_array()) return out;
  for (const auto& entry : *list) {
    if (!entry.is_object()) continue;
    const auto name = entry.value("name", nlohmann::json()), bytes = entry.value("bytes", nlohmann::json()),
               crc = entry.value("crc32c", nlohmann::json());
    if (name.is_string() && is_companion(name.get<std::string>()) && bytes.is_number_unsigned() &&
        bytes.get<std::uint64_t>() <= static_cast<std::uint64_t>(largest_companion) && crc.is_number_unsigned())
      out.push_back({name.get<std::string>(), bytes.get<std::int64_t>(), crc.get<std::uint32_t>()});
  }
  return out;
}

}  // namespace

bool is_companion(std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool is_tokenizer(std::string_view name) {
  return std::find(std::begin(tokenizers), std::end(tokenizers), name) != std::end(tokenizers);
}

bool is_whole_tokenizer(std::string_view name) {
  return is_tokenizer(name) && (name.ends_with(".model") || name == "tokenizer.json");
}

nlohmann::json record_of_model(const std::string& folder, const std::string& config) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(folder, error).lexically_normal();
  nlohmann::json record = {{"folder", error ? folder : base::text_of_path(absolute.string())}, {"config", config}};
  auto& files = record["files"] = nlohmann::json::array();
  for (const char* name : names) {
    const auto path = folder + "/" + name;
    const auto bytes = base::file_size(path);
    if (bytes < 0 || bytes > largest_companion) continue;
    const auto content = base::read_file(path, largest_companion);
    files.push_back(
        {{"name", name}, {"bytes", content.size()}, {"crc32c", base::crc32c(content.data(), content.size())}});
  }
  return record;
}

std::string recorded_folder(const nlohmann::json& provenance) {
  const auto* record = record_in(provenance);
  const auto folder = record == nullptr ? nlohmann::json() : record->value("folder", nlohmann::json());
  return folder.is_string() ? folder.get<std::string>() : std::string();
}

std::string recorded_config(const nlohmann::json& provenance) {
  const auto* record = record_in(provenance);
  const auto text = record == nullptr ? nlohmann::json() : record->value("config", nlohmann::json());
  return text.is_string() ? text.get<std::string>() : std::string();
}

std::string recorded_model_type(const nlohmann::json& provenance) {
  const auto config = nlohmann::json::parse(recorded_config(provenance), nullptr, false);
  const auto type = config.is_object() ? config.value("model_type", nlohmann::json()) : nlohmann::json();
  return type.is_string() ? type.get<std::string>() : std::string();
}

std::int64_t companion_bytes(const nlohmann::json& provenance) {
  std::int64_t sum = 0;
  if (const auto* record = record_in(provenance); record != nullptr)
    for (const auto& companion : companions_in(*record)) sum += companion.bytes;
  return sum;
}

std::vector<std::string> copy_companions(const nlohmann::json& provenance, const std::string& destination,
                                         std::vector<std::string>& notes) {
  const auto* record = record_in(provenance);
  if (record == nullptr) return {};
  const auto folder = base::path_of_text(recorded_folder(provenance));
  std::vector<std::string> copied;
  for (const auto& companion : companions_in(*record)) {
    const auto path = folder + "/" + companion.name;
    try {
      const auto content = base::read_file(path, largest_companion);
      if (base::crc32c(content.data(), content.size()) == companion.crc32c) {
        base::write_file(destination + "/" + companion.name, content);
        copied.push_back(companion.name);
        continue;
      }
      notes.push_back(fmt::format("{} has changed since the import: it is not copied", base::one_line(path)));
    } catch (const base::InputError& e) {
      notes.push_back(fmt::format("{} of the imported model is not copied: {}", companion.name, e.what()));
    }
  }
  return copied;
}

}  // namespace trainyard::checkpoint
