// Goes from one beginning or end of work to the next; in between the set of stages that compute is the same.
#include "libtrain/plan/schedule/shared_cores.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

namespace trainyard::plan {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

class SharedCores {
 public:
  SharedCores(const Simulated& run, int parts, double message) : run_(run), parts_(parts), message_(message) {
    for (const auto& stage : run.stages)
      for (const auto& work : stage.work) ++open_[key(&stage - run.stages.data(), work)].works;
    next_.assign(run.stages.size(), 0), left_.assign(run.stages.size(), 0);
    for (std::size_t s = 0; s < next_.size(); ++s) take(s);
  }

  double seconds(double ranks_of_core) {
    const auto stages = static_cast<double>(run_.stages.size());
    double now = 0;
    for (;;) {
      double computing = 0, soonest = never, least = never;
      for (std::size_t s = 0; s < next_.size(); ++s) {
        const double from = begins(s);
        if (from > now) soonest = std::min(soonest, from);
        else ++computing, least = std::min(least, left_[s]);
      }
      if (computing == 0 && soonest == never) break;
      const double speed = computing == 0 ? 1 : std::min(1.0, stages / (computing * ranks_of_core));
      const double step = std::min(soonest - now, least / speed);
      for (std::size_t s = 0; s < next_.size(); ++s)
        if (begins(s) <= now && (left_[s] -= step * speed) <= 1e-12 * least) ended_.push_back(s);
      now += step;
      for (const auto s : ended_) end(s, now);
      ended_.clear();
    }
    for (std::size_t s = 0; s < next_.size(); ++s)
      TRAINYARD_ASSERT(next_[s] == run_.stages[s].work.size(), "stage {} waits forever", s);
    return now;
  }

 private:
  enum class Pass { forward, backward, weights };
  using Key = std::tuple<Pass, std::ptrdiff_t, std::int64_t>;  // pass, part, micro-batch
  struct Open {
    std::int64_t works = 0;
    double at = never;  // when all of them are done
  };

  Key key(std::ptrdiff_t stage, const SimulatedWork& w) const {
    const auto pass = w.kind == Action::Kind::forward            ? Pass::forward
                      : w.kind == Action::Kind::weight_gradients ? Pass::weights
                                                                 : Pass::backward;
    return {pass, w.chunk * std::ssize(run_.stages) + stage, w.micro};
  }
  void take(std::size_t s) {
    if (next_[s] == run_.stages[s].work.size()) return;
    const auto& w = run_.stages[s].work[next_[s]];
    left_[s] = w.end - w.begin;
  }
  // When a stage can go on with its next work; never, if that is not known yet or there is none.
  double begins(std::size_t s) const {
    if (next_[s] == run_.stages[s].work.size()) return never;
    const auto [pass, part, micro] = key(static_cast<std::ptrdiff_t>(s), run_.stages[s].work[next_[s]]);
    const bool alone = pass == Pass::weights || (pass == Pass::forward ? part == 0 : part + 1 == parts_);
    if (alone) return 0;
    return open_.at({pass, part + (pass == Pass::forward ? -1 : 1), micro}).at + message_;
  }
  void end(std::size_t s, double now) {
    auto& open = open_.at(key(static_cast<std::ptrdiff_t>(s), run_.stages[s].work[next_[s]]));
    if (--open.works == 0) open.at = now;
    ++next_[s];
    take(s);
  }

  const Simulated& run_;
  int parts_;
  double message_;
  std::map<Key, Open> open_;
  std::vector<std::size_t> next_, ended_;
  std::vector<double> left_;  // seconds of the next work of each stage, on cores of its own
};

}  // namespace

double shared_core_seconds(const Simulated& dedicated, int parts, double ranks_of_core, double message_seconds) {
  return SharedCores(dedicated, parts, message_seconds).seconds(ranks_of_core);
}

}  // namespace trainyard::plan
