// Verifying a checkpoint: every block of every payload, and the fingerprints of all tensors.
#include "libtrain/checkpoint/reader.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/checkpoint/view.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace trainyard::checkpoint {

std::string Reader::tensors_in(int rank, Kind kind, std::int64_t first, std::int64_t count) const {
  std::string text;
  std::int64_t start = 0, named = 0, more = 0;
  for (const auto& unit : manifest_.units) {
    for (const auto& p : unit.parameters) {
      // The parameter's part of this rank, as a range of the rank's dataset.
      const auto part_first = std::max(p.offset, rank * unit.piece), part_end = std::min(p.offset + p.count, (rank + 1) * unit.piece);
      const auto shift = start - rank * unit.piece;
      const auto from = std::max(first, part_first + shift), to = std::min(first + count, part_end + shift);
      if (part_first >= part_end || from >= to) continue;
      if (++named > 4) { ++more; continue; }
      text += fmt::format("{}{}/{} elements {} to {}", text.empty() ? "" : ", ", path_of(kind), p.name, from - shift - p.offset, to - shift - p.offset - 1);
    }
    start += unit.piece;
  }
  if (more > 0) text += fmt::format(" and {} more tensors", more);
  return text.empty() ? "padding only" : text;
}

void Reader::verify_all(const Watch& watch) {
  check_files();
  std::error_code error;
  if (std::filesystem::exists(path_ + "/" + std::string(view_name), error)) check_view();
  for (const auto& [name, entry] : manifest_.files)
    if (!entry.payloads.empty() && crc_of_parts(entry) != entry.crc)
      throw base::InputError(fmt::format("{}/manifest.json: {} has checksum {}, but {} by its parts", path_, name, hex32(entry.crc), hex32(crc_of_parts(entry))),
                             "the manifest does not belong to these files: restore both from one copy");
  std::map<std::string, std::uint64_t> fingerprints;
  std::vector<std::string> damages;
  std::string hint;
  std::int64_t damaged = 0, unreadable = 0, done = 0, all = 0;
  const auto elements = pieces_total(manifest_.units);
  for (auto kind : kinds_of(state().dtype)) all += manifest_.ranks * elements * base::size_of(dtype_of(kind, state().dtype));
  for (int rank = 0; rank < manifest_.ranks; ++rank)
    for (auto kind : kinds_of(state().dtype)) {
      const auto size = base::size_of(dtype_of(kind, state().dtype)), per_block = io::block_bytes / size;
      for (std::int64_t b = 0; b * per_block < elements; ++b) {
        done += (std::min(elements, (b + 1) * per_block) - b * per_block) * size;
        const char* data = nullptr;
        try {
          data = block(rank, kind, b);
        } catch (const base::InputError& e) {
          if (++damaged <= 8) damages.push_back(e.what());
          hint = e.hint();
          unreadable += dynamic_cast<const base::Unreadable*>(&e) != nullptr ? 1 : 0;
          continue;
        }
        const auto block_first = b * per_block, block_end = std::min(elements, block_first + per_block);
        std::int64_t start = 0;
        for (const auto& unit : manifest_.units) {
          const auto shift = start - rank * unit.piece;
          if (start < block_end && start + unit.piece > block_first)
            for (const auto& p : unit.parameters) {
              const auto from = std::max({p.offset + shift, start, block_first});
              const auto to = std::min({p.offset + p.count + shift, start + unit.piece, block_end});
              if (from < to)
                fingerprints[std::string(path_of(kind)) + "/" + p.name] += base::fingerprint(
                    data + (from - block_first) * size, to - from, static_cast<int>(size), static_cast<std::uint64_t>(from - shift - p.offset));
            }
          start += unit.piece;
        }
        if (watch) watch(done, all);
      }
    }
  if (damaged > 0) {
    const auto message = fmt::format("{}{}", fmt::join(damages, "\n"), damaged > 8 ? fmt::format("\nand {} more blocks", damaged - 8) : "");
    if (unreadable == damaged) throw base::Unreadable(message, hint);
    throw base::InputError(message, hint);
  }
  for (const auto& t : tensors())
    if (fingerprints[t.path] != t.fingerprint)
      throw base::InputError(fmt::format("{}: {} has fingerprint {}, expected {}", path_, t.path, hex64(fingerprints[t.path]), hex64(t.fingerprint)),
                             "the manifest does not belong to these files: restore both from one copy");
}

}  // namespace trainyard::checkpoint
