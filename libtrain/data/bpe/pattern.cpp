// Runs patterns with PCRE2, compiled at run time where the processor allows it.
#include "libtrain/data/bpe/pattern.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/data/bpe/categories.h"
#include "libtrain/data/unicode/properties.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

namespace trainyard::data::bpe {

namespace {

template <auto release> struct Release {
  template <class T> void operator()(T* p) const { release(p); }
};
template <class T, auto release> using Owned = std::unique_ptr<T, Release<release>>;
using Stack = Owned<pcre2_jit_stack, pcre2_jit_stack_free>;

// Limits of one match's backtracking. Alternatives in a loop need some bytes of stack for each character of a piece. So
// a text with one long piece gets a large stack while it is matched.
constexpr std::uint32_t most_match_steps = 100'000'000;
constexpr std::size_t usual_stack = std::size_t{1} << 20, large_stack = std::size_t{1} << 30;

std::string text_of(int error) {
  unsigned char text[256] = {};
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Pattern::Code {
  Owned<pcre2_code, pcre2_code_free> code;
};

struct Pattern::Memory::Parts {
  Owned<pcre2_match_data, pcre2_match_data_free> data;
  Owned<pcre2_match_context, pcre2_match_context_free> context;
  Stack stack;
};

Pattern::Pattern(std::string_view expression, std::string where)
    : where_(std::move(where)), code_(std::make_unique<Code>()) {
  if (expression.empty()) throw base::InputError(where_ + ": the pattern is empty", "it cuts nothing: leave it out");
  const auto words = in_words_of_pcre2(expression, where_);
  const Owned<pcre2_compile_context, pcre2_compile_context_free> context(pcre2_compile_context_create(nullptr));
  TRAINYARD_ASSERT(context, "no memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  std::size_t at = 0;
  code_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(words.data()), words.size(),
                                  PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at,
                                  context.get()));
  if (!code_->code)
    throw base::InputError(
        fmt::format("{}: the pattern {} is refused: {}", where_, base::excerpt(expression), text_of(error)),
        "is it the pattern of a byte-level tokenizer?");
  pcre2_jit_compile(code_->code.get(), PCRE2_JIT_COMPLETE);  // where this fails, matching is slower
}

Pattern::Pattern(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;
Pattern::Memory::Memory(Memory&&) noexcept = default;
Pattern::Memory::~Memory() = default;

Pattern::Memory::Memory(const Pattern& pattern) : parts_(std::make_unique<Parts>()) {
  parts_->data.reset(pcre2_match_data_create_from_pattern(pattern.code_->code.get(), nullptr));
  parts_->context.reset(pcre2_match_context_create(nullptr));
  parts_->stack.reset(pcre2_jit_stack_create(32 << 10, usual_stack, nullptr));
  if (!parts_->data || !parts_->context || !parts_->stack) throw std::bad_alloc();
  pcre2_set_match_limit(parts_->context.get(), most_match_steps);
  pcre2_set_heap_limit(parts_->context.get(), large_stack >> 10);
  pcre2_jit_stack_assign(parts_->context.get(), nullptr, parts_->stack.get());
}

std::optional<Pattern::Match> Pattern::find(std::string_view text, std::size_t from, const Memory& memory) const {
  const auto match = [&] {
    return pcre2_match(code_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK, memory.parts_->data.get(), memory.parts_->context.get());
  };
  auto result = match();
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
    if (const Stack large(pcre2_jit_stack_create(usual_stack, large_stack, nullptr)); large) {
      pcre2_jit_stack_assign(memory.parts_->context.get(), nullptr, large.get());
      result = match();
      pcre2_jit_stack_assign(memory.parts_->context.get(), nullptr, memory.parts_->stack.get());
    }
  }
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0)
    throw base::InputError(
        fmt::format("{}: a pattern fails on a document of {} bytes: {}", where_, text.size(), text_of(result)),
        base::text("cut long documents with $max-document; if that does not help, the pattern backtracks too much"));
  const auto* found = pcre2_get_ovector_pointer(memory.parts_->data.get());
  return Match{found[0], found[1]};
}

std::vector<CodePoints> code_points_of_pcre2(const std::string& item) {
  std::string all;
  for (char32_t c = 0; c < 0x110000; ++c)
    if (c < 0xD800 || c >= 0xE000) unicode::append(c, all);
  const auto expression = fmt::format("\\p{{{}}}+", item);
  int error = 0;
  std::size_t at = 0;
  const Owned<pcre2_code, pcre2_code_free> code(pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(), PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr));
  if (!code) return {};
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  const Owned<pcre2_match_data, pcre2_match_data_free> data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  if (!data) throw std::bad_alloc();
  std::vector<CodePoints> out;
  for (std::size_t from = 0;;) {
    if (pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(all.data()), all.size(), from, PCRE2_NO_UTF_CHECK,
                    data.get(), nullptr) < 0)
      return out;
    const auto* found = pcre2_get_ovector_pointer(data.get());
    const auto *first = all.data() + found[0], *last = all.data() + found[1];
    from = found[1];
    do --last;
    while ((static_cast<unsigned char>(*last) & 0xC0) == 0x80);
    const CodePoints range{next_code_point(first), next_code_point(last)};
    if (range.first < 0xD800 && range.last >= 0xE000) {
      out.push_back({range.first, 0xD7FF});
      out.push_back({0xE000, range.last});
    } else {
      out.push_back(range);
    }
  }
}

}  // namespace trainyard::data::bpe
