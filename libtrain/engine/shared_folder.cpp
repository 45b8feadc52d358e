// What rank 0 has written and read, compared with what the other ranks see.
#include "libtrain/engine/shared_folder.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/index.h"
#include "libtrain/base/log.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/comm/watchdog_report.h"
#include "libtrain/engine/agreement.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>
#include <unistd.h>

namespace trainyard::engine {

namespace {

constexpr double retry_seconds = 20;  // how long a client of a file server is asked again
constexpr const char* is_it_shared = "is the folder shared, and mounted on every machine?";

// A file that rank 0 writes for the other ranks to find. Programs ignore names with a dot in front.
class Mark {
 public:
  Mark(const std::string& folder, const std::string& text) : path_(path_in(folder)) { base::write_file(path_, text); }
  ~Mark() { ::unlink(path_.c_str()); }
  Mark(const Mark&) = delete;
  static std::string path_in(const std::string& folder) { return folder + "/.trainyard-shared"; }

 private:
  std::string path_;
};

// Lists the folder first: a client that remembers that a name was missing looks again in a folder that changed.
void list_anew(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {}
}

std::int64_t newest_step(const std::string& output) {
  const auto held = checkpoint::list(checkpoints_folder(output));
  return held.empty() ? -1 : held.front().step;
}

// What the other ranks shall look for.
nlohmann::json put_marks(const std::string& output, const HeldOutput& held, std::vector<std::unique_ptr<Mark>>& marks) {
  const auto folder = checkpoints_folder(output);
  std::error_code error;
  auto marked = nlohmann::json::array();
  for (const auto& in : {output, folder})
    if (in == output || std::filesystem::is_directory(folder, error)) try {
        marks.push_back(std::make_unique<Mark>(in, held.writer));
        marked.push_back(base::text_of_path(in));
      } catch (const base::Error& e) {
        base::log_debug("{} cannot be marked: {}", in, e.what());
      }
  const auto& lock = held.folder->lock();
  return {{"mark", held.writer},
          {"folders", marked},
          {"lock", lock.is_held() ? lock.name() : std::string()},
          {"newest", newest_step(output)}};
}

// What this rank does not see of what rank 0 has written, as the end of a sentence; "" if it sees everything.
std::string missed(const std::string& output, const nlohmann::json& reported) try {
  list_anew(output);
  for (const auto& in : reported["folders"]) {
    const auto folder = base::path_of_text(in.get<std::string>());
    list_anew(folder);
    const auto path = Mark::path_in(folder);
    if (base::file_size(path) < 0 || base::read_file(path, 4096) != reported["mark"].get<std::string>()) return folder;
  }
  if (reported["folders"].empty() && reported["lock"] != "" && base::FolderLock::look(output).name != reported["lock"])
    return output;
  if (const auto step = newest_step(output); step > reported["newest"].get<std::int64_t>())
    return fmt::format("{}, which has a checkpoint of step {},", checkpoints_folder(output), step);
  return {};
} catch (const base::Error&) {
  return output;
}

std::string seal_of(const std::string& path) {
  try {
    const auto text = checkpoint::manifest_text(path);
    return fmt::format("{:08x} {}", base::crc32c(text.data(), text.size()), text.size());
  } catch (const base::Error& e) {
    throw base::EnvironmentError(
        fmt::format("on {} the checkpoint that rank 0 has chosen cannot be read: {}", base::host_name(), e.what()),
        is_it_shared);
  }
}

// EnvironmentError if this machine cannot read the checkpoint: then nothing is known of its content.
bool is_whole(const std::string& path) {
  try {
    checkpoint::Reader(path).verify_all();
    return true;
  } catch (const base::Unreadable& e) {
    throw base::EnvironmentError(e.what(), e.hint());
  } catch (const base::InputError&) {
    return false;
  }
}

}  // namespace

void require_shared_output(const std::string& output, const HeldOutput& held, World& world, tensor::Exec& exec) {
  if (world.size == 1) return;
  std::vector<std::unique_ptr<Mark>> marks;
  const auto reported =
      nlohmann::json::parse(on_rank_zero(world, exec, [&] { return put_marks(output, held, marks).dump(); }));
  const double until = base::steady_seconds() + retry_seconds;
  auto other = missed(output, reported);
  for (; !other.empty() && base::steady_seconds() < until; other = missed(output, reported))
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const auto others = comm::texts_of_all(*world.control, exec, base::text_of_path(other));
  std::vector<int> ranks;
  for (int r = 0; r < world.size; ++r)
    if (!base::at(others, r).empty()) ranks.push_back(r);
  if (ranks.empty()) return;
  const auto hosts = comm::texts_of_all(*world.control, exec, base::host_name());
  throw comm::AgreedError(
      base::ExitCode::environment,
      fmt::format("for {} {} is another folder than rank 0's on {}", comm::names_of_ranks(ranks, hosts),
                  base::path_of_text(base::at(others, ranks.front())), hosts.front()),
      base::text("$output must be a folder that all machines share"));
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

void require_damaged_for_all(const std::vector<std::string>& paths, World& world, tensor::Exec& exec) {
  if (world.size == 1 || paths.empty()) return;
  const auto hosts = comm::texts_of_all(*world.control, exec, base::host_name());
  const auto elsewhere = std::find_if(hosts.begin(), hosts.end(), [&](const auto& h) { return h != hosts.front(); });
  const int second = elsewhere == hosts.end() ? world.size - 1 : static_cast<int>(elsewhere - hosts.begin());
  std::string whole;
  on_every_rank(world, exec, [&] {
    if (world.rank == 0 || world.rank == second)
      for (const auto& path : paths)
        if (whole.empty() && is_whole(path)) whole = path;
  });
  const auto found = comm::texts_of_all(*world.control, exec, base::text_of_path(whole));
  for (int r = 0; r < world.size; ++r)
    if (const auto& path = base::at(found, r); !path.empty())
      throw comm::AgreedError(
          base::ExitCode::environment,
          fmt::format("{} is whole for {} and damaged for another rank: it is not skipped", base::path_of_text(path),
                      comm::name_of_rank(r, hosts)),
          fmt::format("{} Else look at memory and disks of the machine that found damage", is_it_shared));
}

void throw_not_seen(const base::Error& e) {
  throw base::EnvironmentError(fmt::format("on {}: {}", base::host_name(), e.what()), is_it_shared);
}

}  // namespace trainyard::engine
