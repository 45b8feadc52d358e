// Reading and printing fields.
#include "libtrain/base/fields.h"

#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/base/toml_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace trainyard::base {

namespace {

template <class T> T parse(const std::string& name, const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw UsageError(fmt::format("--{} '{}' is not {}", name, text, std::is_floating_point_v<T> ? "a number" : "a whole number in range"));
  return value;
}

template <class T> Field numeric(const std::string& name, T& member, const std::string& group, const std::string& help) {
  return {name, group, help, std::is_floating_point_v<T> ? "number" : "integer", [&member] { return fmt::format("{}", member); },
          [&member, name](const std::string& text) { member = parse<T>(name, text); }};
}

std::string hyphenated(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string text_of(const toml::node& node, const std::string& key, const std::string& path) {
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* i = node.as_integer()) return fmt::format("{}", i->get());
  if (const auto* f = node.as_floating_point()) return fmt::format("{}", f->get());
  if (const auto* b = node.as_boolean()) return b->get() ? "on" : "off";
  throw UsageError(fmt::format("{}: key '{}' is neither text nor number", path, key));
}

}  // namespace

void FieldVisitor::operator()(const std::string& name, std::string& member, const std::string& group, const std::string& help) {
  fields_.push_back({name, group, help, "text", [&member] { return member; }, [&member](const std::string& text) { member = text; }});
}
void FieldVisitor::operator()(const std::string& name, std::int64_t& m, const std::string& group, const std::string& help) { fields_.push_back(numeric(name, m, group, help)); }
void FieldVisitor::operator()(const std::string& name, int& m, const std::string& group, const std::string& help) { fields_.push_back(numeric(name, m, group, help)); }
void FieldVisitor::operator()(const std::string& name, std::uint64_t& m, const std::string& group, const std::string& help) { fields_.push_back(numeric(name, m, group, help)); }
void FieldVisitor::operator()(const std::string& name, double& m, const std::string& group, const std::string& help) { fields_.push_back(numeric(name, m, group, help)); }

Field& field_named(std::vector<Field>& fields, const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (auto& f : fields) {
    if (f.name == hyphenated(name)) return f;
    names.push_back(f.name);
  }
  throw UsageError(fmt::format("{}: unknown key '{}'", where, name), fmt::format("did you mean '{}'?", nearest(hyphenated(name), names)));
}

void read_toml(std::vector<Field>& fields, const std::string& path) {
  const auto table = read_toml_file(path);
  for (const auto& [key, node] : table) {
    auto& field = field_named(fields, std::string(key.str()), path);
    field.set(text_of(node, std::string(key.str()), path));
    field.source = path;
  }
}

void read_environment(std::vector<Field>& fields) {
  for (auto& f : fields) {
    std::string variable = "TRAINYARD_";
    for (char c : f.name) variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (const char* text = std::getenv(variable.c_str())) {
      f.set(text);
      f.source = "environment";
    }
  }
}

std::string print_fields(const std::vector<Field>& fields) {
  std::string out;
  for (const auto& f : fields) {
    const auto value = f.type == "text" ? fmt::format("\"{}\"", f.get()) : f.get();
    out += fmt::format("{:<44}# {}\n", fmt::format("{} = {}", f.name, value), f.source);
  }
  return out;
}

}  // namespace trainyard::base
