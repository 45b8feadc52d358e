// Reads checkpoints back, newest first.
#include "libtrain/engine/good_checkpoint.h"

#include "libtrain/base/system_error.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/removed.h"

#include <cmath>
#include <optional>

namespace trainyard::engine {

namespace {

// Empty if every byte is right and every tensor is finite. The fingerprints tie the bytes that were read to the norms
// that were computed of them. nullopt for a checkpoint of more than `most_bytes`, which is not read.
std::optional<std::string> fault_of(const std::string& path, std::int64_t most_bytes) {
  checkpoint::Reader reader(path);
  if (reader.bytes() > most_bytes) return {};
  reader.verify_all();
  for (const auto& t : reader.tensors())
    if (!std::isfinite(t.norm)) return fmt::format("{} holds values that are not finite", t.path);
  return "";
}

}  // namespace

std::string good_checkpoint_sentence(const std::string& folder, std::int64_t newest_step, std::int64_t most_bytes) {
  std::string faults;
  try {
    for (const auto& found : checkpoint::list(folder)) {
      if (found.step > newest_step) continue;
      try {
        const auto fault = checkpoint::reading(
            {found.path}, [&] { return fault_of(found.path, most_bytes); }, checkpoint::Seen::listed);
        if (!fault)
          return fmt::format("{}the checkpoint of step {} was saved, inspect --verify {} says whether it is good",
                             faults, found.step, found.path);
        if (fault->empty())
          return fmt::format("{}the checkpoint of step {} was read back and is good", faults, found.step);
        faults += fmt::format("the checkpoint of step {} cannot be used ({}); ", found.step, *fault);
      } catch (const checkpoint::Removed&) {  // the run has saved another one since and removed this one
      } catch (const base::Unreadable& e) {
        faults += fmt::format("the checkpoint of step {} cannot be read ({}); ", found.step, e.what());
      } catch (const base::Error& e) {
        faults += fmt::format("the checkpoint of step {} is damaged ({}); ", found.step, e.what());
      }
    }
  } catch (const std::exception& e) {
    faults += fmt::format("{} cannot be looked at ({}); ", folder, e.what());
  }
  return faults + "there is no good checkpoint";
}

}  // namespace trainyard::engine
