// shard-data on generated text, in bytes of text a second, beside a plain copy. Also byte-level BPE on one thread, and
// windows of a finished set in tokens a second.
#include "bench/limits.h"
#include "libtrain/data/builder.h"
#include "libtrain/data/window_dataset.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <stdlib.h>

namespace {

using namespace trainyard;
namespace fs = std::filesystem;

// 64 MB of words, as plain lines and as JSON lines.
struct Text {
  std::string folder, lines, json;
  std::int64_t bytes = 0;
  Text() {
    char name[] = "/tmp/trainyard-bench-XXXXXX";
    folder = ::mkdtemp(name);
    lines = folder + "/text.txt", json = folder + "/text.jsonl";
    std::ofstream a(lines), b(json);
    std::uint64_t x = 1;
    while (bytes < 64'000'000) {
      std::string line;
      for (int word = 0; word < 20; ++word) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        for (std::uint64_t i = 0; i < 2 + (x >> 60); ++i) line += static_cast<char>('a' + (x >> (4 * i)) % 26);
        line += ' ';
      }
      a << line << '\n';
      b << "{\"text\": \"" << line << "\"}\n";
      bytes += static_cast<std::int64_t>(line.size()) + 1;
    }
  }
  ~Text() { fs::remove_all(folder); }
};

Text& text() {
  static Text one;
  return one;
}

void build(benchmark::State& state, bool json) {
  const auto tokenizer = data::make_tokenizer("bytes");
  data::BuildOptions options;
  options.output = text().folder + "/set";
  options.threads = static_cast<int>(state.range(0));
  options.existing = base::Existing::replace;
  for (auto _ : state) {
    data::SourceOptions source_options;
    source_options.split = data::TextSplit::lines;
    data::DocumentSource source({json ? text().json : text().lines}, source_options);
    data::build_shards(source, *tokenizer, options, [](std::int64_t) {});
  }
  bench::report(state, "bytes/s", static_cast<double>(text().bytes), bench::copy_limit(1) / 2);
}

// Encodes documents of some 4 kB with a small tokenizer of the tests. Words come from a vocabulary of 20,000, with
// frequencies as in a language. steps.json has patterns that PCRE2 runs. bench/data/compare_tokenizers.py compares
// vocabularies of models with other programs.
void encode(benchmark::State& state, const char* name) {
  static const auto documents = [] {
    std::uint64_t x = 1;
    const auto next = [&] { return (x = x * 6364136223846793005ull + 1442695040888963407ull) >> 11; };
    std::vector<std::string> words(20'000), out(1000);
    for (auto& word : words)
      for (auto n = 2 + next() % 9; n > 0; --n) word += static_cast<char>('a' + next() % 26);
    for (auto& document : out)
      while (document.size() < 4096) {
        const auto rank = std::pow(20'000.0, static_cast<double>(next()) * 0x1p-53) - 1;
        document += words[static_cast<std::size_t>(rank)] + (next() % 12 == 0 ? ".\n" : " ");
      }
    return out;
  }();
  const auto tokenizer = data::make_tokenizer(std::string(GOLDEN_TOKENIZERS "/") + name);
  double bytes = 0;
  for (const auto& document : documents) bytes += static_cast<double>(document.size());
  std::vector<std::int32_t> ids;
  for (auto _ : state)
    for (const auto& document : documents) {
      ids.clear();
      tokenizer->encode(document, ids);
    }
  bench::report(state, "bytes/s", bytes, bench::copy_limit(1) / 2);
}

// Windows of 1024 tokens in the shuffled order of training, as one loader thread fills them.
void windows(benchmark::State& state) {
  const auto tokenizer = data::make_tokenizer("bytes");
  data::BuildOptions options;
  options.output = text().folder + "/windows";
  options.threads = 4;
  options.existing = base::Existing::replace;
  data::SourceOptions source_options;
  source_options.split = data::TextSplit::lines;
  data::DocumentSource source({text().lines}, source_options);
  data::build_shards(source, *tokenizer, options, [](std::int64_t) {});
  const auto index = data::read_index(options.output);
  constexpr std::int64_t T = 1024;
  data::WindowDataset set(options.output, index, index.train,
                          {.sequence = T,
                           .mask = state.range(0) != 0 ? data::DocumentMask::on : data::DocumentMask::off,
                           .order = data::Order::keyed,
                           .seed = 1});
  std::vector<std::int32_t> tokens(T), targets(T), positions(T), starts(T);
  std::vector<std::uint8_t> weights(T);
  std::uint64_t sample = 0;
  for (auto _ : state)
    set.fill(sample++, {tokens.data(), targets.data(), positions.data(), starts.data(), weights.data()});
  bench::report(state, "tokens/s", T, bench::copy_limit(1) / (2 + 17));  // two bytes read, seventeen written
}

BENCHMARK_CAPTURE(build, text_lines, false)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(4)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(build, json_lines, true)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(4)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, gpt2, "gpt2.json")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, llama3, "llama3.json")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, other_patterns, "steps.json")->Unit(benchmark::kMillisecond);
BENCHMARK(windows)->ArgName("document_mask")->Arg(0)->Arg(1)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
