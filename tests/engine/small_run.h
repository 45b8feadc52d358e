// Small whole runs on the threads communicator. Data and model are made here; losses and fingerprints are read from the
// files that a user gets.
#pragma once

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/random.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/comm/threads.h"
#include "libtrain/data/shard_writer.h"
#include "libtrain/engine/run.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace trainyard::testing {

namespace fs = std::filesystem;

struct ParallelLayout {
  int ranks = 1, zero = 0, threads = 1;
  std::string dtype = "f32", recompute = "none";
  int tensor = 1;  // tensor-parallel ranks
  bool sequence_parallel = false;
  int pipeline = 1;
  std::string schedule = "1f1b";
  int virtual_stages = 1;
  std::string partition = "flops";
  int experts = 1;  // expert-parallel degree
  int expert_overlap_chunks = 1;
  int expert_ranks_per_node = 1;
  std::int64_t expert_capacity_buffer = 0;
  bool breadth_first = false;
  std::string sums = "f32";  // what sums of gradients are rounded to
  int zero_group = 0;
  int reduction_node = 1;  // ranks that add gradients before nodes do
};

// What an error of `work` says, and its hint.
inline std::string error_text_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const base::Error& e) {
    return std::string(e.what()) + " | " + e.hint();
  }
  return "not refused";
}

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
  // A guest in the folder of another process: it does not remove the folder.
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

  // Runs one rank of a world that the caller made.
  engine::RunResult run_rank(engine::RunConfig c, const ParallelLayout& layout, engine::World& world) {
    apply(layout, c);
    return engine::run(c, world, signals_, {}, layout.ranks);
  }

  // Runs on `layout` and returns the result of rank 0.
  engine::RunResult run(engine::RunConfig c, const ParallelLayout& layout, const engine::RunListener& listener = {}) {
    apply(layout, c);
    std::vector<engine::RunResult> results(static_cast<std::size_t>(layout.ranks));
    comm::run_ranks(layout.ranks, [&](int rank, comm::ThreadsWorld& world) {
      auto w = engine::make_world(
          "threads", rank,
          plan::replicas_of(layout.ranks, layout.tensor, layout.pipeline, layout.experts, layout.expert_ranks_per_node)
              .with_zero_groups(std::max(1, layout.zero_group))
              .with_reduction_nodes(layout.reduction_node),
          world.factory(rank));
      results[static_cast<std::size_t>(rank)] = engine::run(c, w, signals_, listener, layout.ranks);
    });
    reports_.clear();
    for (const auto& r : results)
      reports_.push_back(r.memory_report.text() + r.traffic_report.text() + r.disk_report.text() +
                         r.link_report.text());
    return results[0];
  }
  const std::vector<std::string>& reports() const { return reports_; }  // of every rank of the last run

  static std::vector<nlohmann::json> metrics(const engine::RunConfig& c) {
    std::vector<nlohmann::json> out;
    std::ifstream in(c.output + "/metrics.jsonl");
    for (std::string line; std::getline(in, line);) out.push_back(nlohmann::json::parse(line));
    return out;
  }

  // Every digit that must not depend on the layout: losses and norms of all steps, and the fingerprint of every tensor
  // in the last checkpoint.
  std::string bits(const engine::RunConfig& c, const engine::RunResult& r) const {
    std::string out;
    for (const auto& j : metrics(c))
      out += fmt::format("{} {} {}\n", j["step"].dump(), j.value("loss", nlohmann::json()).dump(),
                         j["gradient_norm"].dump());
    checkpoint::Reader reader(r.checkpoint);
    for (const auto& t : reader.tensors()) out += fmt::format("{} {:016x}\n", t.path, t.fingerprint);
    return out;
  }

  static void apply(const ParallelLayout& layout, engine::RunConfig& c) {
    c.zero = layout.zero, c.threads = layout.threads, c.dtype = base::dtype_from_name(layout.dtype);
    c.tensor = layout.tensor, c.sequence_parallel = layout.sequence_parallel;
    c.expert_parallel = layout.experts, c.expert_overlap_chunks = layout.expert_overlap_chunks,
    c.expert_capacity_buffer = layout.expert_capacity_buffer;
    c.expert_ranks_per_node = layout.expert_ranks_per_node;
    c.accumulation_order = layout.breadth_first ? plan::AccumulationOrder::breadth : plan::AccumulationOrder::depth;
    c.pipeline = layout.pipeline, c.virtual_stages = layout.virtual_stages, c.partition = layout.partition;
    for (const auto& [name, schedule] : plan::schedule_names())
      if (name == layout.schedule) c.pipeline_schedule = schedule;
    c.recompute = plan::recomputation_of_text(layout.recompute, "test");
    c.zero_group = layout.zero_group, c.reduction_ranks_per_node = layout.reduction_node;
    if (layout.sums != "f32") c.gradient_sums = base::dtype_from_name(layout.sums);
  }

 private:
  fs::path folder_;
  int owner_;
  engine::SignalWatcher signals_;
  std::vector<std::string> reports_;
};

}  // namespace trainyard::testing
