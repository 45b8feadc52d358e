// Writes the list, and judges the share that was refused.
#include "libtrain/data/refusals.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/own_set.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace trainyard::data {

namespace {

// Refuses a list of refusals inside the set's folders. No index names such a file, so the set would not be ours any
// more, or the list would be removed with unfinished files.
void refuse_rejects_within_output(const BuildOptions& options) {
  namespace fs = std::filesystem;
  std::error_code error;
  auto set = fs::weakly_canonical(base::absolute_path(options.output), error);
  if (!set.has_filename()) set = set.parent_path();  // for "data/"
  const auto list = fs::weakly_canonical(base::absolute_path(options.rejects), error);
  for (const auto* suffix : {"", ".partial", ".replaced.partial", parts_suffix}) {
    const fs::path folder = set.string() + suffix;
    if (base::is_within(list, folder))
      throw base::UsageError(
          base::text("$rejects {} lies in the folder of the shard set {}", options.rejects, options.output),
          "name a file beside that folder");
  }
}

// Checks the path of the list of refusals. An existing file is replaced only if it is such a list and replacing is
// asked for.
void refuse_foreign_rejects(const BuildOptions& options, std::vector<std::string> precious) {
  const auto& path = options.rejects;
  std::error_code error;
  const auto status = std::filesystem::symlink_status(path, error);
  const auto type = std::filesystem::is_symlink(status) && std::filesystem::exists(path, error)
                        ? std::filesystem::status(path, error).type()
                        : status.type();
  if (type == std::filesystem::file_type::not_found || std::filesystem::is_other(std::filesystem::file_status(type)))
    return;  // a device or a pipe holds no data to lose
  if (options.existing == base::Existing::refuse)
    throw base::UsageError(base::text("$rejects {} exists already", path),
                           base::text("name another file, or $force to replace it"));
  base::require_own(path, own_reject_lists(std::move(precious)));
}

}  // namespace

void Refusals::check(const BuildOptions& options, const std::vector<std::string>& precious) {
  if (options.rejects.empty()) return;
  if (!options.output.empty()) refuse_rejects_within_output(options);
  refuse_foreign_rejects(options, precious);
}

void Refusals::open() {
  if (options_.rejects.empty() || options_.writing == BuildOptions::Writing::off) return;
  list_.open(options_.rejects, std::ios::trunc);
  if (!list_) throw base::EnvironmentError(fmt::format("cannot write {}: {}", options_.rejects, std::strerror(errno)));
}

void Refusals::add(const Refusal& r) {
  const bool empty = r.reason == empty_document, too_long = r.reason.starts_with(long_pair);
  ++(empty ? result_.empty : too_long ? result_.too_long : result_.rejected);
  if (!empty && !too_long && result_.first_refusals.size() < first_refusals_kept) result_.first_refusals.push_back(r);
  if (list_.is_open()) list_ << r.source << '\t' << r.line << '\t' << r.reason << '\n';
}

void Refusals::finish() {
  if (list_.is_open()) {
    list_.close();
    if (list_.fail())
      throw base::EnvironmentError(fmt::format("cannot write {}", options_.rejects), "is the disk full?");
  }
  const auto all = result_.documents + result_.rejected;
  if (all > 0 && static_cast<double>(result_.rejected) > options_.largest_rejected * static_cast<double>(all))
    too_many(all);
}

namespace {

// The object in the first line of a file of JSON lines; no object if there is none.
nlohmann::ordered_json first_object_of(const std::string& path) {
  constexpr std::size_t longest = 1 << 20;
  std::error_code error;
  if (!std::filesystem::is_regular_file(base::path_of_text(path), error)) return {};  // a pipe would wait for a writer
  std::ifstream file(base::path_of_text(path), std::ios::binary);
  std::string line(longest, '\0');
  file.read(line.data(), static_cast<std::streamsize>(longest));
  line.resize(base::size(file.gcount()));
  line.resize(std::min(line.find('\n'), line.size()));
  return nlohmann::ordered_json::parse(line, nullptr, false);
}

enum class Keys { of_text, all };

// "content, title". Empty if it cannot be said.
std::string keys_of(const nlohmann::ordered_json& object, Keys which) {
  std::vector<std::string> keys;
  if (object.is_object())
    for (const auto& item : object.items())
      if ((which == Keys::all || item.value().is_string()) && keys.size() < 10)
        keys.push_back(base::one_line(item.key()));
  return fmt::format("{}", fmt::join(keys, ", "));
}

// What to try where a line lacks the keys of a conversation.
std::string remedy_without_messages(const std::string& path) {
  const auto keys = keys_of(first_object_of(path), Keys::all);
  return "a conversation is messages (role, content), conversations (from, value), or prompt and response (or "
         "completion); " +
         (keys.empty() ? "" : fmt::format("the first line of {} has: {}; ", base::one_line(path), keys)) +
         "the page conversations shows how jq makes them of instruction and output; ";
}

// What to try where a line lacks the key of a text.
std::string remedy_without_text(const std::string& path) {
  const auto first = first_object_of(path);
  const auto has = [&](const char* key) { return first.is_object() && first.contains(key); };
  if (has("messages") || has("conversations") || (has("prompt") && (has("response") || has("completion"))))
    return base::text(
        "the first line holds a conversation: $chat-template chatml, or plain, makes one text of it, and marks the "
        "answers; ");
  const auto keys = keys_of(first, Keys::of_text);
  return base::text("$json-key NAME takes the text from another key; ") +
         (keys.empty() ? "" : fmt::format("with text there are: {}; ", keys)) +
         (!first.is_object()   ? base::text("$chat-template reads conversations; ")
          : has("instruction") ? base::text("$chat-template reads prompt and response (the page conversations); ")
                               : std::string());
}

// What to try where a line lacks the keys of a pair.
std::string remedy_without_pair(const std::string& path) {
  const auto keys = keys_of(first_object_of(path), Keys::all);
  return base::text("$pairs-keys and $language-keys name the keys of both sides; ") +
         (keys.empty() ? "" : fmt::format("the first line of {} has: {}; ", base::one_line(path), keys));
}

// What to try for a reason of a refusal; empty for most.
std::string remedy_for(const Refusal& refusal, const BuildOptions& options) {
  if (refusal.reason.starts_with("no key '"))
    return options.chat    ? remedy_without_messages(refusal.source)
           : options.pairs ? remedy_without_pair(refusal.source)
                           : remedy_without_text(refusal.source);
  if (refusal.reason == "invalid UTF-8") return "text in Latin-1 becomes UTF-8 by iconv -f ISO-8859-1 -t UTF-8; ";
  return {};
}

}  // namespace

void Refusals::too_many(std::int64_t all) const {
  auto text = fmt::format("{} of {} documents were refused, {:g} % are allowed", result_.rejected, all,
                          100 * options_.largest_rejected);
  for (const auto& r : result_.first_refusals) text += "\n  " + text_of(r);
  if (const auto more = result_.rejected - static_cast<std::int64_t>(result_.first_refusals.size()); more > 0)
    text += fmt::format("\n  and {} more", more);
  const auto list = options_.rejects.empty() ? base::text("$rejects FILE lists them")
                    : options_.writing == BuildOptions::Writing::on
                        ? fmt::format("see {}", options_.rejects)
                        : base::text("without $dry-run, {} lists them", options_.rejects);
  throw base::InputError(
      text, remedy_for(result_.first_refusals.front(), options_) + list + base::text("; $max-rejects allows more"));
}

}  // namespace trainyard::data
