// Neighbours: messages between neighbouring pipeline stages: activations to the next stage, gradients back.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/comm/watchdog.h"
#include "libtrain/plan/grid/topology.h"

#include <memory>
#include <string>
#include <vector>

namespace trainyard::comm {

struct NeighboursOptions {
  // ring: the last stage also sends activations to the first, and the first sends gradients to the last, as virtual
  // stages need. Two stages then have two boundaries, each with queues of its own.
  enum class Ends { open, ring } ends = Ends::open;
  // Where views lie, and so what a queue runs on:
  //  host    host memory; a thread for each queue
  //  device  device memory, communicators that take GPU Execs and return at once (nccl.h); a stream for each queue
  //  staged  device memory, communicators that wait in every call (staged.h); a thread and a stream for each queue, so
  //          that the caller does not wait
  enum class Views { host, device, staged } views = Views::host;
  int device = 0;  // this rank's GPU; ignored for host
};

// The pipeline stages are the ranks that differ in their coordinate along the axis pipe alone. Activations go to the
// next stage, gradients to the previous one. A rank has up to four queues: activations and gradients, in and out. One
// thread makes all calls.
//
// Messages of a queue arrive in the order of the calls. No queue waits for another queue, for any other Exec or
// communicator, or for compute beyond the event that a call names. So a receive may be called long before its message
// is sent.
//
// A view is dense and lives from the call until the event that the call returns. From the event that the call names
// until then, nobody writes a view that is sent or touches a view that is received. A message has the same number of
// bytes at both ends. If the sizes differ, threads throw CheckError at both ends; MPI and NCCL need not notice.
//
// After an error in a queue, every later event of that queue throws it. It is a PeerError where the loss of a peer is
// noticed; otherwise the watchdog ends the job.
//
// Each queue is a communicator of two ranks (exchange with one Transfer) and an Exec of its own. Its ledger enters
// "activations" or "gradients", and the bytes at the sender. A receive that waits takes no core (MPI:
// MpiRuntime::concurrent_factory), but over NCCL it takes some multiprocessors of the GPU. CUDA promises that streams
// progress beside one another only as long as their kernels fit on the device together. NCCL's documentation says the
// same of communicators.
class Neighbours {
 public:
  // Collective over all ranks of the topology, with the same options. The calling thread asks `between` for pairs of
  // ranks, in one order on every rank. Over NCCL each pair also sends one small message, because the first message of a
  // communicator waits for the peer. With one stage there are no queues, not in a ring either.
  Neighbours(const GroupFactory& between, const plan::Topology& topology, int rank, NeighboursOptions options = {});
  // Waits for the calls that were made, as worker Execs do. NCCL's streams do not, so there the caller must have
  // waited. Sends nothing of its own. After an error of this rank alone, the peers must learn of it first
  // (engine/world.h: World::fail); else this may wait for ever.
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;

  bool has_next() const { return activations_out_ != nullptr; }
  bool has_previous() const { return activations_in_ != nullptr; }

  // Begins when `ready` has happened. The returned event means that the view may be written again.
  tensor::Event send_activations(base::View view, const tensor::Event& ready);  // to the next stage
  tensor::Event send_gradients(base::View view, const tensor::Event& ready);    // to the previous one
  // Begins when `free` has happened. The returned event means that the message is in the view.
  tensor::Event receive_activations(base::View view, const tensor::Event& free);  // from the previous stage
  tensor::Event receive_gradients(base::View view, const tensor::Event& free);    // from the next one

  // The ledgers of this rank's queues; they live as long as this object.
  std::vector<const Ledger*> ledgers() const;
  void reset_ledgers();  // while nothing is under way
  // The same ledgers as the watchdog takes them, in groups named "pipe". Both stages at a boundary count its calls in
  // one entry. So there are up to four entries, and six in a ring of an odd number of stages. A receive that was called
  // ahead counts as waiting only once somebody waits for its event. Over NCCL that is not known, and every receive
  // counts.
  const std::vector<WatchedLedger>& watched() const { return watched_; }

 private:
  struct Queue;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<WatchedLedger> watched_;
  Queue *activations_in_ = nullptr, *activations_out_ = nullptr, *gradients_in_ = nullptr, *gradients_out_ = nullptr;
};

}  // namespace trainyard::comm
