// Cutters: the steps that divide text into pieces, which are the pre-tokenizers of a tokenizer.json and our own.
#pragma once

#include "libtrain/base/index.h"
#include "libtrain/data/bpe/scanner.h"
#include "libtrain/data/bpe/unicode_classes.h"
#include "libtrain/data/json_tokenizer/finders.h"
#include "libtrain/data/unicode/properties.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trainyard::data::json_tokenizer {

// What becomes of the matches of a step: pieces of their own, nothing, one piece with neighbours that match as well, or
// a part of the piece before or behind.
enum class Behavior { isolated, removed, contiguous, merged_with_previous, merged_with_next };

// Turns matches, in the order of the text, into pieces by a behavior. Pieces may be empty.
template <class GoOn> class Divider {
 public:
  Divider(std::string_view text, Behavior behavior, bool invert, const GoOn& go_on)
      : text_(text), behavior_(behavior), invert_(invert), go_on_(go_on) {}
  void match(std::size_t begin, std::size_t end) {
    if (done_ != begin) event(done_, begin, invert_);
    event(begin, end, !invert_);
    done_ = end;
  }
  void finish() {
    if (done_ != text_.size()) event(done_, text_.size(), invert_);
    if (open_) go_on_(text_.substr(begin_, end_ - begin_));
  }

 private:
  void event(std::size_t begin, std::size_t end, bool matches) {
    const auto part = text_.substr(begin, end - begin);
    if (behavior_ == Behavior::isolated) return go_on_(part);
    if (behavior_ == Behavior::removed) return matches ? void() : go_on_(part);
    bool joins = false;
    if (behavior_ == Behavior::contiguous) joins = matches == before_;
    else if (behavior_ == Behavior::merged_with_previous) joins = matches && !before_;
    else joins = before_ && !matches;
    before_ = matches;
    if (open_ && joins) {
      end_ = end;
      return;
    }
    if (open_) go_on_(text_.substr(begin_, end_ - begin_));
    begin_ = begin, end_ = end, open_ = true;
  }

  std::string_view text_;
  Behavior behavior_;
  bool invert_;
  const GoOn& go_on_;
  std::size_t done_ = 0, begin_ = 0, end_ = 0;
  bool open_ = false, before_ = false;
};

// Memory of one thread for one step: its text, where it writes one.
struct CutterMemory {
  std::string text;
};

// What a piece begins: the document, a text of its own, or neither, because it goes on inside a piece.
enum class Begin { document, text, nothing };

// Each cutter has cut(piece, begin, memory, go_on). It calls go_on(part) for each part, in order; parts may be empty.

struct ScannerCutter {
  bpe::Scanner scanner;
  template <class GoOn> void cut(std::string_view piece, Begin, CutterMemory&, const GoOn& go_on) const {
    for (const auto *at = piece.data(), *const end = at + piece.size(); at != end;) {
      const auto* next = scanner.piece(at, end);
      go_on({at, base::size(next - at)});
      at = next;
    }
  }
};

struct FinderCutter {
  Finder finder;
  Behavior behavior = Behavior::isolated;
  bool invert = false;
  template <class GoOn> void cut(std::string_view piece, Begin, CutterMemory&, const GoOn& go_on) const {
    Divider divider(piece, behavior, invert, go_on);
    finder.each_match(piece, [&](std::size_t begin, std::size_t end) { divider.match(begin, end); });
    divider.finish();
  }
};

// Each character with a property is a match.
struct PropertyCutter {
  unicode::Property property;
  Behavior behavior = Behavior::isolated;
  template <class GoOn> void cut(std::string_view piece, Begin, CutterMemory&, const GoOn& go_on) const {
    const auto* properties = unicode::properties();
    Divider divider(piece, behavior, false, go_on);
    const auto *const begin = piece.data(), *const end = begin + piece.size();
    for (const auto* at = begin; at != end;) {
      const auto* here = at;
      if ((properties[bpe::next_code_point(at)] & property) != 0)
        divider.match(base::size(here - begin), base::size(at - begin));
    }
    divider.finish();
  }
};

// Words between white space, and each punctuation character alone, as in BERT.
struct BertCutter {
  template <class GoOn> void cut(std::string_view piece, Begin, CutterMemory&, const GoOn& go_on) const {
    const auto* properties = unicode::properties();
    const auto *const end = piece.data() + piece.size(), *word = piece.data();
    for (const auto* at = word; at != end;) {
      const auto* here = at;
      const auto has = properties[bpe::next_code_point(at)];
      if ((has & (unicode::is_space | unicode::is_sign)) == 0) continue;
      if (word != here) go_on({word, base::size(here - word)});
      if ((has & unicode::is_space) == 0) go_on({here, base::size(at - here)});
      word = at;
    }
    if (word != end) go_on({word, base::size(end - word)});
  }
};

// Runs of word characters and runs of other characters, without white space.
struct WordCutter {
  template <class GoOn> void cut(std::string_view piece, Begin, CutterMemory&, const GoOn& go_on) const {
    const auto* properties = unicode::properties();
    const auto kind_of = [&](char32_t c) {
      return bpe::is_word(c) ? 2 : (properties[c] & unicode::is_space) != 0 ? 0 : 1;
    };
    const auto *const end = piece.data() + piece.size(), *run = piece.data();
    int kind = 0;
    for (const auto* at = run; at != end;) {
      const auto* here = at;
      const int next = kind_of(bpe::next_code_point(at));
      if (next == kind) continue;
      if (kind != 0) go_on({run, base::size(here - run)});
      run = here, kind = next;
    }
    if (kind != 0) go_on({run, base::size(end - run)});
  }
};

// Spaces become a visible mark, which also begins a text. With `splits`, pieces begin at marks.
struct MetaspaceCutter {
  enum class Prepend { never, first, always };
  std::string mark;
  Prepend prepend = Prepend::always;
  bool splits = true;
  template <class GoOn> void cut(std::string_view piece, Begin at, CutterMemory& memory, const GoOn& go_on) const {
    auto& text = memory.text;
    const bool has_mark = piece.find(mark) != std::string_view::npos;
    const bool begins = piece.starts_with(' ') || (has_mark && piece.starts_with(mark));
    const bool puts_mark = !begins && at != Begin::nothing &&
                           (prepend == Prepend::always || (prepend == Prepend::first && at == Begin::document));
    text.clear();
    if (puts_mark) text = mark;
    const bool one_by_one = splits && !has_mark;
    std::size_t done = 0;
    for (auto space = piece.find(' '); space != std::string_view::npos; space = piece.find(' ', done)) {
      text.append(piece, done, space - done);
      if (one_by_one && !text.empty()) go_on(text), text.clear();
      text += mark;
      done = space + 1;
    }
    text.append(piece, done);
    if (one_by_one || !splits) return go_on(text);
    std::size_t begin = 0;
    for (auto next = text.find(mark, 1); next != std::string::npos; next = text.find(mark, next + mark.size())) {
      go_on(std::string_view(text).substr(begin, next - begin));
      begin = next;
    }
    go_on(std::string_view(text).substr(begin));
  }
};

struct PrefixSpaceCutter {
  template <class GoOn> void cut(std::string_view piece, Begin at, CutterMemory& memory, const GoOn& go_on) const {
    if (piece.starts_with(' ') || at == Begin::nothing) return go_on(piece);
    (memory.text = ' ') += piece;
    go_on(memory.text);
  }
};

// Replaces bytes by their characters (bpe/byte_alphabet.h).
struct AlphabetCutter {
  template <class GoOn> void cut(std::string_view piece, Begin, CutterMemory& memory, const GoOn& go_on) const {
    memory.text.clear();
    append(piece, memory.text);
    go_on(memory.text);
  }
  static void append(std::string_view piece, std::string& out);
};

struct LengthCutter {
  std::int64_t characters = 1;
  template <class GoOn> void cut(std::string_view piece, Begin, CutterMemory&, const GoOn& go_on) const {
    const auto* const end = piece.data() + piece.size();
    for (const auto* at = piece.data(); at != end;) {
      const auto* begin = at;
      for (std::int64_t n = 0; n < characters && at != end; ++n) bpe::next_code_point(at);
      go_on({begin, base::size(at - begin)});
    }
  }
};

// Our own: divides before the mark U+2581 of a word, where no merge crosses (bpe/character_merges.h). So words find
// their tokens in the cache.
struct BorderCutter {
  std::u32string joined;  // after these a merge may cross
  template <class GoOn> void cut(std::string_view piece, Begin, CutterMemory&, const GoOn& go_on) const {
    std::size_t begin = 0;
    for (auto at = piece.find(mark, 1); at != std::string_view::npos; at = piece.find(mark, at + mark.size())) {
      if (!is_border(piece, at)) continue;
      go_on(piece.substr(begin, at - begin));
      begin = at;
    }
    go_on(piece.substr(begin));
  }

 private:
  static constexpr std::string_view mark = "\u2581";
  bool is_border(std::string_view piece, std::size_t at) const;
};

using Cutter = std::variant<ScannerCutter, FinderCutter, PropertyCutter, BertCutter, WordCutter, MetaspaceCutter,
                            PrefixSpaceCutter, AlphabetCutter, LengthCutter, BorderCutter>;

// Runs the steps from `step` on; each treats the pieces of the one before as separate texts. Calls done(piece) for each
// piece that is not empty. `memory` has one part for each step.
template <class Done> void run_cutters(std::span<const Cutter> cutters, std::size_t step, std::string_view piece,
                                       Begin at, std::vector<CutterMemory>& memory, const Done& done) {
  if (step == cutters.size()) return done(piece);
  std::visit(
      [&](const auto& cutter) {
        const auto* begin = piece.data();
        cutter.cut(piece, at, memory[step], [&](std::string_view part) {
          if (!part.empty())
            run_cutters(cutters, step + 1, part, part.data() == begin ? at : Begin::text, memory, done);
        });
      },
      cutters[step]);
}

// The steps before the first one that puts something before a piece.
std::span<const Cutter> steps_before_prefix(std::span<const Cutter> cutters);

}  // namespace trainyard::data::json_tokenizer
