// Small whole runs on the threads communicator: data and model made here, losses and fingerprints read back from the
// files that a user gets.
#pragma once

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/random.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/comm/threads.h"
#include "libtrain/data/shard_writer.h"
#include "libtrain/engine/run.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace trainyard::testing {

namespace fs = std::filesystem;

struct ParallelLayout {
  int ranks = 1, zero = 0, threads = 1;
  std::string dtype = "f32", recompute = "none";
  int tensor = 1;  // of the ranks
  bool sequence_parallel = false;
  int pipeline = 1;
  std::string schedule = "1f1b";
  int virtual_stages = 1;
  std::string partition = "flops";
  int experts = 1;  // ranks along data that hold different ones
  int expert_chunks = 1;
  int expert_node = 1;
  std::int64_t expert_buffer = 0;
};

class SmallRun {
 public:
  SmallRun() : SmallRun(fs::temp_directory_path() / ("trainyard-engine-" + std::to_string(::getpid()))) {
    owner_ = ::getpid();
    const auto tokenizer = data::make_tokenizer("bytes");
    const auto set = (folder_ / "data").string();
    fs::create_directories(set);
    data::SetIndex index;
    index.vocabulary = tokenizer->vocabulary();
    index.end_of_document = tokenizer->end_of_document();
    for (const char* split : {"train", "validation"}) {
      data::ShardWriter writer(set, split, *tokenizer, 3000);
      for (std::uint64_t d = 0; d < 40; ++d) {
        std::vector<std::int32_t> document;
        for (std::uint64_t i = 0; i < 50 + d * 7; ++i)
          document.push_back(static_cast<std::int32_t>(base::random_words(7, d, i)[0] % 90 + 32));
        document.push_back(tokenizer->end_of_document());
        writer.add(document);
      }
      (split == std::string("train") ? index.train : index.validation) = writer.finish();
    }
    base::write_file(set + "/index.json", data::index_to_json(index).dump());
  }
  // A guest in the folder that another process made.
  explicit SmallRun(fs::path folder) : folder_(std::move(folder)), owner_(0) { fs::create_directories(folder_); }
  ~SmallRun() {
    if (owner_ == ::getpid()) fs::remove_all(folder_);
  }
  const fs::path& folder() const { return folder_; }

  std::string model(const std::string& name, const std::string& lines) const {
    const auto path = (folder_ / (name + ".toml")).string();
    if (owner_ == ::getpid()) std::ofstream(path) << lines;  // guests find what the owner wrote
    return path;
  }
  std::string gpt() const {
    return model("gpt",
                 "layers = 3\nhidden = 32\nheads = 4\nkv-heads = 4\nffn = 64\ncontext = 32\ndropout-embedding = "
                 "0.1\ndropout-attention = 0.1\n"
                 "dropout-attention-residual = 0.2\ndropout-ffn-residual = 0.1\n");
  }
  std::string llama() const {
    return model("llama",
                 "layers = 2\nhidden = 32\nheads = 4\nkv-heads = 2\nffn = 96\ncontext = 32\nnorm = \"rms\"\npositions "
                 "= \"rotary\"\nactivation = \"swiglu\"\n"
                 "biases = \"off\"\ntied = \"off\"\ndropout-attention = 0.1\n");
  }

  engine::RunConfig config(const std::string& output) const {
    engine::RunConfig c;
    c.model = gpt();
    c.data = (folder_ / "data").string();
    c.output = (folder_ / output).string();
    c.steps = 20;
    c.global_batch = 14;
    c.micro_batch = 1;
    c.learning_rate = 0.01;
    c.progress = "never";
    c.device = "cpu";  // also where there is a GPU
    c.hang_timeout = 120;
    return c;
  }

  // One rank of a world that the caller made.
  engine::RunResult run_rank(engine::RunConfig c, const ParallelLayout& cut, engine::World& world) {
    apply(cut, c);
    return engine::run(c, world, signals_, {}, cut.ranks);
  }

  // Runs on `cut` and returns what rank 0 returned.
  engine::RunResult run(engine::RunConfig c, const ParallelLayout& cut, const engine::RunListener& listener = {}) {
    apply(cut, c);
    std::vector<engine::RunResult> results(static_cast<std::size_t>(cut.ranks));
    comm::run_ranks(cut.ranks, [&](int rank, comm::ThreadsWorld& world) {
      auto w = engine::make_world("threads", rank, cut.ranks, world.factory(rank), cut.tensor, cut.pipeline,
                                  cut.experts, cut.expert_node);
      results[static_cast<std::size_t>(rank)] = engine::run(c, w, signals_, listener, cut.ranks);
    });
    reports_.clear();
    for (const auto& r : results) reports_.push_back(r.memory_report.text() + r.traffic_report.text());
    return results[0];
  }
  const std::vector<std::string>& reports() const { return reports_; }  // of every rank of the last run

  static std::vector<nlohmann::json> metrics(const engine::RunConfig& c) {
    std::vector<nlohmann::json> out;
    std::ifstream in(c.output + "/metrics.jsonl");
    for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }

  // Every digit that must not depend on the cut: losses and norms of all steps, and the fingerprint of every tensor of
  // the last checkpoint.
  std::string bits(const engine::RunConfig& c, const engine::RunResult& r) const {
    std::string out;
    for (const auto& j : metrics(c))
      out += fmt::format("{} {} {}\n", j["step"].dump(), j["loss"].dump(), j["gradient_norm"].dump());
    checkpoint::Reader reader(r.checkpoint);
    for (const auto& t : reader.tensors()) out += fmt::format("{} {:016x}\n", t.path, t.fingerprint);
    return out;
  }

  static void apply(const ParallelLayout& cut, engine::RunConfig& c) {
    c.zero = cut.zero, c.threads = cut.threads, c.dtype = base::dtype_from_name(cut.dtype);
    c.tensor = cut.tensor, c.sequence_parallel = cut.sequence_parallel;
    c.expert_parallel = cut.experts, c.expert_chunks = cut.expert_chunks, c.expert_buffer = cut.expert_buffer;
    c.expert_node = cut.expert_node;
    c.pipeline = cut.pipeline, c.virtual_stages = cut.virtual_stages, c.partition = cut.partition;
    for (const auto& [name, schedule] : plan::schedule_names())
      if (name == cut.schedule) c.pipeline_schedule = schedule;
    bool known = false;
    for (const auto recompute : plan::recomputations)
      if (cut.recompute == plan::name_of(recompute)) c.recompute = recompute, known = true;
    TRAINYARD_ASSERT(known, "no recomputation {}", cut.recompute);
  }

 private:
  fs::path folder_;
  int owner_;
  engine::SignalWatcher signals_;
  std::vector<std::string> reports_;
};

}  // namespace trainyard::testing
