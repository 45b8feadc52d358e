// Copies a tokenizer's model into the run's folder.
#include "libtrain/engine/run_tokenizer.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/data/tokenizer.h"

namespace trainyard::engine {

namespace {

// The file's content when it is the model that the set was made with, else empty.
std::string model_at(const std::string& path, const data::SetIndex& index) {
  if (base::file_size(path) < 0) return {};
  auto model = base::read_file(path);
  return base::crc32c(model.data(), model.size()) == index.tokenizer_crc32c ? model : std::string();
}

}  // namespace

void keep_tokenizer(const std::string& output, const std::string& data, const data::SetIndex& index) {
  const auto source = data::tokenizer_path(data, index);
  if (source == "bytes") return;
  const auto kept = output + "/" + data::kept_tokenizer_name(source, index.tokenizer_crc32c);
  std::string model;
  try {
    if (!model_at(kept, index).empty()) return;
    model = model_at(source, index);
  } catch (const base::InputError& e) {
    base::log_warning("{}", e.what());
  }
  if (!model.empty()) return base::write_file(kept, model);
  base::log_warning(
      "{} is not the tokenizer that the data was made with, or is gone: generate will ask for --tokenizer",
      base::one_line(source));
}

}  // namespace trainyard::engine
