// Tokenizing: batches of documents are tokenized by several threads and handed on in order.
#pragma once

#include "libtrain/data/tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::data {

struct TokenizedDocument {
  const std::string& text;
  const std::vector<std::int32_t>& tokens;  // with the end of document
  const std::string& source;
};

// Memory: two batches.
class Tokenizing {
 public:
  Tokenizing(const Tokenizer& tokenizer, int threads, std::function<void(const TokenizedDocument&)> take)
      : tokenizer_(tokenizer), threads_(threads), take_(std::move(take)) {}
  void add(std::string&& text, const std::string& source);
  void flush();  // hands on what is held

 private:
  const Tokenizer& tokenizer_;
  int threads_;
  std::function<void(const TokenizedDocument&)> take_;
  std::vector<std::string> texts_;
  std::vector<std::size_t> places_;  // per text, index into sources_
  std::size_t bytes_ = 0;
  std::vector<std::string> sources_;  // of the batch, in order; the last one goes on in the next
};

}  // namespace trainyard::data
