// generate with streamed weights: the logits of weights that are kept; a checkpoint larger than the memory that a
// process may have; and checkpoints that change while a text is generated.
#include "tests/checkpoint/layouts.h"
#include "tests/generate/saved_run.h"
#include "tools/generate/language_model.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

namespace trainyard::test {
namespace streamed_test {

using generate::LanguageModel;
using generate::WeightsAre;

plan::ModelConfig with_experts() {
  auto m = tiny_llama();
  m.layers = 4, m.experts.count = {4}, m.experts.every = 2, m.experts.top_k = 2, m.experts.shared = 1;
  m.experts.ffn = 48;
  return m;
}

// Its weights are several blocks of a file: a reader keeps the last block that it read.
plan::ModelConfig deep() {
  auto m = tiny();
  m.layers = 5, m.hidden = 128, m.heads = m.kv_heads = 4, m.ffn = 512;
  return m;
}

TEST(StreamedText, HasTheLogitsOfKeptWeights) {
  for (const auto& config : {deep(), tiny_llama(), with_experts()}) {
    SavedRun saved(config);
    checkpoint::Reader reader(generate::find_checkpoint(saved.folder.string()));
    LanguageModel kept(reader, 2), streamed(reader, 2, WeightsAre::streamed);
    std::vector<std::int32_t> tokens{256, 72, 101};
    const auto same = [&](std::span<const float> got, std::span<const float> want) {
      EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end())) << config.name;
    };
    for (int text = 0; text < 2; ++text) {
      same(streamed.begin(tokens), kept.begin(tokens));
      while (!kept.full()) {
        const auto token = static_cast<std::int32_t>(text + 5);
        same(streamed.append(token), kept.append(token));
      }
      EXPECT_TRUE(streamed.full());
    }
  }
}

// The checkpoint changes between two tokens.
TEST(StreamedText, ACheckpointThatChangesMeanwhileIsRefused) {
  const auto expect_refused = [](const std::function<void(const std::string& folder)>& change, const char* part) {
    SavedRun saved(deep());
    const auto folder = generate::find_checkpoint(saved.folder.string());
    checkpoint::Reader reader(folder);
    LanguageModel model(reader, 1, WeightsAre::streamed);
    model.begin(std::vector<std::int32_t>{256, 72});
    change(folder);
    try {
      model.append(7);
      ADD_FAILURE() << "not refused: " << part;
    } catch (const base::Error& error) {
      EXPECT_EQ(error.code(), base::ExitCode::input_refused) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect_refused(
      [](const std::string& folder) {
        const auto payload = checkpoint::Reader(folder).manifest().files.at("rank-00000.h5").payloads.at("/model");
        std::fstream file(folder + "/rank-00000.h5", std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(payload.offset + payload.bytes / 2);
        file.put('\x55').put('\xaa').put('\x01');
      },
      "is damaged between bytes");
  expect_refused([](const std::string& folder) { std::filesystem::resize_file(folder + "/rank-00000.h5", 2000); },
                 "ends at byte");
  expect_refused([](const std::string& folder) { std::filesystem::remove_all(folder); }, "was removed or renamed");
}

// Every checksum is right, but the weights are not those that were saved: no token is drawn from them.
TEST(StreamedText, OtherWeightsThanWereSavedAreRefused) {
  const SavedRun saved(deep());
  const auto folder = generate::find_checkpoint(saved.folder.string());
  sample::edit_manifest(
      folder, [](nlohmann::json& j) { j["tensors"]["/model/head.norm.weight"]["fingerprint"] = "0123456789abcdef"; });
  checkpoint::Reader reader(folder);
  LanguageModel model(reader, 1, WeightsAre::streamed);
  EXPECT_THROW(model.begin(std::vector<std::int32_t>{256, 72}), base::InputError);
}

// A checkpoint of 32 layers with 403 MB, which were written from one layer in memory.
struct LargeCheckpoint {
  std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("trainyard-streamed-{}", getpid());
  std::string file;

  LargeCheckpoint() {
    auto m = tiny();
    m.layers = 32, m.hidden = 512, m.heads = m.kv_heads = 8, m.ffn = 2048;
    std::vector<float> values(3'200'000);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 2654435761u >> 8) % 65536) / 65536.0f * 0.08f - 0.04f;
    checkpoint::RankShards shards;
    for (const auto& flat_group : plan::flat_groups(m))
      shards.views[checkpoint::Kind::model].push_back(
          base::View::of(values.data(), {plan::layout(flat_group, 1).padded}));
    shards.boxes = checkpoint::boxes_of_shards(m, plan::Topology(), 0);
    checkpoint::RunState state;
    state.step = 3, state.model = m, state.isa = "any", state.contents = checkpoint::Contents::model;
    state.provenance["tokenizer"] = "bytes";
    const auto where = (folder / "checkpoints").string();
    checkpoint::write_rank(where, state, shards, {});
    checkpoint::publish(where, state, plan::Topology({{plan::Axis::data, 1}}), 3);
    file = generate::find_checkpoint(folder.string()) + "/rank-00000.h5";
  }
  ~LargeCheckpoint() { std::filesystem::remove_all(folder); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(std::filesystem::file_size(file)); }

  // Bytes of the file in the system's page cache; `drop`: after the system was asked to drop them.
  std::int64_t cached_bytes(bool drop = false) const {
    const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    if (drop) ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    const auto size = static_cast<std::size_t>(bytes()), page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    ::close(descriptor);
    std::vector<unsigned char> pages((size + page - 1) / page);
    EXPECT_EQ(::mincore(map, size, pages.data()), 0);
    ::munmap(map, size);
    return static_cast<std::int64_t>(page) * std::count_if(pages.begin(), pages.end(), [](auto p) { return p & 1; });
  }
};

// A control group of version 1 with a memory limit; nothing where it cannot be made.
class MemoryGroup {
 public:
  explicit MemoryGroup(std::int64_t limit) {
    std::error_code error;
    if (!std::filesystem::create_directory(folder_, error)) return;
    std::ofstream(folder_ + "/memory.limit_in_bytes") << limit;
    made_ = number("memory.limit_in_bytes") / 4096 == limit / 4096;
  }
  ~MemoryGroup() { ::rmdir(folder_.c_str()); }
  bool made() const { return made_; }
  void join() const {  // in the child
    const int file = ::open((folder_ + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
    if (::write(file, "0", 1) != 1) ::_exit(99);
  }
  std::int64_t number(const char* name) const {
    std::int64_t n = -1;
    std::ifstream(folder_ + "/" + name) >> n;
    return n;
  }

 private:
  std::string folder_ = fmt::format("/sys/fs/cgroup/memory/trainyard-streamed-{}", getpid());
  bool made_ = false;
};

struct Child {
  std::string text;
  int status = 0;
  std::int64_t peak_bytes = 0;
  bool succeeded() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
};

// Runs generate. `before` prepares the child.
Child run(const LargeCheckpoint& saved, bool stream, const std::function<void()>& before) {
  std::vector<std::string> words{GENERATE_PROGRAM,
                                 "--checkpoint",
                                 saved.folder.string(),
                                 "--prompt",
                                 "Hi",
                                 "--tokens",
                                 "3",
                                 "--temperature",
                                 "0",
                                 "--threads",
                                 "1",
                                 "--stop-at",
                                 "length"};
  if (stream) words.emplace_back("--stream-weights");
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int pipe[2];
  EXPECT_EQ(::pipe(pipe), 0);
  const auto child = ::fork();
  if (child == 0) {
    ::dup2(pipe[1], 1), ::dup2(pipe[1], 2);
    ::close(pipe[0]), ::close(pipe[1]);
    before();
    ::execv(GENERATE_PROGRAM, arguments.data());
    ::_exit(98);
  }
  ::close(pipe[1]);
  Child out;
  char buffer[4096];
  for (ssize_t n; (n = ::read(pipe[0], buffer, sizeof buffer)) > 0;)
    out.text.append(buffer, static_cast<std::size_t>(n));
  ::close(pipe[0]);
  rusage usage{};
  ::wait4(child, &out.status, 0, &usage);
  out.peak_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  return out;
}

constexpr std::int64_t limit = 100'000'000;

TEST(StreamedText, TakesAQuarterOfTheMemoryOfItsCheckpoint) {
  const LargeCheckpoint saved;
  ASSERT_GT(saved.bytes(), 4 * limit);
  const auto kept = run(saved, false, [] {}), streamed = run(saved, true, [] {});
  ASSERT_TRUE(kept.succeeded()) << kept.text;
  ASSERT_TRUE(streamed.succeeded()) << streamed.text;
  EXPECT_EQ(streamed.text, kept.text);
  EXPECT_GT(kept.peak_bytes, saved.bytes());
  EXPECT_LT(streamed.peak_bytes, limit);
  // An address space that has no room for the checkpoint.
  const auto small = [&] {
    const rlimit most{static_cast<rlim_t>(saved.bytes()), static_cast<rlim_t>(saved.bytes())};
    if (::setrlimit(RLIMIT_AS, &most) != 0) ::_exit(97);
  };
  EXPECT_FALSE(run(saved, false, small).succeeded());
  const auto bounded = run(saved, true, small);
  EXPECT_TRUE(bounded.succeeded()) << bounded.text;
  EXPECT_EQ(bounded.text, kept.text);
}

TEST(StreamedText, LeavesNothingInThePageCache) {
  const LargeCheckpoint saved;
  if (saved.cached_bytes(true) > saved.bytes() / 100)
    GTEST_SKIP() << "the file system of " << saved.folder << " keeps its files in memory";
  ASSERT_TRUE(run(saved, true, [] {}).succeeded());
  EXPECT_LT(saved.cached_bytes(), saved.bytes() / 50);  // the end of the file
  ASSERT_TRUE(run(saved, false, [] {}).succeeded());
  EXPECT_GT(saved.cached_bytes(), saved.bytes() / 2) << "nothing is measured";
}

// Resident memory and page cache together.
TEST(StreamedText, FitsAControlGroupWithAQuarterOfTheMemory) {
  const LargeCheckpoint saved;
  saved.cached_bytes(true);
  const MemoryGroup group(limit);
  if (!group.made()) GTEST_SKIP() << "/sys/fs/cgroup/memory is no hierarchy in which groups can be made";
  const auto streamed = run(saved, true, [&] { group.join(); });
  EXPECT_TRUE(streamed.succeeded()) << streamed.text;
  EXPECT_EQ(group.number("memory.failcnt"), 0) << "the limit was met";
  EXPECT_GT(group.number("memory.max_usage_in_bytes"), 25'000'000) << "nothing is measured";
  EXPECT_FALSE(run(saved, false, [&] { group.join(); }).succeeded());
}

}  // namespace streamed_test
}  // namespace trainyard::test
