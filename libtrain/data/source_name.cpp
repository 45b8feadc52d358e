// Writes control characters and bytes that are no UTF-8 in another way.
#include "libtrain/data/source_name.h"

#include "libtrain/data/document_splitter.h"

#include <fmt/format.h>

namespace trainyard::data {

std::string source_name(std::string_view path) {
  const bool utf8 = is_utf8(path);
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const auto c = static_cast<unsigned char>(path[i]);
    // U+0080 to U+009F, which terminals obey.
    const bool second_of_control = utf8 && i > 0 && static_cast<unsigned char>(path[i - 1]) == 0xC2 && c < 0xA0;
    const bool first_of_control =
        utf8 && c == 0xC2 && i + 1 < path.size() && static_cast<unsigned char>(path[i + 1]) < 0xA0;
    if (c == '\\') out += "\\\\";
    else if (c == '\t') out += "\\t";
    else if (c == '\n') out += "\\n";
    else if (c == '\r') out += "\\r";
    else if (c < 0x20 || c == 0x7F || (!utf8 && c >= 0x80) || first_of_control || second_of_control)
      out += fmt::format("\\x{:02x}", c);
    else out += path[i];
  }
  return out;
}

}  // namespace trainyard::data
