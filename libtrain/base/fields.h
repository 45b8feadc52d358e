// Fields: one description of a configuration struct gives its flags, its TOML keys, its environment variables and --print-config.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::base {

// One setting. Names use hyphens ("global-batch"): flag --global-batch, TOML key global-batch or global_batch, environment TRAINYARD_GLOBAL_BATCH.
// set() throws UsageError when the text is not a legal value.
struct Field {
  std::string name, group, help, type;                  // type: "text", "integer", "number"
  std::function<std::string()> get;
  std::function<void(const std::string&)> set;
  std::string source = "default";                       // who set it last: default, a file's name, plan, environment, flag
};

// Collects fields of a struct: visitor("name", member, "group", "help").
class FieldVisitor {
 public:
  void operator()(const std::string& name, std::string& member, const std::string& group, const std::string& help);
  void operator()(const std::string& name, std::int64_t& member, const std::string& group, const std::string& help);
  void operator()(const std::string& name, int& member, const std::string& group, const std::string& help);
  void operator()(const std::string& name, std::uint64_t& member, const std::string& group, const std::string& help);
  void operator()(const std::string& name, double& member, const std::string& group, const std::string& help);
  std::vector<Field> take() { return std::move(fields_); }

 private:
  std::vector<Field> fields_;
};

Field& field_named(std::vector<Field>& fields, const std::string& name, const std::string& where);  // UsageError names the nearest
void read_toml(std::vector<Field>& fields, const std::string& path);                                 // unknown key: UsageError
void read_environment(std::vector<Field>& fields);                                                  // TRAINYARD_NAME
std::string print_fields(const std::vector<Field>& fields);                                         // TOML with the source of each value

}  // namespace trainyard::base
