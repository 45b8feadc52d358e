// The records of an index: texts of a fixed size, little-endian numbers, and varints, one after the other.
#pragma once

#include "libtrain/checkpoint/refuse.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace trainyard::checkpoint {

static_assert(std::endian::native == std::endian::little);

inline constexpr std::size_t text_bytes = 32;  // size of a text, padded with zeros

class RecordWriter {
 public:
  void text(std::string_view value);
  template <class T> void number(std::type_identity_t<T> value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void varint(std::int64_t value);  // seven bits a byte, lowest first; the top bit says that more bytes follow
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads records from `bytes`, which must outlive the reader. Anything invalid is an InputError that begins with
// `where`.
class RecordReader {
 public:
  RecordReader(std::string_view bytes, const std::string& where) : left_(bytes), where_(where) {}

  std::string text();
  template <class T> T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::int64_t count64();  // 8 bytes, at most largest_count
  std::int64_t varint();   // in its shortest form, at most largest_count
  // Refuses unless that many records, of at least that many bytes each, can still follow. Call it before allocating
  // memory for them. Returns `count`.
  std::size_t records(std::uint64_t count, std::size_t least_bytes) const;
  bool done() const { return left_.empty(); }
  std::size_t left() const { return left_.size(); }

  template <class... A> [[noreturn]] void refuse(fmt::format_string<A...> format, A&&... values) const {
    checkpoint::refuse(where_, format, std::forward<A>(values)...);
  }

 private:
  std::string_view take(std::size_t n);

  std::string_view left_;
  const std::string& where_;
};

}  // namespace trainyard::checkpoint
