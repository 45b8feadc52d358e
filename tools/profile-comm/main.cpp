// profile-comm: measures the links between ranks, and the ceilings of a rank itself, into a file for planners and
// acceptance tests.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/environment.h"
#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/owned.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/comm/gpu_share.h"
#include "libtrain/comm/mpi.h"
#include "libtrain/comm/nccl.h"
#include "libtrain/comm/staged.h"
#include "libtrain/comm/threads.h"
#include "libtrain/comm/watchdog.h"
#include "libtrain/plan/plan_json.h"
#include "libtrain/tensor/gpu.h"
#include "tools/common/launcher.h"
#include "tools/common/profile_text.h"
#include "tools/common/program.h"
#include "tools/common/progress.h"
#include "tools/common/svg_file.h"
#include "tools/profile-comm/measure.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <unistd.h>

namespace {

using namespace trainyard;
using tools::Launched;
using tools::ProfileOptions;

constexpr const char* examples =
    "  profile-comm --backend threads --ranks 2 --max-bytes 1MiB --factor 4 --budget 30s --output profile.json --plot "
    "profile.svg\n"
    "  profile-comm --from profile.json --chart\n"
    "  profile-comm --compare profile.json profile.json --max-regress 5%\n"
    "  profile-comm --local --model gpt2-micro --budget 2min\n"
    "  mpirun -n 2 profile-comm --operations all_reduce,all_gather --max-bytes 1MiB --factor 4 --budget 30s\n";

// Refuses output paths before anything is measured.
void refuse_places(const ProfileOptions& o) {
  std::vector<std::string> inputs{o.plan, o.from, o.model};
  inputs.insert(inputs.end(), o.compare.begin(), o.compare.end());
  if (!o.plot.empty()) tools::require_drawing_name("--plot", o.plot);
  for (const auto& path : {o.output, o.plot}) {
    if (path.empty() || path == "-") continue;
    std::error_code ignored;
    if (!o.force && std::filesystem::symlink_status(path, ignored).type() > std::filesystem::file_type::none)
      throw base::UsageError(fmt::format("{} exists", path), "--force replaces it");
    base::require_own(path, path == o.output ? base::own_json_files("a profile", "trainyard.profile/", inputs)
                                             : tools::own_drawings(inputs));
    if (const auto folder = base::parent_of(path); access(folder.c_str(), W_OK) != 0)
      throw base::EnvironmentError(fmt::format("{} cannot be written: {}: {}", path, folder, std::strerror(errno)),
                                   "is the folder there, and yours?");
  }
}

plan::Profile read_profile(const std::string& path) {
  if (path != "-") return plan::profile_from_json(base::read_file(path, base::largest_description), path);
  return plan::profile_from_json(std::string(std::istreambuf_iterator<char>(std::cin), {}), "standard input");
}

// Prints and writes a profile. Exit code 5 if a result was wrong.
base::ExitCode print_and_write(const plan::Profile& measured, const ProfileOptions& o) {
  const auto json = plan::to_json(measured);
  const auto p = plan::profile_from_json(json, "the profile");  // prints what is written, to the last digit
  if (!o.plot.empty() && p.communication.empty())
    throw base::UsageError("--plot: there are no links to draw", "measure with several ranks");
  std::exception_ptr failure;  // if the disk is full, the measurements are still printed
  try {
    if (!o.output.empty() && o.output != "-") base::write_file(o.output, json);
    if (!o.plot.empty()) tools::write_drawing(o.plot, tools::profile_svg(p), {});
  } catch (const base::EnvironmentError&) {
    failure = std::current_exception();
  }
  tools::print(o.json || o.output == "-" ? json
               : o.csv                   ? tools::profile_csv(p)
                       : base::printable(tools::profile_table(p, o.bytes ? base::Sizes::exact : base::Sizes::rounded)));
  if (o.chart)
    tools::print(base::printable(tools::profile_charts(p, tools::terminal_columns(), tools::glyphs_of_terminal())));
  if (failure) std::rethrow_exception(failure);
  std::int64_t wrong = 0;
  std::string where;
  for (const auto& s : p.communication)
    for (const auto& q : s.points)
      if (q.wrong > 0)
        wrong += q.wrong, where = fmt::format("{} {} of {} bytes on {}", s.operation, s.type, q.bytes, s.group);
  if (wrong > 0)
    throw base::CheckError(fmt::format("{} elements came back wrong, the last in {}", wrong, where),
                           "a link, a driver or a library corrupts data: do not train here");
  return base::ExitCode::done;
}

base::ExitCode compare(const ProfileOptions& o) {
  const auto comparison = plan::compare(read_profile(o.compare[0]), read_profile(o.compare[1]));
  tools::print(base::printable(tools::comparison_text(comparison, o.regress)));
  return plan::regressions(comparison, o.regress).empty() ? base::ExitCode::done : base::ExitCode::check_failed;
}

// Does one rank's part of the measurement. Returns the profile on rank 0.
std::optional<plan::Profile> take_part(Launched& launched, const ProfileOptions& o, comm::Ledger& rounds) {
  std::optional<tools::Progress> progress;
  tools::MeasureListener listener;
  listener.note = [](const std::string& line) { base::log_info("{}", line); };
  if (launched.ranks.rank == 0) {
    progress.emplace("profile-comm", tools::progress_mode(o.progress));
    listener.progress = [&](const std::string& text) { progress->show(text); };
  }
  if (!o.dry_run) return tools::measure(launched, o, listener, rounds);
  tools::print(tools::describe(launched, o));
  return std::nullopt;
}

// The world as one axis; the measured groups do not depend on it.
plan::Topology in_a_row(int ranks) { return plan::Topology({{plan::Axis::data, ranks}}); }

Launched one_process() {
  Launched l;
  l.ranks.kind = "none";
  return l;
}

// A rank that is a thread of this process.
Launched thread_rank(int rank, int size, comm::ThreadsWorld& world) {
  Launched l;
  l.ranks = profile::Ranks("threads", rank, in_a_row(size), world.factory(rank));
  l.ranks_on_node = size;
  l.ranks.exec = tensor::Exec::caller(nullptr, 1);
  l.ranks.between = [&world, rank](const std::string& name, const std::vector<int>& members) {
    return world.split(rank, "group " + name, members);
  };
  return l;
}

// Chooses GPUs if they are asked for, or if every rank of every node has its own and NCCL is available.
void choose_device(Launched& l, const ProfileOptions& o) {
  auto& ranks = l.ranks;
  const int gpus = tensor::gpu_available() ? tensor::gpu_module().runtime->device_count() : 0;
  const auto share = comm::gpu_share(*ranks.control, *ranks.caller, gpus > 0 ? ranks.local_rank % gpus : -1);
  std::vector<double> lacking{o.backend != "mpi" && (!share.one_each || !comm::nccl_available()) ? 1.0 : 0.0};
  profile::largest(ranks, lacking);
  const bool nccl =
      o.backend == "nccl" || (o.backend == "auto" && o.device != "cpu" && lacking[0] == 0 && ranks.size > 1);
  if (nccl) ranks.kind = "nccl";
  if (!nccl && o.device != "cuda" && !(ranks.size == 1 && o.device == "auto" && gpus > 0))
    return;  // one rank has no links, so it measures a GPU if there is one
  profile::on_all(ranks, [&] {
    l.device = {base::DeviceKind::cuda, ranks.local_rank % std::max(1, gpus)};
    tensor::gpu_info(l.device.index);
    if (nccl) l.library = "NCCL " + comm::nccl_version();
  });
}

Launched mpi_rank(comm::MpiRuntime& mpi) {
  Launched l;
  l.ranks = profile::Ranks("mpi", mpi.rank(), in_a_row(mpi.size()), mpi.factory());
  l.ranks.local_rank = tools::local_rank();
  l.library = comm::MpiRuntime::library();
  l.ranks_on_node = tools::ranks_on_node(mpi.size());
  return l;
}

// Chooses the device of the ranks, and their communicators.
void settle(Launched& l, comm::MpiRuntime& mpi, const ProfileOptions& o) {
  choose_device(l, o);
  const bool gpu = l.device.kind == base::DeviceKind::cuda;
  l.ranks.exec = gpu ? tensor::Exec::gpu(l.device.index, nullptr) : tensor::Exec::caller(nullptr, 1);
  l.ranks.between = [&mpi, nccl = l.ranks.kind == "nccl", gpu, device = l.device.index](
                        const std::string& name,
                        const std::vector<int>& members) -> std::unique_ptr<comm::Communicator> {
    auto part = mpi.split(name, members);
    if (nccl) return comm::make_nccl(name, device, *part);
    return gpu ? comm::staged(std::move(part)) : std::move(part);
  };
  if (mpi.size() == 1) l.ranks.kind = "none", l.library = "";
}

std::unique_ptr<comm::Watchdog> watch(comm::MpiRuntime& mpi, Launched& l, const ProfileOptions& o,
                                      const comm::Ledger& rounds) {
  comm::WatchdogOptions w;
  w.rank = l.ranks.rank, w.size = l.ranks.size;
  w.timeout_seconds = o.hang_timeout;
  w.on_hang = [&mpi](const std::string&, comm::Decided) {
    mpi.abort(static_cast<int>(base::ExitCode::peer_hung));
  };  // the deciding rank has reported it
  auto dog = std::make_unique<comm::Watchdog>(w, std::vector<comm::WatchedLedger>{{{"profile"}, &rounds}});
  dog->start(profile::from_all(l.ranks, dog->address()));
  return dog;
}

base::ExitCode measure_threads(const ProfileOptions& o) {
  std::optional<plan::Profile> profile;
  comm::run_ranks(o.ranks, [&](int rank, comm::ThreadsWorld& world) {
    auto launched = thread_rank(rank, o.ranks, world);
    comm::Ledger rounds;
    auto mine = take_part(launched, o, rounds);
    if (rank == 0) profile = std::move(mine);
  });
  return profile ? print_and_write(*profile, o) : base::ExitCode::done;
}

base::ExitCode measure_alone(const ProfileOptions& o) {
  auto launched = one_process();
  if (o.device == "cuda" || (o.device == "auto" && tensor::gpu_available())) {
    tensor::gpu_info(0);
    launched.device = {base::DeviceKind::cuda, 0};
  }
  launched.ranks.exec =
      launched.device.kind == base::DeviceKind::cuda ? tensor::Exec::gpu(0, nullptr) : tensor::Exec::caller(nullptr, 1);
  comm::Ledger rounds;
  const auto profile = take_part(launched, o, rounds);
  return profile ? print_and_write(*profile, o) : base::ExitCode::done;
}

enum class Purpose { measures, prints };  // a text, such as the help

// UsageError on every rank if some of them measure and others only print: these would not be there to be measured.
void require_same_purpose(Launched& launched, Purpose mine) {
  std::vector<double> there{mine == Purpose::measures ? 1.0 : 0.0, mine == Purpose::prints ? 1.0 : 0.0};
  profile::largest(launched.ranks, there);
  if (there[0] > 0 && there[1] > 0)
    profile::on_all(launched.ranks, [] {
      throw base::UsageError("some ranks were asked for --help, and others measure", "give all ranks the same flags");
    });
}

// Prints the text once for all ranks that were launched together.
int show(const std::string& text) {
  std::unique_ptr<comm::MpiRuntime> mpi;
  try {
    if (tools::tasks() > 1 && tools::launched()) mpi = std::make_unique<comm::MpiRuntime>();
  } catch (const base::EnvironmentError&) {
    // The ranks cannot find one another: each prints.
  }
  if (mpi) try {
      auto launched = mpi_rank(*mpi);
      require_same_purpose(launched, Purpose::prints);
    } catch (const profile::AgreedError& e) {
      return mpi->rank() == 0 ? tools::report("profile-comm", e) : static_cast<int>(e.code());
    }
  if (!mpi || mpi->rank() == 0) tools::print(text);
  return static_cast<int>(base::ExitCode::done);
}

base::ExitCode measure_mpi(ProfileOptions& o) {
  comm::MpiRuntime mpi;
  base::configure_log("profile-comm", mpi.rank(), base::LogLevel::info);
  const auto fail = [&](const std::exception& e) {
    const int code = tools::report("profile-comm", e);
    if (mpi.size() > 1) mpi.abort(code);
    return static_cast<base::ExitCode>(code);
  };
  try {
    auto launched = mpi_rank(mpi);
    require_same_purpose(launched, Purpose::measures);
    profile::on_all(launched.ranks, [&] {
      static_cast<void>(base::shared_memory_wanted());
      static_cast<void>(base::hopper_wanted());
      tools::resolve_texts(o);
      if (mpi.rank() == 0) refuse_places(o);
    });
    std::optional<plan::Profile> profile;
    comm::Ledger rounds;  // must outlive the watchdog
    settle(launched, mpi, o);
    {
      const auto dog = watch(mpi, launched, o, rounds);
      profile = take_part(launched, o, rounds);
    }
    auto code = base::ExitCode::done;
    profile::on_all(launched.ranks, [&] {
      if (profile) code = print_and_write(*profile, o);
    });
    return code;
  } catch (const profile::AgreedError& e) {
    return static_cast<base::ExitCode>(mpi.rank() == 0 ? tools::report("profile-comm", e) : static_cast<int>(e.code()));
  } catch (const std::exception& e) {
    return fail(e);
  }
}

base::ExitCode run(ProfileOptions& o) {
  const bool measures = o.compare.empty() && o.from.empty();
  if (measures && o.backend != "threads" && tools::launched()) return measure_mpi(o);
  tools::resolve_texts(o);
  if (!o.compare.empty()) return compare(o);
  refuse_places(o);
  if (!o.from.empty()) return print_and_write(read_profile(o.from), o);
  if (o.backend == "threads") return measure_threads(o);
  if (o.backend != "auto")
    throw base::UsageError(fmt::format("--backend {} needs ranks, and this is one process", o.backend),
                           "mpirun -n 2 profile-comm, or srun --mpi=pmix -n 4");
  return measure_alone(o);
}

}  // namespace

int main(int argc, char** argv) {
  ProfileOptions options;
  CLI::App app("", "profile-comm");
  tools::describe_program(
      app,
      "Measures collectives between ranks, and the ceilings of a rank itself, into a profile with fits and intervals.",
      examples, "partition-model, train, inspect; bench/README.md for how the columns are derived");
  tools::add_flags(app, options);
  const auto show_text = [](const std::string&, const std::string& text) { return show(text); };
  return tools::guarded(app, argc, argv, [&] { return run(options); }, {.refuse = {}, .show = show_text});
}
