// Conversations: what becomes of messages, which tokens are answers, and what is refused.
#include "tests/data/read_documents.h"
#include "tests/data/sample.h"
#include "tests/refusal.h"

#include "libtrain/base/error.h"
#include "libtrain/data/builder.h"
#include "libtrain/data/encoded_chat.h"
#include "libtrain/data/shard_reader.h"
#include "libtrain/data/task_builder.h"
#include "libtrain/data/window_dataset.h"

using namespace sample;

namespace chat_test {

using data::AnswerSpan;
using trainyard::testing::refusal_of;

const std::string lines =
    R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]})"
    "\n"
    R"({"id": 7, "prompt": "a\nb", "response": "cd"})"
    "\n"
    R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}, )"
    R"({"role": "assistant", "content": "r"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "t"}]})"
    "\n";

// A document as a text, where what is an answer stands in brackets, and the end of the document is a dollar.
const std::vector<std::string> expected{"User: hi\nAssistant: [yo\n$]", "User: a\nb\nAssistant: [cd\n$]",
                                        "s\nUser: q\nAssistant: [r\n]Assistant: [\n]User: t\n$"};

struct Made {
  std::vector<std::string> documents;
  std::vector<data::Refusal> refusals;
  data::SetIndex index;
};

std::vector<std::string> documents_of(const std::string& folder, const data::SetIndex& index) {
  std::vector<std::string> out;
  for (const auto& entry : index.train) {
    data::ShardReader shard(folder, index, entry);
    shard.verify_all();
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(shard.tokens()));
    shard.read(0, shard.tokens(), tokens.data());
    const auto places = shard.documents();
    for (std::size_t d = 0; d + 1 < places.size(); ++d) {
      std::string text;
      for (auto t = places[d]; t < places[d + 1]; ++t) {
        for (const auto& span : shard.answers())
          if (span.begin == static_cast<std::int64_t>(t)) text += '[';
        text += tokens[t] == 256 ? '$' : static_cast<char>(tokens[t]);
        for (const auto& span : shard.answers())
          if (span.end == static_cast<std::int64_t>(t) + 1) text += ']';
      }
      out.push_back(text);
    }
  }
  return out;
}

struct Chats {
  Scratch scratch;
  std::string input = scratch.path + "/chat.jsonl", output = scratch.path + "/set";
  data::SourceOptions source_options(const std::string& chat) const {
    data::SourceOptions o;
    o.chat = std::make_shared<const data::ChatTemplate>(data::chat_template(chat));
    return o;
  }
  static data::BuildOptions options(const std::string& output) {
    data::BuildOptions o;
    o.output = output, o.validation = 0, o.largest_rejected = 1, o.chat = true;
    return o;
  }
  Made make(const std::string& text, const std::string& chat = "plain", int threads = 1, std::int64_t shard = 1000) {
    spit(input, text);
    auto o = options(output);
    o.existing = base::Existing::replace, o.threads = threads, o.stretch_bytes = 64, o.shard_tokens = shard;
    data::DocumentSource source({input}, source_options(chat));
    const auto result = data::build_shards(source, *data::make_tokenizer("bytes"), o, [](std::int64_t) {});
    Made made{{}, result.first_refusals, data::read_index(output)};
    made.documents = documents_of(output, made.index);
    return made;
  }
};

TEST(Chats, MessagesBecomeDocumentsWithAnswers) {
  Chats chats;
  const auto made = chats.make(lines);
  EXPECT_EQ(made.documents, expected);
  EXPECT_TRUE(made.index.answers);
  EXPECT_TRUE(made.index.train[0].answers_crc32c.has_value());
  std::string many;
  std::vector<std::string> all;
  for (int i = 0; i < 30; ++i) many += lines, all.insert(all.end(), expected.begin(), expected.end());
  EXPECT_EQ(chats.make(many, "plain", 3, 70).documents, all);
}

// Files of ShareGPT and of TRL hold the same conversations under other keys.
TEST(Chats, OtherKeysOfConversations) {
  Chats chats;
  const std::string conversation = R"({"conversations": [{"from": "system", "value": "s"}, )"
                                   R"({"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}, )"
                                   R"({"from": "user", "value": "q"}, {"from": "assistant", "value": "r"}]})";
  EXPECT_EQ(chats
                .make(conversation + "\n" + R"({"prompt": "p", "completion": "c"})" + "\n" +
                      R"({"messages": null, "conversations": null, "prompt": "p", "response": "c"})" + "\n")
                .documents,
            (std::vector<std::string>{"s\nUser: hi\nAssistant: [yo\n]User: q\nAssistant: [r\n$]",
                                      "User: p\nAssistant: [c\n$]", "User: p\nAssistant: [c\n$]"}));
  // A template's own role comes first.
  const auto mine = chats.scratch.path + "/mine.toml";
  spit(mine,
       "[roles.user]\nprefix = \"U\"\n[roles.human]\nprefix = \"H\"\n[roles.gpt]\nprefix = \"G\"\nanswer = true\n");
  EXPECT_EQ(
      chats
          .make(conversation.substr(0, 19) + R"({"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})",
                mine)
          .documents,
      (std::vector<std::string>{"HaG[b$]"}));
}

// An answer without tokens is the end of the document alone, and nothing of what stands before it.
TEST(Chats, AnEmptyAnswerEndsTheDocument) {
  Chats chats;
  const auto bare = chats.scratch.path + "/bare.toml";
  spit(bare, "tokens = []\n[roles.user]\nprefix = \"U \"\n[roles.assistant]\nprefix = \"\"\nanswer = true\n");
  const auto made =
      chats.make(R"({"messages": [{"role": "assistant", "content": "xyz"}, {"role": "user", "content": "q"}, )"
                 R"({"role": "assistant", "content": ""}]})",
                 bare);
  EXPECT_EQ(made.documents, (std::vector<std::string>{"[xyz]U q[$]"}));
}

TEST(Chats, OnlyEqualConversationsHaveOneKey) {
  const auto plain = data::chat_template("plain");
  const auto role = [&](const char* name) {
    return &*std::find_if(plain.roles.begin(), plain.roles.end(), [&](const auto& r) { return r.name == name; });
  };
  const std::vector<data::ChatMessage> one{{role("user"), "a\nassistant\nb"}},
      two{{role("user"), "a"}, {role("assistant"), "b"}};
  EXPECT_NE(data::key_of_conversation(one), data::key_of_conversation(two));
  EXPECT_EQ(data::key_of_conversation(two), data::key_of_conversation(two));
}

// A document that is longer than a shard is split, and so are its answers.
TEST(Chats, LongAnswersGoOnInTheNextShard) {
  Chats chats;
  const auto made = chats.make(R"({"prompt": "p", "response": "0123456789"})", "plain", 1, 12);
  EXPECT_EQ(made.documents, (std::vector<std::string>{"User: p\nAssi", "stant: [01234]", "[56789\n$]"}));
}

TEST(Chats, TasksMakeTheSameSet) {
  Chats chats;
  std::string many;
  for (int i = 0; i < 20; ++i) many += lines;
  chats.make(many);
  auto o = Chats::options(chats.scratch.path + "/parts");
  o.shard_tokens = 1000;
  for (const int task : {1, 0}) {
    data::DocumentSource source({chats.input}, chats.source_options("plain"));
    data::build_task(source, *data::make_tokenizer("bytes"), o, {task, 2},
                     {[](std::int64_t) {}, [](std::int64_t, std::int64_t) {}});
  }
  EXPECT_EQ(slurp(o.output + "/index.json"), slurp(chats.output + "/index.json"));
  EXPECT_EQ(slurp(o.output + "/train/shard-00000.h5"), slurp(chats.output + "/train/shard-00000.h5"));
}

TEST(Chats, WhatIsNoConversationIsRefusedLineByLine) {
  Chats chats;
  const auto reason = [&](const std::string& line) {
    spit(chats.input, "\n" + line + "\n");
    const auto read = trainyard::testing::read_documents({chats.input}, chats.source_options("plain"));
    EXPECT_TRUE(read.documents.empty());
    return read.refusals.size() == 2 ? read.refusals[1].substr(std::string("chat.jsonl:2: ").size()) : "";
  };
  EXPECT_EQ(reason(R"({"text": "x"})"), "no key 'messages' or 'conversations', nor 'prompt' and 'response'");
  EXPECT_EQ(reason(R"({"prompt": "x"})"), "no key 'response'");
  EXPECT_EQ(reason(R"({"messages": "x"})"), "key 'messages' is no list");
  EXPECT_EQ(reason(R"({"messages": ["x"]})"), "a message is no object");
  EXPECT_EQ(reason(R"({"messages": [{"content": "x"}]})"), "a message has no role");
  EXPECT_EQ(reason(R"({"messages": [{"role": "tool", "content": "x"}]})"), "the template has no role \"tool\"");
  EXPECT_EQ(reason(R"({"messages": [{"role": "user", "content": ["x"]}]})"), "key 'content' is not text");
  EXPECT_EQ(reason(R"({"messages": [{"role": "user"}]})"), "no key 'content'");
  EXPECT_EQ(reason(R"({"prompt": "x", "response": "y", "completion": "z"})"),
            "keys 'response' and 'completion' are both there");
  EXPECT_EQ(reason(R"({"completion": "x"})"), "no key 'prompt'");
  EXPECT_EQ(reason(R"({"prompt": "x", "completion": ["y"]})"), "key 'completion' is not text");
  EXPECT_EQ(reason(R"({"conversations": {"from": "human"}})"), "key 'conversations' is no list");
  EXPECT_EQ(reason(R"({"conversations": [{"role": "user", "content": "x"}]})"), "a message has no from");
  EXPECT_EQ(reason(R"({"conversations": [{"from": "human", "content": "x"}]})"), "no key 'value'");
  EXPECT_EQ(reason(R"({"conversations": [{"from": "bing", "value": "x"}]})"), "the template has no role \"bing\"");
  EXPECT_EQ(reason(R"({"messages": [{"role": "human", "content": "x"}]})"), "the template has no role \"human\"");
  EXPECT_EQ(reason("not JSON"), "not JSON");
  // Only what is read must be what JSON can hold.
  EXPECT_EQ(reason(R"({"n": NaN, "text": "x"})"), "no key 'messages' or 'conversations', nor 'prompt' and 'response'");
  EXPECT_EQ(reason(R"({"prompt": "x", "response": "\ud800"})"), "key 'response' holds half of a surrogate pair");
  EXPECT_EQ(reason(R"({"prompt": "x", "response": NaN})"), "key 'response' is not text");
  EXPECT_EQ(reason(R"({"messages": [{"role": "user", "content": "\udc00"}]})"),
            "key 'content' holds half of a surrogate pair");
  EXPECT_EQ(reason(R"({"messages": [{"role": "user", "content": [NaN]}]})"), "key 'content' is not text");
  EXPECT_EQ(reason(R"({"messages": [{"n": NaN, "content": "x"}]})"), "a message has no role");
  EXPECT_EQ(reason(R"({"messages": [NaN]})"), "a message is no object");
  EXPECT_EQ(reason(R"({"messages": NaN})"), "key 'messages' is no list");
  EXPECT_EQ(reason(R"({"messages": [{"role": "user", "content": "x"}}])"), "not JSON");
}

// Other keys hold what they like, also beside the parts of a message. Of equal keys the last counts, and null is none.
TEST(Chats, OtherKeysHoldAnything) {
  Chats chats;
  const std::string deep(2000, '['), deep_end(2000, ']');
  const std::vector<std::string> hi{"User: hi\nAssistant: [yo\n$]"};
  const std::string user = R"({"role": "user", "content": "hi")",
                    assistant = R"("role": "assistant", "content": "yo"}], "z": 1})";
  for (const auto& value : {std::string("NaN"), std::string("1e400"), std::string("123456789012345678901234567890"),
                            std::string(R"("\ud800")"), deep + deep_end}) {
    const auto shown = value.substr(0, 40);
    EXPECT_EQ(chats.make(R"({"a": )" + value + R"(, "messages": [)" + user + "}, {" + assistant + "\n").documents, hi)
        << shown;
    EXPECT_EQ(chats.make(R"({"messages": [)" + user + R"(, "a": )" + value + "}, {\"b\": " + value + ", " + assistant)
                  .documents,
              hi)
        << shown;
    EXPECT_EQ(chats.make(R"({"prompt": )" + value + R"(, "prompt": "hi", "response": "yo"})").documents, hi) << shown;
    EXPECT_EQ(chats
                  .make(R"({"a": )" + value +
                        R"(, "messages": null, "conversations": [{"from": "human", "value": "hi"},)"
                        R"({"value": "yo", "fr\u006fm": "gpt"}]})")
                  .documents,
              hi)
        << shown;
  }
  EXPECT_EQ(chats.make(R"({"prompt": "hi", "response": null, "completion": "yo"})").documents, hi);
  EXPECT_EQ(chats.make(R"({"a": NaN, "prompt": "hi", "response": null, "completion": "yo"})").documents, hi);
}

// A tokenizer whose tokens are characters, with three words that are tokens, as a model's file has them.
class Words : public Numbers {
 public:
  Words() : Numbers(300) {}
  std::int32_t token_named(std::string_view name) const override {
    return name == "<|im_start|>" ? 290 : name == "<|im_end|>" ? 291 : name == "<|im_end|>!" ? 292 : -1;
  }
  void encode(std::string_view text, std::vector<std::int32_t>& to) const override {
    for (const char c : text) to.push_back(static_cast<unsigned char>(c));
  }
};

TEST(Chats, TokensOfATemplateAreTokens) {
  const Words tokenizer;
  const auto chat = data::chat_template("chatml");
  const data::EncodedChat encoded(chat, tokenizer);
  std::vector<std::int32_t> tokens;
  std::vector<AnswerSpan> answers;
  const std::vector<data::ChatMessage> messages{{chat.role("user"), "u"}, {chat.role("assistant"), "<|im_end|>"}};
  encoded.encode(messages, tokens, answers);
  std::vector<std::int32_t> want{290};
  const auto text = [&](const std::string& t) { want.insert(want.end(), t.begin(), t.end()); };
  text("user\nu"), want.push_back(291), text("\n"), want.push_back(290), text("assistant\n");
  const auto begin = std::ssize(want);
  text("<|im_end|>");  // in a message it is what the tokenizer makes of it
  want.push_back(291), text("\n"), want.push_back(299);
  EXPECT_EQ(tokens, want);
  EXPECT_EQ(answers, (std::vector<AnswerSpan>{{begin, std::ssize(want)}}));
  EXPECT_TRUE(refusal_of<base::InputError>([&] {
                data::EncodedChat(chat, *data::make_tokenizer("bytes"));
              }).find("tokenizer bytes has no token \"<|im_start|>\"") == 0);
}

TEST(Chats, ATemplateIsAFile) {
  Scratch scratch;
  const auto path = scratch.path + "/mine.toml";
  const auto read = [&](const std::string& text) {
    spit(path, text);
    return data::chat_template(path);
  };
  const auto mine = read(
      "tokens = [\"<|im_end|>!\", \"<|im_end|>\"]\n[roles.user]\nprefix = \"U\"\n[roles.bot]\nsuffix = "
      "\"<|im_end|>!x\"\nanswer = true\n");
  ASSERT_EQ(mine.roles.size(), 2u);
  EXPECT_TRUE(mine.role("bot")->answer);
  EXPECT_FALSE(mine.role("user")->answer);
  EXPECT_EQ(data::text_of(read(data::text_of(mine))), data::text_of(mine));
  EXPECT_EQ(data::text_of(read(data::text_of(data::chat_template("chatml")))),
            data::text_of(data::chat_template("chatml")));
  const Words tokenizer;
  std::vector<std::int32_t> tokens;
  std::vector<AnswerSpan> answers;
  const std::vector<data::ChatMessage> messages{{mine.role("bot"), ""}};
  data::EncodedChat(mine, tokenizer).encode(messages, tokens, answers);
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{292, 'x', 299}));  // the longest token
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "it has no roles"},
           {"[roles.user]\n", "no role answers"},
           {"[roles.assistant]\nprefix = 3\n", "roles.assistant.prefix is no text"},
           {"[roles.assistant]\nbefore = \"x\"\n", "roles.assistant.before is not known, or no value of its kind"},
           {"roles = 3\n", "roles is not known, or no value of its kind"},
           {"tokens = [\"\"]\n", "a token is an empty text"},
           {"tokens = [3]\n", "a token is no text"}})
    EXPECT_EQ(refusal_of<base::InputError>([&, text = text] { read(text); }), path + ": " + why);
}

// What is no template is named, with the templates that there are.
TEST(Chats, WhatIsNoTemplate) {
  Scratch scratch;
  const auto refused = [&](const std::string& path, const std::string& why) {
    try {
      data::chat_template(path);
      ADD_FAILURE() << path;
    } catch (const base::InputError& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
      EXPECT_NE(e.hint().find("templates are chatml, plain, or a TOML file"), std::string::npos) << e.hint();
    }
  };
  refused(scratch.path, " is a folder, and no chat template has this name");
  refused(scratch.path + "/llama3", "there is no chat template " + scratch.path + "/llama3, and no file of this name");
  for (const auto* text : {"{% for m in messages %}", "\n{{ bos_token }}", "{# a remark #}"}) {
    spit(scratch.path + "/template", text);
    refused(scratch.path + "/template", "/template is a chat template in Jinja, which is not read");
  }
  spit(scratch.path + "/t.jinja", "<|user|>{{ x }}");
  refused(scratch.path + "/t.jinja", "/t.jinja is a chat template in Jinja, which is not read");
}

TEST(Chats, OnlyAnswersCountInWindows) {
  Chats chats;
  std::string many;
  for (int i = 0; i < 9; ++i) many += lines;
  const auto made = chats.make(many, "plain", 1, 200);
  std::string flat;  // a mark for each token of a shard: '1' is an answer
  for (const auto mask : {data::DocumentMask::off, data::DocumentMask::on}) {
    data::WindowDataset::Windows w{.sequence = 7, .mask = mask, .order = data::Order::as_stored, .seed = 0};
    data::WindowDataset all(chats.output, made.index, made.index.train, w);
    w.answers_only = true;
    data::WindowDataset answers(chats.output, made.index, made.index.train, w);
    std::uint64_t ordinal = 0;
    int counted = 0, without = 0;
    for (const auto& entry : made.index.train) {
      data::ShardReader shard(chats.output, made.index, entry);
      for (std::int64_t first = 0; first + 8 <= shard.tokens(); first += 7, ++ordinal) {
        std::vector<std::int32_t> i32(28);
        std::vector<std::uint8_t> of_all(7), of_answers(7);
        const auto fill = [&](data::WindowDataset& from, std::vector<std::uint8_t>& weights) {
          from.fill(ordinal, {i32.data(), i32.data() + 7, i32.data() + 14, i32.data() + 21, weights.data()});
        };
        fill(all, of_all), fill(answers, of_answers);
        int here = 0;
        for (std::int64_t t = 0; t < 7; ++t) {
          bool is_answer = false;
          for (const auto& span : shard.answers()) is_answer |= span.begin <= first + t + 1 && first + t + 1 < span.end;
          const auto at = static_cast<std::size_t>(t);
          ASSERT_EQ(of_answers[at], is_answer ? of_all[at] : 0) << "window " << ordinal << ", target " << t;
          here += of_answers[at];
        }
        counted += here, without += here == 0 ? 1 : 0;
      }
    }
    EXPECT_EQ(ordinal, all.count());
    EXPECT_GT(counted, 50);
    EXPECT_GT(without, 5);
  }
}

}  // namespace chat_test
