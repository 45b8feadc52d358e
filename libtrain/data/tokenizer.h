// Tokenizers: bytes, SentencePiece models, and those of a tokenizer.json.
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

// Several threads may call encode at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual std::string name() const = 0;                  // "bytes", or the model file's name without its folder
  virtual std::uint32_t crc32c() const = 0;              // of the model file; 0 for bytes
  virtual std::string kind() const { return {}; }        // "bytes", "SentencePiece", "WordPiece", ...; empty: not known
  virtual std::string source() const = 0;                // the argument of make_tokenizer
  virtual std::string_view model() const { return {}; }  // bytes of the model file, to keep a copy; empty for bytes
  virtual std::int64_t vocabulary() const = 0;           // includes the end of document
  virtual std::int32_t end_of_document() const = 0;
  virtual std::int32_t begin_of_document() const { return -1; }  // -1: documents begin with their text
  virtual bool made_its_end() const { return false; }            // the end is a new id after the model's tokens
  // What the file itself asks to put before each text (the post_processor of a tokenizer.json), as in the file. An id
  // may lie outside the vocabulary. Documents in shards do not get these tokens.
  virtual std::vector<std::int32_t> before_text() const { return {}; }
  // Tokens by their names in the file. Without a match: -1, or an empty name.
  virtual std::int32_t token_named(std::string_view name) const { return -1; }
  virtual std::string name_of_token(std::int32_t token) const { return {}; }
  virtual bool reads_special() const { return true; }  // false: text that looks like a special token is text
  // The token for text without a token of its own; -1: there is no such text.
  virtual std::int32_t unknown() const { return -1; }
  // The mask token: the piece or added token "[MASK]", else "<mask>"; -1: it has neither.
  virtual std::int32_t mask() const { return -1; }
  // Whether the token begins a word in running text. Pieces of SentencePiece, and tokens of their kind, mark this by
  // U+2581. WordPiece marks the others. In other tokenizers a word begins with white space in the text itself. A token
  // that stands alone (a control piece, an added token) is a word too.
  virtual bool begins_word(std::int32_t) const { return true; }
  // Without the end of document.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& append_to) const = 0;
  // The same for one part of a text. No token crosses from part to part. What a tokenizer puts before a text alone (a
  // space, as most SentencePiece models do) does not come again where a text goes on.
  struct Before {
    std::string_view text = {};   // the part before this one; empty: a document or a token ends there
    bool document_begins = true;  // nothing but a begin_of_document is before `text`
  };
  virtual void encode_part(std::string_view text, const Before& before, std::vector<std::int32_t>& append_to) const;
  // Whether spaces belong to the word before them, and a text gets one at its end (treat_whitespace_as_suffix of
  // SentencePiece). Then encode_part is for whole texts alone: it does not know whether a text goes on.
  virtual bool space_behind_words() const { return false; }
  // Whether a special token is text to encode, which finds it there: SentencePiece's user-defined pieces.
  virtual bool is_in_text(std::int32_t) const { return false; }
  // The white space beside a token of its own that belongs to it.
  struct TakesSpace {
    bool left = false, right = false;
  };
  virtual TakesSpace takes_space(std::int32_t) const { return {}; }
  // As encode, for a vocabulary of at most 65536.
  virtual void encode_narrow(std::string_view text, std::vector<std::uint16_t>& append_to) const;
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;  // the end of document decodes to nothing
  // Bytes that the token adds to the decoded text, at the start of a document or inside it. Tokens without text, such
  // as the end of document, add 0. -1: not known, because the original text is lost (an unknown token).
  enum class Place { start, inside };
  virtual std::int64_t text_bytes(std::int32_t token, Place place) const { return -1; }
};

// The tokens around documents, where a model's file does not define them, or defines others. Tokens are named by their
// text ("<|end_of_text|>"), or by their id in digits.
struct DocumentTokens {
  std::string end, begin;        // empty: the end that make_tokenizer finds; no token at the beginning
  bool special_as_text = false;  // what looks like a special token in the text is text
};

// Makes a tokenizer: "bytes" (ids 0 to 255, end of document 256), or the path of a model file, whose kind the content
// decides:
// - a SentencePiece model; its </s> ends documents;
// - a tokenizer.json (json_tokenizer/json_tokenizer.h); its token <|endoftext|>, <|end_of_text|>, <eos>, </s> or [SEP]
//   ends documents: the first of these that is special, else the first that is an added token, else the first.
// A model without such a token gets a new id after its vocabulary. InputError for a file that is neither, and for
// tokens of documents that it does not have. Also where special tokens shall be text and it has none.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& bytes_or_path, const DocumentTokens& around = {});
// The same for a model file that was read already.
std::unique_ptr<Tokenizer> tokenizer_of_model(const std::string& path, std::string model, const DocumentTokens& around);

DocumentTokens document_tokens(std::int32_t end, std::int32_t begin);  // from ids; -1: not given
// The ends of documents according to the files beside the model's (transformers), the likeliest first: the eos_token of
// a tokenizer_config.json, and the eos_token_id of a config.json (the first if there are several). The tokenizer may
// lack them. InputError for a tokenizer_config.json that is no JSON.
struct EndBeside {
  std::string token;     // its text, or its id in digits
  std::string given_by;  // "eos_token of tokenizer_config.json"
};
std::vector<EndBeside> ends_beside(const std::string& path);
// The token before each text according to the files beside the model's (transformers). InputError as above.
struct BeginBeside {
  std::optional<bool> added;  // add_bos_token of tokenizer_config.json; nothing: not given
  std::string token;          // text of bos_token of tokenizer_config.json; empty: not given
};
BeginBeside begin_beside(const std::string& path);
// The error "tokenizer X has no token <|end|>"; its hint has some of `names`.
base::InputError no_such_token(const std::string& path, const std::string& token, std::vector<std::string> names);
base::InputError no_special_token(const std::string& path);
// The id that a text of digits means; nothing for other text.
std::optional<std::int32_t> id_of_digits(std::string_view text);

// The name of a set's copy of the model: "tokenizer.json", or "tokenizer.model" for SentencePiece.
std::string set_tokenizer_name(const Tokenizer& tokenizer);

}  // namespace trainyard::data
