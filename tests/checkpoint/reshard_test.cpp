// Resharding any layout to any number of ranks gives the files of a save on those ranks. Damage, false contents and
// full disks leave nothing under the final name. What an interrupted start finished is kept when its bytes prove it.
#include "tests/checkpoint/killed.h"
#include "tests/checkpoint/reshard_files.h"

#include "libtrain/base/folder_lock.h"
#include "libtrain/checkpoint/view.h"

#include <gtest/gtest.h>

#include <csignal>
#include <random>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace sample;
using checkpoint::Kind;
using trainyard::base::DType;
using trainyard::base::Error;
using trainyard::base::ExitCode;

namespace reshard_test {

struct Interrupted {};

// Options that stop once `bytes` of the source were read.
checkpoint::ReshardOptions stopping_after(std::int64_t bytes) {
  checkpoint::ReshardOptions o;
  o.memory = checkpoint::least_reshard_memory;
  o.watch = [bytes](std::int64_t done, std::int64_t) {
    if (done >= bytes) throw Interrupted();
  };
  return o;
}

template <class F> ExitCode code_of(F&& f, std::string* said = nullptr) {
  try {
    f();
    return ExitCode::done;
  } catch (const Error& e) {
    if (said != nullptr) *said = e.what();
    return e.code();
  }
}

std::vector<float> tensor(checkpoint::Reader& reader, Kind kind, const checkpoint::ParameterEntry& p) {
  std::vector<float> values(static_cast<std::size_t>(p.count));
  reader.read_tensor(kind, p.name, 0, p.count, values.data());
  return values;
}
std::vector<float> tensor(const std::string& path, Kind kind, const checkpoint::ParameterEntry& p) {
  checkpoint::Reader reader(path);
  return tensor(reader, kind, p);
}

TEST(Reshard, GivesTheFilesThatASaveOnThoseRanksGives) {
  std::mt19937 random(7);
  for (const auto& model : {gpt(), llama(), middling()})
    for (auto dtype : {DType::f32, DType::bf16}) {
      const bool large = model.hidden > 100;
      if (large && dtype == DType::f32) continue;  // making the expected files takes long
      const int steps = large ? 2 : 4;
      Scratch scratch;
      const auto s = state(model, dtype, 5);
      auto before = scratch.path + "/from/step-00000005";
      save(scratch.path + "/from", s, 1 + static_cast<int>(random() % 7));
      for (int i = 0; i < steps; ++i) {  // each from the result of the one before
        const auto ranks = i == 0 ? 5 : 1 + static_cast<int>(random() % 9);
        const auto expected = fmt::format("{}/expected-{}", scratch.path, i),
                   found = fmt::format("{}/{}", scratch.path, i);
        save(expected, s, ranks);
        checkpoint::ReshardOptions o;
        o.threads = 1 + i;
        o.memory = i % 2 == 0 ? checkpoint::least_reshard_memory : std::int64_t{256} << 20;
        const auto result = reshard(before, found, {ranks, {}, {}, {}}, o);
        EXPECT_EQ(result.ranks, ranks);
        EXPECT_EQ(result.kept, 0);
        expect_same_files(found, expected + "/step-00000005",
                          fmt::format("{} {} on {} ranks", model.name, base::name_of(dtype), ranks));
        EXPECT_EQ(checkpoint::Reader(found).state().plan["ranks"], ranks);
        before = found;
      }
    }
}

// Boxes by rows and columns of a grid with padding between them, and version 1.
TEST(Reshard, TakesForeignCutsAndOlderVersions) {
  Scratch scratch;
  const auto s = state(gpt(), DType::bf16, 5);
  save_layout(scratch.path + "/from", s, grid_layout(gpt(), 2, 3),
              plan::Topology({{plan::Axis::data, 2}, {plan::Axis::tensor, 3}}));
  save(scratch.path + "/expected", s, 4);
  reshard(scratch.path + "/from/step-00000005", scratch.path + "/to", {4, {}, {}, {}, {}, 1});
  expect_same_files(scratch.path + "/to", scratch.path + "/expected/step-00000005", "a grid");
  int goldens = 0;
  for (const auto& entry : fs::directory_iterator(GOLDEN)) {
    if (!entry.is_directory()) continue;
    ++goldens;
    const auto to = scratch.path + "/" + entry.path().filename().string();
    reshard(entry.path().string() + "/step-00000003", to, {3, {}, {}, {}, {}, 1});
    checkpoint::Reader reader(to);
    EXPECT_EQ(reader.manifest().major, checkpoint::format_major);
    reader.verify_all();
    for (int ranks : {1, 4}) EXPECT_EQ(differences(reader, ranks), 0) << entry.path();
  }
  EXPECT_EQ(goldens, 8);
}

TEST(Reshard, AnotherDtypeKeepsTheExactWeightsAsTheMaster) {
  Scratch scratch;
  const auto from = scratch.path + "/from/step-00000005", narrow = scratch.path + "/narrow",
             back = scratch.path + "/back";
  save(scratch.path + "/from", state(middling(), DType::f32, 5), 2);
  for (const auto dtype : {DType::bf16, DType::f16}) {
    reshard(from, narrow, {3, dtype, {}, {}});
    checkpoint::Reader(narrow).verify_all();
    for (const auto& p : checkpoint::parameters_of(middling())) {
      const auto exact = tensor(from, Kind::model, p);
      EXPECT_EQ(tensor(narrow, Kind::master, p), exact) << p.name;
      auto stored = exact;
      for (auto& x : stored) x = rounded(x, dtype);
      EXPECT_EQ(tensor(narrow, Kind::model, p), stored) << p.name;
      for (auto kind : {Kind::state("m"), Kind::state("v")})
        EXPECT_EQ(tensor(narrow, kind, p), tensor(from, kind, p)) << p.name;
    }
    reshard(narrow, back, {2, DType::f32, {}, {}});
    expect_same_files(back, from, fmt::format("f32 by way of {}", base::name_of(dtype)));
    fs::remove_all(narrow), fs::remove_all(back);
  }
}

// From one narrow dtype to the other the exact weights stay, and the model is rounded anew from them.
TEST(Reshard, FromOneNarrowDtypeToTheOther) {
  for (const auto& [first, second] : {std::pair{DType::bf16, DType::f16}, std::pair{DType::f16, DType::bf16}}) {
    Scratch scratch;
    const auto exact = scratch.path + "/exact/step-00000005", from = scratch.path + "/from", to = scratch.path + "/to",
               expected = scratch.path + "/expected";
    save(scratch.path + "/exact", state(gpt(), DType::f32, 5), 2);
    reshard(exact, from, {3, first, {}, {}});
    reshard(from, to, {4, second, {}, {}});
    reshard(exact, expected, {4, second, {}, {}});
    expect_same_files(to, expected, fmt::format("{} from {}", base::name_of(second), base::name_of(first)));
  }
}

// The weights alone, from every dtype to every dtype; no digit of the source is lost.
TEST(Reshard, TheWeightsAlone) {
  using checkpoint::Contents;
  const auto parameters = checkpoint::parameters_of(gpt());
  for (auto from_dtype : {DType::f32, DType::bf16, DType::f16})
    for (auto to_dtype : {DType::f32, DType::bf16, DType::f16}) {
      if (from_dtype == DType::bf16 && to_dtype == DType::f16) continue;  // FromOneNarrowDtypeToTheOther
      const auto what = fmt::format("{} to {}", base::name_of(from_dtype), base::name_of(to_dtype));
      Scratch scratch;
      const auto from = scratch.path + "/step-00000005", alone = scratch.path + "/alone",
                 again = scratch.path + "/again";
      save(scratch.path, state(gpt(), from_dtype, 5), 3);
      const auto result = reshard(from, alone, {2, to_dtype, {}, {}, Contents::model});
      std::int64_t one_kind = 0;  // a narrow source has two kinds of weights; this is the one that is needed
      for (int r = 0; r < 3; ++r)
        one_kind +=
            whole(from)
                .manifest()
                .files.at(checkpoint::rank_name(r) + ".h5")
                .payloads.at(base::is_narrow(from_dtype) && to_dtype != from_dtype ? "/optimizer/master" : "/model")
                .bytes;
      EXPECT_EQ(result.bytes_read, one_kind) << what;
      checkpoint::Reader reader(alone);
      reader.verify_all();
      EXPECT_EQ(reader.state().contents, Contents::model);
      EXPECT_EQ(reader.tensors().size(), parameters.size()) << what;
      checkpoint::Reader source(from);
      for (const auto& p : parameters) {
        auto expected = tensor(source, to_dtype == from_dtype ? Kind::model : Kind::master, p);
        for (auto& x : expected) x = rounded(x, to_dtype);
        for (auto kind : {Kind::model, Kind::master}) EXPECT_EQ(tensor(reader, kind, p), expected) << what << p.name;
        EXPECT_THROW(tensor(reader, Kind::state("m"), p), base::InputError);
      }
      // Then to another layout and another dtype. Nothing can make the moments that the weights alone never had.
      for (auto dtype : {DType::f32, DType::bf16}) {
        fs::remove_all(again);
        reshard(alone, again, {3, dtype, {}, {}});
        checkpoint::Reader other(again);
        other.verify_all();
        for (const auto& p : parameters) {
          auto expected = tensor(reader, Kind::model, p);
          for (auto& x : expected) x = rounded(x, dtype);
          EXPECT_EQ(tensor(other, Kind::model, p), expected) << what << " and " << base::name_of(dtype) << p.name;
        }
      }
      EXPECT_EQ(code_of([&] {
                  reshard(alone, scratch.path + "/all", {3, {}, {}, {}, Contents::all});
                }),
                ExitCode::usage);
      EXPECT_FALSE(fs::exists(scratch.path + "/all.partial"));
    }
}

// Damage is found only in what the reshard reads; other damage does not matter.
TEST(Reshard, TheWeightsAloneReadNothingElse) {
  Scratch scratch;
  const auto from = scratch.path + "/step-00000005", to = scratch.path + "/to", file = from + "/rank-00001.h5";
  save(scratch.path, state(gpt(), DType::f32, 5), 2);
  const auto good = slurp(file);
  for (const char* path : {"/model", "/optimizer/m", "/optimizer/v"}) {
    auto bad = good;
    bad[static_cast<std::size_t>(whole(from).manifest().files.at("rank-00001.h5").payloads.at(path).offset + 8)] ^= 1;
    spit(file, bad);
    fs::remove_all(to);
    EXPECT_EQ(code_of([&] {
                reshard(from, to, {2, {}, {}, {}, checkpoint::Contents::model});
              }),
              std::string(path) == "/model" ? ExitCode::input_refused : ExitCode::done)
        << path;
  }
}

// The plan's record describes the new layout; the rest of the state is unchanged.
TEST(Reshard, TheStateStaysButForTheCut) {
  Scratch scratch;
  auto s = state(gpt(), DType::f32, 5);
  s.plan = {
      {"ranks", 2}, {"zero", 1}, {"dtype", "f32"}, {"topology", {{{"axis", "data"}, {"size", 2}}}}, {"predicted", 7}};
  save(scratch.path, s, 2);
  reshard(scratch.path + "/step-00000005", scratch.path + "/to", {3, {}, 2, {}});
  const auto found = checkpoint::state_to_json(checkpoint::Reader(scratch.path + "/to").state());
  auto expected = checkpoint::state_to_json(s);
  expected["plan"] = {{"ranks", 3}, {"zero", 2}, {"dtype", "f32"}, {"topology", {{{"axis", "data"}, {"size", 3}}}}};
  EXPECT_EQ(found, expected);
  s.plan["topology"] = {{{"axis", "data"}, {"size", 3}}, {{"axis", "tensor"}, {"size", 2}}};
  s.plan["ranks"] = 6, s.plan["tensor"] = 2, s.plan["sequence_parallel"] = true, s.plan["zero_group"] = 3;
  s.model = gpt_of_heads();
  save(scratch.path + "/shared", s, plan::replicas_of(6, 2));
  for (const int tensor : {0, 1}) {  // 0: as many as in the source
    const auto path = fmt::format("{}/{}", scratch.path, tensor);
    reshard(scratch.path + "/shared/step-00000005", path, {3, {}, {}, {}, {}, tensor});
    const auto plan = checkpoint::Reader(path).state().plan;
    EXPECT_EQ(plan["topology"].size(), tensor == 0 ? 2u : 1u);
    EXPECT_EQ(plan["ranks"], tensor == 0 ? 6 : 3);
    EXPECT_EQ(plan["tensor"], tensor == 0 ? 2 : 1);
    EXPECT_EQ(plan["sequence_parallel"], tensor == 0);
    EXPECT_EQ(plan.contains("zero_group"), tensor == 0) << "each start decides it for its ranks";
    EXPECT_EQ(plan.contains("predicted"), tensor == 0);
  }
  s = state(gpt(), DType::f32, 5);
  s.plan = {
      {"ranks", 2}, {"zero", 1}, {"dtype", "f32"}, {"topology", {{{"axis", "data"}, {"size", 2}}}}, {"predicted", 7}};
  reshard(scratch.path + "/step-00000005", scratch.path + "/same", {});
  EXPECT_EQ(checkpoint::state_to_json(checkpoint::Reader(scratch.path + "/same").state()),
            checkpoint::state_to_json(s));
}

TEST(Reshard, EachByteOfThePayloadsIsReadOnce) {
  Scratch scratch;
  save(scratch.path, state(middling(), DType::bf16, 5), 3);
  std::int64_t payloads = 0;
  const auto source = whole(scratch.path + "/step-00000005");
  for (const auto& [name, file] : source.manifest().files)
    for (const auto& [path, p] : file.payloads) payloads += p.bytes;
  for (int ranks : {1, 2, 7}) {
    std::int64_t told = 0, all = 0;
    checkpoint::ReshardOptions o;
    o.threads = 3;
    o.watch = [&](std::int64_t done, std::int64_t total) { told = std::max(told, done), all = total; };
    EXPECT_EQ(
        reshard(scratch.path + "/step-00000005", fmt::format("{}/{}", scratch.path, ranks), {ranks, {}, {}, {}}, o)
            .bytes_read,
        payloads);
    EXPECT_EQ(told, payloads);
    EXPECT_EQ(all, payloads);
  }
}

// Flips a bit of any file of the source: payloads of each kind and rank, also their padding, metadata, index, manifest.
TEST(Reshard, AFlippedBitOfTheSourceIsRefusedByName) {
  Scratch scratch;
  const auto from = scratch.path + "/step-00000005", to = scratch.path + "/to";
  save(scratch.path, state(gpt(), DType::bf16, 5), 3);
  struct Place {
    std::string file;
    std::int64_t at;
    std::string said;
  };
  std::vector<Place> places{{"manifest.json", 700, "manifest.json is damaged"},
                            {"ranks.index", 90, "ranks.index is damaged"}};
  const auto manifest = whole(from).manifest();
  for (int r = 0; r < 3; ++r) {
    const auto name = checkpoint::rank_name(r) + ".h5";
    places.push_back({name, 40, name + " is damaged between bytes 0 and"});
    for (auto kind : checkpoint::kinds_of(DType::bf16)) {
      const auto& p = manifest.files.at(name).payloads.at(checkpoint::path_of(kind));
      for (auto at : {std::int64_t{0}, p.bytes / 2, p.bytes - 1})
        places.push_back({name, p.offset + at, fmt::format("it holds {}/", checkpoint::path_of(kind))});
    }
  }
  for (const auto& [name, at, said] : places) {
    const auto good = slurp(from + "/" + name);
    auto bad = good;
    bad[static_cast<std::size_t>(at)] ^= 4;
    spit(from + "/" + name, bad);
    std::string message;
    EXPECT_EQ(code_of(
                  [&] {
                    reshard(from, to, {2, {}, {}, {}});
                  },
                  &message),
              ExitCode::input_refused)
        << name << " at " << at;
    EXPECT_NE(message.find(said), std::string::npos) << message;
    EXPECT_FALSE(fs::exists(to));
    spit(from + "/" + name, good);
    if (said.starts_with("it holds")) {
      EXPECT_NE(message.find(name), std::string::npos) << message;
      EXPECT_NE(message.find(" elements "), std::string::npos) << message;
    }
  }
  EXPECT_EQ(code_of([&] { reshard(from, to, {2, {}, {}, {}}); }), ExitCode::done);
}

// Right checksums prove nothing: what was written must add up to the fingerprints of the manifest.
TEST(Reshard, AManifestThatLiesIsFoundOutByWhatWasWritten) {
  for (const char* path : {"/model/layers.00.ffn.up.weight", "/optimizer/v/head.norm.bias"}) {
    Scratch scratch;
    const auto from = scratch.path + "/step-00000005";
    save(scratch.path, state(gpt(), DType::f32, 5), 2);
    edit_manifest(from, [&](nlohmann::json& j) { j["tensors"][path]["fingerprint"] = "0123456789abcdef"; });
    std::string said;
    EXPECT_EQ(code_of([&] { reshard(from, scratch.path + "/to", {3, {}, {}, {}}); }, &said), ExitCode::input_refused);
    EXPECT_NE(said.find(path), std::string::npos) << said;
    EXPECT_NE(said.find("expected 0123456789abcdef"), std::string::npos) << said;
    EXPECT_FALSE(fs::exists(scratch.path + "/to"));
    EXPECT_FALSE(fs::exists(scratch.path + "/to.partial"));
  }
}

TEST(Reshard, AnInterruptedStartGoesOnFromItsFinishedFiles) {
  Scratch scratch;
  const auto from = scratch.path + "/from/step-00000005", to = scratch.path + "/to", partial = to + ".partial";
  for (auto dtype : {DType::f32, DType::bf16}) {
    fs::remove_all(scratch.path);
    save(scratch.path + "/from", state(middling(), DType::f32, 5), 2);
    const checkpoint::NewLayout layout{6, dtype, {}, {}};
    reshard(from, scratch.path + "/expected", layout);
    const auto all = whole(from).bytes();
    EXPECT_THROW(reshard(from, to, layout, stopping_after(all * 3 / 4)), Interrupted);
    EXPECT_FALSE(fs::exists(to));
    std::vector<std::string> finished;
    for (const auto& entry : fs::directory_iterator(partial)) {
      const auto name = entry.path().filename().string();
      if (name.ends_with(".h5")) finished.push_back(name);
      EXPECT_TRUE(fs::exists(partial + "/" + name.substr(0, 10) + ".json")) << name << " is not finished, but there";
    }
    ASSERT_GE(finished.size(), 2u);
    ASSERT_LT(finished.size(), 6u);
    const auto touched = [&](const std::string& name) { return fs::last_write_time(partial + "/" + name); };
    const auto before = touched(finished[0]);
    // A damaged file is written again. Files of another layout are not used.
    auto bytes = slurp(partial + "/" + finished[1]);
    bytes[bytes.size() / 2] ^= 1;
    spit(partial + "/" + finished[1], bytes);
    const auto result = reshard(from, to, layout);
    EXPECT_EQ(result.kept, static_cast<int>(finished.size()) - 1);
    EXPECT_LT(result.bytes_read, all);
    EXPECT_EQ(fs::last_write_time(to + "/" + finished[0]), before);
    expect_same_files(to, scratch.path + "/expected", "gone on");
    EXPECT_FALSE(fs::exists(partial));
  }
}

TEST(Reshard, NothingOfAnotherPurposeIsKept) {
  Scratch scratch;
  const auto from = scratch.path + "/from/step-00000005", to = scratch.path + "/to";
  save(scratch.path + "/from", state(middling(), DType::f32, 5), 2);
  const auto interrupt = [&] {
    EXPECT_THROW(reshard(from, to, {6, {}, {}, {}}, stopping_after(whole(from).bytes() * 3 / 4)), Interrupted);
    EXPECT_TRUE(fs::exists(to + ".partial"));
  };
  interrupt();
  EXPECT_EQ(reshard(from, to, {6, DType::bf16, {}, {}}).kept, 0);
  checkpoint::Reader(to).verify_all();
  fs::remove_all(to);
  interrupt();
  checkpoint::ReshardOptions anew;
  anew.existing = base::Existing::replace;
  EXPECT_EQ(reshard(from, to, {6, {}, {}, {}}, anew).kept, 0);
  EXPECT_EQ(code_of([&] { reshard(from, to, {6, {}, {}, {}}); }), ExitCode::usage) << "it is there";
  EXPECT_EQ(reshard(from, to, {2, {}, {}, {}}, anew).ranks, 2);
  expect_same_files(to, from, "replaced");
}

TEST(Reshard, AKilledWriterLeavesNothingThatLooksWhole) {
  Scratch scratch;
  const auto from = scratch.path + "/from/step-00000005", to = scratch.path + "/to", partial = to + ".partial";
  save(scratch.path + "/from", state(middling(), DType::f32, 5), 3);
  const checkpoint::NewLayout layout{5, {}, {}, {}};
  // Each start continues the one before. As long as something is left to read, the final name does not exist.
  for (int i = 0; i < 6; ++i) {
    checkpoint::ReshardOptions o;
    o.watch = [i](std::int64_t done, std::int64_t all) {
      if (6 * done >= i * all) ::kill(::getpid(), SIGKILL);
    };
    EXPECT_EQ(kill_when([] { return false; }, [&] { reshard(from, to, layout, o); }), End::killed);
    EXPECT_TRUE(fs::exists(partial)) << "kill " << i;
    EXPECT_FALSE(fs::exists(to)) << "kill " << i;
  }
  // From here on the final name may exist before the kill. Whatever has it is whole, to the last byte.
  const auto judge = [&](const std::string& what) {
    if (fs::exists(to)) {
      EXPECT_NO_THROW(checkpoint::Reader(to).verify_all()) << what;
    }
    fs::remove_all(to);
  };
  for (const char* seen : {"rank-00000.h5", "rank-00000.json", "rank-00004.json", "ranks.index", checkpoint::view_name,
                           "manifest.json", "nothing but the name"}) {
    fs::remove_all(partial);
    kill_when([&] { return fs::exists(partial + "/" + seen) || fs::exists(to); }, [&] { reshard(from, to, layout); });
    judge(seen);
  }
  for (int i = 0; i < 6; ++i) {
    kill_when(after(8e-3 * i), [&] { reshard(from, to, layout); });
    judge(fmt::format("{} ms", 8 * i));
  }
  reshard(from, to, layout);
  save(scratch.path + "/expected", state(middling(), DType::f32, 5), 5);
  expect_same_files(to, scratch.path + "/expected/step-00000005", "after kills");
}

TEST(Reshard, WithoutRoomItSaysHowMuchIsMissingBeforeItWrites) {
  Scratch scratch;
  const auto from = scratch.path + "/from/step-00000005", to = scratch.path + "/to";
  save(scratch.path + "/from", state(middling(), DType::f32, 5), 2);
  checkpoint::ReshardOptions o;
  o.free_bytes = [](const std::string&) { return std::int64_t{1000000}; };
  std::string said;
  EXPECT_EQ(code_of([&] { reshard(from, to, {}, o); }, &said), ExitCode::environment);
  EXPECT_NE(said.find("the disk has room for 1.00 MB"), std::string::npos) << said;
  EXPECT_NE(said.find("are missing"), std::string::npos) << said;
  EXPECT_FALSE(fs::exists(to + ".partial"));
  // If the system does not know beforehand, the error comes while writing.
  const auto pid = ::fork();
  if (pid == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit files{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &files);
    ::_exit(static_cast<int>(code_of([&] { reshard(from, to, {}); })));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 4);
  EXPECT_FALSE(fs::exists(to));
  EXPECT_FALSE(fs::exists(to + ".partial"));
}

TEST(Reshard, WhatIsNotOursIsSpared) {
  Scratch scratch;
  const auto from = scratch.path + "/from/step-00000005", to = scratch.path + "/to";
  save(scratch.path + "/from", state(gpt(), DType::f32, 5), 2);
  const auto before = slurp(from + "/manifest.json");
  checkpoint::ReshardOptions anew;
  anew.existing = base::Existing::replace;
  fs::create_directory(to);
  spit(to + "/thesis.tex", "years of work");
  EXPECT_EQ(code_of([&] { reshard(from, to, {}, anew); }), ExitCode::usage);
  fs::rename(to, to + ".partial");
  EXPECT_EQ(code_of([&] { reshard(from, to, {}, anew); }), ExitCode::usage);
  EXPECT_EQ(slurp(to + ".partial/thesis.tex"), "years of work");
  fs::remove_all(to + ".partial");
  for (const auto& place : {from, from + "/inside", from + "/../step-00000005", to + ".partial"})
    EXPECT_EQ(code_of([&] { reshard(from, place, {}, anew); }), ExitCode::usage) << place;
  EXPECT_EQ(slurp(from + "/manifest.json"), before);
  // One writer at a time.
  fs::create_directory(to + ".partial");
  const base::FolderLock lock(to + ".partial", "");
  EXPECT_EQ(code_of([&] { reshard(from, to, {}); }), ExitCode::environment);
  EXPECT_TRUE(fs::exists(to + ".partial/lock"));
}

}  // namespace reshard_test
