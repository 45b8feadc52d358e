// Pairs of a source and a target: from two files and from JSON lines, in shards, by language, and what is refused.
#include "tests/data/sample.h"
#include "tests/refusal.h"

#include "libtrain/base/error.h"
#include "libtrain/data/builder.h"
#include "libtrain/data/line_pairs.h"
#include "libtrain/data/shard_pairs.h"
#include "libtrain/data/task_builder.h"

#include <fmt/ranges.h>

using namespace sample;

namespace pairs_test {

using trainyard::testing::refusal_of;
using Strings = std::vector<std::string>;

// Bytes, with an end of document and tokens of two languages.
class Marked : public data::Tokenizer {
 public:
  std::string name() const override { return "marked"; }
  std::uint32_t crc32c() const override { return 5; }
  std::string source() const override { return "marked"; }
  std::int64_t vocabulary() const override { return 260; }
  std::int32_t end_of_document() const override { return 256; }
  std::int32_t begin_of_document() const override { return begin; }
  std::int32_t token_named(std::string_view name) const override {
    return name == "<2de>" ? 257 : name == "<2fr>" ? 258 : -1;
  }
  void encode(std::string_view text, std::vector<std::int32_t>& to) const override {
    for (const char c : text) to.push_back(static_cast<unsigned char>(c));
  }
  std::string decode(std::span<const std::int32_t>) const override { return ""; }
  std::int32_t begin = -1;
};

std::string text_of(const std::vector<std::int32_t>& tokens) {
  std::string out;
  for (const auto t : tokens) out += t < 256 ? std::string(1, static_cast<char>(t)) : std::string(1, "$DF^"[t - 256]);
  return out;
}

struct Sets {
  Scratch scratch;
  Marked tokenizer;
  data::BuildResult result;
  data::BuildOptions options;
  Strings refusals;

  Sets() {
    options.output = path("set"), options.validation = 0, options.pairs = true;
    options.largest_rejected = 1, options.stretch_bytes = 16, options.threads = 2;
  }
  std::string path(const std::string& name) const { return scratch.path + "/" + name; }
  std::string file(const std::string& name, const std::string& text) const {
    spit(path(name), text);
    return path(name);
  }
  data::SetIndex make(const Strings& inputs, const data::PairOptions& pairs, const Strings& fields = {}) {
    data::SourceOptions source;
    source.pairs = std::make_shared<const data::PairOptions>(pairs);
    source.fields = fields;
    if (pairs.has_languages()) options.fields = {"source_language", "target_language"};
    options.fields.insert(options.fields.end(), fields.begin(), fields.end());
    options.rejects = path("rejects");
    options.existing = base::Existing::replace;
    data::DocumentSource from(inputs, source);
    result = data::build_shards(from, tokenizer, options, [](std::int64_t) {});
    return data::read_index(options.output);
  }
  std::string rejects() const {
    auto text = slurp(path("rejects"));
    for (std::size_t at; (at = text.find(scratch.path + "/")) != text.npos;) text.erase(at, scratch.path.size() + 1);
    return text;
  }
  // "source|target" of each pair.
  Strings pairs(const data::SetIndex& index, const std::string& language = "") const {
    Strings out;
    for (const auto& entry : index.train) {
      data::ShardReader shard(options.output, index, entry);
      if (!language.empty()) shard.keep_only("target_language", language);
      const auto lengths = data::pair_lengths(shard);
      for (std::size_t p = 0; p < lengths.size(); ++p) {
        std::vector<std::int32_t> source(static_cast<std::size_t>(lengths[p].source)),
            target(static_cast<std::size_t>(lengths[p].target));
        data::read_pair(shard, static_cast<std::int64_t>(p), lengths[p], source.data(), target.data());
        out.push_back(text_of(source) + "|" + text_of(target));
      }
      if (language.empty()) data::verify_pairs(shard, index);
    }
    return out;
  }
};

data::PairOptions in_file(const std::string& target, const data::PairLanguages& languages = {}) {
  data::PairOptions out;
  out.targets = {target};
  if (languages.known()) out.languages = {languages};
  return out;
}

data::PairOptions by_keys() {
  data::PairOptions out;
  out.source_key = "src", out.target_key = "tgt";
  return out;
}

TEST(Pairs, LinesOfTwoFilesBelongTogether) {
  Sets sets;
  std::string source, target;
  Strings want;
  for (int i = 0; i < 300; ++i) {
    const auto s = fmt::format("{}source {}", std::string(static_cast<std::size_t>(i * i % 37), 's'), i),
               t = fmt::format("{}target {}", std::string(static_cast<std::size_t>(i * 7 % 91), 't'), i);
    source += s + (i % 3 == 0 ? "\r\n" : "\n"), target += t + "\n";
    want.push_back(s + "$|" + t + "$");
  }
  source.pop_back();  // the last line ends with the file
  sets.file("a.src", "\xEF\xBB\xBF" + source), sets.file("a.tgt", target);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{1} << 20})
    for (const int threads : {1, 3}) {
      sets.options.stretch_bytes = bytes, sets.options.threads = threads;
      const auto index = sets.make({sets.path("a.src")}, in_file(sets.path("a.tgt")));
      EXPECT_TRUE(index.pairs && index.answers);
      EXPECT_EQ(sets.pairs(index), want) << bytes;
      EXPECT_EQ(sets.result.documents, 300);
    }
}

TEST(Pairs, SeveralFilesWithLanguages) {
  Sets sets;
  sets.file("1.en", "one\ntwo\n"), sets.file("1.de", "eins\nzwei\n");
  sets.file("2.en", "three\n"), sets.file("2.fr", "trois");
  data::PairOptions pairs;
  pairs.targets = {sets.path("1.de"), sets.path("2.fr")};
  pairs.languages = {{"en", "de"}, {"en", "fr"}};
  const auto index = sets.make({sets.path("1.en"), sets.path("2.en")}, pairs);
  EXPECT_EQ(sets.pairs(index), (Strings{"one$|Deins$", "two$|Dzwei$", "three$|Ftrois$"}));
  EXPECT_EQ(sets.pairs(index, "de"), (Strings{"one$|Deins$", "two$|Dzwei$"}));
  EXPECT_EQ(sets.pairs(index, "fr"), (Strings{"three$|Ftrois$"}));
  data::ShardReader shard(sets.options.output, index, index.train[0]);
  EXPECT_EQ(shard.fields().values_of(2), (Strings{"en", "fr"}));
  EXPECT_EQ(shard.sources().at(1).name,
            data::source_name(sets.path("2.en")) + ":" + data::source_name(sets.path("2.fr")));
  // Without the token, and with one that documents begin with.
  pairs.language_token = "";
  sets.tokenizer.begin = 259;
  EXPECT_EQ(sets.pairs(sets.make({sets.path("1.en"), sets.path("2.en")}, pairs)),
            (Strings{"^one$|eins$", "^two$|zwei$", "^three$|trois$"}));
}

TEST(Pairs, ATokenizerWithoutTheLanguageIsRefused) {
  Sets sets;
  sets.file("a", "one\n"), sets.file("b", "uno\n");
  const auto why = refusal_of<base::InputError>([&] {
    sets.make({sets.path("a")}, in_file(sets.path("b"), {"en", "es"}));
  });
  EXPECT_NE(why.find("has no token \"<2es>\""), std::string::npos) << why;
  EXPECT_FALSE(fs::exists(sets.options.output));
}

TEST(Pairs, UnequalFilesAreRefusedWithBothCounts) {
  Sets sets;
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "a line of text\n";
  sets.file("more", many), sets.file("less", "one\ntwo\nthree"), sets.file("empty", "");
  const auto refused = [&](const char* a, const char* b) {
    return refusal_of<base::InputError>([&] { sets.make({sets.path(a)}, in_file(sets.path(b))); });
  };
  EXPECT_NE(refused("more", "less").find("more has 5,000 lines, and " + sets.path("less") + " has 3 lines"),
            std::string::npos)
      << refused("more", "less");
  EXPECT_NE(refused("less", "more").find("less has 3 lines, and " + sets.path("more") + " has 5,000 lines"),
            std::string::npos);
  EXPECT_NE(refused("less", "empty").find("has 0 lines"), std::string::npos);
  EXPECT_NE(refused("empty", "empty").find("no document for training"), std::string::npos);
  EXPECT_NE(refused("gone", "less").find("gone"), std::string::npos);
}

TEST(Pairs, EmptyAndBadSidesAreCounted) {
  Sets sets;
  sets.file("a", "one\n\nthree\n \nfive\nsix\xff\n"), sets.file("b", "uno\ndos\n\t\n\ncinco\nseis\n");
  const auto index = sets.make({sets.path("a")}, in_file(sets.path("b")));
  EXPECT_EQ(sets.pairs(index), (Strings{"one$|uno$", "five$|cinco$"}));
  EXPECT_EQ(sets.result.rejected, 3);
  EXPECT_EQ(sets.result.empty, 1);
  EXPECT_EQ(sets.rejects(),
            "a:b\t2\tempty source\na:b\t3\tempty target\na:b\t4\tempty document\na:b\t6\tinvalid UTF-8\n");
}

TEST(Pairs, LongPairsAreLeftOutAndCountedApart) {
  Sets sets;
  sets.file("a", "12345\n123456\n1\n1\n"), sets.file("b", "12345\n1\n1234567\n123456\n");
  auto pairs = in_file(sets.path("b"), {"en", "de"});
  pairs.max_source = 6, pairs.max_target = 8;  // with the end, and the token of the language
  sets.options.largest_rejected = 0;
  const auto index = sets.make({sets.path("a")}, pairs);
  EXPECT_EQ(sets.pairs(index), (Strings{"12345$|D12345$", "1$|D123456$"}));
  EXPECT_EQ(sets.result.too_long, 2);
  EXPECT_EQ(sets.result.rejected, 0);
  EXPECT_EQ(data::left_out_text(sets.result), "none refused, 2 too long pairs left out");
  EXPECT_NE(sets.rejects().find("2\tpair too long: 7 tokens in the source, above --max-source 6\n"), std::string::npos)
      << sets.rejects();
  EXPECT_NE(sets.rejects().find("3\tpair too long: 9 tokens in the target, above --max-target 8\n"), std::string::npos);
}

TEST(Pairs, ALineOfManyBytesIsRefusedAndNotHeld) {
  Sets sets;
  const std::string longest(100, 'x');
  sets.file("a", "one\n" + std::string(5000, 'x') + "\n" + longest + "\n"), sets.file("b", "uno\ndos\ntres\n");
  data::SourceOptions source;
  source.pairs = std::make_shared<const data::PairOptions>(in_file(sets.path("b")));
  source.largest_document = 100;
  data::DocumentSource from({sets.path("a")}, source);
  const auto result = data::build_shards(from, sets.tokenizer, sets.options, [](std::int64_t) {});
  EXPECT_EQ(sets.pairs(data::read_index(sets.options.output)), (Strings{"one$|uno$", longest + "$|tres$"}));
  EXPECT_EQ(data::text_of(result.first_refusals.at(0)).substr(sets.path("a").size()),
            ":" + sets.path("b") + ", line 2: line longer than 100 bytes");
  data::LineSide side(sets.path("a"), {}, 100);
  side.fill(1 << 20);
  std::string lines;
  side.take(2, lines);
  EXPECT_EQ(lines, "one\n" + std::string(101, 'x') + "\n");
  EXPECT_EQ(side.count_rest(), 1);
}

TEST(Pairs, AreNeverCut) {
  Sets sets;
  sets.file("a", "1\n" + std::string(50, 'a') + "\n2\n3\n"), sets.file("b", "1\n" + std::string(70, 'b') + "\n2\n3\n");
  sets.options.shard_tokens = 10;
  const auto index = sets.make({sets.path("a")}, in_file(sets.path("b")));
  EXPECT_EQ(sets.pairs(index),
            (Strings{"1$|1$", std::string(50, 'a') + "$|" + std::string(70, 'b') + "$", "2$|2$", "3$|3$"}));
  EXPECT_EQ(index.train.size(), 3u);
  EXPECT_EQ(index.train[1].tokens, 122);
}

TEST(Pairs, EqualPairsAreOne) {
  Sets sets;
  sets.file("a", "x\nx\nxy\nx\n"), sets.file("b", "y\nz\n\xC3\xA4\ny\n");
  sets.options.deduplicate = true;
  EXPECT_EQ(sets.pairs(sets.make({sets.path("a")}, in_file(sets.path("b")))),
            (Strings{"x$|y$", "x$|z$", "xy$|\xC3\xA4$"}));
  EXPECT_EQ(sets.result.duplicates, 1);
}

TEST(Pairs, JsonLines) {
  Sets sets;
  sets.file("p.jsonl",
            "{\"src\": \"one\", \"tgt\": \"eins\", \"from\": \"en\", \"to\": \"de\", \"site\": 7}\n"
            "{\"src\": \"two\", \"tgt\": \"deux\", \"from\": \"en\", \"to\": \"fr\", \"big\": 1e999, \"site\": \"s\"}\n"
            "{\"src\": \"three\"}\n"
            "{\"src\": \"four\", \"tgt\": 4, \"from\": \"en\", \"to\": \"fr\"}\n"
            "{\"src\": \"five\", \"tgt\": \" \", \"from\": \"en\", \"to\": \"fr\"}\n"
            "{\"src\": \"six\", \"tgt\": \"seis\", \"from\": \"en\", \"to\": \"es\"}\n"
            "{\"src\": \"seven\", \"tgt\": \"sept\", \"from\": \"en\"}\n"
            "{\"src\": \"eight\", \"tgt\": \"huit\", \"from\": \"en\", \"to\": \"\"}\n"
            "[]\n");
  auto pairs = by_keys();
  pairs.source_language_key = "from", pairs.target_language_key = "to";
  const auto index = sets.make({sets.path("p.jsonl")}, pairs, {"site"});
  EXPECT_EQ(sets.pairs(index), (Strings{"one$|Deins$", "two$|Fdeux$"}));
  EXPECT_EQ(sets.pairs(index, "fr"), (Strings{"two$|Fdeux$"}));
  data::ShardReader shard(sets.options.output, index, index.train[0]);
  EXPECT_EQ(shard.fields().values_of(0), (Strings{"en", "de", "7"}));
  EXPECT_EQ(sets.rejects(),
            "p.jsonl\t3\tno key 'tgt'\np.jsonl\t4\tkey 'tgt' is not text\np.jsonl\t5\tempty target\n"
            "p.jsonl\t6\tthe tokenizer has no token \"<2es>\"\np.jsonl\t7\tno key 'to'\n"
            "p.jsonl\t8\tkey 'to' names no language\np.jsonl\t9\tnot a JSON object\n");
}

TEST(Pairs, JsonLinesWithOneLanguageForAll) {
  Sets sets;
  sets.file("p.txt", "{\"src\": \"one\", \"tgt\": \"eins\"}\n{\"src\": \"two\", \"tgt\": \"zwei\"}\n");  // by content
  auto pairs = by_keys();
  pairs.languages = {{"en", "de"}};
  const auto index = sets.make({sets.path("p.txt")}, pairs);
  EXPECT_EQ(sets.pairs(index, "de"), (Strings{"one$|Deins$", "two$|Dzwei$"}));
  sets.file("p.txt", "plain text\n");
  EXPECT_NE(refusal_of<base::UsageError>([&] { sets.make({sets.path("p.txt")}, by_keys()); }).find("--pairs-keys"),
            std::string::npos);
}

TEST(Pairs, TasksMakeTheSameSetOfJsonLines) {
  Sets sets;
  std::string lines;
  for (int i = 0; i < 100; ++i)
    lines += fmt::format(
        "{{\"src\": \"{}\", \"tgt\": \"{}\", \"to\": \"{}\", \"from\": \"en\"}}\n", std::string(1 + i % 9, 'x'),
        i % 17 == 5 ? "" : std::string(static_cast<std::size_t>(1 + i % 23), 'y'), i % 2 == 0 ? "de" : "fr");
  sets.file("p.jsonl", lines);
  auto pairs = by_keys();
  pairs.source_language_key = "from", pairs.target_language_key = "to", pairs.max_target = 20;
  sets.options.shard_tokens = 25;  // some pairs are longer
  sets.make({sets.path("p.jsonl")}, pairs);
  const auto one = sets.result;
  ASSERT_GT(one.too_long, 0);
  ASSERT_GT(one.rejected, 0);
  data::SourceOptions source;
  source.pairs = std::make_shared<const data::PairOptions>(pairs);
  auto options = sets.options;
  options.output = sets.path("tasks"), options.rejects = sets.path("rejects-of-tasks");
  data::TaskResult made;
  for (const int task : {2, 0, 1}) {
    data::DocumentSource from({sets.path("p.jsonl")}, source);
    made = data::build_task(from, sets.tokenizer, options, {task, 3},
                            {[](std::int64_t) {}, [](std::int64_t, std::int64_t) {}});
  }
  ASSERT_EQ(made.state, data::TaskResult::State::made);
  EXPECT_EQ(made.set.too_long, one.too_long);
  EXPECT_EQ(slurp(options.output + "/index.json"), slurp(sets.options.output + "/index.json"));
  EXPECT_EQ(slurp(options.rejects), slurp(sets.options.rejects));
}

TEST(Pairs, TasksOfTwoFilesAreRefused) {
  Sets sets;
  sets.file("a", "one\n"), sets.file("b", "uno\n");
  data::SourceOptions source;
  source.pairs = std::make_shared<const data::PairOptions>(in_file(sets.path("b")));
  data::DocumentSource from({sets.path("a")}, source);
  const auto why = refusal_of<base::UsageError>([&] { from.take({0, 2}); });
  EXPECT_NE(why.find("--task divides one file"), std::string::npos) << why;
}

TEST(Pairs, OtherContentIsRefused) {
  Sets sets;
  std::string utf16 = "\xFF\xFE";
  for (const char c : std::string(100, 'a')) utf16 += c, utf16 += '\0';
  sets.file("a", "one\n"), sets.file("b", utf16);
  EXPECT_NE(refusal_of<base::InputError>([&] { sets.make({sets.path("a")}, in_file(sets.path("b"))); }).find("UTF-16"),
            std::string::npos);
  EXPECT_NE(refusal_of<base::InputError>([&] { sets.make({sets.path("b")}, in_file(sets.path("a"))); }).find("UTF-16"),
            std::string::npos);
}

TEST(Pairs, DocumentsThatAreNoPairsAreRefused) {
  Sets sets;
  sets.file("a", "one\ntwo\n"), sets.file("b", "uno\ndos\n");
  auto index = sets.make({sets.path("a")}, in_file(sets.path("b")));
  const auto lengths = [&](std::vector<data::AnswerSpan> answers, const Document& document) {
    const base::AtomicFolder folder(sets.path("bad"), base::Existing::replace, {});
    data::ShardWriter writer(folder.path(), "train", sets.tokenizer, 1000);
    writer.mark_answers();
    writer.add(document, "", {answers});
    const auto entries = writer.finish();
    data::ShardReader shard(folder.path(), index, entries[0]);
    return refusal_of<base::InputError>([&] { data::verify_pairs(shard, index); });
  };
  EXPECT_EQ(lengths({{2, 4}}, {1, 256, 2, 256}), "");
  EXPECT_NE(lengths({}, {1, 256, 2, 256}).find("document 0 is no pair: it has no answer"), std::string::npos);
  EXPECT_NE(lengths({{0, 4}}, {1, 256, 2, 256}).find("does not begin in it"), std::string::npos);
  EXPECT_NE(lengths({{2, 3}}, {1, 256, 2, 256}).find("does not end with it"), std::string::npos);
  EXPECT_NE(lengths({{1, 4}}, {1, 256, 2, 256}).find("a side does not end"), std::string::npos);
  auto json = data::index_to_json(index);
  json.erase("answers");
  EXPECT_THROW(data::index_from_json(json, "index.json"), base::InputError);
  json["answers"] = true, json["packed_sequence"] = 16;
  EXPECT_THROW(data::index_from_json(json, "index.json"), base::InputError);
}

}  // namespace pairs_test
