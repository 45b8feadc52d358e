// The pipeline: read a batch, tokenize it in parallel, append in order.
#include "libtrain/data/builder.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/random.h"
#include "libtrain/base/thread.h"
#include "libtrain/data/own_set.h"
#include "libtrain/data/shard_writer.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace trainyard::data {

namespace {

struct Batch {
  std::vector<std::string> texts;
  std::vector<std::size_t> sources;  // per text, index into Pipeline::sources_
  std::size_t bytes = 0;
};

bool goes_to_validation(const std::string& text, double share) {
  return static_cast<double>(base::site_hash("validation", text) >> 11) * 0x1.0p-53 < share;
}

class Pipeline {
 public:
  Pipeline(const Tokenizer& tokenizer, const BuildOptions& options, std::vector<std::string> precious,
           BuildResult& result)
      : tokenizer_(tokenizer), options_(options), result_(result) {
    const auto own = own_shard_sets(precious);
    if (!options.rejects.empty()) {
      refuse_rejects_within_output();
      refuse_foreign_rejects(std::move(precious));
    }
    if (options.writing == BuildOptions::Writing::on) {
      folder_.emplace(options.output, options.existing, own);
      if (!tokenizer.model().empty())
        base::write_file(folder_->path() + "/" + set_tokenizer_name(tokenizer), tokenizer.model());
      train_.emplace(folder_->path(), "train", tokenizer, options.shard_tokens);
      validation_.emplace(folder_->path(), "validation", tokenizer, options.shard_tokens);
    } else if (options.existing == base::Existing::refuse && std::filesystem::exists(options.output)) {
      throw base::UsageError(fmt::format("{} exists already", options.output),
                             "give another place, or --force to replace it");
    } else {
      base::require_own(options.output, own);
    }
    if (!options.rejects.empty() && options.writing == BuildOptions::Writing::on) {
      rejects_.open(options.rejects, std::ios::trunc);
      if (!rejects_)
        throw base::EnvironmentError(fmt::format("cannot write {}: {}", options.rejects, std::strerror(errno)));
    }
  }

  void add(std::string&& text, const std::string& source) {
    batch_.bytes += text.size();
    if (sources_.empty() || sources_.back() != source) sources_.push_back(source);
    batch_.sources.push_back(sources_.size() - 1);
    batch_.texts.push_back(std::move(text));
    if (batch_.bytes >= (std::size_t{4} << 20)) flush();
  }

  void refuse(const Refusal& r) {
    ++result_.rejected;
    if (result_.first_refusals.size() < first_refusals_kept) result_.first_refusals.push_back(r);
    if (rejects_.is_open()) rejects_ << r.source << '\t' << r.line << '\t' << r.reason << '\n';
  }

  void flush() {
    const auto n = batch_.texts.size();
    if (n == 0) return;
    std::vector<std::vector<std::int32_t>> tokens(n);
    std::atomic<std::size_t> next{0};
    std::exception_ptr failure;
    std::mutex mutex;
    const auto work = [&] {
      try {
        for (auto i = next++; i < n; i = next++) {
          tokenizer_.encode(batch_.texts[i], tokens[i]);
          tokens[i].push_back(tokenizer_.end_of_document());
        }
      } catch (...) {
        std::lock_guard lock(mutex);
        failure = std::current_exception();
      }
    };
    std::vector<std::thread> team;
    try {
      for (int t = 1; t < options_.threads && static_cast<std::size_t>(t) < n; ++t)
        team.push_back(base::start_thread("tokenizer", work));
    } catch (const std::system_error&) {
      // No more threads or memory for them: those that run share the work, and the output does not depend on their
      // number.
    }
    work();
    for (auto& t : team) t.join();
    if (failure) std::rethrow_exception(failure);
    for (std::size_t i = 0; i < n; ++i) append(batch_.texts[i], tokens[i], sources_[batch_.sources[i]]);
    batch_.texts.clear();
    batch_.sources.clear();
    sources_.erase(sources_.begin(), sources_.end() - 1);
    batch_.bytes = 0;
  }

  void finish() {
    flush();
    if (rejects_.is_open()) {
      rejects_.close();
      if (rejects_.fail())
        throw base::EnvironmentError(fmt::format("cannot write {}", options_.rejects), "is the disk full?");
    }
    const auto all = result_.documents + result_.rejected;
    if (all > 0 && static_cast<double>(result_.rejected) > options_.largest_rejected * static_cast<double>(all))
      too_many_refused(all);
    if (result_.train_tokens == 0)
      throw base::InputError(
          "the input holds no document for training",
          result_.documents == 0
              ? "is it empty?"
              : "all went to validation: --validation 0 keeps them, or split it into more documents");
    if (!folder_) return;
    SetIndex index;
    index.tokenizer = source_name(tokenizer_.name());
    index.tokenizer_source = tokenizer_.model().empty() ? "bytes" : set_tokenizer_name(tokenizer_);
    index.tokenizer_crc32c = tokenizer_.crc32c();
    index.vocabulary = tokenizer_.vocabulary();
    index.end_of_document = tokenizer_.end_of_document();
    index.train = train_->finish();
    index.validation = validation_->finish();
    result_.train_shards = static_cast<std::int64_t>(index.train.size());
    result_.validation_shards = static_cast<std::int64_t>(index.validation.size());
    base::write_file(folder_->path() + "/index.json", index_to_json(index).dump(1) + "\n");
    folder_->publish();
  }

 private:
  // There it would be a file that no index names: the set would not be ours any more, or the list would go with what is
  // unfinished.
  void refuse_rejects_within_output() const {
    namespace fs = std::filesystem;
    std::error_code error;
    auto set = fs::weakly_canonical(fs::absolute(options_.output), error);
    if (!set.has_filename()) set = set.parent_path();  // "data/"
    const auto list = fs::weakly_canonical(fs::absolute(options_.rejects), error);
    for (const auto* suffix : {"", ".partial", ".replaced.partial"}) {
      const fs::path folder = set.string() + suffix;
      if (std::mismatch(folder.begin(), folder.end(), list.begin(), list.end()).first == folder.end())
        throw base::UsageError(
            fmt::format("--rejects {} lies in the folder of the shard set {}", options_.rejects, options_.output),
            "name a file beside that folder");
    }
  }

  // The list of refusals is written anew: over another file only where that is such a list and replacing is asked for.
  void refuse_foreign_rejects(std::vector<std::string> precious) const {
    const auto& path = options_.rejects;
    std::error_code error;
    const auto status = std::filesystem::symlink_status(path, error);
    const auto type = std::filesystem::is_symlink(status) && std::filesystem::exists(path, error)
                          ? std::filesystem::status(path, error).type()
                          : status.type();
    if (type == std::filesystem::file_type::not_found || std::filesystem::is_other(std::filesystem::file_status(type)))
      return;  // a device or a pipe is no file to lose
    if (options_.existing == base::Existing::refuse)
      throw base::UsageError(fmt::format("--rejects {} exists already", path),
                             "name another file, or --force to replace it");
    base::require_own(path, own_reject_lists(std::move(precious)));
  }

  [[noreturn]] void too_many_refused(std::int64_t all) const {
    auto text = fmt::format("{} of {} documents were refused, {:g} % are allowed", result_.rejected, all,
                            100 * options_.largest_rejected);
    for (const auto& r : result_.first_refusals) text += "\n  " + text_of(r);
    if (const auto more = result_.rejected - static_cast<std::int64_t>(result_.first_refusals.size()); more > 0)
      text += fmt::format("\n  and {} more", more);
    const auto list = options_.rejects.empty() ? std::string("--rejects FILE lists them")
                      : options_.writing == BuildOptions::Writing::on
                          ? fmt::format("see {}", options_.rejects)
                          : fmt::format("without --dry-run, {} lists them", options_.rejects);
    throw base::InputError(text, list + "; --max-rejects allows more");
  }

  void append(const std::string& text, const std::vector<std::int32_t>& tokens, const std::string& source) {
    ++result_.documents;
    result_.text_bytes += static_cast<std::int64_t>(text.size());
    const bool validation = goes_to_validation(text, options_.validation);
    (validation ? result_.validation_tokens : result_.train_tokens) += static_cast<std::int64_t>(tokens.size());
    if (folder_) (validation ? *validation_ : *train_).add(tokens, source);
  }

  const Tokenizer& tokenizer_;
  const BuildOptions& options_;
  BuildResult& result_;
  std::optional<base::AtomicFolder> folder_;
  std::optional<ShardWriter> train_, validation_;
  std::ofstream rejects_;
  Batch batch_;
  std::vector<std::string> sources_;  // of the batch, in order; the last one goes on in the next
};

}  // namespace

std::string text_of(const Refusal& r) { return fmt::format("{}, line {}: {}", r.source, r.line, r.reason); }

BuildResult build_shards(DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
                         const std::function<void(std::int64_t)>& progress) {
  BuildResult result;
  auto precious = options.precious;
  for (const auto& input : source.inputs())
    if (input != "-") precious.push_back(input);
  Pipeline pipeline(tokenizer, options, std::move(precious), result);
  source.read(
      [&](std::string&& text) {
        pipeline.add(std::move(text), source.current_input());
        progress(source.bytes_read());
        return true;
      },
      [&](const Refusal& r) { pipeline.refuse(r); });
  pipeline.finish();
  return result;
}

}  // namespace trainyard::data
