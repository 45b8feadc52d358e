// Writes and reads the files of parts.
#include "libtrain/data/parts.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/text.h"
#include "libtrain/data/new_set.h"
#include "libtrain/data/own_set.h"
#include "libtrain/data/shard_writer.h"
#include "libtrain/data/tokenizing.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace trainyard::data {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char *settings_format = "trainyard.shard-parts/1", *part_format = "trainyard.shard-part/1";

const char* name_of(TextSplit split) {
  return split == TextSplit::lines ? "lines" : split == TextSplit::paragraphs ? "paragraphs" : "whole";
}

std::string last_change(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return "unknown";
  return fmt::format("{}.{:09}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

// Explains how two lists of inputs differ.
[[noreturn]] void refuse_inputs(const std::string& path, const json& there, const json& here) {
  if (there.is_array() && there.size() == here.size())
    for (std::size_t i = 0; i < here.size(); ++i)
      if (there[i] != here[i] && there[i].is_array() && there[i].size() == 3 && there[i][0] == here[i][0])
        throw base::InputError(fmt::format("{} has changed since {} was begun",
                                           base::one_line(base::path_of_text(here[i][0].get<std::string>())), path),
                               fmt::format("restore it, or remove {} and run every task again", path));
  throw base::UsageError(
      fmt::format("the inputs are not the ones with which {} was begun", path),
      fmt::format("give every task the same inputs, in the same order and spelling; to begin anew, remove {}", path));
}

// Compares settings. `judged_alone`: the settings for refusals may differ, because all other work is done.
void require_equal(const std::string& path, const json& there, const json& here, bool judged_alone) {
  std::string differences;
  for (const auto& [key, value] : here.items()) {
    const auto other = there.is_object() ? there.value(key, json()) : json();
    if (other == value || key == "inputs" || (judged_alone && (key == "rejects" || key == "max_rejects"))) continue;
    differences += fmt::format("{}{}: {} there, {} here", differences.empty() ? "" : "; ", key,
                               base::excerpt(other.is_string() ? other.get<std::string>() : other.dump()),
                               base::excerpt(value.is_string() ? value.get<std::string>() : value.dump()));
  }
  if (!differences.empty())
    throw base::UsageError(
        fmt::format("{} was begun by a task with other settings ({})", path, differences),
        fmt::format("give every task the same flags and the same number of tasks; to begin anew, remove {}", path));
  if (const auto inputs = there.value("inputs", json()); inputs != here.at("inputs"))
    refuse_inputs(path, inputs, here.at("inputs"));
}

}  // namespace

json settings_of(const DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options, int tasks) {
  auto inputs = json::array();
  for (std::size_t i = 0; i < source.inputs().size(); ++i)
    inputs.push_back({base::text_of_path(source.inputs()[i]), source.sizes()[i], last_change(source.inputs()[i])});
  const auto& s = source.options();
  json out{{"format", settings_format},
           {"tasks", tasks},
           {"tokenizer", source_name(tokenizer.name())},
           {"tokenizer_crc32c", tokenizer.crc32c()},
           {"vocabulary", tokenizer.vocabulary()},
           {"end_of_document", tokenizer.end_of_document()},
           {"begin_of_document", tokenizer.begin_of_document()},
           {"special_tokens", tokenizer.reads_special() ? "read" : "text"},
           {"shard_tokens", options.shard_tokens},
           {"validation", options.validation},
           {"json_key", base::text_of_path(s.json_key.value_or("text"))},
           {"split", name_of(s.split.value_or(TextSplit::whole))},
           {"max_document", s.largest_document},
           {"rejects", base::text_of_path(options.rejects)},
           {"max_rejects", options.largest_rejected},
           {"inputs", inputs}};
  if (options.deduplicate) out["deduplicate"] = true;
  if (!options.fields.empty()) out["fields"] = options.fields;
  if (options.pack > 0) out["pack"] = options.pack;
  if (s.chat) out["chat_template"] = text_of(*s.chat);
  if (s.pairs) {
    const auto fixed = s.pairs->languages_of(0);
    out["pairs"] = {s.pairs->source_key,          s.pairs->target_key, s.pairs->source_language_key,
                    s.pairs->target_language_key, fixed.source,        fixed.target,
                    s.pairs->language_token,      s.pairs->max_source, s.pairs->max_target};
  }
  return out;
}

Parts::Parts(const std::string& output, int tasks)
    : path_(base::without_slashes(output) + parts_suffix), tasks_(tasks) {}

std::string Parts::folder_of(int task) const { return path_ + "/" + part_name(task, tasks_); }

std::string Parts::again(int task) const { return fmt::format("remove {} and run that task again", folder_of(task)); }

bool Parts::has(int task) const { return base::file_size(folder_of(task) + "/" + part_file) >= 0; }

// Lists the folder instead of looking for names. A file server may cache that a name did not exist, but it notices that
// a folder has changed.
std::vector<int> Parts::missing() const {
  std::vector<std::string> there;
  std::error_code error;
  for (fs::directory_iterator it(path_, error), end; !error && it != end; it.increment(error))
    there.push_back(it->path().filename().string());
  if (base::is_unreadable(error.value())) base::throw_cannot_read("list", path_, error.value());
  std::sort(there.begin(), there.end());
  std::vector<int> out;
  for (int task = 0; task < tasks_; ++task)
    if (!std::binary_search(there.begin(), there.end(), part_name(task, tasks_))) out.push_back(task);
  return out;
}

bool Parts::begin(const json& settings) const {
  bool first = false;
  const auto file = path_ + "/" + settings_file;
  if (fs::is_symlink(path_))
    throw base::UsageError(fmt::format("{} is a symbolic link", path_),
                           base::text("give another $output, or remove it"));
  if (base::file_size(file) < 0) {
    base::make_folders(path_);
    const base::FolderLock lock(path_, "another task begins it: try again", std::chrono::seconds(60));
    if (base::file_size(file) < 0) {
      base::require_own(path_, own_parts({}));
      base::write_file(file, settings.dump(1) + "\n");
      first = true;
    }
  }
  require_equal(path_, base::parse_json<json>(base::read_file(file), file), settings, missing().empty());
  return first;
}

void Parts::write(int task, DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
                  const std::vector<std::string>& precious, const std::function<void(std::int64_t)>& progress) const {
  base::AtomicFolder folder(folder_of(task), base::Existing::refuse, own_part(precious));
  const auto files = std::make_shared<ShardFiles>(folder.path(), tokenizer);
  ShardWriter train(files, "train", tokenizer, options.shard_tokens),
      validation(files, "validation", tokenizer, options.shard_tokens);
  if (options.deduplicate) train.keep_hashes(), validation.keep_hashes();
  if (!options.fields.empty()) train.keep_fields(options.fields), validation.keep_fields(options.fields);
  if (options.pack > 0 || options.pairs) train.keep_whole(), validation.keep_whole();  // pieces are not joined again
  if (options.marks_answers()) train.mark_answers(), validation.mark_answers();
  const auto list = folder.path() + "/" + refused_file;
  std::ofstream refused(list);
  PartRecord record;
  FieldValues values(options.fields);
  tokenize(
      source, tokenizer, {options.threads, options.validation, options.stretch_bytes, options.deduplicate},
      [&](const TokenizedStretch& stretch) {
        record.documents += static_cast<std::int64_t>(stretch.documents.size());
        record.text_bytes += stretch.text_bytes;
        stretch.for_each([&](const auto& document, const void* tokens, const DocumentFacts& facts) {
          if (!options.deduplicate) values.add(facts.fields);  // the set may leave out documents, with their values
          (document.split == Split::validation ? validation : train)
              .add(tokens, document.tokens, stretch.source, facts);
        });
      },
      [&](const Refusal& r) {
        refused << json{r.line, base::text_of_path(r.reason)}.dump() << '\n';
      },
      progress);
  refused.close();
  if (refused.fail()) throw base::EnvironmentError(fmt::format("cannot write {}", list), "is the disk full?");
  base::sync_file(list);
  record.index = index_for(tokenizer);
  record.index.train = train.finish();
  record.index.validation = validation.finish();
  record.index.answers = options.marks_answers();
  record.index.pairs = options.pairs;
  auto pieces = json::array();
  for (const auto& p : source.pieces())
    pieces.push_back({{"input", p.input},
                      {"begin", p.begin},
                      {"end", p.end},
                      {"lines", p.lines},
                      {"refused", p.refused},
                      {"silent", p.silent}});
  const json text{{"format", part_format},
                  {"task", task},
                  {"tasks", tasks_},
                  {"documents", record.documents},
                  {"text_bytes", record.text_bytes},
                  {"pieces", pieces},
                  {"index", index_to_json(record.index)}};
  base::write_file(folder.path() + "/" + part_file, text.dump(1) + "\n");
  folder.publish();
}

PartRecord Parts::record(int task) const {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  const auto file = folder_of(task) + "/" + part_file;
  const auto parsed = base::parse_json<json>(base::read_file(file), file);
  base::SortedJsonObject object(parsed, file);
  if (object.text("format") != part_format || object.integer("task") != task || object.integer("tasks") != tasks_)
    throw base::InputError(fmt::format("{} is not of task {} of {}", file, task, tasks_), again(task));
  PartRecord out;
  out.documents = object.integer("documents", 0, most);
  out.text_bytes = object.integer("text_bytes", 0, most);
  for (const auto& item : object.array("pieces")) {
    base::SortedJsonObject piece(item, file);
    Piece p;
    p.input = base::size(piece.integer("input", 0, most));
    p.begin = piece.integer("begin", 0, most);
    p.end = piece.integer("end", p.begin, most);
    p.lines = piece.integer("lines", 0, most);
    p.refused = piece.integer("refused", 0, most);
    p.silent = piece.boolean("silent");
    piece.done();
    out.pieces.push_back(p);
  }
  out.index = index_from_json(object.at("index"), file, IndexOf::part);
  object.done();
  return out;
}

}  // namespace trainyard::data
