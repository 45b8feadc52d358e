// Values become numbers, and numbers values.
#include "libtrain/data/document_fields.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/io/hdf5_file.h"

#include <algorithm>
#include <string_view>

namespace trainyard::data {

namespace {

std::uint32_t sum_of(std::string_view lists, std::span<const std::uint32_t> chosen) {
  return base::crc32c(chosen.data(), chosen.size_bytes(), base::crc32c(lists.data(), lists.size()));
}

}  // namespace

void FieldValues::add(std::span<const std::string> values) {
  for (std::size_t f = 0; f < values.size(); ++f)
    if (values_.at(f).insert(values[f]).second && values_[f].size() > most)
      throw base::InputError(
          fmt::format("the field {} has more than {} different values", base::excerpt(names_[f]), most),
          "keep a field that groups documents, such as their language or source");
}

std::vector<std::string> FieldValues::absent() const {
  std::vector<std::string> out;
  const auto is_value = [](const std::string& value) { return !value.empty(); };
  for (std::size_t f = 0; f < names_.size(); ++f)
    if (std::none_of(values_[f].begin(), values_[f].end(), is_value)) out.push_back(names_[f]);
  return out;
}

DocumentFields::DocumentFields(const std::vector<std::string>& names) {
  for (const auto& name : names) fields_.push_back({name, {}});
}

void DocumentFields::add(std::span<const std::string> values, std::int64_t tokens) {
  if (fields_.empty()) return;
  TRAINYARD_ASSERT(values.size() == fields_.size(), "{} values of {} fields", values.size(), fields_.size());
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    auto& field = fields_[f];
    const auto [place, is_new] = field.places.emplace(values[f], static_cast<std::uint32_t>(field.values.size()));
    if (is_new) field.values.push_back(values[f]);
    chosen_.push_back(place->second);
    tokens_[field.name][values[f]] += tokens;
  }
}

std::vector<std::string> DocumentFields::values_of(std::int64_t document) const {
  std::vector<std::string> out;
  for (std::size_t f = 0; f < fields_.size(); ++f)
    out.push_back(fields_[f].values[chosen_[base::size(document) * fields_.size() + f]]);
  return out;
}

bool DocumentFields::has(std::int64_t document, const std::string& field, const std::string& value) const {
  for (std::size_t f = 0; f < fields_.size(); ++f)
    if (fields_[f].name == field) return fields_[f].values[chosen_[base::size(document) * fields_.size() + f]] == value;
  return false;
}

std::string DocumentFields::lists() const {
  auto lists = nlohmann::json::array();
  for (const auto& field : fields_) lists.push_back({{"name", field.name}, {"values", field.values}});
  return lists.dump();
}

std::optional<std::uint32_t> DocumentFields::crc32c() const {
  if (fields_.empty()) return {};
  return sum_of(lists(), chosen_);
}

void DocumentFields::write(io::Hdf5File& file) const {
  if (fields_.empty()) return;
  const auto text = lists();
  file.write_dataset("/field_values", base::DType::u8, {std::ssize(text)}, text.data());
  file.write_dataset("/fields", base::DType::u32, {std::ssize(chosen_)}, chosen_.data());
}

DocumentFields DocumentFields::read(const io::Hdf5File& file, std::int64_t documents,
                                    std::optional<std::uint32_t> crc32c) {
  DocumentFields out;
  const auto damaged = [&](const std::string& why) {
    throw base::InputError(fmt::format("shard {}: {}", file.path(), why),
                           "the file is damaged: copy it again, or make the shards again with shard-data");
  };
  if (!file.exists("/field_values")) {
    if (crc32c) damaged("it has no /field_values, which the index names");
    return out;
  }
  constexpr std::int64_t most_bytes = std::int64_t{1} << 28;
  const auto bytes = file.info("/field_values").count();
  if (bytes < 0 || bytes > most_bytes) damaged(fmt::format("/field_values of {} bytes", bytes));
  std::string text(base::size(bytes), '\0');
  file.read_dataset("/field_values", base::DType::u8, 0, bytes, text.data());
  const auto lists = base::parse_json<nlohmann::json>(text, file.path() + ": /field_values");
  try {
    for (const auto& list : lists)
      out.fields_.push_back({list.at("name").get<std::string>(), list.at("values").get<std::vector<std::string>>()});
  } catch (const nlohmann::json::exception& e) {
    damaged(fmt::format("/field_values: {}", e.what()));
  }
  const auto count = file.exists("/fields") ? file.info("/fields").count() : -1;
  if (count != documents * std::ssize(out.fields_))
    damaged(fmt::format("{} values in /fields, for {} documents and {} fields", count, documents, out.fields_.size()));
  out.chosen_.resize(base::size(count));
  file.read_dataset("/fields", base::DType::u32, 0, count, out.chosen_.data());
  if (crc32c && sum_of(text, out.chosen_) != *crc32c) damaged("the checksum of its fields differs from the index");
  for (std::size_t i = 0; i < out.chosen_.size(); ++i)
    if (out.chosen_[i] >= out.fields_[i % out.fields_.size()].values.size())
      damaged(fmt::format("value {} of /fields is not in its list", i));
  return out;
}

}  // namespace trainyard::data
