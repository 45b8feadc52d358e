// Mixtures joined, and the experts that are used most: each tensor against the sources, on every layout; what is
// refused.
#include "tests/checkpoint/dealt_out.h"
#include "tests/checkpoint/reshard_files.h"

#include "libtrain/checkpoint/chosen_experts.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

using namespace sample;
using checkpoint::Kind;
using trainyard::base::DType;

namespace chosen_experts_test {

using Tensors = std::map<std::string, std::vector<float>>;

Tensors tensors_of(const std::string& path, const Kind& kind) {
  auto reader = whole(path);
  Tensors out;
  for (const auto& p : reader.manifest().parameters) {
    auto& values = out[p.name];
    values.resize(static_cast<std::size_t>(p.count));
    reader.read_tensor(kind, p.name, 0, p.count, values.data());
  }
  return out;
}

// The sample run of a model, on one rank, with `factor` times its weights.
std::string save_times(const std::string& folder, const checkpoint::RunState& s, float factor) {
  Rank rank(s, 0, 1);
  for (auto& view : rank.shards.views.at(Kind::model)) {
    auto* values = static_cast<float*>(view.data);
    for (std::int64_t i = 0; i < view.count(); ++i) values[i] *= factor;
  }
  checkpoint::write_rank(folder, s, rank.shards, {});
  checkpoint::publish(folder, s, plan::Topology({{plan::Axis::data, 1}}), 3);
  return fmt::format("{}/step-{:08}", folder, s.step);
}

// An encoder and a decoder, each with experts in its second layer.
plan::ModelConfig both_towers() {
  auto m = gpt();
  m.name = "sample-encoder-moe";
  m.encoder_layers = 2, m.decoder_layers = 2, m.layers = 4, m.heads = 4, m.kv_heads = 4;
  m.experts.count = {6}, m.experts.every = 2, m.experts.ffn = 9;
  return m;
}

// Names of a layer's experts, as a reader of the format writes them: two digits for up to 100 experts.
std::string expert_name(int expert) { return fmt::format("{:02}", expert); }

struct NameOfExpert {
  std::string before, after;  // "layers.01.experts.", ".up.weight"
  int expert = -1;            // -1: of no expert
};
NameOfExpert parsed(const std::string& name) {
  const int expert = expert_of(name);
  if (expert < 0) return {name, "", -1};
  const auto at = name.find(".experts.") + 9;
  return {name.substr(0, at), name.substr(name.find('.', at)), expert};
}

void expect_equal(const std::vector<float>& found, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i]) << what << " at " << i;
}

// Rows of a gate, by their layer's name: of which source and expert each is.
using Rows = std::vector<std::pair<int, int>>;
std::vector<float> rows_of(const std::vector<Tensors>& from, const std::string& name, const Rows& rows) {
  std::vector<float> out;
  for (const auto& [source, expert] : rows) {
    const auto& gate = from[static_cast<std::size_t>(source)].at(name);
    const auto columns = name.ends_with(".bias") ? 1 : 24;
    const auto first = gate.begin() + static_cast<std::ptrdiff_t>(expert) * columns;
    out.insert(out.end(), first, first + columns);
  }
  return out;
}

// Every tensor of the new checkpoint, computed with loops over whole tensors. `rows`: by name of a layer.
void expect_taken(const std::string& path, const std::vector<Tensors>& from, const std::map<std::string, Rows>& rows) {
  for (const auto& [name, values] : tensors_of(path, Kind::model)) {
    const auto n = parsed(name);
    const auto layer = name.substr(0, std::min(name.find(".experts."), name.find(".gate.")));
    if (n.expert >= 0) {
      const auto& [source, expert] = rows.at(layer).at(static_cast<std::size_t>(n.expert));
      expect_equal(values, from[static_cast<std::size_t>(source)].at(n.before + expert_name(expert) + n.after), name);
    } else if (name.ends_with(".gate.weight") || name.ends_with(".gate.bias")) {
      expect_equal(values, rows_of(from, name, rows.at(layer)), name);
    } else {
      std::vector<float> mean;
      for (std::size_t i = 0; i < values.size(); ++i) {
        double sum = 0;
        for (const auto& source : from) sum += static_cast<double>(source.at(name)[i]);
        mean.push_back(static_cast<float>(sum / static_cast<double>(from.size())));
      }
      expect_equal(values, mean, name);
    }
  }
}

Rows all_of(int first, int second) {
  Rows rows;
  for (int e = 0; e < first; ++e) rows.emplace_back(0, e);
  for (int e = 0; e < second; ++e) rows.emplace_back(1, e);
  return rows;
}

// The elements that are read for a result: those of shared weights in each source.
std::int64_t elements_of(const std::string& path, std::int64_t sources) {
  const auto reader = whole(path);
  std::int64_t elements = 0;
  for (const auto& p : reader.manifest().parameters) {
    const bool of_one = p.name.find(".experts.") != std::string::npos || p.name.find(".gate.") != std::string::npos;
    elements += of_one ? p.count : sources * p.count;
  }
  return elements;
}

checkpoint::NewLayout layout_of(const DealtOut& grid) {
  checkpoint::NewLayout layout;
  layout.data = grid.data, layout.tensor = 1, layout.pipeline = grid.pipe, layout.experts = grid.experts;
  if (grid.pipe > 1) layout.stages = grid.stages();
  return layout;
}

checkpoint::ReshardResult join(const std::vector<std::string>& paths, const std::string& to,
                               const checkpoint::NewLayout& layout = {}, int threads = 2) {
  std::vector<checkpoint::Reader> readers;
  for (const auto& path : paths) readers.push_back(whole(path));
  std::vector<const checkpoint::Reader*> sources;
  for (const auto& reader : readers) sources.push_back(&reader);
  checkpoint::ReshardOptions o;
  o.threads = threads;
  return checkpoint::take_experts(sources, checkpoint::joined_experts(sources), to, layout, o);
}

checkpoint::ExpertUse use_of(std::vector<checkpoint::LayerUse> layers, std::int64_t step = 5) {
  return {step, std::move(layers)};
}

using Refusal = std::pair<std::string, std::string>;
template <class Error> Refusal refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return {e.what(), e.hint()};
  }
  return {"nothing was refused", ""};
}

// Mixtures of 6 and 12 experts, and of 3 and 4, saved on different ranks. The result is the same on every layout.
TEST(JoinedExperts, AreThoseOfAllSourcesOnEveryLayout) {
  Scratch scratch;
  auto smaller = moe();
  smaller.experts.count = {3, 4}, smaller.experts.balance_loss = 0.5, smaller.lanes = 1;
  const DealtOut dealt{6, 3};
  save(scratch.path + "/a", state(moe(), DType::bf16, 7, dealt), dealt.topology());
  const auto a = scratch.path + "/a/step-00000007",
             b = save_times(scratch.path + "/b", state(smaller, DType::f32, 5), -0.75f);
  const std::vector<Tensors> from{tensors_of(a, Kind::master), tensors_of(b, Kind::model)};
  const auto items = plan::item_count(moe());
  int n = 0;
  std::string first;
  for (const auto& grid : {DealtOut{1, 1}, DealtOut{3, 1}, DealtOut{2, 1, 2, {0, 2, items}}, DealtOut{5, 1}}) {
    const auto to = fmt::format("{}/joined-{}", scratch.path, n++);
    const auto result = join({a, b}, to, layout_of(grid));
    EXPECT_EQ(result.ranks, grid.data * grid.pipe);
    EXPECT_EQ(result.bytes_read, 4 * elements_of(to, 2)) << "each weight once, and what is averaged of both";
    auto reader = whole(to);
    const auto& s = reader.state();
    EXPECT_EQ(s.model.experts.count, (std::vector<std::int64_t>{9, 16})) << grid.text();
    EXPECT_EQ(s.model.experts.balance_loss, 0.5) << "the last source's";
    EXPECT_EQ(s.contents, checkpoint::Contents::model);
    EXPECT_EQ(s.dtype, DType::f32);
    EXPECT_EQ(s.step, 5);
    EXPECT_EQ(reader.manifest().parameters, checkpoint::parameters_of(s.model));
    EXPECT_EQ(s.provenance["experts_of"].size(), 2u);
    EXPECT_EQ(s.provenance["experts_taken"][0][8], (nlohmann::json{1, 2}));
    reader.verify_all();
    expect_taken(to, from, {{"layers.01", all_of(6, 3)}, {"layers.02", all_of(12, 4)}});
  }
}

// In both towers, and three at once. 12 and 12 and 6 experts have names of two digits; 60 and 60 have three.
TEST(JoinedExperts, OfAnEncoderAndADecoder) {
  Scratch scratch;
  auto many = both_towers();
  many.experts.count = {60};
  const auto a = save_times(scratch.path + "/a", state(both_towers(), DType::f32, 5), 1),
             b = save_times(scratch.path + "/b", state(both_towers(), DType::f32, 6), 2),
             c = save_times(scratch.path + "/c", state(both_towers(), DType::f32, 7), -4);
  join({a, b, c}, scratch.path + "/three", layout_of({6, 3}));
  EXPECT_EQ(whole(scratch.path + "/three").state().model.experts.count, std::vector<std::int64_t>{18});
  EXPECT_EQ(whole(scratch.path + "/three").state().plan["expert_parallel"], 3);
  auto rows = all_of(6, 6);
  for (int e = 0; e < 6; ++e) rows.emplace_back(2, e);
  const std::vector<Tensors> from{tensors_of(a, Kind::model), tensors_of(b, Kind::model), tensors_of(c, Kind::model)};
  expect_taken(scratch.path + "/three", from, {{"encoder.layers.01", rows}, {"decoder.layers.01", rows}});

  const auto d = save_times(scratch.path + "/d", state(many, DType::f32, 5), 1);
  join({d, d}, scratch.path + "/many");
  const auto found = tensors_of(scratch.path + "/many", Kind::model), before = tensors_of(d, Kind::model);
  for (const char* tower : {"encoder.layers.01", "decoder.layers.01"})
    for (const auto& [name, source] : {std::pair{"007", "07"}, std::pair{"060", "00"}, std::pair{"119", "59"}})
      expect_equal(found.at(fmt::format("{}.experts.{}.up.weight", tower, name)),
                   before.at(fmt::format("{}.experts.{}.up.weight", tower, source)), name);
}

// The shared part beside experts is no expert. Groups of equal sizes stand side by side.
TEST(JoinedExperts, WithSharedPartsAndGroups) {
  Scratch scratch;
  auto grouped = moe_llama();
  grouped.experts.groups = 3, grouped.experts.top_groups = 2;
  const auto a = save_times(scratch.path + "/a", state(grouped, DType::f32, 5), 1),
             b = save_times(scratch.path + "/b", state(grouped, DType::f32, 5), 3);
  join({a, b}, scratch.path + "/both");
  const auto model = whole(scratch.path + "/both").state().model;
  EXPECT_EQ(model.experts.groups, 6);
  EXPECT_EQ(model.experts.top_groups, 2);
  const auto found = tensors_of(scratch.path + "/both", Kind::model), before = tensors_of(a, Kind::model);
  const std::string shared = "layers.01.shared.up.weight";
  auto twice = before.at(shared);
  for (auto& x : twice) x = static_cast<float>((static_cast<double>(x) + static_cast<double>(3 * x)) / 2);
  expect_equal(found.at(shared), twice, shared);
  auto other = grouped;
  other.experts.groups = 1, other.experts.top_groups = 1, other.experts.count = {6, 6};
  const auto c = save_times(scratch.path + "/c", state(other, DType::f32, 5), 1);
  EXPECT_NE(refusal<base::InputError>([&] {
              join({a, c}, scratch.path + "/no");
            }).first.find("experts-top-groups"),
            std::string::npos);
  other.experts.groups = 2, other.experts.top_groups = 2;
  const auto d = save_times(scratch.path + "/d", state(other, DType::f32, 5), 1);
  EXPECT_EQ(refusal<base::UsageError>([&] {
              join({a, d}, scratch.path + "/no");
            }),
            Refusal(d + " has groups of other numbers of experts than " + a,
                    "join mixtures whose groups have as many experts"));
}

TEST(JoinedExperts, OfDifferentModelsAreRefused) {
  Scratch scratch;
  const auto a = save_times(scratch.path + "/a", state(moe(), DType::f32, 5), 1);
  const auto with = [&](const char* name, const std::function<void(checkpoint::RunState&)>& change) {
    auto s = state(moe(), DType::f32, 5);
    change(s);
    return save_times(scratch.path + "/" + name, s, 1);
  };
  const auto refused = [&](const std::string& b) {
    auto text = refusal<base::InputError>([&] { join({a, b}, scratch.path + "/no"); }).first;
    EXPECT_FALSE(fs::exists(scratch.path + "/no"));
    return text.substr(0, b.size()) == b ? text.substr(b.size()) : text;
  };
  EXPECT_EQ(refused(with("vocabulary", [](auto& s) { s.model.vocabulary = 132; })),
            " has vocabulary \"132\" where " + a + " has \"131\": experts of different models cannot be joined");
  EXPECT_EQ(refused(with("width", [](auto& s) { s.model.experts.ffn = 10; })),
            " has experts-ffn \"10\" where " + a + " has \"9\": experts of different models cannot be joined");
  EXPECT_EQ(refused(with("top", [](auto& s) { s.model.experts.top_k = 1; })),
            " has experts-top-k \"1\" where " + a + " has \"2\": experts of different models cannot be joined");
  const auto crc = [](std::int64_t n) { return nlohmann::json{{"name", "t.json"}, {"crc32c", n}}; };
  const auto one = with("one", [&](auto&s) { s.provenance["tokenizer"] = crc(17); }),
             two = with("two", [&](auto&s) { s.provenance["tokenizer"] = crc(18); });
  EXPECT_EQ(refusal<base::InputError>([&] {
              join({one, two}, scratch.path + "/no");
            }).first,
            two + " was trained with another tokenizer than " + one + ": their tokens have different numbers");
  join({one, one}, scratch.path + "/yes");
  const auto dense = save_times(scratch.path + "/dense", state(gpt(), DType::f32, 5), 1);
  EXPECT_EQ(refusal<base::UsageError>([&] {
              join({dense, a}, scratch.path + "/no");
            }).first,
            dense + " has no experts: its layers are dense");
  auto grouped = moe();
  grouped.experts.count = {66}, grouped.experts.groups = grouped.experts.top_groups = 33;
  const auto g = save_times(scratch.path + "/groups", state(grouped, DType::f32, 5), 1);
  EXPECT_NE(refusal<base::UsageError>([&] {
              join({g, g}, scratch.path + "/no");
            }).first.find("the model with all experts would be illegal: "),
            std::string::npos);
  auto adapted = moe();
  adapted.adapter.rank = 8;
  const auto with_adapters =
      with("adapted", [&](auto& s) { s.model = adapted, s.contents = checkpoint::Contents::model; });
  EXPECT_EQ(refusal<base::UsageError>([&] {
              join({with_adapters, with_adapters}, scratch.path + "/no");
            }).first,
            with_adapters + " has adapters, with which it cannot be joined");
  checkpoint::NewLayout five;
  five.data = 5, five.experts = 5;
  EXPECT_EQ(refusal<base::UsageError>([&] {
              join({a, a}, scratch.path + "/no", five);
            }).first,
            "--expert-parallel 5 does not divide the 12 experts of a layer");
}

// Layer 1 keeps three of six and layer 2 three of twelve, the first of equals, in their order.
TEST(KeptExperts, AreThoseThatWereUsedMost) {
  Scratch scratch;
  const DealtOut dealt{6, 3};
  save(scratch.path + "/a", state(moe(), DType::bf16, 5, dealt), dealt.topology());
  const auto a = scratch.path + "/a/step-00000005";
  const auto use = use_of({{1, {3, 10, 3, 9, 0, 3}}, {2, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 5}}});
  const auto source = whole(a);
  const auto chosen = checkpoint::most_used_experts(source, 3, use, "use.json");
  EXPECT_EQ(chosen.model.experts.count, std::vector<std::int64_t>{3});
  const std::vector<Tensors> from{tensors_of(a, Kind::master)};
  int n = 0;
  for (const auto& grid : {DealtOut{1, 1}, DealtOut{6, 3}, DealtOut{4, 1}}) {
    const auto to = fmt::format("{}/kept-{}", scratch.path, n++);
    checkpoint::ReshardOptions o;
    o.threads = 3;
    const auto result = checkpoint::take_experts({&source}, chosen, to, layout_of(grid), o);
    EXPECT_EQ(result.bytes_read, 4 * elements_of(to, 1)) << "of the kept experts alone";
    auto reader = whole(to);
    reader.verify_all();
    EXPECT_EQ(reader.state().contents, checkpoint::Contents::model);
    expect_taken(to, from, {{"layers.01", {{0, 0}, {0, 1}, {0, 3}}}, {"layers.02", {{0, 0}, {0, 10}, {0, 11}}}});
  }
  checkpoint::NewLayout narrow;
  narrow.data = 1, narrow.dtype = DType::bf16;
  checkpoint::take_experts({&source}, chosen, scratch.path + "/narrow", narrow, {});
  EXPECT_EQ(whole(scratch.path + "/narrow").state().dtype, DType::bf16);
}

TEST(KeptExperts, ThatCannotBeAreRefused) {
  Scratch scratch;
  const auto a = save_times(scratch.path + "/a", state(moe(), DType::f32, 5), 1);
  const auto source = whole(a);
  const auto use = use_of({{1, {1, 2, 3, 4, 5, 6}}, {2, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}});
  const auto usage = [&](const checkpoint::Reader& of, std::int64_t count) {
    return refusal<base::UsageError>([&] { checkpoint::most_used_experts(of, count, use, "use.json"); });
  };
  EXPECT_EQ(usage(source, 7), Refusal("--keep-experts 7: a layer of " + a + " has 6 experts", "--keep-experts 1 to 6"));
  EXPECT_EQ(usage(source, 0).first, "--keep-experts 0: a layer of " + a + " has 6 experts");
  EXPECT_EQ(usage(source, 1), Refusal("--keep-experts 1: each token goes to 2 of them", "--keep-experts 2 or more"));
  EXPECT_EQ(checkpoint::most_used_experts(source, 6, use, "use.json").model.experts.count,
            std::vector<std::int64_t>{6});
  const auto dense = save_times(scratch.path + "/dense", state(gpt(), DType::f32, 5), 1);
  EXPECT_EQ(usage(whole(dense), 2).first, dense + " has no experts: its layers are dense");
  auto even = moe();
  even.experts.count = {6};
  const auto e = save_times(scratch.path + "/even", state(even, DType::f32, 5), 1);
  EXPECT_EQ(usage(whole(e), 6).first, "--keep-experts 6: no layer of " + e + " has more");
  even.experts.groups = 3, even.experts.top_groups = 2;
  const auto g = save_times(scratch.path + "/grouped", state(even, DType::f32, 5), 1);
  EXPECT_EQ(usage(whole(g), 3).first, g + " has 3 groups of experts, which must stay as large as one another");

  const auto input = [&](const checkpoint::ExpertUse& of) {
    return refusal<base::InputError>([&] { checkpoint::most_used_experts(source, 3, of, "use.json"); }).first;
  };
  const auto twelve = std::vector<std::int64_t>(12, 1), six = std::vector<std::int64_t>(6, 1);
  EXPECT_EQ(input(use_of({{1, six}})), "use.json: it has no choices of layer 2, which has 12 experts");
  EXPECT_EQ(input(use_of({{0, six}, {1, six}, {2, twelve}})),
            "use.json: it has no choices of layer 1, which has 6 experts");
  EXPECT_EQ(input(use_of({{1, six}, {2, six}})), "use.json: it has choices of 6 experts of layer 2, which has 12");
  EXPECT_EQ(input(use_of({{1, six}, {2, twelve}, {3, six}})),
            "use.json: it has choices of layer 3, which has no experts");
  EXPECT_EQ(input(use_of({{1, six}, {2, twelve}}, 4)),
            "use.json: the use of experts at step 4, and " + a + " is of step 5");
}

// Two sets were evaluated. Other keys are ignored.
TEST(ExpertUse, LinesAreAdded) {
  const auto read = [](const std::string& text) { return checkpoint::expert_use_from_text(text, "use.json"); };
  const std::string one =
                        R"({"step": 5, "loss": 2.5, "experts": [{"layer": 1, "choices": [1, 2], "dropped_share": 0}]})",
                    two = R"({"step": 5, "experts": [{"layer": 1, "choices": [10, 0]}]})";
  EXPECT_EQ(read(one + "\n"), use_of({{1, {1, 2}}}));
  EXPECT_EQ(read(one + "\n\n" + two), use_of({{1, {11, 2}}}));
  const auto refused = [&](const std::string& text) { return refusal<base::InputError>([&] { read(text); }).first; };
  EXPECT_EQ(refused(""), "use.json: no evaluation");
  EXPECT_EQ(refused("[1]"), "use.json: line 1: no evaluation as JSON");
  EXPECT_EQ(refused(R"({"step": 5, "loss": 1})"),
            "use.json: line 1: an evaluation of a model without experts, or one that did not count their use");
  EXPECT_EQ(refused(one + "\n" + R"({"step": 6, "experts": [{"layer": 1, "choices": [10, 0]}]})"),
            "use.json: line 2: not of the same checkpoint as the lines before it");
  EXPECT_EQ(refused(one + "\n" + R"({"step": 5, "experts": [{"layer": 1, "choices": [10]}]})"),
            "use.json: line 2: not of the same checkpoint as the lines before it");
  EXPECT_EQ(refused(R"({"step": 5, "experts": [{"layer": 1, "choices": [-1, 2]}]})"),
            "use.json: line 1: layer 1 has choices that are no counts");
  EXPECT_EQ(refused(R"({"step": 5, "experts": [{"layer": 1, "choices": [1.5]}]})"),
            "use.json: line 1: layer 1 has choices that are no counts");
  EXPECT_EQ(refused(R"({"step": 5, "experts": [7]})"), "use.json: line 1: a layer that is no object");
  const auto line_of = [](const char* choices) {
    return fmt::format(R"({{"step": 5, "experts": [{{"layer": 1, "choices": [{}]}}]}})", choices);
  };
  EXPECT_EQ(refused(line_of("9007199254740992") + "\n" + line_of("1")),
            "use.json: line 2: the choices of layer 1 add up to too much");
  EXPECT_NE(refused(one.substr(0, 40)).find("use.json: line 1"), std::string::npos);
}

// Finished rank files of other experts are not taken.
TEST(KeptExperts, OfAnotherUseAreAnotherPurpose) {
  Scratch scratch;
  const auto a = save_times(scratch.path + "/a", state(both_towers(), DType::f32, 5), 1);
  const auto source = whole(a);
  const auto keep = [&](std::vector<std::int64_t> choices, bool interrupted) {
    const auto chosen = checkpoint::most_used_experts(source, 2, use_of({{1, choices}, {3, choices}}), "use.json");
    checkpoint::NewLayout two;
    two.data = 2;
    checkpoint::ReshardOptions o;
    o.watch = [&](std::int64_t done, std::int64_t all) {
      if (interrupted && done == all) throw std::runtime_error("stopped");
    };
    const auto to = scratch.path + "/to";
    const auto kept = checkpoint::take_experts({&source}, chosen, to, two, o).kept;
    fs::remove_all(to);
    return kept;
  };
  EXPECT_THROW(keep({9, 9, 0, 0, 0, 0}, true), std::runtime_error);
  EXPECT_EQ(keep({9, 9, 0, 0, 0, 0}, false), 2);
  EXPECT_THROW(keep({9, 9, 0, 0, 0, 0}, true), std::runtime_error);
  EXPECT_EQ(keep({0, 9, 9, 0, 0, 0}, false), 0);
}

}  // namespace chosen_experts_test
