// Blocks with a store of their own, and a group whose other ranks are not there.
#include "libtrain/profile/block_work.h"

#include "kernels/cast/cast.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/parse_number.h"
#include "libtrain/base/random.h"
#include "libtrain/base/text.h"
#include "libtrain/model/attention_lists.h"
#include "libtrain/model/decoder.h"
#include "libtrain/model/expert_collectives.h"
#include "libtrain/model/tensor_collectives.h"
#include "libtrain/plan/cost/expert_nodes.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/measured_blocks.h"
#include "libtrain/plan/plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <sstream>

namespace trainyard::profile {

namespace {

using base::DType;
using base::View;
using plan::BlockPass;

// The only rank of its group. It sends nothing, and receives nothing but small tables, such as the numbers of rows for
// experts: those of other ranks are its own.
class AloneCommunicator : public comm::Communicator {
 public:
  AloneCommunicator(std::string group, int size) : Communicator(std::move(group), 0, size) {}
  void all_reduce(tensor::Exec&, View, comm::Reduction) override {}
  void all_gather(tensor::Exec& exec, View in, View out) override {
    for (int r = 0; r < size(); ++r) echo(exec, in, 0, out, r * in.bytes(), in.bytes());
  }
  void reduce_scatter(tensor::Exec&, View, View) override {}
  void all_to_all(tensor::Exec& exec, View send, std::span<const std::int64_t> send_counts, View receive,
                  std::span<const std::int64_t> receive_counts) override {
    const auto each = base::size_of(send.dtype);
    std::int64_t from = 0, to = 0;
    for (std::size_t r = 0; r < send_counts.size(); ++r) {
      echo(exec, send, from * each, receive, to * each, std::min(send_counts[r], receive_counts[r]) * each);
      from += send_counts[r], to += receive_counts[r];
    }
  }
  void broadcast(tensor::Exec&, View, int) override {}
  void exchange(tensor::Exec& exec, std::span<const comm::Transfer> transfers) override {
    for (const auto& to : transfers)
      for (const auto& from : transfers)
        if (to.kind == comm::Transfer::Kind::receive && from.kind == comm::Transfer::Kind::send && to.peer == from.peer)
          echo(exec, from.view, 0, to.view, 0, std::min(from.view.bytes(), to.view.bytes()));
  }
  void barrier(tensor::Exec&) override {}
  bool add_contributions(tensor::Exec&, const comm::OrderedReduction&, std::int64_t, std::int64_t) override {
    return true;
  }
  bool gather_range(tensor::Exec&, View, View, std::int64_t, std::int64_t) override { return true; }

 private:
  static constexpr std::int64_t most_of_a_table = 4096;  // bytes
  static void echo(tensor::Exec& exec, const View& from, std::int64_t from_byte, const View& to, std::int64_t to_byte,
                   std::int64_t bytes) {
    if (bytes > most_of_a_table || bytes <= 0) return;
    const auto part = [&](const View& v, std::int64_t at) {
      return View(static_cast<char*>(v.data) + at, DType::u8, {bytes}, v.device);
    };
    tensor::copy(exec, part(from, from_byte), part(to, to_byte));
  }
};

constexpr std::int64_t padding = 4096;  // for the beginnings of a few tensors

// Whole weights, and one place for the gradients of each flat group.
class BlockStore : public params::ParameterStore {
 public:
  BlockStore(const plan::ModelPart& part, const plan::Topology& topology, DType dtype, base::Device device)
      : dtype_(dtype), groups_(plan::flat_groups(part)) {
    std::int64_t elements = 0;
    for (const auto& group : groups_)
      layouts_.push_back(plan::layout(group, topology)), elements += layouts_.back().padded;
    memory_ = std::make_unique<tensor::Arena>(tensor::Category::parameters,
                                              elements * (base::size_of(dtype) + base::size_of(DType::f32)) +
                                                  std::ssize(groups_) * padding + 4 * random_count,
                                              device);
  }
  // Normal values as a new model has them; norms have ones.
  void fill(tensor::Exec& exec) {
    std::vector<float> random(base::size(random_count));
    base::fill_normal(random.data(), random_count, 1, "blocks", 0, 0.02);
    const std::vector<float> one(base::size(random_count), 1.0f);
    const auto values = memory_->allocate(DType::f32, {random_count});
    for (const bool ones : {false, true}) {
      tensor::copy(exec, View::of(ones ? const_cast<float*>(one.data()) : random.data(), {random_count}), values);
      exec.synchronize();
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (!ones) {
          weights_.push_back(memory_->allocate(dtype_, {layouts_[g].padded}));
          gradients_.push_back(memory_->allocate(DType::f32, {layouts_[g].padded}));
          tensor::clear(exec, weights_.back());
        }
        for (std::size_t p = 0; p < groups_[g].parameters.size(); ++p) {
          const auto kind = groups_[g].parameters[p].init.kind;
          if (kind != (ones ? plan::Init::Kind::ones : plan::Init::Kind::normal)) continue;
          const auto n = layouts_[g].count(p);
          for (std::int64_t at = 0; at < n; at += random_count) {
            const auto part = std::min(random_count, n - at);
            kernels::cast(
                exec, View(values.data, DType::f32, {part}, values.device),
                View(static_cast<char*>(weights_[g].data) + (layouts_[g].offsets[p] + at) * base::size_of(dtype_),
                     dtype_, {part}, values.device));
          }
        }
      }
      exec.synchronize();
    }
  }

 protected:
  void acquire(plan::Occurrence) override {}
  void give_back(plan::Occurrence) override {}
  View weight(plan::Occurrence o, int slot) override { return view(weights_, o, slot); }
  void open(plan::Occurrence, int) override {}
  View gradient(plan::Occurrence o, int, int slot) override { return view(gradients_, o, slot); }
  void commit(plan::Occurrence, int) override {}

 private:
  static constexpr std::int64_t random_count = 1 << 16;
  View view(const std::vector<View>& of, plan::Occurrence o, int slot) const {
    const auto& all = base::at(of, o.flat_group);
    const auto& layout = base::at(layouts_, o.flat_group);
    const auto& shape = base::at(layout.shapes, slot);
    auto* const data = static_cast<char*>(all.data) + base::at(layout.offsets, slot) * base::size_of(all.dtype);
    return shape.size() == 1 ? View(data, all.dtype, {shape[0]}, all.device)
                             : View(data, all.dtype, {shape.at(0), shape.at(1)}, all.device);
  }
  DType dtype_;
  std::vector<plan::FlatGroup> groups_;
  std::vector<plan::FlatLayout> layouts_;
  std::unique_ptr<tensor::Arena> memory_;
  std::vector<View> weights_, gradients_;
};

// Arrays of a micro-batch of random tokens, on the device, and random hidden states for blocks behind others. Tokens
// that are all alike would go to the same experts.
struct BlockBatch {
  BlockBatch(const plan::ModelConfig& model, std::int64_t b, std::int64_t t, DType dtype, tensor::Exec& exec)
      : memory(tensor::Category::workspace, b * t * (4 * 4 + 1 + 8 * model.hidden) + 16 * b + padding, exec.device()) {
    std::vector<std::int32_t> tokens(base::size(b * t)), targets = tokens, positions = tokens, starts = tokens;
    std::vector<std::uint8_t> weights(base::size(b * t), 1);
    std::uint64_t state = 1;
    for (std::int64_t i = 0; i < b * t; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      base::at(tokens, i) = static_cast<std::int32_t>((state >> 33) % static_cast<std::uint64_t>(model.vocabulary));
      base::at(targets, i) = base::at(tokens, (i + 1) % (b * t)),
                        base::at(positions, i) = static_cast<std::int32_t>(i % t);
    }
    for (std::int64_t s = 0; s < b; ++s) micro.samples.push_back(static_cast<std::uint64_t>(s));
    const auto place = [&](auto& values, std::int64_t rows, std::int64_t cols) {
      const auto from = View::of(values.data(), {rows, cols});
      const auto to = memory.allocate(from.dtype, {rows, cols});
      tensor::copy(exec, from, to);
      exec.synchronize();
      return to;
    };
    micro.tokens = place(tokens, b, t), micro.targets = place(targets, b, t);
    micro.positions = place(positions, b, t), micro.document_start = place(starts, b, t);
    micro.weights = place(weights, b, t), micro.counted = b * t;
    std::vector<float> values(base::size(b * t * model.hidden));
    base::fill_normal(values.data(), std::ssize(values), 1, "hidden states", 0, 1);
    const auto normal = place(values, b * t, model.hidden);
    hidden = memory.allocate(dtype, {b * t, model.hidden});
    kernels::cast(exec, normal, hidden);
    exec.synchronize();
    if (!exec.on_gpu()) return;
    std::vector<double> counted{static_cast<double>(b * t)};
    micro.keys = place(micro.samples, 1, b).template ptr<std::uint64_t>();
    micro.counted_there = place(counted, 1, 1).reshaped({1});
  }
  tensor::Arena memory;
  model::MicroBatch micro;
  View hidden;  // [tokens, hidden]
};

plan::Recompute recomputation_of(BlockPass pass) {
  return pass == BlockPass::selective ? plan::Recompute::selective
         : pass == BlockPass::full    ? plan::Recompute::layers
                                      : plan::Recompute::none;
}

constexpr const char* alone = "alone";

// The groups of a block's calls: of `ranks` that measure together, or of a rank alone.
std::shared_ptr<comm::World> world_of_blocks(const plan::Topology& topology, const Ranks* ranks) {
  const std::vector<plan::Axes> groups{{plan::Axis::tensor}, {plan::Axis::expert}};
  if (ranks != nullptr)
    return std::make_shared<comm::World>(ranks->kind, ranks->rank, topology, ranks->between, groups);
  return std::make_shared<comm::World>(
      alone, 0, topology,
      [](const std::string& name, const std::vector<int>& of) {
        return std::make_unique<AloneCommunicator>(name, static_cast<int>(of.size()));
      },
      groups);
}

// Neighbouring blocks that are alike, in one layout, ready to run.
class BlockRun {
 public:
  BlockRun(const plan::Plan& plan, plan::Items items, BlockPass pass, std::shared_ptr<comm::World> world,
           base::Device device)
      : plan_(plan), part_(plan::ModelPart(plan_.model, {items}).with_experts(plan_.experts())), pass_(pass),
        recompute_(recomputation_of(pass)), shape_(own_shape()), world_(std::move(world)),
        activations_(tensor::Category::activations,
                     plan::activation_bytes(part_, shape_, plan::Pass::train, recompute_), device),
        workspace_(tensor::Category::workspace,
                   std::max<std::int64_t>(64, plan::workspace_bytes(part_, shape_, plan::Pass::train)), device),
        staging_(tensor::Category::communication_staging,
                 plan::tensor_staging_bytes(plan_.model, shape_) +
                     plan::expert_staging_bytes(part_, shape_, plan::Pass::train) + padding,
                 device),
        compute_(device.kind == base::DeviceKind::cuda ? tensor::Exec::gpu(device.index, &workspace_)
                                                       : tensor::Exec::caller(&workspace_, plan.threads)),
        communication_(communication_exec(*world_, device)), execs_{*world_, *compute_,
                                                                    communication_ ? *communication_ : *compute_},
        store_(part_, plan_.topology, plan_.dtype, device), lists_(part_, plan_.sequence, *compute_),
        collectives_(execs_, staging_, plan_.model, shape_),
        experts_(execs_, staging_, plan_.batch(), shape_, plan::expert_hop_bytes(part_, shape_, plan::Pass::train)),
        batch_(plan_.model, plan_.micro_batch, plan_.sequence, plan_.dtype, *compute_), decoder_(part_, recompute_),
        saved_(activations_) {
    store_.fill(*compute_);
    const auto n = activations_.mark();
    tensor::clear(*compute_, activations_.allocate(DType::u8, {activations_.capacity_bytes()}));
    activations_.release(n);  // nothing of other ranks arrives, so what is read of them must be plain numbers
    compute_->synchronize();
  }

  void run() {
    model::Step step{*compute_, &store_, batch_.micro, plan_.dtype, 1, plan::Pass::train, 0, 0};
    step.collectives = &collectives_, step.experts = &experts_, step.lists = &lists_;
    step.weight_gradients = shape_.weight_gradients;
    auto flow = decoder_.open(step, saved_);
    tensor::copy(*compute_, batch_.hidden, flow.main);
    decoder_.forward(step, flow, saved_);
    if (pass_ == BlockPass::inputs) decoder_.input_gradients(step, flow, saved_);
    if (pass_ == BlockPass::forward || pass_ == BlockPass::inputs) return saved_.clear();
    decoder_.backward(step, flow, saved_);
  }
  void finish() {
    compute_->synchronize();
    if (communication_) communication_->synchronize();
  }

 private:
  // As train communicates; null: nothing is sent.
  static std::unique_ptr<tensor::Exec> communication_exec(const comm::World& world, base::Device device) {
    if (world.kind == alone) return nullptr;
    return device.kind == base::DeviceKind::cuda ? tensor::Exec::gpu(device.index, nullptr)
                                                 : tensor::Exec::worker("communication", nullptr);
  }
  plan::MicroShape own_shape() {
    auto shape = part_.own_shape(plan_.micro());
    if (pass_ == BlockPass::inputs) shape.weight_gradients = plan::WeightGradients::apart;
    return shape;
  }

  plan::Plan plan_;
  plan::ModelPart part_;
  BlockPass pass_;
  plan::Recomputation recompute_;
  plan::MicroShape shape_;
  std::shared_ptr<comm::World> world_;
  tensor::Arena activations_, workspace_, staging_;
  std::unique_ptr<tensor::Exec> compute_, communication_;
  params::RankExecs execs_;
  BlockStore store_;
  model::AttentionLists lists_;
  model::TensorCollectives collectives_;
  model::ExpertCollectives experts_;
  BlockBatch batch_;
  model::Decoder decoder_;
  model::Saved saved_;
};

// Of `ranks` ranks.
plan::Plan plan_of(const CeilingOptions& o, const BlockLayout& l, DType dtype, int ranks) {
  plan::Plan p;
  p.model = o.model, p.device = o.device.kind, p.dtype = dtype, p.sequence = o.sequence;
  p.micro_batch = l.micro_batch, p.tensor = l.tensor, p.expert_parallel = l.experts, p.threads = o.threads;
  p.global_batch = l.micro_batch * (ranks / l.tensor);
  // Without enough lanes tensor-parallel ranks could not share a layer. Lanes hardly change its time.
  if (p.model.lanes % l.tensor != 0) p.model.lanes = l.tensor;
  p.topology = plan::topology_of(p, ranks);
  return p;
}

std::vector<plan::Problem> problems_of(const CeilingOptions& o, const BlockLayout& l) {
  return plan::decision_problems(plan_of(o, l, o.dtypes.empty() ? DType::f32 : o.dtypes.front(), l.tensor * l.experts));
}

// The passes that are measured of a block. Those that few plans need lie on a line between the smallest and the
// largest micro-batch.
std::vector<BlockPass> passes_of(const plan::Segment& s, std::int64_t sequence, bool between) {
  std::vector<BlockPass> out{BlockPass::forward, BlockPass::step};
  if (between) return out;
  if (s.part == plan::Part::layers) out.push_back(BlockPass::selective), out.push_back(BlockPass::full);
  if (s.kind->apart_flops(s.model, sequence) > 0) out.push_back(BlockPass::inputs);
  return out;
}

bool lies_between(const std::vector<BlockLayout>& all, const BlockLayout& l) {
  const auto other = [&](auto&& size) {
    return std::any_of(all.begin(), all.end(), [&](const BlockLayout& o) {
      return o.tensor == l.tensor && o.experts == l.experts && size(o.micro_batch);
    });
  };
  return other([&](std::int64_t b) { return b < l.micro_batch; }) &&
         other([&](std::int64_t b) { return b > l.micro_batch; });
}

// In a model one block after the other comes to a processor whose caches hold what others used. So as many neighbours
// are run as fill them.
constexpr double cache_bytes = 32 << 20;
constexpr std::int64_t most_neighbours = 8;

double run_bytes(const plan::Plan& p, plan::Items items, BlockPass pass) {
  const auto part = plan::ModelPart(p.model, {items}).with_experts(p.experts());
  const auto micro = part.own_shape(p.micro());
  double elements = 0;  // of weights
  for (const auto& group : plan::flat_groups(part))
    elements += static_cast<double>(plan::layout(group, p.topology).padded);
  return static_cast<double>(plan::activation_bytes(part, micro, plan::Pass::train, recomputation_of(pass)) +
                             plan::workspace_bytes(part, micro, plan::Pass::train)) +
         elements * static_cast<double>(base::size_of(p.dtype) + base::size_of(DType::f32));
}

bool has_calls(const plan::Segment& s, const plan::MicroShape& m) {
  return (m.tensor > 1 && !s.kind->tensor_calls(s.model, m, plan::Pass::train, plan::Recompute::none).empty()) ||
         (m.experts.sends_rows() &&
          !s.kind->expert_calls(s.model, m, plan::Pass::train, plan::Recompute::none).empty());
}

}  // namespace

std::vector<Ceiling> block_ceilings(const CeilingOptions& o) {
  std::vector<Ceiling> out;
  std::set<std::pair<std::string, std::string>> there;
  const auto add = [&](const plan::Plan& p, const BlockLayout& layout, const Ranks* together) {
    const auto groups = std::make_shared<std::shared_ptr<comm::World>>();  // made when they are first needed
    std::int64_t item = 0;
    for (const auto& s : plan::segments(p.model)) {
      const auto first = item;
      item += s.times;
      const auto calls = together != nullptr ? plan::BlockCalls::made : plan::BlockCalls::left_out;
      if (together != nullptr && !has_calls(s, p.micro())) continue;
      for (const auto pass : passes_of(s, o.sequence, lies_between(o.blocks, layout))) {
        const auto name = plan::block_rate_name(s.part, pass), shape = plan::block_rate_shape(s, p.micro(), calls);
        if (!there.emplace(name, shape).second) continue;
        const double one = run_bytes(p, {first, first + 1}, pass);
        const auto n = std::clamp(static_cast<std::int64_t>(std::ceil(cache_bytes / one)), std::int64_t{1},
                                  std::min(s.times, most_neighbours));
        const plan::Items items{first, first + n};
        const double backward = pass == BlockPass::forward ? 0 : 2;
        out.push_back({.name = name,
                       .shape = shape,
                       .unit = "s",
                       .threads = o.threads,
                       .make =
                           [p, items, pass, groups, together, device = o.device] {
                             if (*groups == nullptr) *groups = world_of_blocks(p.topology, together);
                             const auto run = std::make_shared<BlockRun>(p, items, pass, *groups, device);
                             return Work{static_cast<double>(items.end - items.begin), [run] { run->run(); }, run,
                                         [run] { run->finish(); }};
                           },
                       .amount = static_cast<double>(n) * (1 + backward) * static_cast<double>(p.micro_batch) *
                                 s.kind->forward_flops(s.model, o.sequence) / layout.tensor,
                       .memory_bytes = run_bytes(p, items, pass)});
      }
    }
  };
  for (const auto dtype : o.dtypes)
    for (const auto& layout : o.blocks) {
      if (!problems_of(o, layout).empty()) continue;
      const int across = layout.tensor * layout.experts;
      add(plan_of(o, layout, dtype, across), layout, nullptr);
      if (o.together != nullptr && across > 1 && o.together->size % across == 0)
        add(plan_of(o, layout, dtype, o.together->size), layout, o.together);
    }
  return out;
}

std::vector<BlockLayout> automatic_blocks(const plan::ModelConfig& model, std::int64_t sequence, int ranks) {
  constexpr std::int64_t most_tokens = 2048, most_sequences = 8;
  const auto most = std::clamp(most_tokens / sequence, std::int64_t{1}, most_sequences);
  std::vector<BlockLayout> out;
  for (int tensor = 1; tensor <= ranks; ++tensor)
    for (int experts = 1; experts <= ranks / tensor; ++experts) {
      if (ranks % (tensor * experts) != 0 || (experts > 1 && model.experts.count.empty())) continue;
      for (const auto b : std::set<std::int64_t>{1, std::min<std::int64_t>(2, most), most})
        out.push_back({b, tensor, experts});
    }
  return out;
}

std::vector<BlockLayout> blocks_of_text(const std::string& text, const std::string& spelled,
                                        const plan::ModelConfig& model, std::int64_t sequence, int ranks) {
  if (text == "auto") return automatic_blocks(model, sequence, ranks);
  std::map<std::string, std::vector<std::int64_t>> lists{
      {"micro-batch", {}}, {"tensor-parallel", {}}, {"expert-parallel", {}}};
  const auto refuse = [&](const std::string& what) {
    throw base::UsageError(fmt::format("{} {}: {}", spelled, base::one_line(text), what),
                           "auto, or lists: 'micro-batch=1,2,4 tensor-parallel=1,2 expert-parallel=1'");
  };
  // Numbers belong to the name before them; names and numbers have spaces or commas between.
  auto words = text;
  std::replace(words.begin(), words.end(), ',', ' ');
  std::istringstream in(words);
  std::vector<std::int64_t>* list = nullptr;
  for (std::string word; in >> word;) {
    if (const auto equals = word.find('='); equals != std::string::npos) {
      const auto found = lists.find(word.substr(0, equals));
      if (found == lists.end())
        refuse(fmt::format("{} is none of micro-batch, tensor-parallel and expert-parallel",
                           base::one_line(word.substr(0, equals))));
      if (!found->second.empty()) refuse(fmt::format("{} is given twice", found->first));
      list = &found->second, word = word.substr(equals + 1);
    }
    const auto n = base::parsed_number<std::int64_t>(word).value_or(0);
    if (list == nullptr || n < 1 || n > (1 << 16))
      refuse(fmt::format("{} is no whole number from 1 to 65,536 of one of them", base::one_line(word)));
    list->push_back(n);
  }
  if (list == nullptr) refuse("it names no list");
  std::vector<BlockLayout> out;
  for (auto& [name, numbers] : lists)
    if (numbers.empty()) numbers.push_back(1);
  for (const auto b : lists["micro-batch"])
    for (const auto t : lists["tensor-parallel"])
      for (const auto e : lists["expert-parallel"])
        if (t * e <= (1 << 20)) out.push_back({b, static_cast<int>(t), static_cast<int>(e)});
        else refuse("there are no so many ranks");
  return out;
}

std::string left_out_of_blocks(const CeilingOptions& options) {
  for (const auto& l : options.blocks)
    if (const auto problems = problems_of(options, l); !problems.empty())
      return fmt::format("micro-batch {}, {} tensor-parallel and {} expert-parallel ranks: {}", l.micro_batch, l.tensor,
                         l.experts, problems.front().message);
  return {};
}

}  // namespace trainyard::profile
