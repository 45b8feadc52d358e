// Reads fields from TOML.
#include "libtrain/base/error.h"
#include "libtrain/base/field_text.h"
#include "libtrain/base/fields.h"
#include "libtrain/base/text.h"
#include "libtrain/base/toml_file.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace trainyard::base {

namespace {

bool is_list(const Field& f) { return f.legal.starts_with(some_of) || f.legal == maybe_list; }

// The elements of a TOML list, joined by commas. Each is a text or a whole number.
std::string joined(const toml::array& list, const std::string& key, const std::string& path) {
  std::vector<std::string> elements;
  for (const auto& element : list) {
    const auto* i = element.as_integer();
    const auto* s = element.as_string();
    if (i == nullptr && s == nullptr)
      throw UsageError(fmt::format("{}: key '{}' must list only texts and whole numbers", path, shortened_value(key)),
                       "for example [\"a\", \"b\"] or [1, 2]");
    elements.push_back(i != nullptr ? fmt::format("{}", i->get()) : s->get());
  }
  return fmt::format("{}", fmt::join(elements, ", "));
}

std::string text_of(const toml::node& node, FieldKind kind, const std::string& key, const std::string& path) {
  if (const auto* s = node.as_string()) return kind == FieldKind::text ? path_of_text(s->get()) : s->get();
  if (kind == FieldKind::text)
    throw UsageError(fmt::format("{}: key '{}' is not text", path, shortened_value(key)),
                     node.is_array()
                         ? "put one value in quotation marks, without brackets; several are one text with commas: "
                           "\"a,b\""
                         : "put the value in quotation marks");
  if (const auto* i = node.as_integer()) return fmt::format("{}", i->get());
  if (const auto* f = node.as_floating_point()) return fmt::format("{}", f->get());
  if (const auto* b = node.as_boolean()) return b->get() ? "on" : "off";
  if (const auto* list = node.as_array(); list != nullptr && kind == FieldKind::integers) {
    std::vector<std::string> numbers;
    for (const auto& element : *list) numbers.push_back(text_of(element, FieldKind::integer, key, path));
    return fmt::format("{}", fmt::join(numbers, ","));
  }
  throw UsageError(fmt::format("{}: key '{}' is neither text nor number", path, shortened_value(key)),
                   "give one value: text in quotation marks, or a number");
}

// Whether a table only stands around keys that would be known without it: [train], [model].
bool is_superfluous(const toml::table& table, const std::vector<Field>& fields) {
  return std::any_of(table.begin(), table.end(), [&](const auto& entry) {
    const auto key = hyphenated(std::string(entry.first.str()));
    return std::any_of(fields.begin(), fields.end(), [&](const auto& f) { return f.is_named(key); });
  });
}

// The tables [[KEY]] of a file, or the one table [KEY].
std::vector<Field::Table> tables_of(const toml::node& node, const std::string& key, const std::string& path) {
  std::vector<Field::Table> out;
  const auto add = [&](const toml::table& table) {
    auto& texts = out.emplace_back();
    for (const auto& [name, value] : table) {
      const auto shown_name = fmt::format("{}.{}", key, name.str());
      const auto kind = value.is_string() ? FieldKind::text : FieldKind::number;
      texts.emplace_back(hyphenated(std::string(name.str())), text_of(value, kind, shown_name, path));
    }
  };
  if (const auto* table = node.as_table()) add(*table);
  else
    for (const auto& each : *node.as_array()) add(*each.as_table());
  return out;
}

void read_table(std::vector<Field>& fields, const toml::table& table, const std::string& path) {
  Complaints complaints;
  Spellings spellings;
  const auto read = [&](const std::string& name, const std::string& shown_key, const toml::node& node) {
    complaints.attempt([&] {
      auto& field = field_named_once(fields, name, path, spellings);
      if (field.tables && (node.is_table() || node.is_array_of_tables())) {
        field.set(field.tables(tables_of(node, shown_key, path)), fmt::format("{}: {}", path, shown_key));
        field.source = path;
        return;
      }
      const auto* list = is_list(field) ? node.as_array() : nullptr;
      field.set(list != nullptr ? joined(*list, shown_key, path) : text_of(node, field.kind, shown_key, path),
                fmt::format("{}: {}", path, shown_key));
      field.source = path;
    });
  };
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    const auto* inner = node.as_table();
    const bool is_group = inner != nullptr && std::any_of(fields.begin(), fields.end(), [&](const Field& f) {
                            const auto names = f.names();
                            return std::any_of(names.begin(), names.end(), [&](const auto& spelled) {
                              return spelled.starts_with(hyphenated(name) + "-");
                            });
                          });
    if (inner != nullptr && !is_group && is_superfluous(*inner, fields)) {
      complaints.add(fmt::format("{}: there is no table [{}]", path, shortened_value(name)),
                     fmt::format("its keys need none: leave the line [{}] out", shortened_value(name)));
      continue;
    }
    if (!is_group) {
      read(name, name, node);
      continue;
    }
    for (const auto& [inner_key, value] : *inner)
      read(name + "-" + std::string(inner_key.str()), name + "." + std::string(inner_key.str()), value);
  }
  try {
    complaints.raise();
  } catch (const UsageError& e) {  // the error is in a file, whatever named the file
    throw InputError(e.what(), e.hint());
  }
}

}  // namespace

void read_toml(std::vector<Field>& fields, const std::string& path) { read_table(fields, read_toml_file(path), path); }

void read_toml_text(std::vector<Field>& fields, const std::string& text, const std::string& path) {
  read_table(fields, toml_of_text(text, path), path);
}

}  // namespace trainyard::base
