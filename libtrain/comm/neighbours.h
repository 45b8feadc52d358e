// Neighbours: messages between pipeline stages that follow one another.
#pragma once

#include "libtrain/comm/communicator.h"
#include "libtrain/comm/watchdog.h"
#include "libtrain/plan/topology.h"

#include <memory>
#include <string>
#include <vector>

namespace trainyard::comm {

struct NeighboursOptions {
  // ring: the last stage also sends activations to the first, which sends it gradients, as several chunks of layers on
  // a rank need. Two stages are then two boundaries, with queues of their own.
  enum class Ends { open, ring } ends = Ends::open;
  // What views are, and so what a queue runs on:
  //   host    host memory; a thread for each queue
  //   device  device memory, communicators that take GPU Execs and return at once (nccl.h); a stream for each queue
  //   staged  device memory, communicators that wait in every call (staged.h); a thread and a stream for each queue, so
  //           that the caller does not wait
  enum class Views { host, device, staged } views = Views::host;
  int device = 0;  // this rank's GPU; no meaning for host
};

// The stages are the ranks that differ along the axis of pipe alone, by their coordinate; activations go to the next
// stage, gradients to the previous one. A rank has up to four queues, activations and gradients, in and out. Messages
// of a queue arrive in the order in which they were called; no queue waits for another, for any other Exec or
// communicator, or for compute beyond the event that a call names. So a receive may be called long before its message
// is sent. A view is dense and lives from the call until the event that the call returns; from the event that it names
// until then nobody writes what is sent, and nobody touches what is received. A message has as many bytes at both ends:
// where that differs, threads throw CheckError at both; MPI and NCCL need not see it. Calls are made by one thread. An
// error of a queue comes out of every later event of it; PeerError where a peer is lost and that is noticed, else the
// watchdog ends the job.
//
// Each queue is a communicator of two ranks (exchange with one Transfer) and an Exec of its own. Its ledger enters
// "activations" or "gradients", and the bytes at the sender. A receive that waits takes no core (MPI:
// MpiRuntime::concurrent_factory), but over NCCL some units of the GPU; CUDA promises progress of streams beside
// one another only as long as their kernels fit on the device together, and NCCL's documentation says so of
// communicators.
class Neighbours {
 public:
  // Collective over all ranks of the topology, with the same options; `between` is asked for pairs of ranks, in one
  // order on every rank, by the calling thread. Communicators over NCCL also send one small message, as their first one
  // waits for the peer. With one stage there is nothing, in a ring neither.
  Neighbours(const GroupFactory& between, const plan::Topology& topology, int rank, NeighboursOptions options = {});
  // Waits for what was called, as worker Execs do; over NCCL, whose streams do not, the caller has waited. Sends
  // nothing of its own. After an error of this rank alone peers are told before (engine/world.h: World::fail), or this
  // may wait for ever.
  ~Neighbours();
  Neighbours(const Neighbours&) = delete;

  bool has_next() const { return activations_out_ != nullptr; }
  bool has_previous() const { return activations_in_ != nullptr; }

  // Begins when `ready` has happened. The event: the view may be written again.
  tensor::Event send_activations(base::View view, const tensor::Event& ready);  // to the next stage
  tensor::Event send_gradients(base::View view, const tensor::Event& ready);    // to the previous one
  // Begins when `free` has happened. The event: the message is there.
  tensor::Event receive_activations(base::View view, const tensor::Event& free);  // from the previous stage
  tensor::Event receive_gradients(base::View view, const tensor::Event& free);    // from the next one

  // Those of the queues that this rank has; they live as long as this.
  std::vector<const Ledger*> ledgers() const;
  void reset_ledgers();  // while nothing is under way
  // The same for the watchdog, by boundaries: two neighbours count the calls of their boundary in one entry, so there
  // are up to four entries, and six in a ring of an odd number of stages. Group "pipe". A receive that was called ahead
  // is no wait until somebody waits for its event (not known over NCCL, where all are).
  const std::vector<WatchedLedger>& watched() const { return watched_; }

 private:
  struct Queue;
  std::vector<std::unique_ptr<Queue>> queues_;
  std::vector<WatchedLedger> watched_;
  Queue *activations_in_ = nullptr, *activations_out_ = nullptr, *gradients_in_ = nullptr, *gradients_out_ = nullptr;
};

}  // namespace trainyard::comm
