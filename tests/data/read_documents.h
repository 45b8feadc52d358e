// Reads a source to its end, in stretches of any size, and returns its documents and refusals.
#pragma once

#include "libtrain/data/document_source.h"

#include <cstddef>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <vector>

namespace trainyard::testing {

struct ReadDocuments {
  std::vector<std::string> documents, refusals;
};

inline ReadDocuments read_documents(data::DocumentSource& source,
                                    std::size_t stretch_bytes = data::DocumentSource::stretch_bytes) {
  ReadDocuments out;
  data::DocumentSplitter splitter;
  data::Findings findings;
  for (data::DocumentSource::SourceStretch s; source.next(s, stretch_bytes);) {
    splitter.split(
        s.stretch, s.rules, [&](std::string_view text) { out.documents.emplace_back(text); }, findings);
    source.settle(s, findings, [&](const data::Refusal& r) {
      const auto name = std::filesystem::path(r.source).filename().string();
      out.refusals.push_back(fmt::format("{}:{}: {}", name, r.line, r.reason));
    });
  }
  return out;
}

inline ReadDocuments read_documents(const std::vector<std::string>& inputs, const data::SourceOptions& options = {},
                                    std::size_t stretch_bytes = data::DocumentSource::stretch_bytes) {
  data::DocumentSource source(inputs, options);
  return read_documents(source, stretch_bytes);
}

}  // namespace trainyard::testing
