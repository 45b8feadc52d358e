// Best fit by a table of open sequences for each number of free tokens, and bits that say where the table has some.
#include "libtrain/data/packing.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace trainyard::data {

namespace {

// A set of numbers below a limit that finds the next member in time log_64 of the limit.
class NumberSet {
 public:
  explicit NumberSet(std::size_t limit) {
    do levels_.emplace_back(limit = (limit + 63) / 64);
    while (limit > 1);
  }
  void insert(std::size_t n) {
    for (auto& level : levels_) level[n / 64] |= std::uint64_t{1} << n % 64, n /= 64;
  }
  void erase(std::size_t n) {
    for (auto& level : levels_) {
      level[n / 64] &= ~(std::uint64_t{1} << n % 64);
      if (level[n / 64] != 0) return;
      n /= 64;
    }
  }
  // The least member that is not below n; -1: there is none.
  std::int64_t from(std::size_t n) const {
    for (std::size_t l = 0; l < levels_.size(); ++l, n = n / 64 + 1) {
      if (n / 64 >= levels_[l].size()) return -1;
      const auto rest = levels_[l][n / 64] >> n % 64;
      if (rest == 0) continue;
      n += base::size(std::countr_zero(rest));
      while (l-- > 0) n = n * 64 + base::size(std::countr_zero(levels_[l][n]));
      return static_cast<std::int64_t>(n);
    }
    return -1;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace

std::vector<std::vector<PackedPiece>> best_fit(std::span<const std::int64_t> lengths, std::int64_t capacity) {
  std::vector<std::vector<PackedPiece>> out;
  std::vector<std::vector<PackedPiece>> of_length(base::size(capacity));  // pieces shorter than a sequence
  for (std::int64_t d = 0; d < std::ssize(lengths); ++d) {
    std::int64_t first = 0;
    const auto length = lengths[base::size(d)];
    for (; length - first >= capacity; first += capacity) out.push_back({{d, first, capacity}});
    if (first < length) base::at(of_length, length - first).push_back({d, first, length - first});
  }
  std::vector<std::vector<std::size_t>> with_room(base::size(capacity));  // places in `out`
  NumberSet rooms(base::size(capacity));
  for (auto length = capacity - 1; length > 0; --length)
    for (const auto& piece : base::at(of_length, length)) {
      auto room = rooms.from(base::size(length));
      std::size_t place = out.size();
      if (room < 0) {
        out.emplace_back();
        room = capacity;
      } else {
        auto& open = base::at(with_room, room);
        place = open.back();
        open.pop_back();
        if (open.empty()) rooms.erase(base::size(room));
      }
      out[place].push_back(piece);
      if (room == length) continue;
      base::at(with_room, room - length).push_back(place);
      rooms.insert(base::size(room - length));
    }
  const auto before = [](const PackedPiece& a, const PackedPiece& b) {
    return a.document != b.document ? a.document < b.document : a.first < b.first;
  };
  for (auto& sequence : out) std::sort(sequence.begin(), sequence.end(), before);
  std::sort(out.begin(), out.end(), [&](const auto& a, const auto& b) { return before(a.front(), b.front()); });
  return out;
}

PackingWriter::PackingWriter(ShardWriter& to, std::int64_t sequence, std::int32_t end_of_document)
    : to_(to), sequence_(sequence), end_of_document_(end_of_document) {
  TRAINYARD_ASSERT(sequence >= 1 && sequence < to.shard_tokens(), "sequences of {} tokens in shards of {}", sequence,
                   to.shard_tokens());
}

void PackingWriter::add(const void* tokens, std::int64_t count, const std::string& source, const DocumentFacts& facts) {
  const auto answers = facts.answers;
  const auto bytes = base::size(count * to_.token_bytes()), at = tokens_.size();
  tokens_.resize(at + bytes);
  std::memcpy(tokens_.data() + at, tokens, bytes);
  if (sources_.empty() || sources_.back() != source) sources_.push_back(source);
  documents_.push_back({static_cast<std::int64_t>(at) / to_.token_bytes(), sources_.size() - 1, answers_.size(),
                        answers_.size() + answers.size()});
  answers_.insert(answers_.end(), answers.begin(), answers.end());
  lengths_.push_back(count);
  if (std::ssize(tokens_) >= to_.shard_tokens() * to_.token_bytes()) write_held();
}

void PackingWriter::fill(std::int64_t count) {
  const std::string no_source;
  for (std::int64_t i = 0; i < count; ++i)  // little-endian, so that its first bytes are a narrower number
    to_.add_piece({reinterpret_cast<const char*>(&end_of_document_), 1, 0, no_source, {}});
}

void PackingWriter::write_held() {
  for (const auto& sequence : best_fit(lengths_, sequence_)) {
    if (to_.held() > 0 && to_.held() + sequence_ + 1 > to_.shard_tokens()) {
      fill(1);
      to_.close_shard();
    }
    auto left = sequence_;
    for (const auto& piece : sequence) {
      const auto& document = base::at(documents_, piece.document);
      const DocumentFacts facts{std::span(answers_).subspan(document.answers, document.answers_end - document.answers)};
      to_.add_piece({tokens_.data() + (document.first + piece.first) * to_.token_bytes(), piece.count, piece.first,
                     sources_[document.source], facts});
      left -= piece.count;
    }
    fill(left);
    ++sequences_, padding_ += left;
  }
  tokens_.clear(), lengths_.clear(), documents_.clear(), answers_.clear(), sources_.clear();
}

void PackingWriter::finish() {
  write_held();
  if (to_.held() > 0) fill(1);
}

}  // namespace trainyard::data
