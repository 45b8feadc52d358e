// Divides all inputs, laid end to end, into even shares. Each boundary moves to the next beginning of a document.
#include "libtrain/data/share.h"

#include "libtrain/data/document_splitter.h"
#include "libtrain/io/input_stream.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace trainyard::data {

namespace {

// An input and a byte in it. The byte is never the input's size; that place is byte 0 of the next input.
using Place = std::pair<std::size_t, std::int64_t>;

// The first byte at or after `from` at which a document begins, or the size.
std::int64_t next_document(const std::string& path, std::int64_t from, std::int64_t size, Cuts cuts,
                           const std::function<void()>& poll) {
  io::InputStream file(path, poll, from - 1, size);
  std::vector<char> buffer(64 << 10);
  // About the line that contains `at`: whether its beginning was seen, and whether it is blank so far.
  bool on_new_line = false, blank = true;
  std::int64_t begin = 0;  // where that line begins
  for (std::int64_t at = from - 1; const auto n = file.read(buffer.data(), buffer.size());)
    for (const char c : std::string_view(buffer.data(), n)) {
      ++at;
      if (c != '\n') {
        blank &= c == ' ' || c == '\t' || c == '\r';
        continue;
      }
      const bool ends = on_new_line && blank && at - begin <= static_cast<std::int64_t>(longest_blank);
      if (cuts == Cuts::lines || ends) return at;
      on_new_line = blank = true;
      begin = at;
    }
  return size;
}

Place place_of(const std::vector<std::string>& inputs, const std::vector<std::int64_t>& sizes, std::int64_t nominal,
               const std::function<Cuts(std::size_t)>& cuts, const std::function<void()>& poll) {
  std::size_t input = 0;
  for (; input < inputs.size() && nominal >= sizes[input]; ++input) nominal -= sizes[input];
  if (input == inputs.size() || nominal == 0) return {input, 0};
  const auto size = sizes[input];
  const auto kind = io::InputStream::is_packed(inputs[input]) ? Cuts::nowhere : cuts(input);
  const auto byte = kind == Cuts::nowhere ? (nominal < size - nominal ? 0 : size)
                                          : next_document(inputs[input], nominal, size, kind, poll);
  return byte == size ? Place{input + 1, 0} : Place{input, byte};
}

}  // namespace

std::vector<Piece> pieces_of(const std::vector<std::string>& inputs, const std::vector<std::int64_t>& sizes,
                             Share share, const std::function<Cuts(std::size_t)>& cuts,
                             const std::function<void()>& poll) {
  std::int64_t total = 0;
  for (const auto size : sizes) total += size;
  const auto place = [&](int task) -> Place {
    if (task == 0) return {0, 0};
    if (task == share.tasks) return {inputs.size(), 0};
    const auto nominal = total / share.tasks * task + total % share.tasks * task / share.tasks;
    return place_of(inputs, sizes, nominal, cuts, poll);
  };
  const auto [first, from] = place(share.task);
  const auto [last, until] = place(share.task + 1);
  std::vector<Piece> out;
  for (auto input = first; input < inputs.size() && input <= last; ++input) {
    const auto begin = input == first ? from : 0, end = input == last ? until : sizes[input];
    if (begin < end || (input < last && sizes[input] == 0))  // an empty input belongs to a share too
      out.push_back({input, begin, end, begin == 0, end == sizes[input]});
  }
  return out;
}

}  // namespace trainyard::data
