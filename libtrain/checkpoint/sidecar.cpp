// Writing and reading sidecars.
#include "libtrain/checkpoint/sidecar.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/checkpoint/bounds.h"
#include "libtrain/checkpoint/sealed_json.h"

#include <cmath>

namespace trainyard::checkpoint {

using nlohmann::json;
using Object = base::SortedJsonObject;

std::string sidecar_text(const Sidecar& s) {
  json tensors = json::object();
  for (const auto& [name, t] : s.tensors) {
    const bool finite = std::isfinite(t.squares);
    tensors[name] = {{"fingerprint", hex64(t.fingerprint)},
                     {"squares", finite ? json(t.squares) : json(nullptr)},
                     {"squares_low", finite ? json(t.squares_low) : json(nullptr)}};
  }
  return sealed_text({{"format", rank_format},
                      {"step", s.step},
                      {"rank", s.rank},
                      {"ranks", s.ranks},
                      {"file", file_to_json(s.file)},
                      {"index", file_to_json(s.index)},
                      {"tensors", tensors},
                      {"writer", s.writer}});
}

std::string writer_of_sidecar(const std::string& text, const std::string& where) {
  const auto j = unsealed_json(text, where);
  return Object(j, where).text("writer");
}

Sidecar sidecar_from_text(const std::string& text, const std::string& where) {
  const auto j = unsealed_json(text, where);
  Object o(j, where);
  if (const auto format = o.text("format"); format != rank_format)
    throw base::InputError(fmt::format("{}: format is {}, expected {}", where, base::excerpt(format), rank_format));
  auto file = o.object("file"), index = o.object("index");
  Sidecar s{o.integer("step", 0),
            static_cast<int>(o.integer("rank", 0, largest_ranks)),
            static_cast<int>(o.integer("ranks", 1, largest_ranks)),
            file_from_json(file),
            file_from_json(index),
            {},
            o.text("writer")};
  auto tensors = o.object("tensors");
  for (const auto& [name, json] : o.at("tensors").items()) {
    auto t = tensors.object(name);
    s.tensors[name] = {hex_of<std::uint64_t>(t, "fingerprint"), finite_or_nan(t, "squares"),
                       finite_or_nan(t, "squares_low")};
  }
  return s;
}

}  // namespace trainyard::checkpoint
