// The collectives of one rank: at most a copy.
#include "libtrain/comm/solo.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/comm/entry.h"

#include <cstring>
#include <utility>
#include <vector>

namespace trainyard::comm {

namespace {

class Solo : public Communicator {
 public:
  explicit Solo(std::string group) : Communicator(std::move(group), 0, 1) {}
  void all_reduce(tensor::Exec& exec, base::View, Reduction) override { note(exec, "all_reduce"); }
  void all_gather(tensor::Exec& exec, base::View in, base::View out) override {
    require_shards("all_gather", out, in);
    copy(exec, "all_gather", in, out);
  }
  void reduce_scatter(tensor::Exec& exec, base::View in, base::View out) override {
    require_shards("reduce_scatter", in, out);
    copy(exec, "reduce_scatter", in, out);
  }
  void all_to_all(tensor::Exec& exec, base::View send, std::span<const std::int64_t> send_counts, base::View receive,
                  std::span<const std::int64_t> receive_counts) override {
    require_counts(send_counts, receive_counts);
    TRAINYARD_ASSERT(send_counts[0] == receive_counts[0], "sends {}, receives {}", send_counts[0], receive_counts[0]);
    auto part = receive;
    part.dims = 1;
    part.shape = {send_counts[0], 0, 0, 0};
    copy(exec, "all_to_all", send, part);
  }
  void broadcast(tensor::Exec& exec, base::View, int root) override {
    require_rank("broadcast", root);
    note(exec, "broadcast");
  }
  void exchange(tensor::Exec& exec, std::span<const Transfer> transfers) override {
    require_peers(transfers);
    std::vector<base::View> sent, received;  // the n-th receive takes the n-th send
    for (const auto& t : transfers) (t.kind == Transfer::Kind::send ? sent : received).push_back(t.view);
    if (sent.size() != received.size())
      throw base::CheckError(fmt::format("group {}: exchange of {} sends and {} receives within one rank", group_,
                                         sent.size(), received.size()));
    exec.run([this, &exec, sent = std::move(sent), received = std::move(received)] {
      Entry entry(ledger_, "exchange", 0);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        if (sent[i].bytes() != received[i].bytes())
          throw base::CheckError(fmt::format("group {}: exchange of {} bytes, {} are expected", group_, sent[i].bytes(),
                                             received[i].bytes()));
        move(exec, received[i], sent[i]);
      }
    });
  }
  void barrier(tensor::Exec& exec) override { note(exec, "barrier"); }

 private:
  void note(tensor::Exec& exec, const char* name) {
    exec.run([this, name] { Entry entry(ledger_, name, 0); });
  }
  void copy(tensor::Exec& exec, const char* name, base::View from, base::View to) {
    exec.run([this, &exec, name, from, to] {
      Entry entry(ledger_, name, 0);
      move(exec, to, from);
    });
  }
  static void move(tensor::Exec& exec, const base::View& to, const base::View& from) {
    if (from.data == to.data || to.bytes() == 0) return;
    const bool on_host = from.device.kind == base::DeviceKind::cpu && to.device.kind == base::DeviceKind::cpu;
    // Host memory is moved at once, as by every other communicator. A copy on the stream would wait for all earlier
    // work of the device.
    if (exec.on_gpu() && !on_host) return tensor::copy(exec, from.reshaped({from.count()}), to.reshaped({to.count()}));
    std::memmove(to.data, from.data, base::size(to.bytes()));
  }
};

}  // namespace

std::unique_ptr<Communicator> make_solo(std::string group) { return std::make_unique<Solo>(std::move(group)); }

}  // namespace trainyard::comm
