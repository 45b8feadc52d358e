// Writes what CLI11 knows about a program's flags.
#include "tools/common/reference.h"

#include "libtrain/base/error.h"

#include <fmt/ranges.h>

#include <sstream>

namespace trainyard::tools {

namespace {

// The type of an option in one notation; a range ("INT:0 to 3") goes into the text.
struct Type {
  std::string name, range;
};
Type type_of_flag(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return {};  // a switch
  Type type{option.get_type_name(), {}};
  if (const auto colon = type.name.find(':'); colon != std::string::npos)
    type = {type.name.substr(0, colon), type.name.substr(colon + 1)};
  if (type.name == "INT" || type.name == "UINT") type.name = "N";
  if (type.name == "FLOAT") type.name = "X";
  return type;
}

// The groups of options in their order, without those that --help leaves out.
std::vector<std::pair<std::string, std::vector<OptionEntry>>> groups_of(const CLI::App& app) {
  std::vector<std::pair<std::string, std::vector<OptionEntry>>> out;
  for (const auto& group : app.get_groups()) {
    if (group.empty()) continue;
    std::vector<OptionEntry> entries;
    for (const auto* option :
         app.get_options([&](const CLI::Option* o) { return o->get_group() == group && !o->get_name().empty(); }))
      entries.push_back(entry_of(*option));
    if (!entries.empty()) out.emplace_back(group, std::move(entries));
  }
  return out;
}

std::string one_line(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

// The parts of the footer that describe_program() made: examples, indented by two, and the "See also" line.
struct Footer {
  std::vector<std::string> before, examples;
  std::string see_also;
};

Footer footer_of(const CLI::App& app) {
  Footer out;
  std::istringstream lines(app.get_footer());
  enum class Part { before, examples, see_also } part = Part::before;
  const std::string also = "See also: ";
  for (std::string line; std::getline(lines, line);) {
    if (line == "Examples:") part = Part::examples;
    else if (line.starts_with(also)) part = Part::see_also, out.see_also = line.substr(also.size());
    else if (line.empty()) continue;
    else if (part == Part::before) out.before.push_back(line);
    else if (part == Part::see_also) out.see_also += " " + line;
    else out.examples.push_back(line.substr(line.find_first_not_of(' ')));
  }
  return out;
}

// Escapes text for a cell of a Markdown table.
std::string in_cell(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '|' || c == '<' || c == '*' || c == '_' ? std::string("\\") + c : std::string(1, c);
  return out;
}

// Breaks a command at spaces, so that no line is wider than a page.
std::string broken(const std::string& command) {
  constexpr std::size_t columns = 96;
  std::string out, line;
  std::istringstream words(command);
  bool quoted = false;
  for (std::string word; words >> word;) {
    if (!quoted && !line.empty() && line.size() + 1 + word.size() > columns) out += line + " \\\n", line = "   ";
    line += (line.empty() ? "" : " ") + word;
    for (const char c : word) quoted ^= c == '\'';
  }
  return out + line;
}

std::string markdown(const CLI::App& app) {
  const auto& name = app.get_name();
  auto out = fmt::format("# {}\n\n{}\nThis page is made from the program: `{} --reference markdown`.\n", name,
                         one_line(app.get_description()), name);
  for (const auto& [group, entries] : groups_of(app)) {
    out += fmt::format("\n## {}\n\n| flag | value | what it says |\n|---|---|---|\n", group);
    for (const auto& e : entries)
      out += fmt::format("| `{}` | {} | {} |\n", e.names, in_cell(e.value), in_cell(one_line(e.text)));
  }
  const auto footer = footer_of(app);
  out += "\n## Examples\n\n```console\n";
  for (const auto& example : footer.examples) out += broken(example) + "\n";
  return out + "```\n\nSee also: " + footer.see_also + "\n";
}

std::string troff(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '-' ? "\\-" : c == '\\' ? "\\e" : std::string(1, c);
  return !out.empty() && (out[0] == '.' || out[0] == '\'') ? "\\&" + out : out;
}

std::string man(const CLI::App& app) {
  const auto& name = app.get_name();
  std::string upper;
  for (const char c : name) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto description = one_line(app.get_description());
  auto out = fmt::format(".TH {} 1 \"\" \"{}\" \"Trainyard\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n[OPTIONS]\n",
                         upper, troff(app.version()), troff(name), troff(description), troff(name));
  for (const auto* option : app.get_options([](const CLI::Option* o) { return o->get_positional(); }))
    out += troff(option->get_name(true)) + "\n";
  for (const auto& [group, entries] : groups_of(app)) {
    out += fmt::format(".SH {}\n", group == "Options" || group == "OPTIONS" ? "OPTIONS" : "OPTIONS: " + group);
    for (const auto& e : entries)
      out += fmt::format(".TP\n.B {} {}\n{}\n", troff(e.names), troff(e.value), troff(one_line(e.text)));
  }
  const auto footer = footer_of(app);
  out +=
      ".SH EXIT STATUS\n0 done, 1 unexpected, 2 usage, 3 input refused, 4 environment, 5 a check failed, 6 a rank was "
      "lost, 75 stopped on request: run again\n.SH EXAMPLES\n.nf\n";
  for (const auto& example : footer.examples) out += troff(broken(example)) + "\n";
  return out + ".fi\n.SH SEE ALSO\n" + troff(footer.see_also) + "\n";
}

std::string bash(const CLI::App& app) {
  std::vector<std::string> flags;
  for (const auto* option : app.get_options([](const CLI::Option* o) { return !o->get_group().empty(); }))
    for (const auto& name : shown_names(*option)) flags.push_back(name);
  return fmt::format(
      "# bash completion of {0}, made by {0} --reference bash\n"
      "_trainyard_{1}() {{\n"
      "  if [[ ${{COMP_WORDS[COMP_CWORD]}} == -* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W '{2}' -- \"${{COMP_WORDS[COMP_CWORD]}}\")\n"
      "  fi\n"
      "}}\n"
      "complete -o default -F _trainyard_{1} {0}\n",
      app.get_name(),
      [&] {
        auto name = app.get_name();
        for (auto& c : name) c = c == '-' ? '_' : c;
        return name;
      }(),
      fmt::join(flags, " "));
}

}  // namespace

OptionEntry entry_of(const CLI::Option& option) {
  const auto type = type_of_flag(option);
  auto text = option.get_description();
  if (type.range.find(" to ") != std::string::npos) text += fmt::format(", from {}", type.range);
  const bool may_stand_alone = option.get_type_size() > 0 && option.get_expected_min() == 0;
  if (const auto usual = option.get_default_str(); !usual.empty() && !may_stand_alone)
    text += fmt::format(" [{}]", usual);
  if (option.get_required()) text += " (required)";
  auto value = type.name;
  const bool has_both = value.find(' ') != std::string::npos;  // "BASE NEW"
  if (option.get_type_size() > 0 && option.get_expected_max() == 2 && option.get_expected_min() == 2 && !has_both)
    value = fmt::format("{0} {0}", type.name);
  else if (option.get_expected_max() > 2 && !value.ends_with("...")) value += "...";
  if (option.get_positional()) return {option.get_single_name(), value, text};
  return {fmt::format("{}", fmt::join(shown_names(option), ", ")), value, text};
}

std::vector<std::string> shown_names(const CLI::Option& option) {
  std::vector<std::string> out;
  for (const auto& name : option.get_snames()) out.push_back("-" + name);
  for (const auto& name : option.get_lnames())
    if (name == option.get_lnames().front() || name.size() <= 3) out.push_back("--" + name);
  return out;
}

std::string reference_of(const CLI::App& app, const std::string& format) {
  if (format == "markdown") return markdown(app);
  if (format == "man") return man(app);
  if (format == "bash") return bash(app);
  throw base::UsageError(fmt::format("--reference {} is not known", format), "use markdown, man or bash");
}

}  // namespace trainyard::tools
