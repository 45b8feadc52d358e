// Measures clock offsets by round trips of messages.
#include "libtrain/comm/clock_offsets.h"

#include "libtrain/base/index.h"

#include <array>
#include <limits>

namespace trainyard::comm {

namespace {

// All ranks call it together; only rank 0 and `r` send something. On rank 0 the offset is the one of this round trip.
ClockOffset round_trip(Communicator& control, tensor::Exec& here, const base::Clock& clock, int r) {
  using Kind = Transfer::Kind;
  double word = 0;
  const auto view = base::View::of(&word, {1});
  const auto send = [&](int from, int to) {
    if (control.rank() == from) control.exchange(here, std::array{Transfer{Kind::send, to, view}});
    else if (control.rank() == to) control.exchange(here, std::array{Transfer{Kind::receive, from, view}});
    else control.exchange(here, {});
  };
  const double sent = clock.now();
  send(0, r);
  if (control.rank() == r) word = clock.now();
  send(r, 0);
  const double back = clock.now();
  return {word, word - (sent + back) / 2, (back - sent) / 2};
}

}  // namespace

std::vector<ClockOffset> clock_offsets(Communicator& control, tensor::Exec& exec, const base::Clock& clock,
                                       int rounds) {
  std::vector<ClockOffset> found(base::size(control.size()));
  exec.run([&] {  // on the thread that communicates: passing each call to it would take time that counts
    const auto here = tensor::Exec::caller(nullptr, 1);
    found[0].at = clock.now();
    for (int r = 1; r < control.size(); ++r) {
      auto& best = base::at(found, r);
      best.uncertainty = std::numeric_limits<double>::infinity();
      for (int k = 0; k < rounds; ++k)
        if (const auto trip = round_trip(control, *here, clock, r); trip.uncertainty < best.uncertainty) best = trip;
    }
    static_assert(sizeof(ClockOffset) == 3 * sizeof(double));
    control.broadcast(*here, base::View(found.data(), base::DType::f64, {3 * control.size()}), 0);
  });
  exec.synchronize();
  return found;
}

}  // namespace trainyard::comm
