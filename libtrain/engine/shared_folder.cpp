// What rank 0 has written, and what it has read, as the others see it.
#include "libtrain/engine/shared_folder.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/engine/agreement.h"

#include <filesystem>
#include <thread>

namespace trainyard::engine {

namespace {

constexpr double patience_seconds = 20;  // within which a client of a file server asks again

// The folder is listed first: a client that remembers that a name was not there looks again in a folder that changed.
bool sees_holder(const std::string& output, const std::string& holder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(output, error), end; !error && it != end; it.increment(error)) {}
  return base::FolderLock::look(output).name == holder;
}

std::string seal_of(const std::string& path) {
  try {
    const auto text = checkpoint::manifest_text(path);
    return fmt::format("{:08x} {}", base::crc32c(text.data(), text.size()), text.size());
  } catch (const base::Error& e) {
    throw base::EnvironmentError(
        fmt::format("on {} the checkpoint that rank 0 has chosen cannot be read: {}", base::host_name(), e.what()),
        "is the folder shared, and mounted on every machine?");
  }
}

}  // namespace

void require_shared_output(const std::string& output, const HeldOutput& held, World& world, tensor::Exec& exec) {
  if (world.size == 1) return;
  const auto holder = on_rank_zero(
      world, exec, [&] { return held.folder->lock().is_held() ? held.folder->lock().name() : std::string(); });
  if (holder.empty()) return;
  on_every_rank(world, exec, [&] {
    const double until = base::steady_seconds() + patience_seconds;
    while (!sees_holder(output, holder)) {
      if (base::steady_seconds() > until)
        throw base::EnvironmentError(
            fmt::format("on {} {} is another folder than rank 0's: its lock is not there", base::host_name(), output),
            "--output must be a folder that all machines share");
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
}

void require_same_checkpoint(const std::string& path, World& world, tensor::Exec& exec) {
  if (world.size == 1 || path.empty()) return;
  const auto expected = on_rank_zero(world, exec, [&] { return seal_of(path); });
  on_every_rank(world, exec, [&] {
    if (world.rank != 0 && seal_of(path) != expected)
      throw base::InputError(fmt::format("on {} {} is another checkpoint than rank 0's", base::host_name(), path),
                             "is the folder shared by all machines?");
  });
}

}  // namespace trainyard::engine
