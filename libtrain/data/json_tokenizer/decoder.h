// Decoder: turns the texts of tokens into text.
#pragma once

#include "libtrain/base/json.h"
#include "libtrain/data/json_tokenizer/finders.h"

#include <memory>
#include <string>
#include <vector>

namespace trainyard::data::json_tokenizer {

class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};

class Decoder {
 public:
  // The key `decoder` of the whole file; nothing there joins tokens by spaces. InputError names a type that is not
  // supported.
  static Decoder read(base::SortedJsonObject& root);
  // Bytes that are part of a character may be cut off: the text need not be valid UTF-8.
  std::string text_of(std::vector<std::string> tokens) const;
  bool of_bytes() const { return of_bytes_; }  // it is ByteLevel alone

 private:
  std::vector<std::unique_ptr<DecoderStep>> steps_;
  bool joins_by_spaces_ = false, of_bytes_ = false;
};

}  // namespace trainyard::data::json_tokenizer
