// The queues of messages, and the pairs of ranks that they connect.
#include "libtrain/comm/neighbours.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/segments.h"
#include "libtrain/tensor/device_buffer.h"
#include "libtrain/tensor/gpu.h"

#include <algorithm>
#include <utility>

namespace trainyard::comm {

namespace {

using Views = NeighboursOptions::Views;
using Way = Transfer::Kind;

// The boundary between stage `from` and the next one. Boundaries of one colour have no stage in common, so a rank is at
// one boundary of each colour at most. They are made together, and watched together.
struct Boundary {
  int from, to, colour;
};

std::vector<Boundary> boundaries(int stages, NeighboursOptions::Ends ends) {
  std::vector<Boundary> all;
  const int count = stages == 1 ? 0 : ends == NeighboursOptions::Ends::ring ? stages : stages - 1;
  for (int s = 0; s < count; ++s)
    // An odd ring needs a third colour.
    all.push_back({s, (s + 1) % stages, s == stages - 1 && stages % 2 == 1 ? 2 : s % 2});
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.colour < b.colour; });
  return all;
}

}  // namespace

struct Neighbours::Queue {
  Queue(std::unique_ptr<Communicator> made, const char* message_, Way way_, const NeighboursOptions& options)
      : message(message_), way(way_), pair(std::move(made)) {
    TRAINYARD_ASSERT(pair->size() == 2, "{} ranks at a boundary", pair->size());
    if (options.views == Views::device) {
      exec = tensor::Exec::gpu(options.device, nullptr);
      connect(options.device);
      return;
    }
    if (options.views == Views::staged) stream = tensor::Exec::gpu(options.device, nullptr);
    exec = tensor::Exec::worker(std::string(message) + (way == Way::send ? " out" : " in"), nullptr);
    if (stream) exec->run([device = options.device] { tensor::gpu_info(device); });  // sets the thread's device
  }

  tensor::Event post(base::View view, const tensor::Event& after) {
    TRAINYARD_ASSERT(view.dense(), "{} rows of {} with pitch {}", view.rows(), view.cols(), view.pitch);
    const Transfer transfer{way, 1 - pair->rank(), view};
    if (stream) {
      exec->run([this, transfer, after] {
        stream->wait(after);
        exchange_as(*pair, *stream, message, {&transfer, 1});
        stream->synchronize();
      });
    } else {
      exec->wait(after);
      exchange_as(*pair, *exec, message, {&transfer, 1});
    }
    return exec->record();
  }

  // NCCL connects two ranks when they first exchange something, and the host then waits for the peer. Later such waits
  // might form a circle of stages; here all ranks have one order.
  void connect(int device) {
    const tensor::DeviceBuffer word(device, 64, "reserving a word");
    post(base::View(word.data(), base::DType::u8, {64}, exec->device()), {});
    exec->synchronize();
    pair->ledger().reset();
  }

  const char* message;
  Way way;
  std::unique_ptr<Communicator> pair;
  std::unique_ptr<tensor::Exec> stream;  // the stream of the queue's thread; staged only
  std::unique_ptr<tensor::Exec> exec;    // destroyed first: a worker then finishes its work
};

Neighbours::Neighbours(const GroupFactory& between, const plan::Topology& topology, int rank,
                       NeighboursOptions options) {
  using plan::Axis;
  const auto stage_of = [&](int r) { return topology.coordinate(r, Axis::pipe); };
  const auto all = boundaries(topology.size(Axis::pipe), options.ends);
  if (all.empty()) return;

  // The rank that differs from r only in its stage, which is `stage`.
  const auto at_stage = [&](int r, int stage) {
    std::vector<std::pair<Axis, int>> place;
    for (const auto& a : topology.axes())
      place.emplace_back(a.axis, a.axis == Axis::pipe ? stage : topology.coordinate(r, a.axis));
    return topology.rank_of(place);
  };
  const auto make = [&](const Boundary& b, const char* message, int from, int to) -> Queue* {
    if (stage_of(rank) != from && stage_of(rank) != to) return nullptr;
    const int a = at_stage(rank, from), z = at_stage(rank, to);
    queues_.push_back(std::make_unique<Queue>(
        between(fmt::format("pipe {} {} {}", message, b.from, b.to), {std::min(a, z), std::max(a, z)}), message,
        rank == a ? Way::send : Way::receive, options));
    return queues_.back().get();
  };
  const auto watch = [&](std::size_t entry, Queue* queue) {
    if (queue == nullptr) return;
    watched_[entry].ledger = &std::as_const(*queue->pair).ledger();
    watched_[entry].waited_for = [exec = queue->exec.get()] { return exec->waited_for(); };
  };

  const auto world = base::size(topology.world());
  watched_.resize(2 * base::size(all.back().colour + 1), {{"pipe", std::vector<int>(world, -1)}, nullptr, {}});
  for (const auto& b : all) {
    const auto entry = 2 * base::size(b.colour);
    for (int r = 0; r < topology.world(); ++r) {
      if (stage_of(r) != b.from) continue;
      const int next = at_stage(r, b.to);
      for (const auto e : {entry, entry + 1})
        for (const int member : {r, next}) base::at(watched_[e].group.number_of, member) = r;
    }
    auto* const forward = make(b, "activations", b.from, b.to);
    auto* const back = make(b, "gradients", b.to, b.from);
    watch(entry, forward);
    watch(entry + 1, back);
    if (forward == nullptr) continue;
    (stage_of(rank) == b.from ? activations_out_ : activations_in_) = forward;
    (stage_of(rank) == b.from ? gradients_in_ : gradients_out_) = back;
  }
}

Neighbours::~Neighbours() = default;

tensor::Event Neighbours::send_activations(base::View view, const tensor::Event& ready) {
  TRAINYARD_ASSERT(activations_out_ != nullptr, "activations behind the last stage");
  return activations_out_->post(view, ready);
}

tensor::Event Neighbours::receive_activations(base::View view, const tensor::Event& free) {
  TRAINYARD_ASSERT(activations_in_ != nullptr, "activations from before the first stage");
  return activations_in_->post(view, free);
}

tensor::Event Neighbours::send_gradients(base::View view, const tensor::Event& ready) {
  TRAINYARD_ASSERT(gradients_out_ != nullptr, "gradients to before the first stage");
  return gradients_out_->post(view, ready);
}

tensor::Event Neighbours::receive_gradients(base::View view, const tensor::Event& free) {
  TRAINYARD_ASSERT(gradients_in_ != nullptr, "gradients from behind the last stage");
  return gradients_in_->post(view, free);
}

void Neighbours::reset_ledgers() {
  for (const auto& q : queues_) q->pair->ledger().reset();
}

std::vector<const Ledger*> Neighbours::ledgers() const {
  std::vector<const Ledger*> all;
  for (const auto& q : queues_) all.push_back(&std::as_const(*q->pair).ledger());
  return all;
}

}  // namespace trainyard::comm
