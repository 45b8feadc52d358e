// Masters in f32, or joined from working copies and remainders where they are read and split where they are written.
#include "libtrain/params/masters.h"

#include "kernels/cast/cast.h"
#include "libtrain/base/aligned.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>

namespace trainyard::params {

namespace {

constexpr std::int64_t marks_of_byte = 8;

}  // namespace

void Masters::allocate(int u) {
  const auto& layout = c_.layout(u);
  const auto count = whole() ? layout.padded : layout.shard;
  auto& arena = c_.arenas.optimizer;
  if (is_narrow_and_frozen(u)) {
    if (beside_working()) f32_.emplace_back();
    else remainders_.emplace_back();
    return;
  }
  if (beside_working())
    f32_.push_back(c_.is_offloaded(u, plan::Held::master) ? base::View{} : arena.allocate(base::DType::f32, {count}));
  if (are_f32()) return;
  TRAINYARD_ASSERT(c_.shape.working == base::DType::bf16, "a remainder beside weights in {}",
                   base::name_of(c_.shape.working));
  auto& remainder = remainders_.emplace_back();
  remainder.low = arena.allocate(base::DType::u16, {count});
  remainder.marks = arena.allocate(base::DType::u8, {kernels::bytes_of_marks(count)});
}

void Masters::place(int u, kernels::Range range, base::View working, UpdatedRange& updated) const {
  if (base::is_narrow(c_.shape.working)) updated.working = working;
  else updated.parameter = working;
  if (beside_working()) updated.parameter = flat_range(base::at(f32_, u), range.first, range.end - range.first);
  else if (!are_f32()) updated.remainder = base::at(remainders_, u).from(range.first);
}

base::View Masters::shard(int u) const {
  TRAINYARD_ASSERT(are_f32(), "a shard of masters that are kept as remainders");
  if (!beside_working()) return weights_.own_shard(u);
  const auto all = base::at(f32_, u);
  return all ? flat_range(all, own_begin(u), c_.layout(u).shard) : all;
}

// On the host the other memory is f32 itself.
template <class Body>
void Masters::over_scratch(int u, std::int64_t first, std::int64_t count, const Body& body) const {
  const auto own = weights_.own_shard(u);
  const auto remainder = base::at(remainders_, u).from(own_begin(u) + first);
  if (!c_.compute.on_gpu()) return body(0, flat_range(own, first, count), remainder, base::View{});
  constexpr std::int64_t most = 1 << 20;
  auto& arena = c_.compute.scratch();
  const auto fits = (arena.capacity_bytes() - arena.used_bytes()) / base::alignment_bytes * 16;  // of 4 bytes
  const auto at_once = std::min({most, count, fits});
  TRAINYARD_ASSERT(at_once > 0 || count == 0, "no scratch for {} masters", count);
  const tensor::ArenaScope scope(arena);
  const auto scratch = count > 0 ? arena.allocate(base::DType::f32, {at_once}) : base::View{};
  for (std::int64_t at = 0; at < count; at += at_once) {
    const auto n = std::min(at_once, count - at);
    body(at, flat_range(own, first + at, n), remainder.from(at), flat_range(scratch, 0, n));
  }
}

void Masters::read(int u, std::int64_t first, base::View to) const {
  if (is_narrow_and_frozen(u)) {
    std::vector<std::byte> narrow(base::size(to.count() * base::size_of(c_.shape.working)));
    std::vector<float> wide(base::size(to.count()));
    tensor::copy(c_.compute, flat_range(weights_.own_shard(u), first, to.count()),
                 {narrow.data(), c_.shape.working, {to.count()}});
    c_.compute.synchronize();
    base::to_f32(c_.shape.working, narrow.data(), to.count(), wide.data());
    tensor::copy(c_.compute, base::View::of(wide.data(), {to.count()}), to);
    return c_.compute.synchronize();
  }
  if (are_f32()) return tensor::copy(c_.compute, flat_range(shard(u), first, to.count()), to);
  over_scratch(u, first, to.count(),
               [&](std::int64_t at, base::View working, const kernels::Remainder& remainder, base::View scratch) {
                 kernels::join_master(c_.compute, working, remainder, scratch ? scratch : to);
                 if (scratch) tensor::copy(c_.compute, scratch, flat_range(to, at, scratch.count()));
               });
}

void Masters::write(int u, std::int64_t first, base::ConstView from) {
  if (is_narrow_and_frozen(u)) {  // `from` is on the host
    std::vector<std::byte> narrow(base::size(from.count() * base::size_of(c_.shape.working)));
    base::from_f32(c_.shape.working, from.ptr<float>(), from.count(), narrow.data());
    tensor::copy(c_.compute, base::View(narrow.data(), c_.shape.working, {from.count()}),
                 flat_range(weights_.own_shard(u), first, from.count()));
    return c_.compute.synchronize();
  }
  if (are_f32()) return tensor::copy(c_.compute, from, flat_range(shard(u), first, from.count()));
  over_scratch(u, first, from.count(),
               [&](std::int64_t at, base::View working, const kernels::Remainder& remainder, base::View scratch) {
                 if (scratch) tensor::copy(c_.compute, from.elements(at, scratch.count()), scratch);
                 kernels::split_master(c_.compute, scratch ? base::ConstView(scratch) : from, working, remainder);
               });
}

void Masters::make_working_copies(int u) {
  if (beside_working() && !c_.is_frozen(u)) kernels::cast(c_.compute, shard(u), weights_.own_shard(u));
}

void Masters::gather(int u) {
  if (is_narrow_and_frozen(u)) return;
  auto& group = c_.group(u);
  if (beside_working()) group.all_gather(c_.communication, shard(u), base::at(f32_, u));
  if (are_f32()) return;
  const auto& all = base::at(remainders_, u);
  const auto begin = own_begin(u), count = c_.layout(u).shard;
  group.all_gather(c_.communication, flat_range(all.low, begin, count), all.low);
  group.all_gather(c_.communication, flat_range(all.marks, begin / marks_of_byte, count / marks_of_byte), all.marks);
}

}  // namespace trainyard::params
