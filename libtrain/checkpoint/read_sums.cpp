// Sums fingerprints of what was read, in the stored dtype: widened values have their bits of before again.
#include "libtrain/checkpoint/read_sums.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/thread.h"
#include "libtrain/plan/blocks/held.h"
#include "libtrain/plan/blocks/ownership.h"

#include <algorithm>
#include <array>

namespace trainyard::checkpoint {

namespace {

std::uint64_t fingerprint_of(const float* values, std::int64_t count, base::DType dtype, std::int64_t first) {
  if (dtype == base::DType::f32)
    return base::fingerprint(values, count, sizeof(float), static_cast<std::uint64_t>(first));
  std::array<std::uint16_t, 4096> stored;
  std::uint64_t sum = 0;
  for (std::int64_t done = 0; done < count;) {
    const auto n = std::min(count - done, static_cast<std::int64_t>(stored.size()));
    base::with_value_type(dtype, [&]<class T>(T*) {
      if constexpr (requires { T::widened_from(0.0f); })
        std::transform(values + done, values + done + n, stored.begin(), T::widened_from);
      else TRAINYARD_ASSERT(false, "fingerprints of widened {}", base::name_of(dtype));
    });
    sum += base::fingerprint(stored.data(), n, sizeof stored[0], static_cast<std::uint64_t>(first + done));
    done += n;
  }
  return sum;
}

}  // namespace

ReadSums::ReadSums(const Reader& reader, int threads)
    : reader_(reader), threads_(threads), tensors_(reader.tensors()), sums_(tensors_.size()), trained_before_{0} {
  for (const auto& p : reader.manifest().parameters)
    trained_before_.push_back(trained_before_.back() + (p.frozen ? 0 : 1));
}

// Index into tensors_, which are ordered by kind, then by parameter. Frozen parameters have a model alone.
std::size_t ReadSums::place_of(const Kind& kind, const std::string& name) const {
  const auto& parameters = reader_.manifest().parameters;
  const auto number = reader_.number_of(name);
  const auto stored =
      kind == Kind::master ? (parameters[number].frozen ? Kind::model : exact_weights(reader_.state())) : kind;
  const auto kinds = kinds_of(reader_.state());
  const auto k = base::size(std::find(kinds.begin(), kinds.end(), stored) - kinds.begin());
  if (k == 0) return number;
  return parameters.size() + (k - 1) * trained_before_.back() + trained_before_[number];
}

void ReadSums::add(const Kind& kind, const plan::FlatGroup& flat_group, const plan::Topology& topology, int rank,
                   const float* shard) {
  add(kind, {flat_group, topology, rank, 0, plan::layout(flat_group, topology).shard}, shard);
}

void ReadSums::add(const Kind& kind, const PartOfShard& part, const float* part_values) {
  TRAINYARD_ASSERT(shape_of(kind, reader_.state().optimizer) == StateShape::parameter, "{} has no shards",
                   path_of(kind));
  const auto layout = plan::layout(part.flat_group, part.topology);
  const auto begin = plan::place_in_group(part.topology, part.rank, part.flat_group.group) * layout.shard;
  std::vector<Part> parts;
  for (const auto& counted : plan::counted_ranges(part.flat_group, layout, part.topology, part.rank)) {
    const auto from = std::max(counted.begin, part.first), to = std::min(counted.end, part.first + part.count);
    if (from >= to) continue;
    for (const auto& held : plan::held_ranges(layout, begin + from, begin + to)) {
      const auto& p = part.flat_group.parameters[held.parameter];
      const auto sum = place_of(kind, p.name);
      const auto* values = part_values + (from - part.first) + held.at;
      plan::for_each_held_run(p, plan::held_part(p, part.topology, part.rank), held.first, held.count,
                              [&](const plan::HeldRun& run) {
                                parts.push_back({sum, values + (run.held - held.first), run.logical, run.count});
                              });
    }
  }
  add(parts);
}

void ReadSums::add(const Kind& kind, const std::string& name, std::int64_t first, std::int64_t count,
                   const float* values) {
  add({{place_of(kind, name), values, first, count}});
}

void ReadSums::add(const std::vector<Part>& given) {
  constexpr std::int64_t part_elements = std::int64_t{1} << 18,
                         share_elements = std::int64_t{1} << 20;  // for each thread; takes longer than starting it
  std::vector<Part> parts;
  for (auto part : given)
    for (; part.count > 0; part.first += part_elements, part.values += part_elements, part.count -= part_elements)
      parts.push_back({part.sum, part.values, part.first, std::min(part.count, part_elements)});
  std::int64_t all = 0;
  for (const auto& part : parts) all += part.count;
  const auto shares = static_cast<int>(std::clamp<std::int64_t>(all / share_elements, 1, std::max(threads_, 1)));
  std::vector<std::uint64_t> found(parts.size());
  base::run_shares("fingerprints", shares, [&](int share) {
    const auto begin = all * share / shares, end = all * (share + 1) / shares;
    std::int64_t at = 0;
    for (std::size_t i = 0; i < parts.size(); at += parts[i++].count)
      if (at >= begin && at < end)
        found[i] = fingerprint_of(parts[i].values, parts[i].count, tensors_[parts[i].sum].dtype, parts[i].first);
  });
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sums_[parts[i].sum].fingerprint += found[i];
    sums_[parts[i].sum].elements += static_cast<std::uint64_t>(parts[i].count);
  }
}

void ReadSums::add(const ReadSums& other) {
  TRAINYARD_ASSERT(sums_.size() == other.sums_.size(), "{} and {} tensors", sums_.size(), other.sums_.size());
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    sums_[i].fingerprint += other.sums_[i].fingerprint;
    sums_[i].elements += other.sums_[i].elements;
  }
}

void ReadSums::add_ranks(comm::Communicator& control, tensor::Exec& exec) {
  static_assert(sizeof(Sum) == 2 * sizeof(std::uint64_t));
  if (control.size() == 1 || sums_.empty()) return;
  control.all_reduce(exec, base::View(sums_.data(), base::DType::u64, {2 * static_cast<std::int64_t>(sums_.size())}),
                     comm::Reduction::sum);
  exec.synchronize();
}

void ReadSums::require() const {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto& [fingerprint, elements] = sums_[i];
    const auto& of_kind = reader_.tensors_of(tensors_[i].kind);
    const auto count = static_cast<std::uint64_t>(of_kind[reader_.number_of(tensors_[i].name)].count);
    if (elements == 0 || elements % count != 0) continue;
    if (const auto expected = elements / count * tensors_[i].fingerprint; fingerprint != expected)
      throw base::InputError(fmt::format("{}: {} was read with fingerprint {}, expected {}", reader_.path(),
                                         tensors_[i].path, hex64(fingerprint), hex64(expected)),
                             "every checksum is right, so memory failed when it was written, or the manifest belongs "
                             "to other files: take another checkpoint (inspect --verify checks this one)");
  }
}

}  // namespace trainyard::checkpoint
