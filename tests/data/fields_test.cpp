// Fields of documents: kept beside tokens, counted in the index, and chosen by readers.
#include "tests/data/read_documents.h"
#include "tests/data/sample.h"
#include "tests/refusal.h"

#include "libtrain/base/error.h"
#include "libtrain/data/builder.h"
#include "libtrain/data/mixture.h"
#include "libtrain/data/shard_reader.h"
#include "libtrain/data/task_builder.h"
#include "libtrain/data/window_dataset.h"

#include <fmt/ranges.h>

using namespace sample;

namespace fields_test {

using trainyard::testing::refusal_of;
using Strings = std::vector<std::string>;

struct Sets {
  Scratch scratch;
  std::string input = scratch.path + "/text.jsonl", output = scratch.path + "/set";
  data::BuildOptions options(const std::string& name) const {
    data::BuildOptions o;
    o.output = scratch.path + "/" + name, o.validation = 0, o.shard_tokens = 150, o.fields = {"lang", "id"};
    o.stretch_bytes = 64, o.threads = 2;
    return o;
  }
  data::SourceOptions source() const {
    data::SourceOptions o;
    o.fields = {"lang", "id"};
    return o;
  }
  data::SetIndex make(const std::string& text) {
    spit(input, text);
    data::DocumentSource from({input}, source());
    data::build_shards(from, *data::make_tokenizer("bytes"), options("set"), [](std::int64_t) {});
    return data::read_index(output);
  }
};

const std::vector<std::pair<std::string, std::string>> documents = [] {  // language and text
  std::vector<std::pair<std::string, std::string>> out;
  for (int i = 0; i < 60; ++i)
    out.emplace_back(i % 7 == 3   ? "de"
                     : i % 5 == 0 ? ""
                                  : "en",
                     std::string(static_cast<std::size_t>(3 + i % 11), static_cast<char>('a' + i % 26)));
  return out;
}();

std::string lines() {
  std::string out;
  for (const auto& [lang, text] : documents)
    out += lang.empty() ? fmt::format("{{\"text\": \"{}\", \"id\": 7}}\n", text)
                        : fmt::format("{{\"lang\": \"{}\", \"text\": \"{}\", \"id\": true}}\n", lang, text);
  return out;
}

std::string text_of(const std::vector<std::int32_t>& tokens) {
  std::string out;
  for (const auto t : tokens) out += t == 256 ? '$' : static_cast<char>(t);
  return out;
}

std::string kept_text(const Sets& sets, const data::SetIndex& index, const std::string& lang) {
  std::string out;
  for (const auto& entry : index.train) {
    data::ShardReader shard(sets.output, index, entry);
    shard.keep_only("lang", lang);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(shard.tokens()));
    shard.read(0, shard.tokens(), tokens.data());
    out += text_of(tokens);
    for (std::int64_t at = 0; at < shard.tokens(); at += 3) {  // any part of it
      std::vector<std::int32_t> part(static_cast<std::size_t>(std::min<std::int64_t>(5, shard.tokens() - at)));
      shard.read(at, std::ssize(part), part.data());
      EXPECT_EQ(text_of(part), text_of(tokens).substr(static_cast<std::size_t>(at), part.size()));
    }
    const auto places = shard.documents();
    EXPECT_EQ(places.back(), static_cast<std::uint64_t>(shard.tokens()));
    for (std::size_t d = 1; d < places.size(); ++d) EXPECT_EQ(tokens[places[d] - 1], 256);
    const auto& counted = entry.field_tokens.at("lang");
    EXPECT_EQ(counted.contains(lang) ? counted.at(lang) : 0, shard.tokens());
  }
  return out;
}

TEST(Fields, ReadersChooseDocumentsByThem) {
  Sets sets;
  const auto index = sets.make(lines());
  ASSERT_GT(index.train.size(), 2u);
  for (const std::string lang : {"de", "en", "", "fr"}) {
    std::string want;
    for (const auto& [of, text] : documents)
      if (of == lang) want += text + "$";
    EXPECT_EQ(kept_text(sets, index, lang), want) << lang;
  }
  data::ShardReader shard(sets.output, index, index.train[0]);
  EXPECT_EQ(shard.fields().values_of(0), (Strings{"", "7"}));
  EXPECT_EQ(shard.fields().values_of(1), (Strings{"en", "true"}));
}

TEST(Fields, WindowsLieInWhatIsChosen) {
  Sets sets;
  const auto index = sets.make(lines());
  data::WindowDataset windows(sets.output, index, index.train,
                              {.sequence = 10,
                               .mask = data::DocumentMask::on,
                               .order = data::Order::as_stored,
                               .seed = 0,
                               .field = "lang",
                               .value = "en"});
  std::uint64_t ordinal = 0;
  for (const auto& entry : index.train) {
    data::ShardReader shard(sets.output, index, entry);
    shard.keep_only("lang", "en");
    std::vector<std::int32_t> all(static_cast<std::size_t>(shard.tokens()));
    shard.read(0, shard.tokens(), all.data());
    for (std::int64_t first = 0; first + 11 <= shard.tokens(); first += 10, ++ordinal) {
      std::vector<std::int32_t> i32(40);
      std::vector<std::uint8_t> weights(10);
      windows.fill(ordinal, {i32.data(), i32.data() + 10, i32.data() + 20, i32.data() + 30, weights.data()});
      for (std::size_t t = 0; t < 10; ++t) {
        const auto at = static_cast<std::size_t>(first) + t;
        ASSERT_EQ(i32[t], all[at]);
        ASSERT_EQ(i32[10 + t], all[at + 1]);
        ASSERT_EQ(weights[t], all[at] == 256 ? 0 : 1);
      }
    }
  }
  EXPECT_GT(ordinal, 5u);
  EXPECT_EQ(windows.count(), ordinal);
}

TEST(Fields, TasksKeepThem) {
  Sets sets;
  sets.make(lines());
  const auto o = sets.options("parts");
  for (const int task : {0, 1, 2}) {
    data::DocumentSource from({sets.input}, sets.source());
    data::build_task(from, *data::make_tokenizer("bytes"), o, {task, 3},
                     {[](std::int64_t) {}, [](std::int64_t, std::int64_t) {}});
  }
  EXPECT_EQ(slurp(o.output + "/index.json"), slurp(sets.output + "/index.json"));
  EXPECT_EQ(slurp(o.output + "/train/shard-00001.h5"), slurp(sets.output + "/train/shard-00001.h5"));
}

TEST(Fields, WhatIsNoValueIsRefused) {
  Sets sets;
  const auto reasons = [&](const std::string& line) {
    spit(sets.input, line + "\n");
    return trainyard::testing::read_documents({sets.input}, sets.source()).refusals;
  };
  EXPECT_EQ(reasons(R"({"text": "x", "lang": 1.5})"),
            (Strings{"text.jsonl:1: key 'lang' is no text, whole number or truth value"}));
  EXPECT_EQ(reasons(R"({"text": "x", "lang": ["de"]})"),
            (Strings{"text.jsonl:1: key 'lang' is no text, whole number or truth value"}));
  EXPECT_EQ(reasons(fmt::format(R"({{"text": "x", "lang": "{}"}})", std::string(257, 'x'))),
            (Strings{"text.jsonl:1: the value of 'lang' is longer than 256 bytes"}));
  EXPECT_EQ(reasons(R"({"text": "x", "lang": null})"), Strings{});
  EXPECT_EQ(reasons(R"({"text": "x", "lang": "a\u0000b"})"),
            (Strings{"text.jsonl:1: the value of 'lang' has a NUL character"}));
  spit(sets.scratch.path + "/plain.txt", "text");
  EXPECT_EQ(
      refusal_of<base::UsageError>([&] { data::DocumentSource({sets.scratch.path + "/plain.txt"}, sets.source()); }),
      "--keep-field is for JSON lines, and the input is plain text");
}

// Lines with this many values of `id`, each on two lines, and no line with `lang`.
std::string lines_with(std::size_t values) {
  std::string out;
  for (std::size_t i = 0; i < 2 * values; ++i) out += fmt::format("{{\"text\": \"{}\", \"id\": {}}}\n", i, i % values);
  return out;
}

// One process, a dry run and several tasks refuse the same values, however many shards there are.
TEST(Fields, AFieldHasAThousandValuesInASet) {
  Sets sets;
  constexpr auto most = data::FieldValues::most;
  const auto build = [&](const std::string& name, data::BuildOptions::Writing writing, int tasks) -> std::string {
    auto o = sets.options(name);
    o.writing = writing, o.shard_tokens = 3000;  // several shards
    try {
      if (tasks == 0) {
        data::DocumentSource from({sets.input}, sets.source());
        return fmt::format(
            "{}",
            fmt::join(data::build_shards(from, *data::make_tokenizer("bytes"), o, [](std::int64_t) {}).absent_fields,
                      " "));
      }
      data::TaskResult made;
      for (int task = 0; task < tasks; ++task) {
        data::DocumentSource from({sets.input}, sets.source());
        made = data::build_task(from, *data::make_tokenizer("bytes"), o, {task, tasks},
                                {[](std::int64_t) {}, [](std::int64_t, std::int64_t) {}});
      }
      EXPECT_EQ(made.state, data::TaskResult::State::made);
      return fmt::format("{}", fmt::join(made.set.absent_fields, " "));
    } catch (const base::InputError& e) {
      return std::string(e.what()) + " / " + e.hint();
    }
  };
  using Writing = data::BuildOptions::Writing;
  for (const auto values : {most, most + 1}) {
    spit(sets.input, lines_with(values));
    const std::string want = values == most
                                 ? "lang"
                                 : "the field \"id\" has more than 1000 different values / keep a field that "
                                   "groups documents, such as their language or source";
    const auto name = fmt::format("{}-values-", values);
    EXPECT_EQ(build(name + "0", Writing::on, 0), want);
    EXPECT_EQ(build(name + "1", Writing::off, 0), want) << "dry run";
    EXPECT_EQ(build(name + "2", Writing::on, 1), want) << "in a part";
    EXPECT_EQ(build(name + "3", Writing::on, 4), want) << "in the parts together";
  }
}

TEST(Fields, TheyBelongToTheIdentity) {
  Sets sets;
  const auto set = [&](const std::string& of_x, const std::string& of_y) {
    std::string text;
    for (int i = 0; i < 30; ++i)
      text += fmt::format("{{\"text\": \"{} of thirty\", \"lang\": \"{}\"}}\n", i % 2 == 0 ? "x" : "y",
                          i % 2 == 0 ? of_x : of_y);
    fs::remove_all(sets.output);
    return sets.make(text);
  };
  const auto first = set("de", "en"), swapped = set("en", "de"), again = set("de", "en");
  EXPECT_EQ(first.train[0].tokens_crc32c, swapped.train[0].tokens_crc32c);
  EXPECT_EQ(data::identity_of(first), data::identity_of(again));
  EXPECT_NE(data::identity_of(first), data::identity_of(swapped));
}

TEST(Fields, TheIndexSumsThem) {
  Sets sets;
  sets.make(lines());
  const auto path = sets.output + "/index.json";
  auto index = nlohmann::json::parse(slurp(path));
  const auto verify = [&] {
    return refusal_of<base::InputError>([&] {
      spit(path, index.dump());
      const auto read = data::read_index(sets.output);
      for (const auto& entry : read.train) data::ShardReader(sets.output, read, entry).verify_all();
    });
  };
  EXPECT_EQ(verify(), "");
  auto& first = index["train"][0];
  first["fields_crc32c"] = first["fields_crc32c"].get<std::uint32_t>() ^ 1;
  EXPECT_NE(verify().find("shard-00000.h5: the checksum of its fields differs from the index"), std::string::npos)
      << verify();
  for (auto& entry : index["train"]) entry.erase("fields_crc32c");  // as older sets are
  EXPECT_EQ(verify(), "");
  auto& tokens = first["field_tokens"]["lang"];  // older sets may have such a value, too
  tokens[std::string("d\0e", 3)] = tokens["de"];
  tokens.erase("de");
  EXPECT_EQ(verify(), "");
  EXPECT_TRUE(data::read_index(sets.output).train[0].field_tokens.at("lang").contains(std::string("d\0e", 3)));
}

TEST(Fields, ASetIsNamedWithThem) {
  const auto sets = data::sets_of("web[lang=de]:0.3,web[lang=en]:0.7:2", "--data");
  ASSERT_EQ(sets.size(), 2u);
  EXPECT_EQ(sets[0], (data::NamedSet{.folder = "web", .weight = "0.3", .field = "lang", .value = "de"}));
  EXPECT_EQ(data::name_of(sets[1]), "web[lang=en]");
  EXPECT_EQ(data::sets_of("web[lang=]", "--data")[0].value, "");
  for (const std::string value : {"p,q", "a:5", "a]b", "]", "]],[", "x[1]", "a=b", "[k=v]:2", " x "}) {
    const data::NamedSet set{.folder = "a[b=c]/w", .field = "lang", .value = value};
    for (const std::string end : {"", ":0.5", ":2:3"}) {
      const auto found = data::sets_of(data::name_of(set) + end + ", run[lr=3]/d" + end, "--data");
      ASSERT_EQ(found.size(), 2u) << value;
      EXPECT_EQ(found[0].folder, set.folder);
      EXPECT_EQ(found[0].field, "lang");
      EXPECT_EQ(found[0].value, value);
      EXPECT_EQ(found[0].weight, end.empty() ? "" : end.substr(1, end.rfind(':') > 0 ? end.rfind(':') - 1 : 9));
      EXPECT_EQ(found[1].folder, "run[lr=3]/d");
    }
  }
  EXPECT_EQ(data::sets_of("web[lang=de,x", "--data").size(), 2u);  // no choice
  EXPECT_EQ(refusal_of<base::UsageError>([] { data::sets_of("web[lang=a]b]:2", "--data"); }),
            "--data web[lang=a]b]:2: in the value of a field, ] is written twice");
  EXPECT_EQ(data::sets_of("web[1]", "--data")[0].folder, "web[1]");
  EXPECT_FALSE(data::is_one_folder("web[lang=de]"));
  EXPECT_EQ(refusal_of<base::UsageError>([] { data::sets_of("a[x=y]:1,a[x=y]:2", "--data"); }),
            "--data names a[x=y] twice");
}

// What is kept must be a value that can be kept, and the text one that JSON can hold; other keys hold what they like.
TEST(Fields, OtherKeysHoldAnything) {
  Sets sets;
  const std::string deep = std::string(2000, '[') + std::string(2000, ']');
  std::string text;
  for (const auto& value : {std::string("NaN"), std::string("1e400"), std::string(R"("\ud800")"), deep})
    text += R"({"text": "ok", "z": )" + value + R"(, "lang": "x", "id": 7})" + "\n";
  spit(sets.input, text + R"({"text": "ok", "lang": NaN, "lang": "x", "l\u0061ng": "y", "z": NaN})" + "\n");
  data::DocumentSource from({sets.input}, sets.source());
  EXPECT_EQ(trainyard::testing::read_documents(from).documents, Strings(5, "ok"));
  const auto index = sets.make(text);
  ASSERT_EQ(index.train[0].documents, 4u);
  EXPECT_EQ(kept_text(sets, index, "x"), "ok$ok$ok$ok$");
  const auto reason = [&](const std::string& line) {
    spit(sets.input, line + "\n");
    data::DocumentSource one({sets.input}, sets.source());
    const auto read = trainyard::testing::read_documents(one);
    return read.refusals.empty() ? "" : read.refusals[0].substr(std::string("text.jsonl:1: ").size());
  };
  EXPECT_EQ(reason(R"({"text": "ok", "lang": "\ud800"})"), "key 'lang' holds half of a surrogate pair");
  EXPECT_EQ(reason(R"({"text": "ok", "lang": 123456789012345678901234567890})"),
            "key 'lang' is a number beyond 64 bits");
  EXPECT_EQ(reason(R"({"text": "ok", "lang": NaN})"), "key 'lang' is no text, whole number or truth value");
  EXPECT_EQ(reason(R"({"text": "ok", "lang": )" + deep + "}"), "key 'lang' is no text, whole number or truth value");
  EXPECT_EQ(reason(R"({"lang": "x", "z": NaN})"), "no key 'text'");
}

}  // namespace fields_test
