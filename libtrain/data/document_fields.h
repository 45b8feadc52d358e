// DocumentFields: what a shard keeps of each document beside its tokens, such as its language.
#pragma once

#include "libtrain/data/shard_set.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

// The values of some fields, as texts. Each shard has a list of the different values of a field.
class DocumentFields {
 public:
  static constexpr std::size_t most_values = 1000;  // different values of a field in a shard

  DocumentFields() = default;
  explicit DocumentFields(const std::vector<std::string>& names);
  // Adds a document of so many tokens. InputError for more than most_values.
  void add(std::span<const std::string> values, std::int64_t tokens);
  const FieldTokens& tokens() const { return tokens_; }
  std::vector<std::string> values_of(std::int64_t document) const;
  bool has(std::int64_t document, const std::string& field, const std::string& value) const;

  // /fields: for each document, the place of each value in its list. /field_values: names and lists, as JSON.
  void write(io::Hdf5File& file) const;
  static DocumentFields read(const io::Hdf5File& file, std::int64_t documents);  // InputError where they are damaged

 private:
  struct Field {
    std::string name;
    std::vector<std::string> values;
    std::map<std::string, std::uint32_t> places = {};
  };
  std::vector<Field> fields_;
  std::vector<std::uint32_t> chosen_;  // [documents, fields]
  FieldTokens tokens_;
};

}  // namespace trainyard::data
