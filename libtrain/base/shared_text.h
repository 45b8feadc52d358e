// SharedText: a long text that many objects share, stored once. It is never changed, only replaced.
#pragma once

#include <memory>
#include <string>
#include <utility>

namespace trainyard::base {

class SharedText {
 public:
  SharedText() = default;
  SharedText(std::string text) : text_(text.empty() ? nullptr : std::make_shared<const std::string>(std::move(text))) {}
  SharedText(const char* text) : SharedText(std::string(text)) {}
  const std::string& str() const {
    static const std::string nothing;
    return text_ ? *text_ : nothing;
  }
  bool empty() const { return !text_; }
  void clear() { text_.reset(); }
  // Comparing copies of one text costs nothing.
  bool operator==(const SharedText& other) const { return text_ == other.text_ || str() == other.str(); }

 private:
  std::shared_ptr<const std::string> text_;  // null: ""
};

}  // namespace trainyard::base
