// Reads lines of JSON, and says what is wrong with them.
#include "tools/generate/prompt_lines.h"

#include "libtrain/base/json.h"
#include "tools/generate/prompt.h"

#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace trainyard::generate {

using nlohmann::ordered_json;

base::InputError AskedPrompt::refused(const base::InputError& e) const {
  return base::InputError(fmt::format("{}: {}", where, e.what()), e.hint());
}

PromptLines::PromptLines(const std::string& path, Of of) : name_(path == "-" ? "standard input" : path), of_(of) {
  if (path == "-") return;
  file_.reset(std::fopen(path.c_str(), "re"));
  if (!file_)
    throw base::InputError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)),
                           "--prompts names a file with a prompt on each line; - is standard input");
}

AskedPrompt PromptLines::parsed(const std::string& line, const std::string& where) const {
  const auto json = json_of_line(line, where, "{\"prompt\": \"In the beginning\"} or \"In the beginning\"");
  AskedPrompt out;
  out.where = where;
  const auto refuse = [&](const std::string& what) {
    throw base::InputError(
        fmt::format("{}: {}", where, what),
        fmt::format("a line is \"TEXT\", {{\"prompt\": \"TEXT\"}} or {{\"ids\": [1, 2, 3]}}, each also with \"id\"{}",
                    of_ == Of::sources ? " and \"target_language\"" : ""));
  };
  const bool object = json.is_object();
  const auto at = [&](const char* key) { return object ? json.value(key, ordered_json()) : ordered_json(); };
  if (object)
    for (const auto& [key, value] : json.items())
      if (key != "id" && key != "prompt" && key != "ids" && (key != "target_language" || of_ == Of::texts))
        refuse(fmt::format("the key {} is not known", base::excerpt(key)));
  const auto text = object ? at("prompt") : json, ids = at("ids"), language = at("target_language");
  out.id = at("id");
  if (text.is_string() == ids.is_array()) refuse("is no prompt");
  if (!language.is_null() && !language.is_string())
    refuse(fmt::format("target_language {} is no text", base::excerpt(language.dump())));
  if (language.is_string()) out.target_language = language.get<std::string>();
  if (text.is_string()) {
    out.text = text.get<std::string>();
    return out;
  }
  out.ids.emplace();
  for (const auto& id : ids) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::uint64_t{1} << 30)
      refuse(fmt::format("{} is no token", base::excerpt(id.dump())));
    out.ids->push_back(id.get<std::int32_t>());
  }
  return out;
}

std::optional<AskedPrompt> PromptLines::next() {
  while (true) {
    const auto line = read_line(file_ ? file_.get() : stdin, name_);
    if (!line) return {};
    const auto where = fmt::format("{}, line {}", name_, ++line_);
    if (line->too_long) throw too_long_prompt(where);
    if (line->text.find_first_not_of(" \t\r") != std::string::npos) return parsed(line->text, where);
  }
}

bool PromptLines::is_file() const {
  struct stat is {};
  return file_ && ::fstat(::fileno(file_.get()), &is) == 0 && S_ISREG(is.st_mode);
}

void PromptLines::rewind() {
  std::rewind(file_.get());
  line_ = 0;
}

bool shows_progress() { return isatty(STDERR_FILENO) == 1; }

}  // namespace trainyard::generate
