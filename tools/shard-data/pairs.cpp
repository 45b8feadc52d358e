// Reads the flags of pairs.
#include "tools/shard-data/pairs.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/data/chat_line.h"
#include "libtrain/data/document_splitter.h"
#include "tools/common/checks.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trainyard::tools {

namespace {

bool is_there(const std::string& path) { return base::exists(path); }

// The two files of SOURCE:TARGET. Where a name has a colon itself, the colon between two files that exist counts.
std::pair<std::string, std::string> files_of(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> ways;
  for (auto at = text.find(':'); at != text.npos; at = text.find(':', at + 1))
    if (at > 0 && at + 1 < text.size()) ways.emplace_back(text.substr(0, at), text.substr(at + 1));
  if (ways.size() > 1)
    std::erase_if(ways, [](const auto& way) { return !is_there(way.first) || !is_there(way.second); });
  if (ways.size() != 1)
    throw base::UsageError(fmt::format("--pairs {} does not name two files", base::excerpt(text)),
                           "--pairs SOURCE:TARGET, such as corpus.en:corpus.de");
  for (const auto& path : {ways[0].first, ways[0].second}) {
    std::string_view name = path;
    for (const std::string_view packed : {".gz", ".zst", ".zstd"})
      if (name.ends_with(packed)) name.remove_suffix(packed.size());
    if (name.ends_with(".jsonl") || name.ends_with(".ndjson") || name.ends_with(".json"))
      throw base::UsageError(fmt::format("--pairs reads lines of text, and {} has JSON lines", base::one_line(path)),
                             "--input FILE.jsonl --pairs-keys SOURCE,TARGET");
    if (path == "-")
      throw base::UsageError("--pairs reads files or pipes by name, and not standard input", "--pairs <(...):<(...)");
  }
  return ways[0];
}

std::pair<std::string, std::string> two_of(const char* flag, const std::string& text, const char* example) {
  const auto comma = text.find(',');
  auto first = text.substr(0, comma), second = comma == text.npos ? std::string() : text.substr(comma + 1);
  if (first.empty() || second.empty() || second.find(',') != second.npos || first == second || !data::is_utf8(text))
    throw base::UsageError(fmt::format("{} {} does not name two keys", flag, base::excerpt(text)),
                           fmt::format("{} {}", flag, example));
  return {first, second};
}

// Refuses flags for another kind of input, or for pairs where there are none.
void require_alone(const PairFlags& flags, const CLI::App& app) {
  const auto given = [&](const char* flag) { return app.get_option(flag)->count() > 0; };
  const auto refuse = [](const std::string& what, const std::string& way) { throw base::UsageError(what, way); };
  if (!flags.asked()) {
    for (const char* flag : {"--source-language", "--target-language", "--language-keys", "--language-token",
                             "--max-source", "--max-target"})
      if (given(flag))
        refuse(fmt::format("{} is for pairs", flag), "--pairs SOURCE:TARGET, or --pairs-keys SOURCE,TARGET");
    return;
  }
  const bool in_files = !flags.files.empty();
  if (in_files && !flags.keys.empty())
    refuse("--pairs reads two files of text, and --pairs-keys JSON lines: they do not go together",
           "leave one of them out");
  const char* pairs = in_files ? "--pairs" : "--pairs-keys";
  for (const char* flag : {"--json-key", "--chat-template", "--split"})
    if (given(flag))
      refuse(fmt::format("{} says what a document is, and {} does, too: they do not go together", flag, pairs),
             "leave one of them out");
  if (in_files)
    for (const char* flag : {"--input", "--include", "--keep-field", "--language-keys"})
      if (given(flag))
        refuse(fmt::format("--pairs names the files to read, and {} is for other input: they do not go together", flag),
               "leave one of them out; --input FILE.jsonl --pairs-keys SOURCE,TARGET reads pairs in JSON lines");
  if (given("--pack") && app.get_option("--pack")->as<std::string>() != "none")
    refuse(
        "--pack best-fit packs documents, and a pair is two texts, which train packs into rows itself: they do not go "
        "together",
        "leave --pack and --sequence out");
  const bool fixed = given("--source-language") || given("--target-language");
  if (fixed && given("--language-keys"))
    refuse(
        "--language-keys reads the languages of each line, and --source-language and --target-language are for all: "
        "they do not go together",
        "leave one of them out");
  if (given("--source-language") != given("--target-language"))
    refuse("--source-language and --target-language need each other", "give both, such as en and de");
  if (given("--language-token") && !fixed && !given("--language-keys"))
    refuse("--language-token spells the token of the target's language, and no language is given",
           "--source-language and --target-language; for JSON lines also --language-keys");
}

data::PairLanguages languages_of(const std::string& source, const std::string& target) {
  for (const auto& language : {source, target})
    if (language.empty() || language.size() > data::longest_field || !data::is_utf8(language) ||
        language.find_first_of("=[],:") != language.npos)
      throw base::UsageError(fmt::format("the language {} is empty, too long, no UTF-8, or has one of =[],: in it",
                                         base::excerpt(language)),
                             "a name such as en, de or de_DE");
  return {source, target};
}

void add_languages(const PairFlags& flags, data::PairOptions& options) {
  const auto &sources = flags.source_languages, &targets = flags.target_languages;
  const auto wanted = std::max<std::size_t>(flags.files.size(), 1);
  for (const auto* side : {&sources, &targets})
    if (side->size() > 1 && side->size() != wanted)
      throw base::UsageError(fmt::format("{} languages of one side, for {}", side->size(),
                                         base::counted(static_cast<std::int64_t>(wanted), "pair of files")),
                             "give one for all, or one for each --pairs, in their order");
  const auto all = std::max(sources.size(), targets.size());
  for (std::size_t i = 0; i < all; ++i)
    options.languages.push_back(
        languages_of(sources[sources.size() == 1 ? 0 : i], targets[targets.size() == 1 ? 0 : i]));
}

}  // namespace

void add_pairs(CLI::App& app, PairFlags& flags) {
  const char* group = "Pairs";
  const auto several = [&](const char* name, std::vector<std::string>& to, const std::string& help) {
    return app.add_option(name, to, help)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false)
        ->group(group);
  };
  several("--pairs", flags.files,
          "SOURCE:TARGET, in place of --input: two files whose lines belong together, such as sentences and their "
          "translations; may be repeated")
      ->type_name("SOURCE:TARGET");
  app.add_option("--pairs-keys", flags.keys, "keys of source and target in JSON lines")
      ->group(group)
      ->type_name("SOURCE,TARGET");
  several("--source-language", flags.source_languages,
          "language of the sources; once for all, or once for each --pairs")
      ->type_name("NAME");
  several("--target-language", flags.target_languages, "language of the targets, likewise")->type_name("NAME");
  app.add_option("--language-keys", flags.language_keys, "keys of both languages in JSON lines")
      ->group(group)
      ->type_name("SOURCE,TARGET");
  app.add_option("--language-token", flags.language_token,
                 "token that targets begin with where languages are given, with {} for the target's; none: no token "
                 "[<2{}>]")
      ->group(group)
      ->type_name("TOKEN");
  for (const auto& [flag, to, side] : {std::tuple("--max-source", &flags.max_source, "source"),
                                       std::tuple("--max-target", &flags.max_target, "target")})
    app.add_option(
           flag, *to,
           fmt::format("leave out pairs whose {0} has more tokens than this; the tokens around the {0} count [any]",
                       side))
        ->check(in_range(base::Range<std::int64_t>{1, std::int64_t{1} << 30}))
        ->group(group);
}

std::shared_ptr<const data::PairOptions> pairs_of(const PairFlags& flags, const CLI::App& app,
                                                  std::vector<std::string>& inputs) {
  require_alone(flags, app);
  if (!flags.asked()) return nullptr;
  auto options = std::make_shared<data::PairOptions>();
  for (const auto& text : flags.files) {
    auto [source, target] = files_of(text);
    inputs.push_back(std::move(source));
    options->targets.push_back(std::move(target));
  }
  if (!flags.keys.empty())
    std::tie(options->source_key, options->target_key) = two_of("--pairs-keys", flags.keys, "source,target");
  if (!flags.language_keys.empty())
    std::tie(options->source_language_key, options->target_language_key) =
        two_of("--language-keys", flags.language_keys, "source_lang,target_lang");
  add_languages(flags, *options);
  options->max_source = flags.max_source, options->max_target = flags.max_target;
  options->language_token = flags.language_token == "none" ? "" : flags.language_token;
  const auto place = flags.language_token.find("{}");
  if (flags.language_token != "none" &&
      (place == std::string::npos || flags.language_token.find("{}", place + 1) != std::string::npos))
    throw base::UsageError(
        fmt::format("--language-token {} has not one {{}} for the language in it", base::excerpt(flags.language_token)),
        "'<2{}>', '__{}__' or none, in quotes");
  return options;
}

std::vector<std::string> language_tokens(const data::PairOptions& pairs) {
  std::vector<std::string> out;
  if (pairs.language_token.empty()) return out;
  for (const auto& languages : pairs.languages) out.push_back(pairs.token_of(languages.target));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace trainyard::tools
