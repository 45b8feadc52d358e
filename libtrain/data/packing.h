// Packing: documents into sequences of one length, so that few are cut (Ding et al. 2024, "Fewer truncations improve
// language modeling").
#pragma once

#include "libtrain/data/shard_writer.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainyard::data {

// A range of a document that no sequence divides.
struct PackedPiece {
  std::int64_t document = 0, first = 0, count = 0;
  bool operator==(const PackedPiece&) const = default;
};

// Packs documents of these lengths into sequences of `capacity` tokens. A longer document is cut into whole sequences
// and a rest. Pieces are taken from the longest to the shortest, those of one length in the order of documents; each
// goes to the sequence with the least room that holds it, of several to the one that was opened last. Every token is
// in one sequence. Sequences are in the order of the first document that they have, and their pieces in the order of
// documents. The time is linear in the number of pieces and the capacity.
std::vector<std::vector<PackedPiece>> best_fit(std::span<const std::int64_t> lengths, std::int64_t capacity);

// Collects documents, and writes them to `to` as packed sequences. What a sequence lacks is filled with ends of
// document, each a document of its own. Shards end with one such token more, so that the last sequence is a window,
// too. Memory: the tokens of about a shard, which are packed together.
class PackingWriter {
 public:
  PackingWriter(ShardWriter& to, std::int64_t sequence, std::int32_t end_of_document);
  // As ShardWriter::add.
  void add(const void* tokens, std::int64_t count, const std::string& source, const DocumentFacts& facts);
  void finish();  // writes what is held; call it before the writer's own finish()
  std::int64_t sequences() const { return sequences_; }
  std::int64_t padding() const { return padding_; }  // tokens that fill sequences

 private:
  struct Document {
    std::int64_t first = 0;
    std::size_t source = 0, answers = 0, answers_end = 0;
  };
  void write_held();
  void fill(std::int64_t count);

  ShardWriter& to_;
  std::int64_t sequence_, sequences_ = 0, padding_ = 0;
  std::int32_t end_of_document_;
  std::vector<char> tokens_;
  std::vector<std::int64_t> lengths_;
  std::vector<Document> documents_;
  std::vector<AnswerSpan> answers_;
  std::vector<std::string> sources_;
};

}  // namespace trainyard::data
