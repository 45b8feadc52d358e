// From settings to a definite run.
#include "libtrain/engine/setup.h"

#include "libtrain/base/error.h"
#include "libtrain/plan/memory.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace trainyard::engine {

namespace {

plan::ModelConfig resolve_model(const RunConfig& c, const data::SetIndex& index) {
  auto m = c.plan_model && c.model == c.plan_model->name ? *c.plan_model : plan::load_model(c.model);
  if (m.vocabulary == 0) m.vocabulary = index.vocabulary;
  return m;
}

nlohmann::json identity_of(const RunConfig& c, const RunSetup& s) {
  nlohmann::json model = nlohmann::json::object();
  for (const auto& [name, value] : plan::to_pairs(s.trainer.model))
    if (name != "name") model[name] = value;
  return {{"model", model},
          {"data", data::identity_of(s.index)},
          {"seed", c.seed},
          {"sequence", s.trainer.micro.sequence},
          {"global_batch", c.global_batch},
          {"micro_batch", c.micro_batch},
          {"fold", c.fold},
          {"reduction", c.reduction},
          {"document_mask", c.document_mask},
          {"steps", c.steps},
          {"schedule", c.schedule},
          {"learning_rate", c.learning_rate},
          {"final_learning_rate", c.final_learning_rate},
          {"warmup_steps", c.warmup_steps},
          {"decay_steps", c.decay_steps},
          {"beta1", c.beta1},
          {"beta2", c.beta2},
          {"epsilon", c.epsilon},
          {"weight_decay", c.weight_decay},
          {"clip", c.clip}};
}

void check_batches(const RunConfig& c, int ranks, std::vector<std::string>& wrong) {
  const auto say = [&](const std::string& text) { wrong.push_back(text); };
  if (c.plan_ranks > 0 && c.plan_ranks != ranks)
    return say(fmt::format("plan {} is for {} ranks, this job has {}: ask for as many, or make another plan with partition-model --ranks {}", c.plan, c.plan_ranks, ranks, ranks));
  if (c.steps < 1) say(fmt::format("--steps {} must be at least 1", c.steps));
  if (c.micro_batch < 1) return say(fmt::format("--micro-batch {} must be at least 1", c.micro_batch));
  if (c.global_batch < 1 || c.global_batch % c.micro_batch != 0)
    return say(fmt::format("--global-batch {} is not a multiple of --micro-batch {}", c.global_batch, c.micro_batch));
  const auto micros = c.global_batch / c.micro_batch;
  if (c.fold < 1 || micros % c.fold != 0) return say(fmt::format("--fold {} does not divide the {} micro-batches of a step", c.fold, micros));
  if (micros / c.fold < ranks)
    say(fmt::format("{} ranks, but a step has only {} group{} of micro-batches: raise --global-batch to {}, lower --micro-batch or --fold, or use fewer ranks", ranks,
                    micros / c.fold, micros / c.fold == 1 ? "" : "s", ranks * c.micro_batch * c.fold));
}

void check_words(const RunConfig& c, std::vector<std::string>& wrong) {
  const auto one_of = [&](const char* flag, const std::string& value, const std::vector<std::string>& legal) {
    if (std::find(legal.begin(), legal.end(), value) == legal.end()) wrong.push_back(fmt::format("{} {} is not known; use {}", flag, value, fmt::join(legal, ", ")));
  };
  one_of("--dtype", c.dtype, {"f32", "bf16"});
  one_of("--reduction", c.reduction, {"ordered", "fast"});
  one_of("--recompute", c.recompute, {"none", "layers"});
  one_of("--device", c.device, {"auto", "cpu", "cuda"});
  one_of("--communicator", c.communicator, {"auto", "nccl", "mpi"});
  if (c.communicator == "nccl" && c.device == "cpu") wrong.push_back("--communicator nccl moves device memory: it needs --device cuda");
  one_of("--document-mask", c.document_mask, {"off", "on"});
  if (c.zero < 0 || c.zero > 3) wrong.push_back(fmt::format("--zero {} must be 0, 1, 2 or 3", c.zero));
  if (c.layer_slots < 1 || c.layer_slots > 64) wrong.push_back(fmt::format("--layer-slots {} must lie between 1 and 64", c.layer_slots));
  if (c.threads < 0 || c.threads > 1024) wrong.push_back(fmt::format("--threads {} must lie between 0 and 1024", c.threads));
  if (!(c.beta1 >= 0 && c.beta1 < 1) || !(c.beta2 >= 0 && c.beta2 < 1)) wrong.push_back(fmt::format("--beta1 {} and --beta2 {} must lie in [0, 1)", c.beta1, c.beta2));
  if (!(c.epsilon > 0)) wrong.push_back(fmt::format("--epsilon {} must be positive", c.epsilon));
  if (!(c.weight_decay >= 0)) wrong.push_back(fmt::format("--weight-decay {} must not be negative", c.weight_decay));
  if (!(c.clip >= 0)) wrong.push_back(fmt::format("--clip {} must not be negative", c.clip));
  if (c.validate_every > 0 && (c.validation_sequences < c.micro_batch || c.validation_sequences % std::max<std::int64_t>(1, c.micro_batch) != 0))
    wrong.push_back(fmt::format("--validation-sequences {} must be a multiple of --micro-batch {}", c.validation_sequences, c.micro_batch));
  for (const auto& [flag, value] : {std::pair<const char*, std::int64_t>{"--save-every", c.save_every}, {"--stop-after", c.stop_after}, {"--validate-every", c.validate_every},
                                    {"--keep", c.keep}, {"--save-throttle", c.save_throttle}})
    if (value < 0) wrong.push_back(fmt::format("{} {} must not be negative", flag, value));
  if (!(c.hang_timeout > 0)) wrong.push_back(fmt::format("--hang-timeout {} must be positive", c.hang_timeout));
  if (!c.init_from.empty() && c.resume != "auto" && c.resume != "never") wrong.push_back("--init-from starts a new run; it does not go with --resume PATH");
}

void check_memory(const RunConfig& c, const RunSetup& s) {
  if (s.memory_limit_bytes == 0) return;
  const auto needed = [](const TrainerSetup& t) { return plan::rank_memory(t.model, t.states, t.micro, t.recompute).total(); };
  const auto reserve = plan::reserve_bytes(s.trainer.micro), need = needed(s.trainer);
  if (need <= s.memory_limit_bytes) return;
  std::string remedies;
  for (int zero = c.zero + 1; zero <= 3; ++zero) {
    auto other = s.trainer;
    other.states.zero = zero;
    const auto bytes = needed(other);
    remedies += fmt::format("--zero {} would need {} bytes ({}); ", zero, bytes, bytes <= s.memory_limit_bytes ? "fits" : "too much");
  }
  throw base::InputError(fmt::format("a rank needs {} bytes ({} of them in reserve for libraries), --memory-limit {} allows {}: {} too many", need, reserve, c.memory_limit, s.memory_limit_bytes, need - s.memory_limit_bytes),
                         remedies + "more ranks, a smaller --micro-batch or --recompute layers need less too");
}

}  // namespace

std::int64_t parse_bytes(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  for (const auto& [name, factor] : {std::pair<const char*, double>{"", 1}, {"B", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}})
    if (end != text.c_str() && unit == name && number > 0) return static_cast<std::int64_t>(std::llround(number * factor));
  throw base::UsageError(fmt::format("'{}' is not a size", text), "write 4GB, 512MiB or a number of bytes");
}

RunSetup make_setup(const RunConfig& c, int ranks, int threads) {
  RunSetup s;
  std::vector<std::string> wrong;
  if (c.data.empty()) wrong.push_back("--data is missing: the folder that shard-data made");
  if (c.output.empty()) wrong.push_back("--output is missing: the run folder");
  check_words(c, wrong);
  check_batches(c, ranks, wrong);
  auto& t = s.trainer;
  t.learning_rate = {c.schedule, c.learning_rate, c.final_learning_rate, c.warmup_steps, c.decay_steps, c.steps};
  for (auto& text : problems(t.learning_rate)) wrong.push_back(std::move(text));
  if (!wrong.empty()) throw base::UsageError(wrong.size() == 1 ? wrong[0] : fmt::format("{} problems:\n  {}", wrong.size(), fmt::join(wrong, "\n  ")));
  s.index = data::read_index(c.data);
  t.model = resolve_model(c, s.index);
  t.micro.batch = c.micro_batch;
  t.micro.sequence = c.sequence > 0 ? c.sequence : t.model.context;
  t.micro.dtype = base::dtype_from_name(c.dtype);
  t.micro.threads = threads;
  t.micro.device = c.device == "cuda" ? base::DeviceKind::cuda : base::DeviceKind::cpu;
  wrong = plan::problems(t.model);
  if (t.micro.sequence > t.model.context) wrong.push_back(fmt::format("--sequence {} is longer than the model's context {}", t.micro.sequence, t.model.context));
  if (t.model.vocabulary < s.index.vocabulary) wrong.push_back(fmt::format("the shards have a vocabulary of {}, the model {}", s.index.vocabulary, t.model.vocabulary));
  if (!wrong.empty()) throw base::UsageError(fmt::format("model {}: {}", c.model, fmt::join(wrong, "; ")));
  t.states.zero = c.zero;
  t.states.working = t.micro.dtype;
  t.states.batch = {c.global_batch, c.micro_batch, c.fold, ranks};
  t.states.layer_slots = c.layer_slots;
  t.recompute = c.recompute == "layers" ? plan::Recompute::layers : plan::Recompute::none;
  t.reduction = c.reduction == "fast" ? params::ReductionKind::fast : params::ReductionKind::ordered;
  t.beta1 = c.beta1, t.beta2 = c.beta2, t.epsilon = c.epsilon, t.weight_decay = c.weight_decay, t.clip = c.clip, t.seed = c.seed;
  s.mask = c.document_mask == "on" ? data::DocumentMask::on : data::DocumentMask::off;
  s.identity = identity_of(c, s);
  if (!c.memory_limit.empty()) s.memory_limit_bytes = parse_bytes(c.memory_limit);
  check_memory(c, s);
  return s;
}

}  // namespace trainyard::engine
