// Reads pairs, writes targets, and adds what each line gives.
#include "tools/train/metric.h"

#include "libtrain/base/cores.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/text.h"
#include "libtrain/data/open_shards.h"
#include "libtrain/data/set_tokenizer.h"
#include "libtrain/data/shard_pairs.h"
#include "libtrain/data/text_pair.h"
#include "libtrain/data/translation/scores.h"
#include "libtrain/engine/agreement.h"
#include "libtrain/engine/build_info.h"
#include "libtrain/engine/run_sets.h"
#include "tools/generate/pairs.h"
#include "tools/generate/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <map>
#include <memory>

namespace trainyard::tools {

namespace {

namespace translation = data::translation;

struct OpenPair {
  generate::PairRequest request;
  std::string reference;
  std::size_t languages = 0;  // index in PairReader::languages()
};

// The language that a document has in a field; "" if it has none.
std::string language_of(const data::DocumentFields& fields, const data::ShardEntry& entry, std::int64_t document,
                        const char* field) {
  const auto values = entry.field_tokens.find(field);
  if (values == entry.field_tokens.end()) return {};
  for (const auto& [value, tokens] : values->second)
    if (fields.has(document, field, value)) return value;
  return {};
}

// Whether a token names the language, as "<2de>" and "__de__" do. A word that begins with the same letters does not.
bool is_language_token(const std::string& name, const std::string& language) {
  return !language.empty() && !name.empty() && std::ispunct(static_cast<unsigned char>(name.front())) != 0 &&
         name.find(language) != std::string::npos;
}

// The pairs of a split that fit a row, of which this rank answers every n-th.
class PairReader {
 public:
  struct Share {
    int rank, ranks;
  };
  PairReader(const engine::RunSet& set, const engine::Evaluation& e, std::int64_t most, Share share)
      : set_(set), evaluation_(e), split_(e.split == "train" ? set.index.train : set.index.validation),
        shards_(set.folder, set.index, split_, 16, {}), most_(most), share_(share),
        tokenizer_(data::tokenizer_of_set(set.folder, set.index)) {
    if (!tokenizer_.tokenizer)
      throw base::InputError(fmt::format("{}: targets are written with the set's tokenizer: {}",
                                         base::one_line(set.folder), tokenizer_.why_not),
                             "put the tokenizer where the set's index.json says, or leave --metric out");
  }

  const data::Tokenizer& tokenizer() const { return *tokenizer_.tokenizer; }
  const std::vector<std::string>& languages() const { return languages_; }
  std::int64_t seen() const { return seen_; }  // of all ranks

  // The next pair of this rank. Every rank goes through all pairs, so that all know all languages.
  std::optional<OpenPair> next(const plan::ModelConfig& model) {
    while (shard_ < shards_.size()) {
      auto& shard = shards_.to_read(shard_);
      const auto& entry = split_[shard_];
      if (lengths_.empty()) lengths_ = data::pair_lengths(shard), fields_ = fields_of(shard, entry);
      while (pair_ < std::ssize(lengths_)) {
        const auto pair = pair_++;
        const auto length = base::at(lengths_, pair);
        if (most_ > 0 && seen_ == most_) return {};
        if (length.source > evaluation_.source_sequence || length.target > evaluation_.sequence) continue;
        if (!set_.field.empty() && !fields_.has(pair, set_.field, set_.value)) continue;
        const auto languages = languages_of(entry, pair);
        if (seen_++ % share_.ranks == share_.rank) return open(shard, entry, pair, length, languages, model);
      }
      ++shard_, pair_ = 0, lengths_.clear();
    }
    return {};
  }

 private:
  static data::DocumentFields fields_of(const data::ShardReader& shard, const data::ShardEntry& entry) {
    return entry.field_tokens.empty() ? data::DocumentFields() : shard.fields();
  }

  std::size_t languages_of(const data::ShardEntry& entry, std::int64_t pair) {
    const auto from = language_of(fields_, entry, pair, data::source_language_field),
               to = language_of(fields_, entry, pair, data::target_language_field);
    const auto name = to.empty() ? std::string() : from + "-" + to;
    const auto known = std::find(languages_.begin(), languages_.end(), name) - languages_.begin();
    if (known == std::ssize(languages_)) languages_.push_back(name);
    return base::size(known);
  }

  // The target's language token is forced, and is no part of the reference.
  OpenPair open(data::ShardReader& shard, const data::ShardEntry& entry, std::int64_t pair,
                const data::PairLength& length, std::size_t languages, const plan::ModelConfig& model) {
    OpenPair out;
    out.languages = languages;
    out.request.source.resize(base::size(length.source));
    std::vector<std::int32_t> target(base::size(length.target));
    data::read_pair(shard, pair, length, out.request.source.data(), target.data());
    out.request.first = {model.decoder_start >= 0 ? model.decoder_start : set_.index.end_of_document};
    const auto language = language_of(fields_, entry, pair, data::target_language_field);
    if (is_language_token(tokenizer().name_of_token(target.front()), language)) {
      out.request.first.push_back(target.front());
      target.erase(target.begin());
    }
    if (!target.empty() && target.back() == set_.index.end_of_document) target.pop_back();
    out.reference = generate::valid_utf8(tokenizer().decode(target));
    return out;
  }

  const engine::RunSet& set_;
  const engine::Evaluation& evaluation_;
  const std::vector<data::ShardEntry>& split_;
  data::OpenShards shards_;
  std::int64_t most_;
  Share share_;
  data::SetTokenizer tokenizer_;
  std::size_t shard_ = 0;
  std::int64_t pair_ = 0, seen_ = 0;
  std::vector<data::PairLength> lengths_;  // of the shard under way; empty: not read
  data::DocumentFields fields_;
  std::vector<std::string> languages_;
};

// For each metric and each pair of languages: the integers of its lines, and how many lines.
using Sums = std::vector<std::vector<std::vector<std::int64_t>>>;

// The sums of this rank's pairs.
Sums sums_of_rank(PairReader& reader, generate::PairModel& model, const engine::Evaluation& e,
                  std::vector<translation::LineScorer>& scorers, std::int32_t end,
                  const std::function<void(std::int64_t)>& done) {
  Sums sums(scorers.size());
  std::deque<OpenPair> waiting;
  generate::PairSettings settings;
  settings.continuation = {e.sequence, generate::StopAt::end_of_document, {end}, reader.tokenizer().vocabulary()};
  settings.sampler.temperature = 0;
  generate::answer_requests(
      model, reader.tokenizer(), settings,
      [&]() -> std::optional<generate::PairRequest> {
        auto pair = reader.next(model.config());
        if (!pair) return {};
        auto request = pair->request;
        waiting.push_back(std::move(*pair));
        return request;
      },
      [&](std::int64_t number, const generate::PairAnswer& answer) {
        const auto& pair = waiting.front();
        const std::string_view reference = pair.reference;
        for (std::size_t m = 0; m < scorers.size(); ++m) {
          const auto integers = translation::integers_of(scorers[m].rule().metric);
          sums[m].resize(std::max(sums[m].size(), pair.languages + 1));
          auto& of = sums[m][pair.languages];
          of.resize(integers + 1, 0);
          scorers[m].add(answer.text, {&reference, 1}, std::span(of).first(integers));
          ++of.back();
        }
        waiting.pop_front();
        done(number + 1);
        return true;
      });
  return sums;
}

}  // namespace

std::vector<MetricScore> metric_scores(const engine::Evaluation& e, const engine::RunConfig& run,
                                       const std::vector<std::string>& metrics, std::int64_t most_pairs,
                                       engine::World& world,
                                       const std::function<void(std::int64_t done, std::int64_t all)>& watch) {
  auto& exec = *world.communication;
  std::vector<translation::LineScorer> scorers;
  for (const auto& name : metrics) scorers.emplace_back(translation::ScoreRule{translation::metric_of(name)});
  Sums sums;
  std::vector<std::string> languages;
  engine::on_every_rank(world, exec, [&] {
    if (e.objective != "pairs")
      throw base::UsageError(fmt::format("--metric is for sets of pairs, and {} is none", base::one_line(e.data)),
                             "name a set of shard-data --pairs with --data, or leave --metric out");
    auto config = run;
    config.data = e.data;
    const auto sets = engine::read_sets(config);
    const auto& set = sets.front();
    const auto longest = [&] {  // how many pairs this rank has
      PairReader all(set, e, most_pairs, {world.rank, world.size});
      std::int64_t mine = 0;
      while (all.next({})) ++mine;
      languages = all.languages();
      return mine;
    }();
    PairReader reader(set, e, most_pairs, {world.rank, world.size});
    checkpoint::Reader weights(e.checkpoint);
    generate::PairModel model(weights, base::team_threads(run.threads, base::threads_or_all(0)),
                              {std::min<std::int64_t>(16, std::max<std::int64_t>(1, longest)), 1, e.source_sequence});
    sums = sums_of_rank(reader, model, e, scorers, set.index.end_of_document, [&](std::int64_t done) {
      if (world.rank == 0) watch(done, longest);
    });
  });
  std::vector<MetricScore> out;
  for (std::size_t m = 0; m < scorers.size(); ++m) {
    const auto metric = scorers[m].rule().metric;
    const auto integers = translation::integers_of(metric);
    std::vector<std::int64_t> all(integers + 1, 0);
    MetricScore score;
    score.metric = metrics[m];
    sums[m].resize(languages.size());
    for (std::size_t l = 0; l < languages.size(); ++l) {
      auto& of = sums[m][l];
      of.resize(integers + 1, 0);
      world.control->all_reduce(exec, base::View::of(of.data(), {std::ssize(of)}), comm::Reduction::sum);
      exec.synchronize();
      for (std::size_t i = 0; i < of.size(); ++i) all[i] += of[i];
      if (!languages[l].empty())
        score.of_languages.push_back(
            {languages[l], of.back(), translation::score_of(metric, std::span(of).first(integers))});
    }
    score.pairs = all.back();
    score.score = translation::score_of(metric, std::span(all).first(integers));
    score.signature = translation::signature_of(
        scorers[m].rule(), 1, {}, "trainyard-" + engine::build_versions().at("trainyard").get<std::string>());
    out.push_back(std::move(score));
  }
  return out;
}

}  // namespace trainyard::tools
