// DocumentSource for pairs in files.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/line_pairs.h"
#include "libtrain/io/input_stream.h"

namespace trainyard::data {

void DocumentSource::add_pair_files(const std::vector<std::string>& inputs) {
  const auto& targets = options_.pairs->targets;
  TRAINYARD_ASSERT(inputs.size() == targets.size() && !inputs.empty(), "{} files of sources and {} of targets",
                   inputs.size(), targets.size());
  inputs_ = inputs;
  found_.assign(inputs_.size(), false), json_.assign(inputs_.size(), false);
  kinds_.plain = inputs_.size();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const auto source = io::InputStream::check(inputs_[i]), target = io::InputStream::check(targets[i]);
    const auto size = source < 0 || target < 0 ? -1 : source + target;
    pieces_.push_back({i, 0, size});
    sizes_.push_back(size);
    total_bytes_ = size < 0 || total_bytes_ < 0 ? -1 : total_bytes_ + size;
  }
}

std::vector<std::string> DocumentSource::every_file() const {
  auto out = inputs_;
  if (options_.pairs) out.insert(out.end(), options_.pairs->targets.begin(), options_.pairs->targets.end());
  return out;
}

bool DocumentSource::next_pairs(SourceStretch& out, std::size_t least) {
  const auto& pairs = *options_.pairs;
  if (!checked_) {
    checked_ = true;
    for (const auto& path : every_file())  // before hours are spent on the first ones
      if (io::InputStream::check(path) >= 0) LineSide(path, options_.poll, options_.largest_document).fill(1);
  }
  const auto name = [&](std::size_t i) { return source_name(inputs_[i]) + ":" + source_name(pairs.targets[i]); };
  if (!pairs_reading_) {
    if (next_piece_ == pieces_.size()) return false;
    pairs_reading_ = std::make_unique<LinePairs>(inputs_[next_piece_], pairs.targets[next_piece_], options_.poll,
                                                 options_.largest_document);
    read_before_ = bytes_read_;
    ++next_piece_;
  }
  out.piece = next_piece_ - 1;
  out.source = name(out.piece);
  out.rules = {};
  out.rules.largest_document = options_.largest_document;
  out.rules.pairs = options_.pairs;
  out.rules.languages = pairs.languages_of(out.piece);
  out.stretch.inside_line = out.stretch.goes_on = out.stretch.too_long = false;
  out.last = !pairs_reading_->next(least, out.stretch.bytes, out.stretch.targets);
  out.stretch.size = out.stretch.bytes.size();
  bytes_read_ = read_before_ + pairs_reading_->bytes_taken();
  if (out.last) pairs_reading_.reset();
  if (options_.poll) options_.poll();
  return true;
}

}  // namespace trainyard::data
