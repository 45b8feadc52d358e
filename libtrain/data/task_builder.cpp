// Makes a part, and joins all parts to the set.
#include "libtrain/data/task_builder.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/data/new_set.h"
#include "libtrain/data/own_set.h"
#include "libtrain/data/parts.h"
#include "libtrain/data/shard_reader.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>

namespace trainyard::data {

namespace {

// Whether the parts in this folder belong to a set that exists already. Then a task was killed between publishing the
// set and removing the parts.
bool is_made(const std::string& folder, const std::string& output) {
  const auto planned = folder + "/" + joined_index_file, there = output + "/index.json";
  try {
    return base::file_size(planned) >= 0 && base::file_size(there) >= 0 &&
           base::read_file(planned) == base::read_file(there);
  } catch (const base::Error&) {
    if (base::file_size(planned) >= 0) throw;
    return false;  // another task removes it
  }
}

// Reads from a part with `work`, and replaces the hint of its errors. Any damage to a part has one remedy, which the
// code that reads a shard or a file does not know.
template <class Work> void of_part(const Parts& parts, int task, const Work& work) {
  try {
    work();
  } catch (const base::InputError& e) {
    throw base::InputError(e.what(), parts.again(task));
  }
}

// Locks the parts. Null: another task makes the set from the parts, or has made it and removed them.
std::unique_ptr<base::FolderLock> hold(const Parts& parts) {
  try {
    auto lock = std::make_unique<base::FolderLock>(parts.path(), "wait until it has ended");
    if (parts.missing().empty()) return lock;
  } catch (const base::FolderHeld&) {
  } catch (const base::EnvironmentError&) {
    if (parts.missing().empty()) throw;
  }
  return nullptr;
}

// The answers of a document, counted from its first token.
std::vector<AnswerSpan> answers_within(std::span<const AnswerSpan> all, std::uint64_t begin, std::uint64_t end) {
  const auto first = static_cast<std::int64_t>(begin), last = static_cast<std::int64_t>(end);
  std::vector<AnswerSpan> out;
  auto next = std::lower_bound(all.begin(), all.end(), first, [](const auto& span, auto at) { return span.end <= at; });
  for (; next != all.end() && next->begin < last; ++next)
    out.push_back({std::max(next->begin, first) - first, std::min(next->end, last) - first});
  return out;
}

void add_documents(const Parts& parts, int task, const PartRecord& part, NewSet& set,
                   const std::function<void(std::int64_t)>& added) {
  std::vector<std::int32_t> document;
  bool keep = true;  // the document, which may go on in the next shard
  for (const auto split : {Split::train, Split::validation})
    for (const auto& entry : split == Split::train ? part.index.train : part.index.validation) {
      std::optional<ShardReader> opened;
      std::vector<ShardReader::Source> sources;
      std::vector<TextHash> hashes;
      DocumentFields fields;
      of_part(parts, task, [&] {
        auto& from = opened.emplace(parts.folder_of(task), part.index, entry);
        sources = from.sources(), hashes = from.hashes(), fields = from.fields();
      });
      auto& shard = *opened;
      const auto places = shard.documents();
      std::string source;
      auto next = sources.begin();
      for (std::size_t d = 0; d + 1 < places.size(); ++d) {
        if (next != sources.end() && next->document == static_cast<std::int64_t>(d)) source = next++->name;
        document.resize(places[d + 1] - places[d]);
        of_part(parts, task,
                [&] { shard.read(static_cast<std::int64_t>(places[d]), std::ssize(document), document.data()); });
        // A document longer than a shard was split in its part at the places where the set splits it, and stays split.
        // For a set that is packed it is whole.
        if (!hashes.empty() && hashes[d] != TextHash()) keep = set.is_new(hashes[d]);
        const auto answers = answers_within(shard.answers(), places[d], places[d + 1]);
        if (keep) set.add(split, document, source, {answers, {}, fields.values_of(static_cast<std::int64_t>(d))});
        added(static_cast<std::int64_t>(document.size()));
      }
    }
}

// Follows the pieces of all parts through the inputs, front to back.
class Walk {
 public:
  Walk(const DocumentSource& source, const Parts& parts, NewSet& set) : source_(source), parts_(parts), set_(set) {}

  void pass(int task, const PartRecord& part) {
    const auto file = parts_.folder_of(task) + "/" + refused_file;
    std::istringstream refused(base::file_size(file) < 0 ? std::string() : base::read_file(file));
    for (const auto& piece : part.pieces) {
      if (piece.input != input_ || piece.begin != byte_ || input_ >= source_.sizes().size() ||
          piece.end > source_.sizes()[input_])
        refuse_gap(task);
      const auto name = source_name(source_.inputs()[input_]);
      std::string line;
      for (std::int64_t r = 0; r < piece.refused; ++r) {
        if (!std::getline(refused, line))
          throw base::InputError(fmt::format("{} has fewer lines than {} says", file, part_file), parts_.again(task));
        nlohmann::json parsed;
        of_part(parts_, task, [&] { parsed = base::parse_json<nlohmann::json>(line, file); });
        if (!parsed.is_array() || parsed.size() != 2 || !parsed[0].is_number_integer() || !parsed[1].is_string())
          throw base::InputError(fmt::format("{} is damaged: {}", file, base::excerpt(line)), parts_.again(task));
        set_.refuse({name, lines_ + parsed[0].get<std::int64_t>(), base::path_of_text(parsed[1].get<std::string>())});
      }
      lines_ += piece.lines;
      silent_ &= piece.silent;
      byte_ = piece.end;
      if (byte_ < source_.sizes()[input_]) continue;
      if (silent_) set_.refuse({name, 1, empty_document});  // as DocumentSource does when it reads all inputs
      ++input_, byte_ = lines_ = 0, silent_ = true;
    }
  }
  void end(int tasks) const {
    if (input_ < source_.sizes().size()) refuse_gap(tasks - 1);
  }

 private:
  [[noreturn]] void refuse_gap(int task) const {
    throw base::InputError(
        fmt::format("the part of task {} does not go on where the one before it ended", task),
        fmt::format("an input was changed meanwhile: remove {} and run every task again", parts_.path()));
  }

  const DocumentSource& source_;
  const Parts& parts_;
  NewSet& set_;
  std::size_t input_ = 0;
  std::int64_t byte_ = 0, lines_ = 0;
  bool silent_ = true;
};

BuildResult join(const DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
                 const Parts& parts, int tasks, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  BuildResult result;
  std::vector<PartRecord> records;
  std::int64_t all = 0, done = 0;
  for (int task = 0; task < tasks; ++task) {
    of_part(parts, task, [&] { records.push_back(parts.record(task)); });
    for (const auto* split : {&records.back().index.train, &records.back().index.validation})
      for (const auto& shard : *split) all += shard.tokens;
  }
  NewSet set(tokenizer, options, precious_of(source, options), result);
  Walk walk(source, parts, set);
  for (int task = 0; task < tasks; ++task) {
    const auto& part = base::at(records, task);
    result.documents += part.documents;
    result.text_bytes += part.text_bytes;
    walk.pass(task, part);
    add_documents(parts, task, part, set, [&](std::int64_t tokens) {
      if (source.options().poll) source.options().poll();
      progress(done += tokens, all);
    });
  }
  walk.end(tasks);
  set.finish([&](const std::string& index) { base::write_file(parts.path() + "/" + joined_index_file, index); });
  return result;
}

}  // namespace

TaskResult build_task(DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options, Share share,
                      const TaskProgress& progress) {
  TaskResult result;
  const Parts parts(options.output, share.tasks);
  const auto precious = precious_of(source, options);
  const auto elsewhere = [&] {
    result.state = TaskResult::State::elsewhere;
    result.missing.clear();
    return result;
  };
  // Removes the parts, as far as another task has not. A foreign file among them is no reason to fail once the set
  // exists. Then the remaining parts must not look like the parts of a task that was killed just now.
  const auto clear = [&](const std::string& folder, std::unique_ptr<base::FolderLock> lock) {
    const auto own = own_parts(precious);
    try {
      base::require_own(folder, own);
    } catch (const base::UsageError& e) {
      const auto foreign = own.foreign(folder);
      result.parts_left = foreign.empty() ? std::string(e.what()) : fmt::format("{} {}", folder, foreign);
      std::error_code error;
      if (!std::filesystem::is_symlink(folder, error)) std::filesystem::remove(folder + "/" + joined_index_file, error);
      return;
    }
    base::remove_tree(folder, std::move(lock), joined_index_file);
  };
  source.take(share);
  if (is_made(parts.path(), options.output)) {
    if (auto lock = hold(parts)) clear(parts.path(), std::move(lock));
    return elsewhere();
  }
  const auto removed = base::removed_name(parts.path());
  if (!base::exists(parts.path()) && is_made(removed, options.output)) {
    clear(removed, nullptr);  // a task was killed while it did so
    return elsewhere();
  }
  NewSet::check(options, precious);
  bool first = false;
  try {
    first = parts.begin(settings_of(source, tokenizer, options, share.tasks));
    NewSet::check(options, precious);  // the set may have been made from these parts a moment ago
  } catch (const base::Error&) {
    if (first) clear(parts.path(), nullptr);
    NewSet::check(options, precious);  // this error explains more than "the folder is missing"
    throw;
  }
  result.part_was_there = parts.has(share.task);
  try {
    if (!result.part_was_there) parts.write(share.task, source, tokenizer, options, precious, progress.reading);
  } catch (const base::Error&) {
    const auto missing = parts.missing();
    if (!parts.has(share.task) && std::binary_search(missing.begin(), missing.end(), share.task)) throw;
    if (!parts.has(share.task))
      throw base::InputError(fmt::format("{} holds no {}", parts.folder_of(share.task), part_file),
                             parts.again(share.task));
    // The same task was started twice, and the other process was faster.
  }
  result.missing = parts.missing();
  if (!parts.has(share.task)) return elsewhere();  // the set was made from it
  if (!result.missing.empty()) return result;
  auto lock = hold(parts);
  if (!lock) return elsewhere();
  result.set = join(source, tokenizer, options, parts, share.tasks, progress.joining);
  result.state = TaskResult::State::made;
  clear(parts.path(), std::move(lock));
  return result;
}

}  // namespace trainyard::data
