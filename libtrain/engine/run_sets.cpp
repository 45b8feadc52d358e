// Sets that a run mixes must mean the same by a token.
#include "libtrain/engine/run_sets.h"

#include "libtrain/base/decimal.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/grid/batch.h"
#include "libtrain/plan/spec/objective.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

namespace trainyard::engine {

namespace {

void require_one_tokenizer(const RunSet& first, const RunSet& other) {
  const auto &a = first.index, &b = other.index;
  const bool same_model =
      a.tokenizer_crc32c == b.tokenizer_crc32c && (a.tokenizer_crc32c != 0 || a.tokenizer == b.tokenizer);
  if (same_model && a.vocabulary == b.vocabulary && a.end_of_document == b.end_of_document &&
      a.begin_of_document == b.begin_of_document)
    return;
  const auto text = [](const RunSet& set) {
    const auto& i = set.index;
    return fmt::format("{} has tokenizer {} (CRC32C {:08x}), a vocabulary of {}, end of document {} and begin {}",
                       set.folder, base::one_line(i.tokenizer), i.tokenizer_crc32c, i.vocabulary, i.end_of_document,
                       i.begin_of_document < 0 ? "none" : fmt::format("{}", i.begin_of_document));
  };
  throw base::InputError(fmt::format("sets of different tokens cannot be mixed: {}; {}", text(first), text(other)),
                         "make the sets with one tokenizer, and the same tokens around documents");
}

void weigh(std::vector<RunSet>& sets, const std::vector<data::NamedSet>& named, const RunConfig& c) {
  const bool weighed = !named.front().weight.empty();
  if (c.data_temperature > 0 && (weighed || sets.size() == 1))
    throw base::UsageError(base::text("$data-temperature weighs sets by their sizes, and $data {} {}",
                                      base::one_line(c.data), weighed ? "has weights of its own" : "is one set"),
                           base::text("leave $data-temperature out{}", weighed ? ", or the weights" : ""));
  if (sets.size() == 1) return;
  std::vector<std::int64_t> weights;
  if (weighed) {
    std::vector<std::string> texts;
    for (const auto& set : named) texts.push_back(set.weight);
    weights = data::weights_of(texts);
  } else if (c.data_temperature > 0) {
    std::vector<std::int64_t> sizes;
    for (const auto& set : sets) {
      const auto tokens = tokens_of_shards(set, set.index.train);
      std::int64_t size = 1;
      for (const auto t : tokens) size += t;
      sizes.push_back(size);
    }
    weights = data::weights_of_sizes(sizes, c.data_temperature);
  } else {
    throw base::UsageError(base::text("$data names {} sets, and nothing says how much of each is read", sets.size()),
                           base::text("$data {}:0.7,{}:0.3, or $data-temperature 1, which weighs them by size",
                                      sets[0].folder, sets[1].folder));
  }
  for (std::size_t k = 0; k < sets.size(); ++k) sets[k].weight = weights[k];
}

std::string raw_name_of(const RunSet& set) {
  return data::name_of({.folder = set.folder, .field = set.field, .value = set.value});
}

// Whether so many sequences are more than `most` times all windows. Exact, because a limit may be met exactly.
bool is_above(std::uint64_t sequences, std::int64_t windows, double most) {
  const auto limit = base::fraction_of(most);
  return static_cast<unsigned __int128>(sequences) * base::size(limit.denominator) >
         static_cast<unsigned __int128>(base::size(windows)) * base::size(limit.numerator);
}

// The own names of folders; their paths where two have one name.
void name_sets(std::vector<RunSet>& sets) {
  for (auto& set : sets) {
    auto path = set.folder;
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    set.name = base::text_of_path(std::filesystem::path(path).filename().string());
    if (!set.field.empty()) set.name += fmt::format("[{}={}]", set.field, set.value);
  }
  const auto named = sets;
  for (auto& set : sets)
    if (std::count_if(named.begin(), named.end(), [&](const auto& other) { return other.name == set.name; }) > 1)
      set.name = base::text_of_path(raw_name_of(set));
}

}  // namespace

std::vector<std::int64_t> tokens_of_shards(const RunSet& set, const std::vector<data::ShardEntry>& split) {
  std::vector<std::int64_t> tokens;
  for (const auto& shard : split) {
    const auto field = shard.field_tokens.find(set.field);
    if (set.field.empty()) tokens.push_back(shard.tokens);
    else if (field == shard.field_tokens.end() || !field->second.contains(set.value)) tokens.push_back(0);
    else tokens.push_back(field->second.at(set.value));
  }
  return tokens;
}

bool has_split(const RunSet& set, const std::vector<data::ShardEntry>& split) {
  if (set.field.empty()) return !split.empty();
  const auto tokens = tokens_of_shards(set, split);
  return std::any_of(tokens.begin(), tokens.end(), [](auto n) { return n > 0; });
}

void require_field(const RunSet& set) {
  if (set.field.empty()) return;
  std::set<std::string> fields, values;
  for (const auto* split : {&set.index.train, &set.index.validation})
    for (const auto& shard : *split)
      for (const auto& [name, tokens] : shard.field_tokens) {
        fields.insert(name);
        if (name == set.field)
          for (const auto& [value, count] : tokens) values.insert(value);
      }
  const auto some = [](const std::set<std::string>& all) {
    std::vector<std::string> names;
    for (const auto& name : all)
      if (names.size() < 10) names.push_back(base::excerpt(name));
    return base::listed(names, "and") + (all.size() > names.size() ? " and others" : "");
  };
  if (!fields.contains(set.field))
    throw base::InputError(base::text("$data {}: the set keeps no field {}", text_of(set), base::excerpt(set.field)),
                           fields.empty() ? "make it with shard-data --keep-field" : "it keeps " + some(fields));
  if (!values.contains(set.value))
    throw base::InputError(base::text("$data {}: no document has this value", text_of(set)),
                           "there are " + some(values));
}

std::string text_of(const RunSet& set) { return base::one_line(raw_name_of(set)); }

std::vector<RunSet> read_sets(const RunConfig& c) {
  const auto named = data::sets_of(c.data, base::setting_name("data"));
  std::vector<RunSet> sets;
  for (const auto& set : named) {
    sets.push_back({set.folder, {}, data::read_index(set.folder), set.field, set.value});
    require_field(sets.back());
    sets.back().most_epochs = set.epochs.value_or(c.max_epochs);
    require_one_tokenizer(sets.front(), sets.back());
  }
  name_sets(sets);
  weigh(sets, named, c);
  return sets;
}

void require_answers(const RunConfig& c, const plan::ModelConfig& model, const std::vector<RunSet>& sets) {
  if (!c.answers_only) return;
  if (plan::objective_of(model) == plan::Objective::masked)
    throw base::UsageError(
        base::text("$answers-only is for models that learn the next token, and this one learns hidden "
                   "tokens"),
        base::text("leave $answers-only out"));
  for (const auto& set : sets)
    if (!set.index.answers)
      throw base::InputError(base::text("$answers-only: {} does not say which of its tokens are answers", set.folder),
                             base::text("make it with shard-data --chat-template, from messages or prompts and "
                                        "responses; or $answers-only off, where all tokens count"));
}

void require_packed(const RunConfig& c, std::int64_t sequence, const std::vector<RunSet>& sets) {
  for (const auto& set : sets) {
    const auto packed = set.index.packed_sequence;
    if (packed > 0 && packed != sequence)
      throw base::UsageError(
          base::text("{} is packed for $sequence {}, and this run has {}", set.folder, packed, sequence),
          base::text("$sequence {}, or a set that is packed for {}", packed, sequence));
    if (packed > 0 && c.document_mask == "off")
      throw base::UsageError(
          base::text("{} has several documents in each sequence, which $document-mask off lets see each other",
                     set.folder),
          base::text("$document-mask on"));
  }
}

nlohmann::json data_identity(const std::vector<RunSet>& sets) {
  if (sets.size() == 1 && sets.front().field.empty()) return data::identity_of(sets.front().index);
  auto out = nlohmann::json::object();
  for (std::size_t k = 0; k < sets.size(); ++k) {
    auto& set =
        out[fmt::format("set {}", k + 1)] = {{"tokens", data::identity_of(sets[k].index)}, {"weight", sets[k].weight}};
    if (!sets[k].field.empty()) set["field"] = sets[k].field, set["value"] = base::text_of_path(sets[k].value);
  }
  return out;
}

data::Mixture mixture_of(const std::vector<RunSet>& sets, const RunConfig& c) {
  std::vector<std::int64_t> weights;
  for (const auto& set : sets) weights.push_back(set.weight);
  return {weights, c.seed, c.alternate_sets ? c.global_batch : 1};
}

void require_epochs(const std::vector<RunSet>& sets, const RunConfig& c, std::int64_t sequence, std::int64_t step,
                    std::int64_t samples_seen) {
  const auto has_limit = [](const auto& set) { return set.most_epochs > 0; };
  if (step >= c.steps || std::none_of(sets.begin(), sets.end(), has_limit)) return;
  const plan::BatchSizes sizes({c.global_batch, c.batch_ramp.in_samples(sequence)}, step, samples_seen);
  const auto mixture = mixture_of(sets, c);
  const auto above = [&](std::int64_t steps) {  // the first set that is read too often
    const auto counts = mixture.counts(base::size(sizes.samples_after(steps)));
    for (std::size_t k = 0; k < sets.size(); ++k) {
      if (sets[k].most_epochs > 0 && is_above(counts[k], sets[k].use.windows, sets[k].most_epochs))
        return static_cast<int>(k);
    }
    return -1;
  };
  const auto set = above(c.steps);
  if (set < 0) return;
  std::int64_t fit = step, beyond = c.steps;
  while (fit + 1 < beyond) {
    const auto middle = fit + (beyond - fit) / 2;
    (above(middle) < 0 ? fit : beyond) = middle;
  }
  const auto& too_often = base::at(sets, set);
  const auto read = mixture.counts(base::size(sizes.samples_after(c.steps)))[base::size(set)];
  const auto windows = too_often.use.windows;
  throw base::UsageError(
      base::text("$steps {} read {} of {}, which has {}: {} epochs, and $max-epochs allows {}", c.steps,
                 base::counted(static_cast<std::int64_t>(read), "sequence"), text_of(too_often),
                 base::count_text(windows),
                 base::number_text(static_cast<double>(read) / static_cast<double>(std::max<std::int64_t>(1, windows))),
                 base::number_text(too_often.most_epochs)),
      fit > step ? base::text("at most $steps {}, more data, or a higher $max-epochs", fit)
                 : base::text("more data, or a higher $max-epochs"));
}

}  // namespace trainyard::engine
