// Tokenizers: bytes, SentencePiece models, and byte-level BPE.
#pragma once

#include "libtrain/base/error.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard::data {

// encode may be called from several threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;                  // "bytes", or the model file's name without its folder
  virtual std::uint32_t crc32c() const = 0;              // of the model file; 0 for bytes
  virtual std::string source() const = 0;                // what make_tokenizer was given
  virtual std::string_view model() const { return {}; }  // the bytes of the model file, for keeping it; none for bytes
  virtual std::int64_t vocabulary() const = 0;           // end of document included
  virtual std::int32_t end_of_document() const = 0;
  virtual std::int32_t begin_of_document() const { return -1; }  // -1: documents begin with their text
  virtual bool made_its_end() const { return false; }  // the end is an id of its own behind the model's tokens
  // What the file puts before each text by its own word (the post_processor of a tokenizer.json), as the file has it:
  // an id may lie outside the vocabulary. Documents of shards do not get it.
  virtual std::vector<std::int32_t> before_text() const { return {}; }
  // By the names that the file gives its tokens: -1, and an empty name, where there is none.
  virtual std::int32_t token_named(std::string_view name) const { return -1; }
  virtual std::string name_of_token(std::int32_t token) const { return {}; }
  virtual bool reads_special() const { return true; }  // false: what looks like one in text is text
  virtual std::int32_t unknown() const {
    return -1;
  }  // what text without a token of its own is encoded as; -1: there is no such text
  // What stands for a hidden token: the piece or added token "[MASK]", else "<mask>"; -1: it has neither.
  virtual std::int32_t mask() const { return -1; }
  // Does the token begin a word in running text? Pieces of SentencePiece say so by U+2581; of others a word begins with
  // white space, that of text itself. What stands alone (a control piece, an added token) is a word, too.
  virtual bool begins_word(std::int32_t) const { return true; }
  virtual void encode(std::string_view text,
                      std::vector<std::int32_t>& append_to) const = 0;  // without the end of document
  // The same for a vocabulary of at most 65536.
  virtual void encode_narrow(std::string_view text, std::vector<std::uint16_t>& append_to) const;
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;  // the end of document decodes to nothing
  // Bytes that the token adds to the decoded text, at the start of a document or inside it; what ends documents and
  // other signs without text add 0. -1: not known, the text it stood for is lost (an unknown token).
  enum class Place { start, inside };
  virtual std::int64_t text_bytes(std::int32_t token, Place place) const { return -1; }
};

// What is around documents, where a model's file does not say it, or says something else. Tokens are named by their
// text
// ("<|end_of_text|>"), or by their id in digits.
struct DocumentTokens {
  std::string end, begin;        // empty: the end as make_tokenizer finds it; no token at the beginning
  bool special_as_text = false;  // what looks like a special token in the text is text
};

// "bytes" (ids 0 to 255, end of document 256), or the path of a model file, whose content tells what it is:
// - a SentencePiece model; its </s> ends documents;
// - a tokenizer.json of byte-level BPE (bpe/definition.h); its added token <|endoftext|>, <|end_of_text|> or </s>, the
//   first of these that it has, ends documents.
// A model without such a token gets an id of its own behind its vocabulary. InputError for a file that is neither, and
// for tokens of documents that it does not have, or special ones to be text where it finds none.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& bytes_or_path, const DocumentTokens& around = {});
// Of a model file that was read already.
std::unique_ptr<Tokenizer> tokenizer_of_model(const std::string& path, std::string model, const DocumentTokens& around);

DocumentTokens document_tokens(std::int32_t end, std::int32_t begin);  // by their ids; -1: not said
// What ends documents by the files beside the model's (transformers): the eos_token of a tokenizer_config.json, else
// the eos_token_id of a config.json, of several the first. Empty: neither says it. InputError for a
// tokenizer_config.json that is no JSON.
struct EndBeside {
  std::string token;    // its text, or its id in digits
  std::string said_by;  // "eos_token of tokenizer_config.json"
};
EndBeside end_beside(const std::string& path);
// What is put before each text by the files beside the model's (transformers). InputError as above.
struct BeginBeside {
  std::optional<bool> added;  // add_bos_token of tokenizer_config.json; nothing: it is not said
  std::string token;          // bos_token of tokenizer_config.json: its text; empty: not said
};
BeginBeside begin_beside(const std::string& path);
// "tokenizer X has no token <|end|>", with some of `names` to try.
base::InputError no_such_token(const std::string& path, const std::string& token, std::vector<std::string> names);
base::InputError no_special_token(const std::string& path);
// The id that digits are; nothing for other text.
std::optional<std::int32_t> id_of_digits(std::string_view text);

// The name of the copy that a set keeps: "tokenizer.json", or "tokenizer.model" of a SentencePiece model.
std::string set_tokenizer_name(const Tokenizer& tokenizer);
// "tokenizer-1a2b3c4d.model" (or .json, as the file of the set is called): the copy of a model that a run keeps in its
// folder, so that it outlives the data.
std::string kept_tokenizer_name(std::string_view source, std::uint32_t crc32c);

}  // namespace trainyard::data
