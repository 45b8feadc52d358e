// Finds the checkpoint and its tokenizer, and reads both.
#include "tools/generate/loaded.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/cores.h"
#include "libtrain/base/error.h"
#include "libtrain/base/read_file.h"
#include "libtrain/checkpoint/document_tokens.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/file_layout.h"
#include "tools/generate/pairs.h"
#include "tools/generate/tokenizer_place.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

namespace trainyard::generate {

namespace {

// --threads, else OMP_NUM_THREADS, else all available cores.
int compute_threads(int asked) { return base::team_threads(asked, base::threads_or_all(0)); }

// Checks a tokenizer file before it is parsed, because a checkpoint from elsewhere may name any file.
void require_recorded(const std::string& source, std::uint32_t found, const std::string& known,
                      const nlohmann::json& recorded) {
  const auto crc = recorded.is_object() ? recorded.value("crc32c", found) : found;
  if (crc != found)
    throw base::InputError(fmt::format("tokenizer {} has CRC32C {:08x}, the one of the training data ({}) had {:08x}: "
                                       "its tokens mean something else",
                                       source, found, known, crc),
                           "give the tokenizer that the training data was made with (--tokenizer)");
}

// Reads the tokenizer, with the end and begin tokens of documents that the weights know.
std::unique_ptr<data::Tokenizer> read_tokenizer(const std::string& source, const std::string& known,
                                                const nlohmann::json& recorded, const checkpoint::RunState& state) {
  if (source == "bytes" || base::file_size(source) < 0) return data::make_tokenizer(source);
  auto model = base::read_file(source);
  require_recorded(source, base::crc32c(model.data(), model.size()), known, recorded);
  const auto ids = checkpoint::document_ids_of(state.provenance);
  auto around = data::document_tokens(ids.end, ids.begin);
  auto tokenizer = data::tokenizer_of_model(source, model, around);
  if (!tokenizer->made_its_end() || tokenizer->vocabulary() <= state.model.vocabulary) return tokenizer;
  // An imported model has no row for an end token that is added here.
  const auto beside = data::ends_beside(source);
  for (std::size_t i = 0; i < beside.size(); ++i) try {
      around.end = beside[i].token;
      return data::tokenizer_of_model(source, model, around);
    } catch (const base::InputError&) {  // config.json may name one that the tokenizer has
      if (i + 1 == beside.size()) throw;
    }
  return tokenizer;
}

// The tokenizer of --tokenizer, else the one that the run kept or recorded.
std::unique_ptr<data::Tokenizer> tokenizer_for(const Options& options, const std::string& folder,
                                               const checkpoint::RunState& state) {
  const auto recorded = state.provenance.value("tokenizer", nlohmann::json());
  const auto known = tokenizer_place(folder, state.provenance);
  const auto source = options.tokenizer.empty() ? known : options.tokenizer;
  if (source.empty())
    throw base::InputError(options.checkpoint + ": records no tokenizer", "--tokenizer bytes, or --tokenizer PATH");
  if (options.tokenizer.empty() && source != "bytes" && !std::filesystem::is_regular_file(source))
    throw base::InputError(
        fmt::format("{}: was trained with tokenizer {}, which is not there any more", options.checkpoint, source),
        "--tokenizer PATH, with where it is now");
  auto tokenizer = read_tokenizer(source, known, recorded, state);
  if (tokenizer->vocabulary() > state.model.vocabulary)
    throw base::InputError(fmt::format("tokenizer {} has {} tokens, the model's vocabulary {}", source,
                                       tokenizer->vocabulary(), state.model.vocabulary),
                           "give the tokenizer that the training data was made with (--tokenizer)");
  require_recorded(source, tokenizer->crc32c(), known, recorded);
  return tokenizer;
}

// All tokens that end documents, and that the tokenizer has.
std::vector<std::int32_t> ends_for(const data::Tokenizer& tokenizer, const checkpoint::RunState& state) {
  std::set<std::int32_t> ends{tokenizer.end_of_document()};
  for (const auto id : checkpoint::end_ids_of(state.provenance))
    if (id < tokenizer.vocabulary()) ends.insert(id);
  return {ends.begin(), ends.end()};
}

// Tokens that stop texts name and that decode to nothing, as control pieces do: no text shows them.
std::vector<std::int32_t> stop_tokens_for(const std::vector<std::string>& stops, const data::Tokenizer& tokenizer) {
  std::vector<std::int32_t> out;
  for (const auto& stop : stops)
    if (const auto id = tokenizer.token_named(stop); id >= 0 && tokenizer.decode({&id, 1}).empty()) out.push_back(id);
  return out;
}

Beginning beginning_for(const Options& options, const data::Tokenizer& tokenizer, const checkpoint::RunState& state) {
  if (options.no_begin) return {};
  return beginning_of(state, tokenizer,
                      is_imported(state) ? data::begin_beside(tokenizer.source()) : data::BeginBeside());
}

WeightsAre weights_of(const Options& options) {
  return options.stream_weights ? WeightsAre::streamed : WeightsAre::kept;
}

constexpr std::int64_t usual_room = 8192;  // where later prompts decide how much is needed

// The most tokens of a text: what the model can see, or --context.
std::int64_t longest_text(const Options& options, const plan::ModelConfig& model) {
  const auto longest = plan::longest_sequence(model);
  if (options.context > longest)
    throw base::UsageError(
        fmt::format("--context {} is more than the {} tokens that the model can see", options.context, longest),
        "leave --context out");
  return options.context > 0 ? options.context : longest;
}

// Opens the checkpoint that the options name, and lets `read` read its weights.
template <class To, class Read> To opened(const Options& options, const Read& read) {
  return checkpoint::looking_again({options.checkpoint}, [&] {
    To out;
    out.folder = find_checkpoint(options.checkpoint);
    checkpoint::reading({out.folder}, [&] {
      checkpoint::Reader reader(out.folder);
      const auto& state = reader.state();
      out.step = state.step;
      out.tokenizer = tokenizer_for(options, out.folder, state);
      out.ends = ends_for(*out.tokenizer, state);
      out.beginning = beginning_for(options, *out.tokenizer, state);
      read(reader, out);
    });
    return out;
  });
}

}  // namespace

Loaded load(const Options& options, const std::optional<std::string>& prompt) {
  return opened<Loaded>(options, [&](checkpoint::Reader& reader, Loaded& out) {
    const auto longest = longest_text(options, reader.state().model);
    out.stop_tokens = stop_tokens_for(options.stops, *out.tokenizer);
    if (options.prompt_ids) out.prompt = tokens_of_ids(*out.tokenizer, *options.prompt_ids, longest);
    else if (prompt) out.prompt = prompt_tokens(*out.tokenizer, *prompt, longest, out.beginning);
    auto room = longest;
    if (!out.prompt.tokens.empty()) room = std::min(room, std::ssize(out.prompt.tokens) + options.tokens);
    else if (options.context == 0) room = std::min(room, usual_room);
    out.model = std::make_unique<LanguageModel>(reader, compute_threads(options.threads), weights_of(options),
                                                LanguageModel::Texts{options.prompts ? options.batch : 1, room});
  });
}

bool has_encoder(const Options& options) {
  return checkpoint::looking_again({options.checkpoint}, [&] {
    const auto folder = find_checkpoint(options.checkpoint);
    return checkpoint::reading({folder}, [&] { return plan::has_encoder(checkpoint::Reader(folder).state().model); });
  });
}

LoadedPairs load_pairs(const Options& options, const std::optional<std::string>& prompt) {
  return opened<LoadedPairs>(options, [&](checkpoint::Reader& reader, LoadedPairs& out) {
    const auto config = for_pairs(reader);
    const auto longest = longest_text(options, config);
    out.stop_tokens = stop_tokens_for(options.stops, *out.tokenizer);
    out.first = first_tokens_of(config, *out.tokenizer, options.target_language);
    auto room = std::min(longest, options.context > 0 ? longest : usual_room);
    if (!options.prompts) {
      out.source = options.prompt_ids ? tokens_of_ids(*out.tokenizer, *options.prompt_ids, longest).tokens
                                      : source_tokens(*out.tokenizer, *prompt, longest);
      room = std::ssize(out.source);
    }
    out.model = std::make_unique<PairModel>(reader, compute_threads(options.threads),
                                            PairModel::Room{options.prompts ? options.batch : 1, options.beams, room});
  });
}

LoadedScorer load_scorer(const Options& options, std::int64_t batch) {
  return opened<LoadedScorer>(options, [&](checkpoint::Reader& reader, LoadedScorer& out) {
    out.scorer = std::make_unique<Scorer>(reader, compute_threads(options.threads), batch, weights_of(options));
  });
}

}  // namespace trainyard::generate
