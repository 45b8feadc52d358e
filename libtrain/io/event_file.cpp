// Writes protocol buffers by hand; four kinds of fields suffice.
#include "libtrain/io/event_file.h"

#include "libtrain/base/checksum.h"

#include <bit>
#include <concepts>

namespace trainyard::io {

namespace {

enum class Wire : unsigned { varint = 0, eight_bytes = 1, sized = 2, four_bytes = 5 };

template <std::unsigned_integral T> void put_fixed(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_key(std::string& out, unsigned field, Wire wire) { put_varint(out, field << 3 | static_cast<unsigned>(wire)); }
void put_text(std::string& out, unsigned field, std::string_view text) {
  put_key(out, field, Wire::sized);
  put_varint(out, text.size());
  out += text;
}
void put_double(std::string& out, unsigned field, double value) {
  put_key(out, field, Wire::eight_bytes);
  put_fixed(out, std::bit_cast<std::uint64_t>(value));
}
void put_float(std::string& out, unsigned field, float value) {
  put_key(out, field, Wire::four_bytes);
  put_fixed(out, std::bit_cast<std::uint32_t>(value));
}

std::string record(std::string_view data) {
  std::string out;
  put_fixed(out, std::uint64_t{data.size()});
  put_fixed(out, masked_crc32c(out));
  out += data;
  put_fixed(out, masked_crc32c(data));
  return out;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view data) {
  return std::rotr(base::crc32c(data.data(), data.size()), 15) + 0xA282EAD8u;
}

std::string event_file_header(double wall_time, std::string_view writer) {
  std::string event, source;
  put_double(event, 1, wall_time);
  put_text(event, 3, "brain.Event:2");
  put_text(source, 1, writer);
  put_text(event, 10, source);
  return record(event);
}

std::string event_record(double wall_time, std::int64_t step, const std::vector<TaggedValue>& values) {
  std::string event, summary;
  for (const auto& v : values) {
    std::string value;
    put_text(value, 1, v.tag);
    put_float(value, 2, v.value);
    put_text(summary, 1, value);
  }
  put_double(event, 1, wall_time);
  put_key(event, 2, Wire::varint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_text(event, 5, summary);
  return record(event);
}

}  // namespace trainyard::io
