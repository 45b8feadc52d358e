// Verifies a checkpoint: every block of every payload, and the fingerprints of all tensors.
#include "libtrain/checkpoint/reader.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/file_names.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace trainyard::checkpoint {

namespace {

// Elements of a flat tensor, for a message.
struct Span {
  std::int32_t tensor = 0;
  std::int64_t first = 0, end = 0;
};

}  // namespace

std::string Reader::tensors_in(int rank, const Kind& kind, std::int64_t first, std::int64_t count) const {
  std::vector<Span> spans;
  for_each_box(boxes(kind, rank), first, first + count,
               [&](const StoredBox& stored, std::int64_t from, std::int64_t to) {
                 const auto& shape = base::at(known_->tensors.of(kind), stored.tensor).shape;
                 for_each_run_of_range(shape, stored, from - stored.offset, to - from, [&](const Run& run) {
                   const bool follows =
                       !spans.empty() && spans.back().tensor == stored.tensor && spans.back().end == run.element;
                   if (!follows) spans.push_back({stored.tensor, run.element, run.element});
                   spans.back().end = run.element + run.count;
                 });
               });
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, spans.size()); ++i)
    text += fmt::format("{}{}/{} elements {} to {}", i == 0 ? "" : ", ", path_of(kind),
                        base::at(manifest().parameters, spans[i].tensor).name, spans[i].first, spans[i].end - 1);
  if (spans.size() > most) text += fmt::format(" and {} more ranges", spans.size() - most);
  return text.empty() ? "padding only" : text;
}

void Reader::verify_all(const Watch& watch) {
  check_files();
  std::error_code error;
  if (std::filesystem::exists(path_ + "/" + std::string(view_name), error)) check_view();
  for (const auto& [name, entry] : manifest().files)
    if (!entry.payloads.empty() && crc_of_parts(entry) != entry.crc)
      throw base::InputError(fmt::format("{}/manifest.json: {} has checksum {}, but {} by its parts", path_, name,
                                         hex32(entry.crc), hex32(crc_of_parts(entry))),
                             "the manifest does not belong to these files: restore both from one copy");
  std::map<std::string, std::uint64_t> fingerprints;
  std::vector<std::string> damages;
  std::string hint;
  auto code = base::ExitCode::environment;  // of the unreadable blocks
  std::int64_t damaged = 0, unreadable = 0, done = 0, all = 0;
  for (const auto& [name, file] : manifest().files)
    for (const auto& kind : kinds_of(state()))
      if (const auto payload = file.payloads.find(path_of(kind)); payload != file.payloads.end())
        all += payload->second.bytes;
  for (int rank = 0; rank < manifest().ranks; ++rank)
    for (const auto& kind : kinds_of(state())) {
      const auto size = base::size_of(dtype_of(kind, state())), per_block = io::block_bytes / size;
      const auto elements = manifest().files.at(rank_name(rank) + ".h5").payloads.at(path_of(kind)).bytes / size;
      for (std::int64_t first = 0; first < elements; first += per_block) {
        const auto end = std::min(elements, first + per_block);
        done += (end - first) * size;
        const char* data = nullptr;
        try {
          data = block(rank, kind, first / per_block);
        } catch (const base::InputError& e) {
          if (++damaged <= 8) damages.push_back(e.what());
          hint = e.hint();
          if (dynamic_cast<const base::Unreadable*>(&e) != nullptr) ++unreadable, code = e.code();
          continue;
        }
        for_each_box(boxes(kind, rank), first, end, [&](const StoredBox& stored, std::int64_t from, std::int64_t to) {
          const auto& p = base::at(known_->tensors.of(kind), stored.tensor);
          auto& fingerprint = fingerprints[path_of(kind, p.name)];
          for_each_run_of_range(p.shape, stored, from - stored.offset, to - from, [&](const Run& run) {
            fingerprint += base::fingerprint(data + (run.at - first) * size, run.count, static_cast<int>(size),
                                             static_cast<std::uint64_t>(run.element));
          });
        });
        if (watch) watch(done, all);
      }
    }
  if (damaged > 0) {
    const auto message = fmt::format("{}{}", fmt::join(damages, "\n"),
                                     damaged > 8 ? fmt::format("\nand {} more blocks", damaged - 8) : "");
    if (unreadable == damaged) throw base::Unreadable(message, hint, code);
    throw base::InputError(message, hint);
  }
  for (const auto& t : tensors())
    if (fingerprints[t.path] != t.fingerprint)
      throw base::InputError(fmt::format("{}: {} has fingerprint {}, expected {}", path_, t.path,
                                         hex64(fingerprints[t.path]), hex64(t.fingerprint)),
                             "the manifest does not belong to these files: restore both from one copy");
}

}  // namespace trainyard::checkpoint
