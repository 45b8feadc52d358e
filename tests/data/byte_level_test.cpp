// Tests byte-level BPE: the ids of the `tokenizers` package (tests/golden/tokenizers, made by
// tests/golden/tokenizers_golden.py), decoding of the ids to the text, and what tokenizer files may contain.
#include "tests/scratch.h"

#include "libtrain/base/error.h"
#include "libtrain/data/tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <thread>

using namespace trainyard;
using nlohmann::json;
using trainyard::testing::Scratch;
using trainyard::testing::slurp;
using trainyard::testing::spit;
using Ids = std::vector<std::int32_t>;

namespace {

std::string golden(const std::string& name) { return GOLDEN_TOKENIZERS "/" + name; }

Ids encode(const data::Tokenizer& tokenizer, const std::string& text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

class Files : public ::testing::Test {
 protected:
  std::unique_ptr<data::Tokenizer> with(const std::function<void(json&)>& change, const std::string& name = "gpt2") {
    auto j = json::parse(slurp(golden(name + ".json")));
    change(j);
    return of(j.dump());
  }
  std::unique_ptr<data::Tokenizer> of(const std::string& content) {
    spit(scratch.path + "/tokenizer.json", content);
    return data::make_tokenizer(scratch.path + "/tokenizer.json");
  }
  void refused(const std::string& says, const std::function<void(json&)>& change, const std::string& name = "gpt2") {
    try {
      with(change, name);
      ADD_FAILURE() << "accepted, though " << says;
    } catch (const base::InputError& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("tokenizer.json"), std::string::npos) << e.what();
    }
  }
  Scratch scratch;
};

}  // namespace

TEST(ByteLevel, IdsAreThoseOfTheReference) {
  const auto rows = json::parse(slurp(golden("ids.json")));
  for (const char* name : {"gpt2", "llama3", "steps"}) {
    const auto tokenizer = data::make_tokenizer(golden(name) + ".json");
    int compared = 0;
    for (int round = 0; round < 2; ++round)  // the second round finds its pieces in the cache
      for (const auto& row : rows) {
        if (!row.contains(name)) continue;
        EXPECT_EQ(encode(*tokenizer, row["text"]), row[name].get<Ids>()) << name << ": " << row["text"];
        ++compared;
      }
    EXPECT_GT(compared, 70) << name;
  }
}

// gpt2.json with changes: NFC, punctuation, tokens that are words (tests/golden/tokenizers_variants.py).
TEST_F(Files, VariantsGiveTheIdsOfTheReference) {
  for (const auto& variant : json::parse(slurp(golden("variants.json")))) {
    with([&](json& j) {
      j.update(variant["change"]);
      for (int id = 700; auto token : variant["added"]) {
        token["id"] = id++;
        j["added_tokens"].push_back(token);
      }
    });
    const auto tokenizer =
        data::make_tokenizer(scratch.path + "/tokenizer.json", {"", "", variant["special_as_text"].get<bool>()});
    for (const auto& row : variant["rows"])
      EXPECT_EQ(encode(*tokenizer, row[0]), row[1].get<Ids>()) << variant["name"] << ": " << row[0];
    EXPECT_GE(variant["rows"].size(), 4u);
  }
}

TEST(ByteLevel, DecodesToTheVeryBytes) {
  const auto rows = json::parse(slurp(golden("ids.json")));
  for (const char* name : {"gpt2", "llama3"}) {
    const auto tokenizer = data::make_tokenizer(golden(name) + ".json");
    const auto end = tokenizer->decode(Ids{tokenizer->end_of_document()});
    EXPECT_EQ(end, "");
    for (const auto& row : rows) {
      std::string text = row["text"];
      const auto ids = encode(*tokenizer, text);
      const std::string ends = std::string(name) == "gpt2" ? "<|endoftext|>" : "<|end_of_text|>";
      for (auto at = text.find(ends); at != text.npos; at = text.find(ends)) text.erase(at, ends.size());
      EXPECT_EQ(tokenizer->decode(ids), text);
      std::int64_t bytes = 0;
      std::string one_by_one;
      for (const auto id : ids) {
        bytes += tokenizer->text_bytes(id, data::Tokenizer::Place::inside);
        one_by_one += tokenizer->decode(Ids{id});
      }
      EXPECT_EQ(bytes, static_cast<std::int64_t>(text.size()));
      EXPECT_EQ(one_by_one, text);
    }
  }
}

TEST(ByteLevel, KnowsItsVocabularyAndEnd) {
  const auto gpt2 = data::make_tokenizer(golden("gpt2.json")), llama3 = data::make_tokenizer(golden("llama3.json")),
             steps = data::make_tokenizer(golden("steps.json"));
  EXPECT_EQ(gpt2->vocabulary(), 700);
  EXPECT_EQ(gpt2->end_of_document(), 0);  // <|endoftext|>, the trainer's first token
  EXPECT_EQ(llama3->vocabulary(), 709);   // 700, four words, five added tokens
  EXPECT_EQ(llama3->end_of_document(), 705);
  EXPECT_EQ(steps->vocabulary(), 504);  // 500, three added tokens, and a new end of document behind them
  EXPECT_EQ(steps->end_of_document(), 503);
  EXPECT_EQ(gpt2->unknown(), -1);
  EXPECT_EQ(gpt2->name(), "gpt2.json");
  EXPECT_EQ(gpt2->decode(Ids{-1, 700, 1 << 30}), "");
  EXPECT_EQ(gpt2->text_bytes(700, data::Tokenizer::Place::start), 0);
  EXPECT_EQ(data::set_tokenizer_name(*gpt2), "tokenizer.json");
}

// An added token of either name is the mask. Added tokens are words of their own, and pieces with leading white space
// begin a word.
TEST_F(Files, SayTheirMaskAndWhereWordsBegin) {
  const auto plain = data::make_tokenizer(golden("gpt2.json"));
  EXPECT_EQ(plain->mask(), -1);
  const auto added = [](const std::vector<std::string>& names) {
    return [names](json& j) {
      for (int id = 700; const auto& name : names)
        j["added_tokens"].push_back({{"id", id++},
                                     {"content", name},
                                     {"single_word", false},
                                     {"lstrip", false},
                                     {"rstrip", false},
                                     {"normalized", false},
                                     {"special", true}});
    };
  };
  EXPECT_EQ(with(added({"[MASK]"}))->mask(), 700);
  EXPECT_EQ(with(added({"<pad>", "<mask>"}))->mask(), 701);
  const auto both = with(added({"<mask>", "[MASK]"}));
  EXPECT_EQ(both->mask(), 701) << "the name of the paper";
  EXPECT_EQ(both->vocabulary(), 702);
  EXPECT_TRUE(both->begins_word(700) && both->begins_word(701) && both->begins_word(both->end_of_document()));
  int starts = 0, inside = 0;
  for (std::int32_t id = 1; id < 700; ++id) {
    const auto text = both->decode(Ids{id});
    ASSERT_FALSE(text.empty()) << id;
    const bool space = text[0] == ' ' || text[0] == '\n' || text[0] == '\t' || text[0] == '\r';
    EXPECT_EQ(both->begins_word(id), space) << id << " " << text;
    ++(space ? starts : inside);
  }
  EXPECT_TRUE(starts > 20 && inside > 200) << starts << " " << inside;
}

TEST(ByteLevel, SeveralThreadsAtOnce) {
  const auto rows = json::parse(slurp(golden("ids.json")));
  const auto tokenizer = data::make_tokenizer(golden("steps.json"));
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> team;
    for (std::size_t t = 0; t < wrong.size(); ++t)
      team.emplace_back([&, t] {
        for (int round = 0; round < 5; ++round)
          for (const auto& row : rows)
            if (row.contains("steps") && encode(*tokenizer, row["text"]) != row["steps"].get<Ids>()) ++wrong[t];
      });
  }
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(ByteLevel, TextThatIsNoUtf8IsRefused) {
  const auto tokenizer = data::make_tokenizer(golden("gpt2.json"));
  for (const char* text : {"\xff", "a\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80"})
    EXPECT_THROW(encode(*tokenizer, text), base::InputError);
  EXPECT_EQ(encode(*tokenizer, ""), Ids{});
}

// Forms that files of other versions and tools have.
TEST_F(Files, AcceptedForms) {
  const auto plain = data::make_tokenizer(golden("gpt2.json"));
  const std::string text = "The train leaves at 12:30, it's late\n\n  é中<|endoftext|>x";
  const auto expected = encode(*plain, text);
  const auto same = [&](const std::function<void(json&)>& change) { EXPECT_EQ(encode(*with(change), text), expected); };
  same([](json&) {});
  same([](json& j) { j["model"].erase("type"); });
  same([](json& j) { j["decoder"] = nullptr; });
  same([](json& j) { j["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}}; });
  same([](json& j) { j["model"]["dropout"] = 0.0; });
  same([](json& j) { j["model"]["unk_token"] = "<|endoftext|>"; });
  same([](json& j) { j["model"]["continuing_subword_prefix"] = ""; });
  same([](json& j) { j["truncation"] = {{"max_length", 1}}, j["padding"] = {{"length", 4}}; });
  same([](json& j) { j["post_processor"] = {{"type", "TemplateProcessing"}}; });
  same([](json& j) {
    j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array({j["pre_tokenizer"]})}};
  });
  same([](json& j) { j["model"]["merges"].insert(j["model"]["merges"].begin(), "#version: 0.2"); });
  same([](json& j) {
    for (auto& m : j["model"]["merges"]) {
      const std::string s = m;
      m = json::array({s.substr(0, s.find(' ')), s.substr(s.find(' ') + 1)});
    }
  });
  // A gap in the ids counts for the vocabulary.
  const auto holes = with([](json& j) { j["added_tokens"].push_back({{"id", 1000}, {"content", "<hole>"}}); });
  EXPECT_EQ(encode(*holes, text), expected);
  EXPECT_EQ(holes->vocabulary(), 1001);
  EXPECT_EQ(encode(*holes, "<hole>"), Ids{1000});
  EXPECT_EQ(holes->decode(Ids{800, 1000}), "<hole>");
  // Of several end tokens, the first in the program's list is used, wherever it is in the file.
  const auto ends = with([](json& j) {
    j["added_tokens"] = {{{"id", 700}, {"content", "</s>"}}, {{"id", 701}, {"content", "<|end_of_text|>"}}};
  });
  EXPECT_EQ(ends->end_of_document(), 701);
  // But special ones count before others: Gemma has <eos>, and </s> as a tag of HTML.
  const auto tag = with([](json& j) {
    j["added_tokens"] = {{{"id", 700}, {"content", "<|end_of_text|>"}},
                         {{"id", 701}, {"content", "<eos>"}, {"special", true}}};
  });
  EXPECT_EQ(tag->end_of_document(), 701);
  const auto both = with([](json& j) {
    j["added_tokens"] = {{{"id", 700}, {"content", "</s>"}}, {{"id", 701}, {"content", "<eos>"}}};
  });
  EXPECT_EQ(both->end_of_document(), 701);
  // Llama 3's split, as older conversions write it.
  const auto removed = with(
      [](json& j) {
        j["pre_tokenizer"]["pretokenizers"][0].update({{"behavior", "Removed"}, {"invert", true}});
      },
      "llama3");
  EXPECT_EQ(encode(*removed, text), encode(*data::make_tokenizer(golden("llama3.json")), text));
}

// The tokens around documents, chosen by name or id. They are not part of the text. A token inside the text stays.
TEST_F(Files, DocumentsEndAndBeginAsAsked) {
  const auto path = golden("gpt2.json");
  const auto plain = data::make_tokenizer(path);
  const auto end = plain->end_of_document();
  EXPECT_FALSE(plain->made_its_end());
  EXPECT_EQ(plain->begin_of_document(), -1);
  const auto named = data::make_tokenizer(path, {"e", "<|endoftext|>", false});
  const auto e = encode(*plain, "e");
  ASSERT_EQ(e.size(), 1u);
  EXPECT_EQ(named->end_of_document(), e[0]);
  EXPECT_EQ(named->begin_of_document(), end);
  EXPECT_EQ(named->vocabulary(), plain->vocabulary());
  EXPECT_EQ(named->decode(Ids{end, e[0]}), "");
  EXPECT_EQ(named->text_bytes(end, data::Tokenizer::Place::start), 0);
  EXPECT_EQ(data::make_tokenizer(path, data::document_tokens(e[0], 5))->begin_of_document(), 5);
  // A tokenizer without an end of document gets a new one. Naming it by its id gives the same result.
  const auto none = with([](json& j) {
    j["added_tokens"] = {{{"id", 700}, {"content", "<|stop|>"}, {"special", true}}};
  });
  EXPECT_TRUE(none->made_its_end());
  EXPECT_EQ(none->end_of_document(), none->vocabulary() - 1);
  const auto file = scratch.path + "/tokenizer.json";
  const auto by_id = data::make_tokenizer(file, data::document_tokens(none->end_of_document(), -1));
  EXPECT_EQ(by_id->vocabulary(), none->vocabulary());
  EXPECT_FALSE(by_id->made_its_end());
  const auto stop = data::make_tokenizer(file, {"<|stop|>", "", false});
  EXPECT_EQ(stop->end_of_document(), 700);
  EXPECT_EQ(stop->vocabulary(), none->vocabulary() - 1);
  const auto beside = [&] {
    std::vector<std::pair<std::string, std::string>> out;
    for (const auto& one : data::ends_beside(file)) out.emplace_back(one.token, one.given_by);
    return out;
  };
  using Ends = std::vector<std::pair<std::string, std::string>>;
  constexpr const char *by_settings = "eos_token of tokenizer_config.json", *by_config = "eos_token_id of config.json";
  EXPECT_EQ(beside(), Ends());
  spit(scratch.path + "/tokenizer_config.json", R"({"eos_token": {"content": "<|stop|>", "lstrip": false}})");
  EXPECT_EQ(beside(), (Ends{{"<|stop|>", by_settings}}));
  spit(scratch.path + "/tokenizer_config.json", R"({"eos_token": "<|halt|>"})");
  EXPECT_EQ(beside(), (Ends{{"<|halt|>", by_settings}}));
  spit(scratch.path + "/config.json", R"({"eos_token_id": [700, 5]})");
  EXPECT_EQ(beside(), (Ends{{"<|halt|>", by_settings}, {"700", by_config}}));
  for (const char* none : {"null", "\"\""}) {
    spit(scratch.path + "/tokenizer_config.json", std::string(R"({"eos_token": )") + none + "}");
    EXPECT_EQ(beside(), (Ends{{"700", by_config}})) << none;
  }
  spit(scratch.path + "/config.json", R"({"eos_token_id": 3})");
  EXPECT_EQ(beside(), (Ends{{"3", by_config}}));
  for (const char* nothing :
       {R"({"eos_token_id": null})", R"({"eos_token_id": []})", R"({"eos_token_id": -1})", "[", "[1]"}) {
    spit(scratch.path + "/config.json", nothing);
    EXPECT_EQ(beside(), Ends()) << nothing;
  }
  for (const char* wrong : {"<|halt|>", "99999", "-1"}) {
    try {
      data::make_tokenizer(file, {wrong, "", false});
      ADD_FAILURE() << wrong;
    } catch (const base::InputError& e) {
      EXPECT_NE(std::string(e.what()).find("has no token"), std::string::npos) << e.what();
      EXPECT_NE(e.hint().find("<|stop|>"), std::string::npos) << e.hint();
    }
  }
  EXPECT_THROW(data::make_tokenizer("bytes", {"<|stop|>", "", false}), base::InputError);
  EXPECT_THROW(data::make_tokenizer("bytes", {"", "5", false}), base::InputError);
}

TEST_F(Files, SpecialTokensInTextAreTextWhereAskedFor) {
  const auto mark = [](json& j) {
    for (auto& t : j["added_tokens"]) t["special"] = t["content"] == "<|endoftext|>";
    j["added_tokens"].push_back({{"id", 900}, {"content", "<plain>"}, {"special", false}});
  };
  const auto read = with(mark);
  const auto as_text = data::make_tokenizer(scratch.path + "/tokenizer.json", {"", "", true});
  const auto end = read->end_of_document();
  const auto has = [](const Ids& ids, std::int32_t id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
  const std::string text = "a<|endoftext|>b<plain>";
  EXPECT_TRUE(has(encode(*read, text), end));
  EXPECT_FALSE(has(encode(*as_text, text), end));
  EXPECT_TRUE(has(encode(*as_text, text), 900)) << "an added token that is text";
  EXPECT_EQ(as_text->decode(encode(*as_text, text)), text);
  EXPECT_EQ(as_text->end_of_document(), end);
  EXPECT_TRUE(read->reads_special());
  EXPECT_FALSE(as_text->reads_special());
  with([](json& j) {
    for (auto& t : j["added_tokens"]) t["special"] = false;
  });
  for (const auto& none : {scratch.path + "/tokenizer.json", std::string("bytes")})
    EXPECT_THROW(data::make_tokenizer(none, {"", "", true}), base::InputError) << none;
}

TEST_F(Files, RefusedByName) {
  const auto model = [](const char* key, const json& value) { return [=](json& j) { j["model"][key] = value; }; };
  const auto root = [](const char* key, const json& value) { return [=](json& j) { j[key] = value; }; };
  const auto split = [](const std::string& pattern) {
    return [=](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", pattern}}; };
  };
  refused("a model of type \"WordLevel\"", model("type", "WordLevel"));
  refused("byte_fallback is BPE of characters", model("byte_fallback", true));
  refused("dropout", model("dropout", 0.1));
  refused("end_of_word_suffix is \"\\\"</w>\\\"\"", model("end_of_word_suffix", "</w>"));
  refused("'ignore_merges' must be true or false", model("ignore_merges", "yes"));
  refused("unknown key 'new_rule'", model("new_rule", 1));
  refused("unknown key 'new_part'", root("new_part", 1));
  refused("the normalizer \"NFKX\" is not supported", root("normalizer", {{"type", "NFKX"}}));
  const auto odd = json::array({{{"type", "NFC"}}, {{"type", "Uppercase"}}});
  refused("the normalizer \"Uppercase\"", root("normalizer", {{"type", "Sequence"}, {"normalizers", odd}}));
  refused("the decoder is not that of byte-level BPE", root("decoder", {{"type", "Metaspace"}}));
  refused("the decoder \"CTC\" is not supported", root("decoder", {{"type", "CTC"}}));
  refused("the pretokenizer \"UnicodeScripts\"", root("pre_tokenizer", {{"type", "UnicodeScripts"}}));
  refused("behind ByteLevel", [](json& j) {
    j["pre_tokenizer"] = {{"type", "Sequence"},
                          {"pretokenizers", json::array({j["pre_tokenizer"], j["pre_tokenizer"]})}};
  });
  refused(
      "the behavior \"MergedWithNobody\"",
      [](json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "MergedWithNobody"; }, "llama3");
  refused(
      "at most 16",
      [](json& j) {
        j["pre_tokenizer"]["pretokenizers"] = json::array();
        for (int i = 0; i < 17; ++i) j["pre_tokenizer"]["pretokenizers"].push_back({{"type", "Digits"}});
      },
      "llama3");
  for (const char* pattern :
       {"\\w+",  "\\bx",  "\\h", "[a[b]]", "[a&&b]",  "[[:alpha:]]", "(?<name>x)",     "(?i)x", "(*UTF)x", "(x)\\1",
        "x{2}+", "x{,3}", "\\X", "\\K",    "(?i:st)", "(?i:é)",      "\\x{110000000}", "\\xE9", "\\p{^L}", "\\pL"})
    refused("which is not supported", split(pattern), "llama3");
  for (const char* pattern : {"(", "[a", "\\p{Nonsense}", "x**", "(?<=x*)y"})
    refused("is refused: ", split(pattern), "llama3");
  refused("an empty pattern", split(""), "llama3");
}

TEST_F(Files, ContradictionsAreRefused) {
  const auto token = [](const std::string& name, const json& id) {
    return [=](json& j) { j["model"]["vocab"][name] = id; };
  };
  const auto merge = [](const json& m) { return [=](json& j) { j["model"]["merges"].push_back(m); }; };
  const auto added = [](const json& t) { return [=](json& j) { j["added_tokens"].push_back(t); }; };
  refused("have the same id 5", token("xyzzy", 5));
  for (const json& id : {json(-1), json(1 << 22), json(1e30), json(1.5), json("7"), json(nullptr), json::array()})
    refused("the id of token \"xyzzy\"", token("xyzzy", id));
  refused("a token without text", token("", 800));
  refused("\"a b\" is not written in the byte-level alphabet", token("a b", 800));
  refused("\"列車\" is not written in the byte-level alphabet", token("列車", 800));
  refused("no token for the byte 0x41", [](json& j) { j["model"]["vocab"].erase("A"); });
  refused("no token for the byte 0x00", [](json& j) { j["model"]["vocab"].erase("Ā"); });
  refused("which the vocabulary lacks", merge("Q Q"));
  refused("which the vocabulary lacks", merge("nothing here"));
  for (const json& m : {json("ab"), json("a b c"), json(7), json::array({"a"}), json::array({"a", 1}), json(nullptr)})
    refused("is no merge", merge(m));
  refused("is there twice", added({{"id", 800}, {"content", "<|endoftext|>"}}));
  refused("is there twice", added({{"id", 0}, {"content", "other"}}));
  refused("in the vocabulary it has", added({{"id", 800}, {"content", "a"}}));
  refused("which a token of the vocabulary has", added({{"id", 70}, {"content", "<new>"}}));
  refused("'single_word' must be true or false", added({{"id", 800}, {"content", "x"}, {"single_word", 1}}));
  for (const char* space : {" ", "\n\t", "\u3000"})
    refused("is white space with lstrip and rstrip",
            added({{"id", 800}, {"content", space}, {"lstrip", true}, {"rstrip", true}}));
  with(added({{"id", 800}, {"content", " "}, {"lstrip", true}}));
  with(added({{"id", 800}, {"content", "\u00c4\u00d6"}, {"lstrip", true}, {"rstrip", true}}));
  with(added({{"id", 800}, {"content", " x "}, {"lstrip", true}, {"rstrip", true}}));
  refused("has no text", added({{"id", 800}, {"content", ""}}));
  refused("text of at most 256 bytes", added({{"id", 800}, {"content", std::string(257, 'x')}}));
  refused("'merges' must be a list", [](json& j) { j["model"]["merges"] = 1; });
  refused("is no object", [](json& j) { j["model"]["vocab"] = json::array(); });
  const auto gpt2 = slurp(golden("gpt2.json"));
  for (const char* space : {" ", "\n", "\r\n\t \n"}) {
    const auto tokenizer = of(space + gpt2);
    EXPECT_EQ(encode(*tokenizer, "the cat"), encode(*data::make_tokenizer(golden("gpt2.json")), "the cat"));
    EXPECT_EQ(data::set_tokenizer_name(*tokenizer), "tokenizer.json");
  }
  for (const auto& [content, says] : std::vector<std::pair<std::string, std::string>>{
           {"", "it is empty"},
           {" \n", "it is empty"},
           {"\xef\xbb\xbf" + gpt2, "a byte order mark"},
           {"[1, 2]", "a list"},
           {"version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"},
           {"\n[" + gpt2 + "]", "a list"},
           {"\n{\x0a\x09", "is not a SentencePiece model"}}) {
    try {
      of(content);
      ADD_FAILURE() << "accepted, though " << says;
    } catch (const base::InputError& e) {
      EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(of("{"), base::InputError);
  EXPECT_THROW(of("{\"model\": " + std::string(1000, '[')), base::InputError);
  EXPECT_THROW(of("{}"), base::InputError);
  auto twice = slurp(golden("gpt2.json"));
  twice.insert(twice.find("\"vocab\":{") + 9, "\"the\":900,");
  twice.insert(twice.find("\"vocab\":{") + 9, "\"the\":901,");
  EXPECT_THROW(of(twice), base::InputError);
}
