// Predicts the least time that the ceilings take, before they are measured.
#include "libtrain/profile/ceilings.h"
#include "libtrain/profile/storage_work.h"

#include <algorithm>
#include <map>

namespace trainyard::profile {

namespace {

// Products and attention reach about this share of the tried arithmetic, which is in registers. On a busy machine they
// reach less, but then the trial is slow, too.
constexpr double product_share = 0.5, attention_share = 0.2, block_share = 0.25;
constexpr std::int64_t tried_bytes = std::int64_t{16} << 20, tried_disk_bytes = std::int64_t{4} << 20;

struct Rates {
  double made = 0, run = 0;  // `memory_bytes` a second in make(), and `amount` a second in run()
};

bool is_storage(const Ceiling& c) { return c.name.starts_with("storage."); }

// By name and threads: arithmetic.f32 and .bf16, memory.copy and disk.write; and storage.write by its folders. Each is
// made, run once cold, and run twice warm.
std::map<std::pair<std::string, int>, Rates> tried(CeilingOptions o, const Clock& clock, const std::string& suffix) {
  o.copied_bytes = tried_bytes;
  o.disk_bytes = std::min(o.disk_bytes, tried_disk_bytes);
  std::map<std::pair<std::string, int>, Rates> out;
  for (const auto& c : ceilings(o, suffix)) {
    if (!c.name.starts_with("arithmetic.") && c.name != "memory.copy" && !c.name.ends_with(".write")) continue;
    if (c.name == "memory.write") continue;
    const double begin = clock.now();
    const auto work = c.make();
    const double made = clock.now();
    work.run();
    const double cold = clock.now();
    double fastest = cold - made, before = cold;
    // The fastest of several runs: a disturbance of one must not be taken for the machine's speed.
    for (int again = 0; again < 2; ++again) {
      work.run();
      const double after = clock.now();
      fastest = std::min(fastest, after - before);
      before = after;
    }
    out[{is_storage(c) ? c.shape : c.name, c.threads}] = {c.memory_bytes / std::max(made - begin, 1e-9),
                                                          work.amount / std::max(fastest, 1e-9)};
  }
  return out;
}

std::vector<double> predicted(const CeilingOptions& o, const Clock& clock, const std::string& suffix) {
  auto rates = tried(o, clock, suffix);
  std::vector<double> out;
  for (const auto& c : ceilings(o, suffix)) {
    const bool disk = c.name.starts_with("disk."), product = c.name.starts_with("gemm."),
               attention = c.name.starts_with("attention."), block = c.name.starts_with("block.");
    const auto& memory = rates[{"memory.copy", c.threads}];
    const auto* arithmetic =
        product && c.shape.find("bf16") != std::string::npos ? "arithmetic.bf16" : "arithmetic.f32";
    const double rate = is_storage(c)     ? rates[{c.shape, 1}].run
                        : disk            ? rates[{"disk.write", 1}].run
                        : c.unit == "B/s" ? memory.run
                                          : rates[{arithmetic, c.threads}].run * (product     ? product_share
                                                                                  : attention ? attention_share
                                                                                  : block     ? block_share
                                                                                              : 1);
    const double run = c.amount / rate;
    out.push_back(c.memory_bytes / memory.made + run + std::max(run, ceiling_batch_seconds) * least_ceiling_repeats);
    if (block)  // made and warmed up in every turn
      out.back() =
          least_ceiling_repeats * (c.memory_bytes / memory.made + 2 * run + std::max(run, ceiling_batch_seconds));
    if (c.name == "disk.read" || (is_storage(c) && c.name != "storage.write"))
      out.back() += run;  // the file is written before
  }
  return out;
}

}  // namespace

std::vector<double> least_ceiling_seconds(Ranks& ranks, const CeilingOptions& options) {
  const auto suffix = fmt::format("{:05}", ranks.rank);
  std::vector<double> seconds;
  std::shared_ptr<void> space;  // of all ranks at once
  on_all(ranks, [&] { space = reserved_storage(options); });
  if (options.device.kind != base::DeviceKind::cpu) return std::vector<double>(ceilings(options, suffix).size(), 0);
  space.reset();
  on_all(ranks, [&] { seconds = predicted(options, *ranks.clock, suffix); });
  largest(ranks, seconds);
  return seconds;
}

}  // namespace trainyard::profile
