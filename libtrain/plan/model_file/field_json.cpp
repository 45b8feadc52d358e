// Between fields and JSON.
#include "libtrain/plan/model_file/field_json.h"

#include "libtrain/base/error.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace trainyard::plan {

namespace {

bool is_whole_number(const std::string& text) { return text.find_first_not_of("0123456789") == std::string::npos; }

}  // namespace

std::string with_underscores(std::string text) {
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

std::string key_of(const base::Field& f) { return with_underscores(f.former.empty() ? f.name : f.former); }

nlohmann::ordered_json json_of(const base::Field& f) {
  switch (f.kind) {
    case base::FieldKind::integer_or_text:
      if (const auto text = f.get(); !is_whole_number(text)) return text;
      [[fallthrough]];
    case base::FieldKind::integer:
      if (const auto text = f.get(); text.starts_with('-'))
        return static_cast<std::int64_t>(std::strtoll(text.c_str(), nullptr, 10));
      else return static_cast<std::uint64_t>(std::strtoull(text.c_str(), nullptr, 10));  // a seed may have all 64 bits
    case base::FieldKind::number: return std::strtod(f.get().c_str(), nullptr);
    case base::FieldKind::toggle: return f.get() == "on";
    case base::FieldKind::integers: {
      auto list = nlohmann::ordered_json::array();
      for (const auto& number : base::comma_separated(f.get()))
        if (!number.empty()) list.push_back(static_cast<std::int64_t>(std::strtoll(number.c_str(), nullptr, 10)));
      return list;
    }
    default: {
      const auto text = f.get();
      const auto former = f.former_words.find(text);
      const auto& kept = former == f.former_words.end() ? text : former->second;
      if (kept == "on" || kept == "off") return kept == "on";  // a toggle that got more words
      return f.kind == base::FieldKind::word ? with_underscores(kept) : kept;
    }
  }
}

void set_from(base::JsonObject& o, base::Field& f) {
  const auto key = key_of(f);
  std::string text;
  switch (f.kind) {
    case base::FieldKind::integer_or_text:
      text = o.at(key).is_string() && !is_whole_number(o.text(key)) ? o.text(key) : fmt::format("{}", o.integer(key));
      break;
    case base::FieldKind::integer: text = fmt::format("{}", o.integer(key)); break;
    case base::FieldKind::number: text = fmt::format("{}", o.number(key)); break;
    case base::FieldKind::toggle: text = o.boolean(key) ? "on" : "off"; break;
    default: text = o.at(key).is_boolean() ? (o.boolean(key) ? "on" : "off") : o.text(key);
  }
  try {
    f.set(text, fmt::format("{}: '{}'", o.where(), key));
  } catch (const base::UsageError& e) {
    throw base::InputError(e.what(), e.hint());
  }
}

}  // namespace trainyard::plan
