// The inputs of a set, and what was left out, as text.
#include "libtrain/data/build_options.h"

#include "libtrain/base/number_text.h"

#include <fmt/format.h>

namespace trainyard::data {

std::string text_of(const Refusal& r) { return fmt::format("{}, line {}: {}", r.source, r.line, r.reason); }

std::string left_out_text(const BuildResult& r) {
  auto text =
      r.rejected == 0 ? std::string("none refused") : base::counted(r.rejected, "document") + " refused and left out";
  if (r.empty > 0) text += fmt::format(", {} left out", base::counted(r.empty, "empty document"));
  if (r.too_long > 0) text += fmt::format(", {} left out", base::counted(r.too_long, "too long pair"));
  return text;
}

std::vector<std::string> precious_of(const DocumentSource& source, const BuildOptions& options) {
  auto precious = options.precious;
  for (const auto& input : source.every_file())
    if (input != "-") precious.push_back(input);
  return precious;
}

}  // namespace trainyard::data
