// Low-rank adapters: parameters, scratch, collectives and work.
#include "libtrain/plan/blocks/adapter.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/blocks/crossings.h"
#include "libtrain/plan/blocks/products.h"
#include "libtrain/plan/blocks/scratch.h"
#include "libtrain/plan/spec/conditions.h"
#include "libtrain/plan/spec/widths.h"

#include <algorithm>
#include <cmath>

namespace trainyard::plan {

namespace {

constexpr std::string_view adapter_suffix = ".adapter";

// Outputs and inputs of a target, on a rank of `tensor`.
AdapterSite site_of(const ModelConfig& m, const AdapterTarget& target, int tensor) {
  const Widths w(m, tensor);
  if (target.name == "q") return {&target, w.q, m.hidden};
  if (target.name == "k" || target.name == "v") return {&target, w.kv, m.hidden};
  if (target.name == "o") return {&target, m.hidden, w.q};
  if (target.name == "down") return {&target, m.hidden, w.ffn};
  return {&target, w.ffn, m.hidden};
}

std::int64_t product_of_own_rows(const ModelConfig& m, const MicroShape& s, std::int64_t out, std::int64_t in) {
  return Products(m, s).product(s.own_rows(), out, in, Products::Result::working);
}

// The gradient of the input of `sites` with one input, through their A: a product with a part for each.
std::int64_t joint_input_gradient(const ModelConfig& m, const MicroShape& s, std::int64_t in, std::int64_t sites) {
  const bool narrow = base::is_narrow(s.dtype);
  if (s.device == base::DeviceKind::cuda)
    return gpu_lane_gemm_scratch_bytes(s.own_rows(), in, sites, 1, narrow, base::size_of(s.accumulation()));
  return lane_gemm_scratch_bytes(s.own_rows(), in, sites * m.adapter.rank, sites, 1, narrow);
}

}  // namespace

FlatGroup adapter_flat_group(const ModelConfig& m, const std::string& layer) {
  Declaration d(m, layer + std::string(adapter_suffix), Part::layers);
  const auto r = m.adapter.rank;
  for (const auto& target : adapter_targets) {
    if (!has_adapter_on(m, target.name)) continue;
    const auto [of, out, in] = site_of(m, target, 1);
    const auto name = [&](const char* which) { return std::string(target.layer) + which; };
    const Init first{Init::Kind::normal, 1 / std::sqrt(3.0 * static_cast<double>(in))};
    const auto inputs = target.divides_outputs ? std::optional<ShardedDim>() : ShardedDim{1, Axis::tensor},
               outputs = target.divides_outputs ? ShardedDim{0, Axis::tensor} : std::optional<ShardedDim>();
    d.parameter(name(".adapter_a"), {r, in}, first, Decay::yes, inputs);
    d.parameter(name(".adapter_b"), {out, r}, {Init::Kind::zeros, 0}, Decay::yes, outputs);
  }
  auto flat_group = d.take();
  for (auto& p : flat_group.parameters) p.update = {};
  return flat_group;
}

bool is_adapter(const FlatGroup& flat_group) { return flat_group.name.ends_with(adapter_suffix); }

std::vector<AdapterSite> adapter_sites(const ModelConfig& m, int tensor, std::string_view branch,
                                       bool divides_outputs) {
  std::vector<AdapterSite> out;
  for (const auto& target : adapter_targets)
    if (has_adapter_on(m, target.name) && target.layer.starts_with(branch) && target.divides_outputs == divides_outputs)
      out.push_back(site_of(m, target, tensor));
  return out;
}

const char* adapter_tensor(std::string_view target) {
  constexpr std::pair<std::string_view, const char*> names[] = {
      {"q", "adapter q"},       {"k", "adapter k"},   {"v", "adapter v"},      {"o", "adapter o"},
      {"gate", "adapter gate"}, {"up", "adapter up"}, {"down", "adapter down"}};
  for (const auto& [name, tensor] : names)
    if (name == target) return tensor;
  TRAINYARD_ASSERT(false, "an adapter on '{}'", target);
  return "";
}

void add_adapter_tensors(const ModelConfig& m, const MicroShape& s, std::string_view branch,
                         std::vector<SavedTensor>& to) {
  for (const bool divides_outputs : {true, false})
    for (const auto& site : adapter_sites(m, s.tensor, branch, divides_outputs))
      to.push_back(
          {adapter_tensor(site.target->name), s.dtype, divides_outputs ? s.rows() : s.own_rows(), m.adapter.rank});
}

std::int64_t adapter_forward_bytes(const ModelConfig& m, const MicroShape& s, std::string_view branch,
                                   bool divides_outputs) {
  const Products p(m, s);
  const auto r = m.adapter.rank;
  std::int64_t most = 0;
  for (const auto& site : adapter_sites(m, s.tensor, branch, divides_outputs))
    most = std::max({most, divides_outputs ? std::max(p.linear(r, site.in), p.rows(site.out) + p.linear(site.out, r))
                                           : std::max(p.shared_sum(r, {site.in}),
                                                      p.stream(site.out) + product_of_own_rows(m, s, site.out, r))});
  return most;
}

std::int64_t adapter_backward_bytes(const ModelConfig& m, const MicroShape& s, std::string_view branch,
                                    bool divides_outputs) {
  const Products p(m, s);
  const auto r = m.adapter.rank;
  const auto sites = adapter_sites(m, s.tensor, branch, divides_outputs);
  if (sites.empty()) return 0;
  std::int64_t most = 0;
  if (!divides_outputs) {
    for (const auto& site : sites)
      most = std::max({most, p.linear(r, site.out), p.gathered(r) + p.weight_gradient(site.out, r, false),
                       p.weight_gradient(r, site.in, false), p.rows(site.in) + p.linear(site.in, r)});
    return p.rows(r) + most;
  }
  const auto count = static_cast<std::int64_t>(sites.size());
  for (const auto& site : sites)
    most =
        std::max({most, p.partial(r) + p.lane_product(s.rows(), r, {site.out}),
                  p.gathered(r) + std::max(p.weight_gradient(site.out, r, false), p.weight_gradient(r, site.in, false)),
                  p.stream(site.in) + joint_input_gradient(m, s, site.in, count)});
  return count * p.stream(r) + most;
}

bool reads_input_in_backward(const ModelConfig& m, std::string_view branch) {
  return !has_adapter(m) || !adapter_sites(m, 1, branch, true).empty();
}

// A column-parallel site adds up the gradient of A x over ranks, and gathers its rows. A row-parallel site adds up A x,
// also when the layer runs again, and gathers its rows in backward.
std::vector<GroupCall> adapter_calls(const ModelConfig& m, const MicroShape& s, Pass pass, Recompute recompute,
                                     std::string_view branch) {
  Crossings calls(m, s);
  const auto r = m.adapter.rank;
  const bool train = pass == Pass::train;
  for (std::size_t i = 0; train && i < adapter_sites(m, s.tensor, branch, true).size(); ++i)
    calls.add_up(r).all_rows(r);
  for (std::size_t i = 0; i < adapter_sites(m, s.tensor, branch, false).size(); ++i) {
    calls.add_up(r);
    if (train && recompute == Recompute::layers) calls.add_up(r);
    if (train) calls.all_rows(r);
  }
  return calls.take();
}

double adapter_flops(const ModelConfig& m, std::string_view branch) {
  double flops = 0;
  for (const bool divides_outputs : {true, false})
    for (const auto& site : adapter_sites(m, 1, branch, divides_outputs))
      flops += 2 * static_cast<double>(m.adapter.rank) * static_cast<double>(site.out + site.in);
  return flops;
}

// Forward writes B (A x) and adds it to the output. Backward writes what goes through A and adds it to the gradient of
// the input.
void add_adapter_work(const ModelConfig& m, const MicroShape& s, std::string_view branch, BlockWork& to) {
  if (!has_adapter(m)) return;
  to.weights = {};
  const auto r = m.adapter.rank;
  const auto e = static_cast<double>(s.element_bytes());
  for (const bool divides_outputs : {true, false})
    for (const auto& site : adapter_sites(m, s.tensor, branch, divides_outputs)) {
      to.linear(s.rows(), r, site.in);
      to.linear(divides_outputs ? s.rows() : s.own_rows(), site.out, r);
      to.forward.bytes +=
          3 * e * static_cast<double>(divides_outputs ? s.rows() : s.own_rows()) * static_cast<double>(site.out);
      to.backward.bytes +=
          3 * e * static_cast<double>(divides_outputs ? s.own_rows() : s.rows()) * static_cast<double>(site.in);
    }
}

}  // namespace trainyard::plan
