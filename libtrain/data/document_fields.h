// DocumentFields: what a shard keeps of each document beside its tokens, such as its language.
#pragma once

#include "libtrain/data/shard_set.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace trainyard::data {

// The different values of some fields in a whole set.
class FieldValues {
 public:
  static constexpr std::size_t most = 1000;  // of a field

  explicit FieldValues(std::vector<std::string> names) : names_(std::move(names)), values_(names_.size()) {}
  // Adds the values of a document, one of each field or none at all. InputError for more than `most` of a field.
  void add(std::span<const std::string> values);
  std::vector<std::string> absent() const;  // the fields of which no document has a value

 private:
  std::vector<std::string> names_;
  std::vector<std::unordered_set<std::string>> values_;  // of each field
};

// The values of some fields of each document in a shard, as texts. A shard has a list of the different values of a
// field.
class DocumentFields {
 public:
  DocumentFields() = default;
  explicit DocumentFields(const std::vector<std::string>& names);
  // Adds a document of so many tokens.
  void add(std::span<const std::string> values, std::int64_t tokens);
  const FieldTokens& tokens() const { return tokens_; }
  std::vector<std::string> values_of(std::int64_t document) const;
  bool has(std::int64_t document, const std::string& field, const std::string& value) const;

  // /fields: for each document, the place of each value in its list. /field_values: names and lists, as JSON.
  void write(io::Hdf5File& file) const;
  // Of the bytes of /field_values and then /fields. Nothing where no field is kept.
  std::optional<std::uint32_t> crc32c() const;
  // InputError where they are damaged, or have another checksum than this one.
  static DocumentFields read(const io::Hdf5File& file, std::int64_t documents,
                             std::optional<std::uint32_t> crc32c = {});

 private:
  struct Field {
    std::string name;
    std::vector<std::string> values;
    std::map<std::string, std::uint32_t> places = {};
  };
  std::string lists() const;  // content of /field_values
  std::vector<Field> fields_;
  std::vector<std::uint32_t> chosen_;  // [documents, fields]
  FieldTokens tokens_;
};

}  // namespace trainyard::data
