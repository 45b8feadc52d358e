// Encodes the same documents again and again, a round for each line of standard input, and prints how long each round
// took. That serves comparisons in which several programs take turns (compare_tokenizers.py), and comparisons of ids.
// usage: bench_tokenizer TOKENIZER DOCUMENTS THREADS [IDS]
// DOCUMENTS holds for each document its length in bytes (u32, little-endian) and the bytes. IDS gets its ids in the
// same form.
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/read_file.h"
#include "libtrain/data/tokenizer.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace trainyard;

std::vector<std::string> documents_of(const std::string& path) {
  const auto all = base::read_file(path, std::int64_t{1} << 32);
  std::vector<std::string> out;
  for (std::size_t at = 0; at + 4 <= all.size();) {
    std::uint32_t length = 0;
    std::memcpy(&length, all.data() + at, sizeof length);
    if (length > all.size() - at - 4) throw base::InputError(path + " is cut off");
    out.push_back(all.substr(at + 4, length));
    at += 4 + length;
  }
  return out;
}

int run(int argc, char** argv) {
  if (argc < 4 || argc > 5) throw base::UsageError("usage: bench_tokenizer TOKENIZER DOCUMENTS THREADS [IDS]");
  const double begin = base::steady_seconds();
  const auto tokenizer = data::make_tokenizer(argv[1]);
  const double loaded = base::steady_seconds() - begin;
  const auto documents = documents_of(argv[2]);
  const int threads = std::max(1, std::atoi(argv[3]));
  std::vector<std::vector<std::int32_t>> ids(documents.size());
  std::printf("ready %.6f\n", loaded);
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    for (auto& one : ids) one = {};
    const double start = base::steady_seconds();
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (auto i = next++; i < documents.size(); i = next++) tokenizer->encode(documents[i], ids[i]);
    };
    {
      std::vector<std::jthread> team;
      for (int t = 1; t < threads; ++t) team.emplace_back(work);
      work();
    }
    std::printf("%.6f\n", base::steady_seconds() - start);
    std::fflush(stdout);
  }
  if (argc < 5) return 0;
  std::ofstream file(argv[4], std::ios::binary);
  for (const auto& one : ids) {
    const auto count = static_cast<std::uint32_t>(one.size());
    file.write(reinterpret_cast<const char*>(&count), sizeof count);
    file.write(reinterpret_cast<const char*>(one.data()), static_cast<std::streamsize>(4 * one.size()));
  }
  return file.flush() ? 0 : 4;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const trainyard::base::Error& e) {
    std::fprintf(stderr, "bench_tokenizer: %s\n  try: %s\n", e.what(), e.hint().c_str());
    return static_cast<int>(e.code());
  }
}
