// Copies a tokenizer's model into the run's folder.
#include "libtrain/engine/run_tokenizer.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/document_tokens.h"
#include "libtrain/checkpoint/kept_tokenizer.h"
#include "libtrain/data/tokenizer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace trainyard::engine {

namespace {

// The content of the file if it is the model that made the set, else empty.
std::string model_at(const std::string& path, const data::SetIndex& index) {
  if (base::file_size(path) < 0) return {};
  auto model = base::read_file(path);
  return base::crc32c(model.data(), model.size()) == index.tokenizer_crc32c ? model : std::string();
}

}  // namespace

void keep_tokenizer(const std::string& output, const std::string& data, const data::SetIndex& index) {
  const auto source = data::tokenizer_path(data, index);
  if (source == "bytes") return;
  const auto kept = output + "/" + checkpoint::kept_tokenizer_name(source, index.tokenizer_crc32c);
  std::string model;
  try {
    if (!model_at(kept, index).empty()) return;
    model = model_at(source, index);
  } catch (const base::InputError& e) {
    base::log_warning("{}", e.what());
  }
  if (!model.empty()) return base::write_file(kept, model);
  base::log_warning("{} is not the tokenizer that the data was made with, or is gone: generate will ask for $tokenizer",
                    base::one_line(source));
}

bool RecordedTokenizer::made(const data::SetIndex& index) const {
  return crc32c == index.tokenizer_crc32c && (crc32c != 0 || name == index.tokenizer);  // one file may have two names
}

std::optional<RecordedTokenizer> tokenizer_of(const checkpoint::RunState& state) {
  const auto& from = state.provenance;
  const auto at = from.is_object() ? from.find("tokenizer") : from.end();
  if (at == from.end() || !at->is_object() || !at->contains("crc32c")) return {};
  const auto &name = at->contains("name") ? (*at)["name"] : nlohmann::json(), &crc = (*at)["crc32c"];
  return RecordedTokenizer{name.is_string() ? name.get<std::string>() : "",
                           crc.is_number_integer() ? crc.get<std::int64_t>() : 0};
}

std::string other_tokenizer_text(const std::string& data, const data::SetIndex& index, const std::string& checkpoint,
                                 const RecordedTokenizer& tokenizer) {
  return fmt::format("{} was made with tokenizer {} (CRC32C {:08x}), the training data of {} with {} ({:08x})", data,
                     index.tokenizer, index.tokenizer_crc32c, checkpoint, tokenizer.name, tokenizer.crc32c);
}

std::string other_ends_text(const std::string& data, const data::SetIndex& index, const std::string& checkpoint,
                            const checkpoint::RunState& state) {
  const auto known = checkpoint::document_ids_of(state.provenance);
  const auto ends = checkpoint::end_ids_of(state.provenance);
  std::vector<std::string> texts;
  if (known.end >= 0 && !index.answers && std::ranges::find(ends, index.end_of_document) == ends.end())
    texts.push_back(
        fmt::format("{} ends documents with token {}; the weights of {} know {} as their end (shard-data "
                    "--end-of-document)",
                    data, index.end_of_document, checkpoint, known.end));
  if (known.begin >= 0 && known.begin != index.begin_of_document)
    texts.push_back(fmt::format(
        "{} begins documents with {}; the weights of {} know token {} as the beginning of every text (shard-data "
        "--begin-of-document)",
        data, index.begin_of_document < 0 ? "no token" : fmt::format("token {}", index.begin_of_document), checkpoint,
        known.begin));
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace trainyard::engine
