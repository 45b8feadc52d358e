// Simulates lists against one another: each stage runs until it waits for a message that was not sent yet.
#include "libtrain/plan/schedule/simulate.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace trainyard::plan {

namespace {

using Kind = Action::Kind;

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};
template <class... Args> [[noreturn]] void wrong(fmt::format_string<Args...> text, Args&&... args) {
  throw Wrong(fmt::format(text, std::forward<Args>(args)...));
}

// One direction between two neighbours: the i-th message sent is the i-th message awaited.
struct Link {
  struct End {
    int part;  // the part that sends it
    std::int64_t micro;
    double time;
  };
  std::vector<End> sent, awaited;
  std::vector<double> arrivals;  // of the messages that were sent and awaited

  void await(int part, std::int64_t micro, double time) {
    number(part, micro) = static_cast<std::int64_t>(awaited.size());
    awaited.push_back({part, micro, time});
  }
  // Index in `awaited`; -1: it was not awaited. Lists that are wrong may have part -1.
  std::int64_t& number(int part, std::int64_t micro) {
    const auto row = base::size(part + 1), at = base::size(micro);
    if (row >= numbers_.size()) numbers_.resize(row + 1);
    auto& of_part = numbers_[row];
    if (at >= of_part.size()) of_part.resize(at + 1, -1);
    return of_part[at];
  }

 private:
  std::vector<std::vector<std::int64_t>> numbers_;
};

struct HeldBytes {
  std::int64_t micro = -1;
  Kind done = Kind::load;   // the latest action on the micro-batch
  std::int64_t block = -1;  // of the latest pass
  bool sent = false, awaited = false;
};

class Stage;

class World {
 public:
  World(const std::vector<std::vector<Action>>& lists, int chunks, const std::vector<PartCosts>& costs, double seconds,
        std::int64_t micros);
  Simulated run();

  int stages() const { return stages_; }
  int chunks() const { return chunks_; }
  int parts() const { return stages_ * chunks_; }
  const PartCosts& cost(int part) const { return base::at(costs_, part); }
  Link& activations_from(int stage) { return base::at(activations_, stage); }
  Link& gradients_from(int stage) { return base::at(gradients_, stage); }
  int before(int stage) const { return (stage + stages_ - 1) % stages_; }
  int behind(int stage) const { return (stage + 1) % stages_; }
  // The arrival time of the message that `stage` awaits; negative: it was not sent yet.
  double arrival(Link& link, int stage, const char* what, int part, std::int64_t micro) const {
    const auto number = link.number(part, micro);
    if (number < 0) wrong("stage {} uses the {} of micro-batch {} without awaiting them", stage, what, micro);
    const auto at = base::size(number);
    while (link.arrivals.size() <= at && link.arrivals.size() < link.sent.size()) {
      const auto i = link.arrivals.size();
      const auto &sent = link.sent[i], &awaited = link.awaited[i];
      if (sent.part != awaited.part || sent.micro != awaited.micro)
        wrong("stage {} awaits the {} of micro-batch {}, and gets those of {}", stage, what, awaited.micro, sent.micro);
      link.arrivals.push_back(std::max({i == 0 ? 0.0 : link.arrivals.back(), sent.time, awaited.time}) + seconds_);
    }
    return at < link.arrivals.size() ? link.arrivals[at] : -1;
  }

 private:
  int stages_, chunks_;
  std::vector<PartCosts> costs_;
  double seconds_;
  std::int64_t micros_;
  std::vector<Link> activations_, gradients_;
  std::vector<Stage> all_;
};

class Stage {
 public:
  Stage(World& world, int index, const std::vector<Action>& list)
      : world_(world), index_(index), list_(list), slots_(base::size(world.chunks())),
        done_(base::size(world.chunks())) {
    for (const auto& a : list) blocks_ = std::max(blocks_, a.block + 1);
    result.work.reserve(list.size());
    result.most_in_flight.assign(slots_.size(), 0);
  }

  bool over() const { return next_ == list_.size(); }
  bool updated() const { return over_ == name_of(Kind::update); }
  std::string waits_for() const {
    return fmt::format("stage {} waits for the {} of micro-batch {}", index_, waits_for_, list_[next_].micro);
  }
  const std::vector<std::vector<std::int64_t>>& done() const { return done_; }

  // Runs until it must wait; returns whether it did any action.
  bool go() {
    const auto from = next_;
    while (!over() && act(list_[next_])) ++next_;
    result.end = clock_;
    return next_ > from;
  }

  SimulatedStage result;

 private:
  int part(const Action& a) const { return a.chunk * world_.stages() + index_; }
  bool waits(const char* what) {
    waits_for_ = what;
    return false;
  }
  bool until(double arrival, const char* what) {
    if (arrival < 0) return waits(what);
    clock_ = std::max(clock_, arrival);
    return true;
  }
  void compute(const Action& a, double seconds) {
    result.work.push_back({a.kind, a.chunk, a.micro, clock_, clock_ + seconds});
    clock_ += seconds, result.busy += seconds;
  }

  HeldBytes& held(const Action& a) {
    auto& slots = base::at(slots_, a.chunk);
    if (a.slot < 0 || a.slot >= std::ssize(slots) || base::at(slots, a.slot).micro != a.micro)
      wrong("stage {}: {} of micro-batch {}, which slot {} does not hold", index_, name_of(a.kind), a.micro, a.slot);
    return base::at(slots, a.slot);
  }
  void after(const Action& a, const HeldBytes& h, std::initializer_list<Kind> before) const {
    if (std::find(before.begin(), before.end(), h.done) == before.end())
      wrong("stage {}: {} of micro-batch {} after its {}", index_, name_of(a.kind), a.micro, name_of(h.done));
  }

  // Passes of one block take equal shares of the chunk's time.
  double share(double seconds, const Action& a) const {
    return a.block < 0 ? seconds : seconds / static_cast<double>(blocks_);
  }
  // The blocks of a chunk pass the micro-batch in order; backward in reverse.
  void behind_block(const Action& a, const HeldBytes& h, std::int64_t before) const {
    if (h.block != before)
      wrong("stage {}: {} of micro-batch {} in block {} after block {}", index_, name_of(a.kind), a.micro, a.block,
            h.block);
  }
  void behind_all_blocks(const Action& a, const HeldBytes& h) const { behind_block(a, h, blocks_ - 1); }

  bool act(const Action& a) {
    if (a.chunk < 0 && a.micro < 0) return of_the_step(a);
    if (a.micro < 0) return true;  // idle
    const bool in_slot = a.kind != Kind::receive_activations;
    if (a.chunk < 0 || a.chunk >= world_.chunks() || (in_slot && a.slot < 0))
      wrong("stage {}: {} of micro-batch {} in slot {} of chunk {}", index_, name_of(a.kind), a.micro, a.slot, a.chunk);
    if (!over_.empty()) wrong("stage {}: {} of micro-batch {} behind a {}", index_, name_of(a.kind), a.micro, over_);
    switch (a.kind) {
      case Kind::load: return load(a);
      case Kind::receive_activations:
        if (arriving_) wrong("stage {}: micro-batch {} may arrive where another has", index_, a.micro);
        arriving_ = true;
        world_.activations_from(world_.before(index_)).await(part(a) - 1, a.micro, clock_);
        return true;
      case Kind::forward:
        after(a, held(a), {a.block > 0 ? Kind::forward : Kind::load});
        behind_block(a, held(a), std::max<std::int64_t>(a.block, 0) - 1);
        compute(a, share(world_.cost(part(a)).forward, a));
        held(a).done = a.kind, held(a).block = a.block;
        return true;
      case Kind::send_activations:
        after(a, held(a), {Kind::forward});
        behind_all_blocks(a, held(a));
        held(a).sent = true;
        world_.activations_from(index_).sent.push_back({part(a), a.micro, clock_});
        return true;
      case Kind::receive_gradients:
        if (!held(a).sent)
          wrong("stage {}: gradients of micro-batch {} may arrive where its activations are", index_, a.micro);
        held(a).awaited = true;
        world_.gradients_from(world_.behind(index_)).await(part(a) + 1, a.micro, clock_);
        return true;
      case Kind::backward:
      case Kind::input_gradients: return backward(a);
      case Kind::weight_gradients:
        after(a, held(a), {Kind::input_gradients});
        compute(a, world_.cost(part(a)).weight_gradients);
        finish(a);
        return true;
      case Kind::send_gradients: return send_gradients(a);
      default: return true;
    }
  }

  std::int64_t in_flight() const {
    for (const auto& slots : slots_)
      for (const auto& h : slots)
        if (h.micro >= 0) return h.micro;
    return -1;
  }

  bool of_the_step(const Action& a) {
    if (!over_.empty() && !(a.kind == Kind::update && over_ == name_of(Kind::reduce)))
      wrong("stage {}: {} behind a {}", index_, name_of(a.kind), over_);
    if (a.kind == Kind::ask) asked_ = a.round;
    if (a.kind == Kind::agree && asked_ != a.round) wrong("stage {}: round {} is agreed on unasked", index_, a.round);
    if (a.kind == Kind::agree && last_loaded_ >= a.round)
      wrong("stage {}: round {} is agreed on when it has begun", index_, a.round);
    if (a.kind != Kind::ask && in_flight() >= 0)
      wrong("stage {}: {} before micro-batch {} is over", index_, name_of(a.kind), in_flight());
    if (a.kind == Kind::agree) agreed_ = a.round;
    if (a.kind == Kind::update && over_.empty()) wrong("stage {}: an update without a reduction before", index_);
    if (a.kind == Kind::reduce || a.kind == Kind::update) over_ = name_of(a.kind);
    return true;
  }

  bool load(const Action& a) {
    if (agreed_ < 0) wrong("stage {}: micro-batch {} before an agreement", index_, a.micro);
    if (part(a) > 0) {
      const auto arrival =
          world_.arrival(world_.activations_from(world_.before(index_)), index_, "activations", part(a) - 1, a.micro);
      if (!until(arrival, "activations")) return false;
      arriving_ = false;
    }
    auto& slots = base::at(slots_, a.chunk);
    if (std::ssize(slots) <= a.slot) slots.resize(base::size(a.slot) + 1);
    auto& slot = base::at(slots, a.slot);
    if (slot.micro >= 0)
      wrong("stage {}: slot {} is taken for micro-batch {} while {} is in it", index_, a.slot, a.micro, slot.micro);
    slot = {a.micro};
    last_loaded_ = std::max(last_loaded_, a.round);
    auto& most = base::at(result.most_in_flight, a.chunk);
    most = std::max(most,
                    static_cast<int>(std::count_if(slots.begin(), slots.end(), [](auto& h) { return h.micro >= 0; })));
    bytes_ += world_.cost(part(a)).slot_bytes;
    result.peak_bytes = std::max(result.peak_bytes, bytes_);
    return true;
  }

  bool backward(const Action& a) {
    auto& h = held(a);
    const bool begins = a.block < 0 || a.block + 1 == blocks_;
    after(a, h, {begins ? Kind::forward : Kind::backward});
    if (begins) behind_all_blocks(a, h);
    else behind_block(a, h, a.block + 1);
    if (begins && part(a) + 1 < world_.parts()) {
      const auto arrival =
          world_.arrival(world_.gradients_from(world_.behind(index_)), index_, "gradients", part(a) + 1, a.micro);
      if (!until(arrival, "gradients")) return false;
    }
    const auto& cost = world_.cost(part(a));
    compute(a, share(cost.input_gradients + (a.kind == Kind::backward ? cost.weight_gradients : 0), a));
    h.done = a.kind, h.block = a.block;
    auto& latest = latest_backward_.try_emplace({a.chunk, a.block}, -1).first->second;
    if (latest >= a.micro) wrong("stage {}: backward of micro-batch {} behind that of {}", index_, a.micro, latest);
    latest = a.micro;
    if (a.block > 0) return true;
    departing_ = {part(a), a.micro};
    if (a.kind == Kind::backward) finish(a);
    return true;
  }

  // Gradients are sent from a copy, so the message before must have left.
  bool send_gradients(const Action& a) {
    auto& link = world_.gradients_from(index_);
    if (departing_ != std::pair{part(a), a.micro})
      wrong("stage {}: sends gradients of micro-batch {} that were not made just before", index_, a.micro);
    if (!link.sent.empty()) {
      const auto& last = link.sent.back();
      if (link.awaited.size() < link.sent.size()) return waits("place for gradients before those");
      clock_ = std::max(clock_, world_.arrival(link, index_, "gradients", last.part, last.micro));
    }
    link.sent.push_back({part(a), a.micro, clock_});
    return true;
  }

  void finish(const Action& a) {
    auto& done = base::at(done_, a.chunk);
    if (!done.empty() && done.back() >= a.micro)
      wrong("stage {}: weight gradients of micro-batch {} behind those of {}", index_, a.micro, done.back());
    done.push_back(a.micro);
    held(a) = {};
    bytes_ -= world_.cost(part(a)).slot_bytes;
  }

  World& world_;
  int index_;
  const std::vector<Action>& list_;
  std::vector<std::vector<HeldBytes>> slots_;
  std::vector<std::vector<std::int64_t>> done_;  // micro-batches of each chunk, in order of completion
  std::int64_t blocks_ = 0;                      // of the stage's chunk, if the list works breadth first
  std::map<std::pair<int, std::int64_t>, std::int64_t> latest_backward_;  // micro-batch, for each chunk and block
  std::int64_t asked_ = -1, agreed_ = -1, last_loaded_ = -1;              // accumulation steps
  std::string over_;  // the action that ended the micro-batches: a reduction or an update
  std::size_t next_ = 0;
  double clock_ = 0;
  std::int64_t bytes_ = 0;
  bool arriving_ = false;
  std::pair<int, std::int64_t> departing_{-1, -1};
  const char* waits_for_ = "";
};

World::World(const std::vector<std::vector<Action>>& lists, int chunks, const std::vector<PartCosts>& costs,
             double seconds, std::int64_t micros)
    : stages_(static_cast<int>(lists.size())), chunks_(chunks), costs_(costs), seconds_(seconds), micros_(micros),
      activations_(lists.size()), gradients_(lists.size()) {
  TRAINYARD_ASSERT(stages_ >= 1 && costs_.size() == lists.size() * base::size(chunks),
                   "{} stages of {} chunks, costs of {} parts", stages_, chunks_, costs_.size());
  all_.reserve(lists.size());
  for (int s = 0; s < stages_; ++s) all_.emplace_back(*this, s, base::at(lists, s));
}

Simulated World::run() {
  Simulated out;
  try {
    for (bool further = true; further;) {
      further = false;
      for (auto& stage : all_) further = stage.go() || further;
      for (auto stage = all_.rbegin(); stage != all_.rend(); ++stage) further = stage->go() || further;
    }
    std::vector<std::string> waiting;
    for (const auto& stage : all_)
      if (!stage.over()) waiting.push_back(stage.waits_for());
    if (!waiting.empty()) wrong("nobody can go on: {}", fmt::join(waiting, "; "));
    for (const auto& stage : all_) {
      if (!stage.updated()) wrong("stage {} ends without an update", &stage - all_.data());
      for (const auto& done : stage.done())
        if (static_cast<std::int64_t>(done.size()) != micros_)
          wrong("stage {} computes {} micro-batches of {}", &stage - all_.data(), done.size(), micros_);
        else if (done != all_[0].done()[0])
          wrong("stage {} computes micro-batches {}, stage 0 {}", &stage - all_.data(), done, all_[0].done()[0]);
    }
    for (int s = 0; s < stages_; ++s)
      for (const auto* link : {&base::at(activations_, s), &base::at(gradients_, s)})
        if (link->sent.size() != link->awaited.size())
          wrong("stage {} sends {} messages, and {} are awaited", s, link->sent.size(), link->awaited.size());
  } catch (const Wrong& e) {
    out.problem = e.what();
    return out;
  }
  for (auto& stage : all_) {
    out.seconds = std::max(out.seconds, stage.result.end);
    out.stages.push_back(std::move(stage.result));
  }
  return out;
}

}  // namespace

double Simulated::idle_fraction() const {
  double busy = 0;
  for (const auto& s : stages) busy += s.busy;
  return seconds > 0 ? 1 - busy / (seconds * static_cast<double>(stages.size())) : 0;
}

Simulated simulate(const std::vector<std::vector<Action>>& lists, int chunks, const std::vector<PartCosts>& costs,
                   double message_seconds, std::int64_t micros) {
  return World(lists, chunks, costs, message_seconds, micros).run();
}

}  // namespace trainyard::plan
