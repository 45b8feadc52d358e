// Finds the tokenizer of a checkpoint.
#include "libtrain/checkpoint/kept_tokenizer.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

namespace trainyard::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kept_prefix = "tokenizer-";

struct RecordedFile {
  std::string source;
  std::uint32_t crc32c = 0;
};
// Of "bytes" there is no file.
RecordedFile recorded_file(const nlohmann::json& provenance) {
  const auto found = provenance.is_object() ? provenance.find("tokenizer") : provenance.end();
  if (found == provenance.end() || !found->is_object()) return {};
  const auto source = found->value("source", nlohmann::json()), crc = found->value("crc32c", nlohmann::json());
  if (!source.is_string() || !crc.is_number_integer() || source == "bytes") return {};
  return {source.get<std::string>(), static_cast<std::uint32_t>(crc.get<std::int64_t>())};
}

}  // namespace

std::string kept_tokenizer_name(std::string_view source, std::uint32_t crc32c) {
  return fmt::format("{}{:08x}.{}", kept_prefix, crc32c, source.ends_with(".json") ? "json" : "model");
}

bool is_kept_tokenizer_name(std::string_view name) {
  constexpr std::size_t digits = 8;
  if (!name.starts_with(kept_prefix)) return false;
  name.remove_prefix(kept_prefix.size());
  const auto number = name.substr(0, digits), end = name.substr(std::min(digits, name.size()));
  return number.size() == digits && number.find_first_not_of("0123456789abcdef") == number.npos &&
         (end == ".json" || end == ".model");
}

std::vector<std::string> places_of_tokenizer(const std::string& checkpoint, const nlohmann::json& provenance) {
  const auto recorded = recorded_file(provenance);
  if (recorded.source.empty()) return {};
  const auto name = kept_tokenizer_name(recorded.source, recorded.crc32c);
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& folder : {fs::absolute(checkpoint, error).lexically_normal(), fs::canonical(checkpoint, error)})
    for (const auto& place : {folder.parent_path().parent_path(), folder.parent_path(), folder})
      out.push_back((place / name).string());
  return out;
}

KeptTokenizer kept_tokenizer(const std::string& checkpoint, const nlohmann::json& provenance) {
  const auto recorded = recorded_file(provenance);
  if (recorded.source.empty()) return {};
  auto places = places_of_tokenizer(checkpoint, provenance);
  const fs::path source = base::path_of_text(recorded.source);
  const auto data = provenance.value("data", nlohmann::json());
  if (source.is_absolute()) places.push_back(source.string());
  else if (data.is_string())
    places.push_back((fs::path(base::path_of_text(data.get<std::string>())) / source).string());
  for (const auto& place : places) try {
      if (base::file_size(place) < 0) continue;
      auto content = base::read_file(place);
      if (base::crc32c(content.data(), content.size()) != recorded.crc32c) continue;
      return {place, kept_tokenizer_name(recorded.source, recorded.crc32c), std::move(content)};
    } catch (const base::InputError&) {  // unreadable: another place may have it
    }
  return {};
}

bool is_sign(const std::string& name) {
  return name.size() > 2 &&
         ((name.front() == '<' && name.back() == '>') || (name.front() == '[' && name.back() == ']'));
}

std::string special_name(const KeptTokenizer& kept, const std::optional<FileTokens>& tokens, std::int32_t id) {
  if (id < 0) return {};
  const auto tokenizer =
      kept.name.ends_with(".json") ? nlohmann::json::parse(kept.content, nullptr, false) : nlohmann::json();
  const auto added = tokenizer.is_object() ? tokenizer.value("added_tokens", nlohmann::json()) : nlohmann::json();
  for (const auto& token : added)
    if (token.is_object() && token.value("id", nlohmann::json()) == id &&
        token.value("content", nlohmann::json()).is_string())
      return token["content"].get<std::string>();
  if (!tokens) return {};
  auto name = tokens->name(id);
  return is_sign(name) || tokens->is_in_text(id) ? name : std::string();
}

nlohmann::ordered_json tokenizer_config(const KeptTokenizer& kept, const std::optional<FileTokens>& tokens,
                                        const SpecialIds& ids) {
  nlohmann::ordered_json config{{"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const auto& [key, id] :
       {std::pair("eos_token", ids.end), std::pair("bos_token", ids.begin), std::pair("mask_token", ids.mask)})
    if (auto name = special_name(kept, tokens, id); !name.empty()) config[key] = std::move(name);
  if (config.contains("bos_token")) config["add_bos_token"] = true;
  return config;
}

}  // namespace trainyard::checkpoint
