// Bytes of a step divided by rates.
#include "libtrain/plan/offload_time.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/cost/flops.h"
#include "libtrain/plan/disk_use.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trainyard::plan {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

StorageRates rates_of(const Profile& profile, const std::string& shape) {
  StorageRates out;
  for (const auto& rate : profile.local) {
    if (rate.shape != shape) continue;
    if (rate.name == "storage.read") out.read = rate.value;
    if (rate.name == "storage.write") out.written = rate.value;
    if (rate.name == "storage.update") out.both = rate.value;
  }
  return out;
}

// FLOPs of a product in words such as "1024x2304x768 f32"; 0 if that is none of the dtype.
double product_flops(const std::string& shape, const std::string& dtype) {
  if (!shape.ends_with(" " + dtype)) return 0;
  double out = 2;
  for (std::size_t at = 0, end = 0; end < shape.size() && shape[end] != ' '; at = end + 1) {
    end = shape.find_first_of("x ", at);
    out *= static_cast<double>(base::parsed_number<std::int64_t>(shape.substr(at, end - at)).value_or(0));
  }
  return out;
}

struct Asked {
  const Plan& plan;
  const Profile* profile;
  MeasuredFolders measured;
  std::vector<OffloadFolder> folders;
  std::optional<double> flops_per_second;
  struct Copies {
    double down, up;  // bytes a second
  };
  std::optional<Copies> copies;  // of a GPU
};

std::optional<double> seconds_on_link(const Asked& asked, const LinkBytes& bytes) {
  if (!asked.copies) return {};
  return std::max(static_cast<double>(bytes.down) / asked.copies->down,
                  static_cast<double>(bytes.up) / asked.copies->up);
}

std::optional<Asked::Copies> copies_of(const Profile& profile) {
  Asked::Copies out{0, 0};
  for (const auto& rate : profile.local) {
    if (rate.name == "copy.from_device") out.down = rate.value;
    if (rate.name == "copy.to_device") out.up = rate.value;
  }
  return out.down > 0 && out.up > 0 ? std::optional(out) : std::nullopt;
}

std::int64_t sequences_of_accumulation_step(const Plan& p) {
  return p.micro_batch * p.local_accumulation * p.topology.size(Axis::data);
}

// Seconds of `step` bytes; the shares of folders do not depend on the step.
double seconds_in_folders(const OffloadTime& t, const Asked& asked, const base::StorageTotals& step) {
  double longest = 0, of_equal = 0;
  for (const auto& folder : t.folders) {
    const auto part = static_cast<double>(folder.space) / static_cast<double>(t.space);
    const auto of = [&](std::int64_t bytes, double share) { return std::llround(static_cast<double>(bytes) * share); };
    longest = std::max(longest, folder.rates.seconds({of(step.read, part), of(step.written, part)}));
    const double equal = 1.0 / static_cast<double>(t.folders.size());
    of_equal = std::max(of_equal, folder.rates.seconds({of(step.read, equal), of(step.written, equal)}));
  }
  if (t.folders.size() == 1 || !t.together || of_equal == 0) return longest;
  return longest * asked.measured.together->seconds(step) / of_equal;
}

void share_out(OffloadTime& t, const Asked& asked) {
  if (asked.folders.empty()) return;
  const auto space = folder_bytes(disk_extents(asked.plan, t.stage), asked.folders);
  for (std::size_t i = 0; i < space.size(); ++i) {
    const auto part = static_cast<double>(space[i]) / static_cast<double>(t.space);
    const auto of = [&](std::int64_t bytes) { return std::llround(static_cast<double>(bytes) * part); };
    t.folders.push_back(
        {.path = asked.folders[i].path, .space = space[i], .step = {of(t.step.read), of(t.step.written)}, .rates = {}});
    if (!asked.measured.folders.empty()) t.folders.back().rates = asked.measured.of(asked.folders[i].path);
  }
  t.together =
      asked.folders.size() == 1 || (asked.measured.together && asked.folders.size() == asked.measured.folders.size());
}

// Accumulation steps from which computing takes as long as what `seconds` of so many accumulation steps counts, which
// is affine from two of them on.
template <class Seconds> double hiding_steps_of(const Seconds& seconds, double compute_seconds_of_one) {
  if (seconds(1) <= compute_seconds_of_one) return 1;
  const double two = seconds(2), more = seconds(3) - two;
  return compute_seconds_of_one > more ? std::max(2.0, std::ceil((two - 2 * more) / (compute_seconds_of_one - more)))
                                       : never;
}

// Inputs of layers grow with the accumulation steps; states are the same breadth first, and depth first weights are
// read in each. Disks and link hide each by itself.
double hiding_steps(const OffloadTime& t, const Asked& asked, double compute_seconds_of_one) {
  const auto each = sequences_of_accumulation_step(asked.plan);
  const auto disk = [&](std::int64_t steps) {
    return t.space == 0 ? 0.0 : seconds_in_folders(t, asked, disk_of_step(asked.plan, t.stage, steps * each));
  };
  const auto link = [&](std::int64_t steps) {
    return seconds_on_link(asked, link_of_step(asked.plan, t.stage, steps * each)).value_or(0);
  };
  return std::max(hiding_steps_of(disk, compute_seconds_of_one), hiding_steps_of(link, compute_seconds_of_one));
}

OffloadTime of_stage(const Asked& asked, int stage) {
  const auto& p = asked.plan;
  OffloadTime t;
  t.stage = stage;
  t.space = disk_space(p, stage);
  t.step = disk_of_step(p, stage, p.global_batch);
  t.link = link_of_step(p, stage, p.global_batch);
  if (t.space == 0 && t.link == LinkBytes{}) return t;
  if (t.space > 0) share_out(t, asked);
  if (asked.profile == nullptr) return t;
  const auto nodes = std::max<std::int64_t>(1, std::ssize(asked.profile->nodes));
  t.ranks_on_node = static_cast<int>((asked.profile->ranks + nodes - 1) / nodes);
  if (t.space > 0 && !asked.measured.folders.empty()) t.disk_seconds = seconds_in_folders(t, asked, t.step);
  if (t.link != LinkBytes{}) t.link_seconds = seconds_on_link(asked, t.link);
  t.lacks_rates_of_folders = t.space > 0 && !t.disk_seconds;
  t.lacks_rates_of_copies = t.link != LinkBytes{} && !t.link_seconds;
  t.flops_per_second = asked.flops_per_second;
  if (!t.flops_per_second) return t;
  const auto part = p.part_of_stage(stage);
  const double ranks = p.topology.world() / p.pipeline;
  const auto computing = [&](std::int64_t sequences) {
    return step_flops(part, sequences, p.lengths(), p.recompute) / ranks / *t.flops_per_second;
  };
  t.compute_seconds = computing(p.global_batch);
  const auto each = sequences_of_accumulation_step(p);
  if (t.moving_seconds())
    if (const double steps = hiding_steps(t, asked, computing(each)); steps < 1e12)
      t.hiding_batch = static_cast<std::int64_t>(steps) * each;
  return t;
}

// By which the stage that hides its bytes latest is found.
double burden(const OffloadTime& t) {
  const auto moving = t.moving_seconds();
  if (moving && t.compute_seconds) return *moving / *t.compute_seconds;
  return moving.value_or(static_cast<double>(t.step.read + t.step.written + t.link.down + t.link.up));
}

}  // namespace

double StorageRates::seconds(const base::StorageTotals& bytes) const {
  const auto at_once = static_cast<double>(std::min(bytes.read, bytes.written));
  const auto reads = static_cast<double>(bytes.read) - at_once, writes = static_cast<double>(bytes.written) - at_once;
  return 2 * at_once / both + reads / read + writes / written;
}

const StorageRates& MeasuredFolders::of(const std::string& path) const {
  const auto found = std::find_if(folders.begin(), folders.end(),
                                  [&](const Folder& folder) { return plain_path(folder.path) == plain_path(path); });
  if (found != folders.end()) return found->rates;
  std::vector<std::string> names;
  for (const auto& folder : folders) names.push_back(base::one_line(folder.path));
  throw base::InputError(fmt::format("the profile has no rates of the folder {}, only of {}", base::one_line(path),
                                     fmt::join(names, ", ")),
                         "profile-comm --storage FOLDERS measures folders, with its other local ceilings");
}

MeasuredFolders measured_folders(const Profile& profile) {
  std::vector<std::string> shapes;
  for (const auto& rate : profile.local)
    if (rate.name == "storage.read")
      if (const auto rates = rates_of(profile, rate.shape); rates.written > 0 && rates.both > 0)
        shapes.push_back(rate.shape);
  MeasuredFolders out;
  if (shapes.size() > 2 && shapes.back() == fmt::format("{}", fmt::join(shapes.begin(), shapes.end() - 1, ", "))) {
    out.together = rates_of(profile, shapes.back());
    shapes.pop_back();
  }
  for (const auto& shape : shapes) out.folders.push_back({shape, rates_of(profile, shape)});
  return out;
}

std::optional<double> product_rate(const Profile& profile, base::DType dtype) {
  int threads = 0;
  for (const auto& rate : profile.local) threads = std::max(threads, rate.name.starts_with("gemm.") ? rate.threads : 0);
  double flops = 0, seconds = 0;
  for (const auto& rate : profile.local) {
    if (!rate.name.starts_with("gemm.") || rate.unit != "FLOP/s" || rate.threads != threads) continue;
    const auto of_product = product_flops(rate.shape, base::name_of(dtype));
    flops += of_product, seconds += of_product / rate.value;
  }
  return flops > 0 ? std::optional(flops / seconds) : std::nullopt;
}

std::optional<double> OffloadTime::moving_seconds() const {
  if ((space > 0 && !disk_seconds) || (link != LinkBytes{} && !link_seconds)) return {};
  return std::max(disk_seconds.value_or(0), link_seconds.value_or(0));
}

std::optional<double> OffloadTime::step_seconds() const {
  const auto moving = moving_seconds();
  if (!moving || !compute_seconds) return {};
  return std::max(*moving, *compute_seconds);
}

std::optional<double> OffloadTime::written_a_day(const Folder& folder) const {
  const auto seconds = step_seconds();
  if (!seconds) return {};
  constexpr double seconds_of_a_day = 24 * 60 * 60;
  return static_cast<double>(folder.step.written) * ranks_on_node * seconds_of_a_day / *seconds;
}

OffloadTime offload_time(const Plan& plan, const Profile* profile, const std::vector<OffloadFolder>& folders) {
  Asked asked{plan, profile, {}, folders, {}, {}};
  if (profile != nullptr) {
    asked.measured = measured_folders(*profile);
    asked.flops_per_second = product_rate(*profile, plan.dtype);
    asked.copies = copies_of(*profile);
  }
  if (asked.folders.empty())
    for (const auto& folder : asked.measured.folders) asked.folders.push_back({folder.path});
  OffloadTime worst;
  for (int stage = 0; stage < plan.pipeline; ++stage) {
    const auto moves = [](const OffloadTime& t) { return t.space > 0 || t.link != LinkBytes{}; };
    if (auto t = of_stage(asked, stage); !moves(worst) || (moves(t) && burden(t) > burden(worst))) worst = std::move(t);
  }
  return worst;
}

std::vector<OffloadFolder> folders_by_speed(const MeasuredFolders& measured) {
  std::vector<OffloadFolder> out;
  if (measured.folders.size() > 1)
    for (const auto& folder : measured.folders) out.push_back({folder.path, folder.rates.both});
  return out;
}

}  // namespace trainyard::plan
