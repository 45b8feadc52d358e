// The normal forms NFD, NFKC and NFKD; NFC has its own quick way (bpe/composition.h).
#pragma once

#include <string>
#include <string_view>

namespace trainyard::data::unicode {

enum class Form { nfd, nfkc, nfkd };

// Appends the text in the form. The text must be valid UTF-8. It takes time linear in the text, except n log n for a
// run of n marks.
void append_normal_form(std::string_view text, Form form, std::string& out);

}  // namespace trainyard::data::unicode
