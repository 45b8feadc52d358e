// Defines the flags, and parses their texts.
#include "tools/profile-comm/options.h"

#include "libtrain/base/byte_size.h"
#include "libtrain/base/dtype.h"
#include "libtrain/base/error.h"
#include "libtrain/base/nearest.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/parallel_layout.h"
#include "libtrain/profile/collective.h"
#include "tools/common/checks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

namespace trainyard::tools {

namespace {

std::vector<std::string> items(const std::string& list, const std::string& flag) {
  std::vector<std::string> out;
  std::istringstream in(list);
  for (std::string item; std::getline(in, item, ',');) {
    if (item.empty())
      throw base::UsageError(fmt::format("{} '{}' has an empty item", flag, list), "separate items by single commas");
    if (std::find(out.begin(), out.end(), item) != out.end())
      throw base::UsageError(fmt::format("{} names {} twice", flag, item), "name each once");
    out.push_back(item);
  }
  if (out.empty()) throw base::UsageError(fmt::format("{} is empty", flag), "leave it out for the default");
  return out;
}

double number_with(const std::string& text, const std::string& flag,
                   const std::vector<std::pair<std::string, double>>& units, const std::string& hint) {
  char* end = nullptr;
  const double v = std::strtod(text.c_str(), &end);
  for (const auto& [unit, factor] : units)
    if (end != text.c_str() && unit == end && std::isfinite(v) && v > 0) return v * factor;
  throw base::UsageError(fmt::format("{} '{}' is not understood", flag, text), hint);
}

double share(const std::string& text, const std::string& flag) {
  const double v = number_with(text, flag, {{"", 1}, {"%", 0.01}}, "write 3% or 0.03");
  if (v >= 1) throw base::UsageError(fmt::format("{} '{}' is not below 100 %", flag, text), "write 3% or 0.03");
  return v;
}

}  // namespace

void add_flags(CLI::App& app, ProfileOptions& o) {
  const auto links = "Links", sure = "How sure", local = "A rank itself", product = "Product", compare = "Compare";
  app.add_option("--backend", o.backend,
                 "mpi, nccl, threads (ranks inside this process), or auto: as launched, nccl with a GPU for each rank")
      ->check(one_of({"auto", "mpi", "nccl", "threads"}))
      ->capture_default_str()
      ->group(links);
  app.add_option("--ranks", o.ranks, "number of ranks of --backend threads")
      ->check(in_range(base::Range<int>{2, 1024}))
      ->group(links);
  app.add_option("--device", o.device,
                 "memory that is sent: cpu, cuda (mpi: through pinned host memory), or auto: what the backend uses")
      ->check(one_of({"auto", "cpu", "cuda"}))
      ->capture_default_str()
      ->group(links);
  app.add_option("--plan", o.plan, "plan.json: measure its groups and operations, and its model with --local")
      ->group(links);
  app.add_option("--groups", o.groups,
                 "NAME:SPEC;... with SPEC all, 0-7, 0,2,4, 0-3/4-7 (at once), block4 or stride8; default world:all")
      ->group(links);
  app.add_option("--operations", o.operations, "operations, separated by commas; default: the plan's, else all")
      ->group(links);
  app.add_option("--min-bytes", o.min_bytes, "smallest message")->capture_default_str()->group(links);
  app.add_option("--max-bytes", o.max_bytes, "largest message")->capture_default_str()->group(links);
  app.add_option("--factor", o.factor, "each size is this many times the size before")
      ->check(in_range(base::Range<int>{2, 1024}))
      ->capture_default_str()
      ->group(links);
  app.add_option("--dtype", o.dtypes, "f32, bf16, f16 or several; operations that only move bytes take the first")
      ->capture_default_str()
      ->group(links);
  app.add_option("--confidence", o.confidence, "stop at a size when its median is known to within this")
      ->capture_default_str()
      ->group(sure);
  app.add_option("--budget", o.budget,
                 "time for all of it: 90s, 5min; with --local a third of it, with --blocks two thirds, or more, for "
                 "the rank itself")
      ->capture_default_str()
      ->group(sure);
  app.add_option("--spread", o.spread,
                 "share of the budget over which repeats are spread, so that a disturbance of seconds shows; 0: none")
      ->capture_default_str()
      ->group(sure);
  app.add_flag("--local", o.local,
               "also measure a rank itself: memory, arithmetic, a model's products and attention, optimizer, disk")
      ->group(local);
  app.add_option("--model", o.model, "preset or TOML file whose shapes are measured")
      ->capture_default_str()
      ->group(local);
  app.add_option("--micro-batch", o.micro_batch, "sequences in a micro-batch")
      ->check(in_range(base::Range<std::int64_t>{1, 1 << 20}))
      ->capture_default_str()
      ->group(local);
  app.add_option("--vocabulary", o.vocabulary,
                 "tokens in the vocabulary; default: the model's, else as published for it")
      ->check(in_range(plan::ranges::vocabulary))
      ->group(local);
  app.add_option("--sequence", o.sequence, "tokens in a sequence; default: the model's context")
      ->check(in_range(plan::ranges::sequence))
      ->group(local);
  app.add_option(
         "--blocks", o.blocks,
         "also measure passes of the model's blocks, from which partition-model --machine predicts steps: auto, "
         "or lists such as 'micro-batch=1,2 tensor-parallel=1,2 expert-parallel=1'")
      ->group(local);
  app.add_option("--threads", o.threads, "threads of each rank; default: OMP_NUM_THREADS, else its share of the cores")
      ->check(in_range(plan::ranges::threads))
      ->group(local);
  app.add_option("--disk", o.disk,
                 "folder whose disk is measured; default: the folder of --output, else the working folder")
      ->group(local);
  app.add_option("--storage", o.storage,
                 "folders, separated by commas, whose disks may hold what memory does not: how fast each and all are "
                 "written, read, and both at once")
      ->group(local);
  app.add_option("--disk-bytes", o.disk_bytes,
                 "bytes that each rank writes to the disk, and to each of --storage; 0: the disk is not measured")
      ->capture_default_str()
      ->group(local);
  app.add_option("--output", o.output, "write the profile to this file")->group(product);
  app.add_flag("--force", o.force, "replace existing files")->group(product);
  app.add_flag("--json", o.json, "print the profile as JSON, not as a table")->group(product);
  app.add_flag("--bytes", o.bytes, "sizes in bytes, not rounded, in the table")->group(product);
  app.add_flag("--csv", o.csv, "print comma-separated values")->group(product);
  app.add_flag("--chart", o.chart, "print bandwidth over size as charts, after the table")->group(product);
  app.add_option(
         "--plot", o.plot,
         "draw bandwidth over size with fits and intervals into this file, as SVG; as PNG where its name ends in .png, "
         "which needs rsvg-convert")
      ->group(product);
  app.add_option("--from", o.from, "read this profile, - for stdin, and measure nothing")->group(product);
  app.add_flag("--dry-run", o.dry_run, "check everything, print what would be measured, and stop")->group(product);
  app.add_option("--progress", o.progress, "auto, always or never, on stderr")
      ->check(one_of({"auto", "always", "never"}))
      ->capture_default_str()
      ->group(product);
  app.add_option("--hang-timeout", o.hang_timeout, "seconds before a silent collective ends the job (exit 6)")
      ->check(in_range(base::Range<double>{1, 1e6}))
      ->capture_default_str()
      ->group(product);
  app.add_option("--compare", o.compare, "two profiles; exit 5 when NEW is slower")
      ->expected(2)
      ->type_name("BASE NEW")
      ->group(compare);
  app.add_option("--max-regress", o.max_regress,
                 "a regression is slower by more than this, and outside the confidence interval")
      ->capture_default_str()
      ->group(compare);
}

void resolve_texts(ProfileOptions& o) {
  auto& s = o.sweep;
  s.min_bytes = base::parse_bytes(o.min_bytes, "--min-bytes"),
  s.max_bytes = base::parse_bytes(o.max_bytes, "--max-bytes"), s.factor = o.factor;
  if (s.min_bytes < 1) throw base::UsageError("--min-bytes is 0", "begin with 8");
  if (s.max_bytes < s.min_bytes)
    throw base::UsageError(fmt::format("--max-bytes {} is below --min-bytes {}", o.max_bytes, o.min_bytes),
                           "exchange them");
  if (s.max_bytes > std::int64_t{1} << 36)
    throw base::UsageError(fmt::format("--max-bytes {} is more than 64 GiB", o.max_bytes),
                           "three buffers of this size are taken");
  s.operations = o.operations.empty() ? profile::operation_names() : items(o.operations, "--operations");
  for (const auto& name : s.operations)
    if (const auto& known = profile::operation_names(); std::find(known.begin(), known.end(), name) == known.end())
      throw base::UsageError(
          fmt::format("--operations: '{}' is not known", name),
          fmt::format("did you mean {}? There are {}", base::nearest(name, known), fmt::join(known, ", ")));
  s.dtypes.clear();
  for (const auto& word : items(o.dtypes, "--dtype")) {
    const auto ours = plan::dtype_spellings();
    const auto name = ours.contains(word) ? ours.at(word) : word;
    if (const auto known = base::names_of_working_dtypes(); std::find(known.begin(), known.end(), name) == known.end())
      throw base::UsageError(fmt::format("--dtype '{}' is not measured", name),
                             "f32, bf16, f16, or several, as f32,bf16");
    s.dtypes.push_back(base::dtype_from_name(name));
  }
  const bool narrow = std::all_of(s.dtypes.begin(), s.dtypes.end(), base::is_narrow);
  if (narrow && s.operations == std::vector<std::string>{"ordered_reduce_scatter"})
    throw base::UsageError("ordered_reduce_scatter adds f32 only", "--dtype f32");
  s.confidence = share(o.confidence, "--confidence");
  s.budget_seconds =
      number_with(o.budget, "--budget", {{"", 1}, {"s", 1}, {"min", 60}, {"h", 3600}}, "write 90s, 5min or 1h");
  s.spread = o.spread == "0" || o.spread == "0%" ? 0 : share(o.spread, "--spread");
  o.regress = share(o.max_regress, "--max-regress");
  const auto disk_bytes = base::parse_bytes(o.disk_bytes, "--disk-bytes");
  if (!o.storage.empty()) {
    o.storage_folders = items(o.storage, "--storage");
    if (disk_bytes == 0) throw base::UsageError("--storage with --disk-bytes 0 measures nothing", "--disk-bytes 1GiB");
  }
  if (!o.blocks.empty()) o.local = true;  // blocks are of a rank itself
  if (o.json && o.csv) throw base::UsageError("--json and --csv are both given", "stdout holds one of them");
  if (!o.plan.empty() && !o.groups.empty())
    throw base::UsageError("--plan and --groups are both given", "a plan names its own groups");
  if (o.backend == "threads" && o.device == "cuda")
    throw base::UsageError("the threads backend has no GPU", "--backend nccl, or mpi through host memory");
  if (o.backend == "nccl" && o.device == "cpu") throw base::UsageError("nccl sends memory of GPUs", "--device cuda");
  if (o.backend != "threads" && o.ranks != 0)
    throw base::UsageError("--ranks is for --backend threads",
                           "other backends are launched: mpirun -n 2 profile-comm, or srun --mpi=pmix -n 4");
  if (o.backend == "threads" && o.ranks == 0) o.ranks = 2;
}

std::string fingerprint(const ProfileOptions& o) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", o.backend, o.device, o.plan,
                     o.groups, fmt::join(o.sweep.operations, ","), o.sweep.min_bytes, o.sweep.max_bytes, o.sweep.factor,
                     o.dtypes, o.sweep.confidence, o.sweep.budget_seconds, o.sweep.spread, o.local, o.model,
                     o.micro_batch, o.sequence, o.disk_bytes, o.dry_run, o.storage, o.blocks, o.vocabulary);
}

}  // namespace trainyard::tools
