// Model: turns a piece of text into tokens. Each kind of tokenizer has one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data::pieces {

class Model {
 public:
  // Memory of one thread.
  class Memory {
   public:
    virtual ~Memory() = default;
  };

  virtual ~Model() = default;
  virtual std::unique_ptr<Memory> memory() const = 0;
  // `piece` is not empty and valid UTF-8. `memory` is of this model. The tokens depend on the piece alone.
  virtual void encode(std::string_view piece, Memory& memory, std::vector<std::int32_t>& append_to) const = 0;
};

// The byte that a token such as <0x0A> stands for; -1: it is another token.
int byte_of_token(std::string_view token);
std::string byte_token(unsigned char byte);

}  // namespace trainyard::data::pieces
