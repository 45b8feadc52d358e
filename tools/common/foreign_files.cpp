// Looks for the files and keys that other trainers write.
#include "tools/common/foreign_files.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/spec/optimizer_kind.h"
#include "tools/common/foreign_names.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace trainyard::tools {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* safetensors[] = {"model.safetensors", "model.safetensors.index.json"};
constexpr const char* pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};

bool has_file(const std::string& folder, const char* name) {
  std::error_code error;
  return std::filesystem::exists(folder + "/" + name, error);
}

std::string lower_case(const Json* value) {
  auto text = value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string percent_text(double ratio) { return fmt::format("{:.6g}", ratio * 100); }

std::string no_such_optimizer() { return fmt::format("--optimizer is {}", our_optimizers()); }

// DeepSpeed's configuration as flags of train, and sentences about keys that have none.
class DeepSpeed {
 public:
  explicit DeepSpeed(const Json& all) {
    take_batch(all);
    take_zero(all);
    take_types(all);
    take_optimizer(all);
    take_scheduler(all);
    take_rest(all);
    take_unknown(all);
  }
  std::string hint() const {
    auto text = flags_.empty() ? std::string("train has flags for what it can do: train --help")
                               : fmt::format("the same with flags: train {}", fmt::join(flags_, " "));
    for (const auto& remark : remarks_) text += "; " + remark;
    return text;
  }

 private:
  // The value of a key, or of a key in an object: "bf16", "enabled". Null if it is not there.
  static const Json* at(const Json& all, const char* key, const char* inner = nullptr) {
    const auto found = all.is_object() ? all.find(key) : all.end();
    if (found == all.end()) return nullptr;
    return inner == nullptr ? &*found : at(*found, inner);
  }
  static bool is_on(const Json* value) {
    return value != nullptr && ((value->is_boolean() && value->get<bool>()) || *value == "auto");
  }
  // "auto" is what transformers fills in, so the value is left open.
  void flag(const char* name, const Json* value) {
    if (value == nullptr) return;
    flags_.push_back(fmt::format("{} {}", name, value->is_number() ? value->dump() : "N"));
  }
  void remark(bool wanted, const char* text) {
    if (wanted) remarks_.emplace_back(text);
  }

  void take_batch(const Json& all) {
    const auto *whole = at(all, "train_batch_size"), *micro = at(all, "train_micro_batch_size_per_gpu"),
               *steps = at(all, "gradient_accumulation_steps");
    if (whole == nullptr && micro != nullptr) {
      flags_.emplace_back("--global-batch N");
      remarks_.push_back(fmt::format("N is {}{} x the data-parallel ranks", micro->dump(),
                                     steps == nullptr ? "" : " x " + steps->dump()));
    }
    flag("--global-batch", whole);
    flag("--micro-batch", micro);
    remark(steps != nullptr, "gradient_accumulation_steps follows: global batch / micro-batch / data-parallel ranks");
    flag("--clip", at(all, "gradient_clipping"));
  }
  void take_zero(const Json& all) {
    const auto* zero = at(all, "zero_optimization");
    if (zero == nullptr) return;
    flag("--zero", at(*zero, "stage"));
    const auto lies_on = [&](const char* key, const char* place) {
      const auto* device = at(*zero, key, "device");
      return device != nullptr && *device == place;
    };
    // What a file says of a state, as $offload says it; "" if the state stays on the device.
    const auto place_of = [&](const char* key, const char* state) {
      if (lies_on(key, "nvme")) return fmt::format("{}=disk", state);
      return lies_on(key, "cpu") ? fmt::format("{}=host", state) : std::string();
    };
    auto states = place_of("offload_optimizer", "optimizer");
    if (states.empty() && is_on(at(*zero, "cpu_offload"))) states = "optimizer=host";
    const auto weights = place_of("offload_param", "parameters");
    const auto offload = states + (states.empty() || weights.empty() ? "" : ",") + weights;
    const bool disk = offload.find("disk") != std::string::npos, host = offload.find("host") != std::string::npos;
    if (!offload.empty()) flags_.push_back("--offload " + offload + (disk ? " --offload-dir FOLDER" : ""));
    remark(host, "host is the memory of a GPU's machine: where ranks compute on the CPU, disk takes its place");
    const auto usual = [&](std::initializer_list<const char*> keys) {
      return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return at(*zero, key) != nullptr; });
    };
    remark(usual({"overlap_comm", "contiguous_gradients", "reduce_bucket_size", "allgather_bucket_size",
                  "allgather_partitions", "reduce_scatter"}),
           "overlap and buckets need no setting");
    remark(usual({"stage3_prefetch_bucket_size", "stage3_max_live_parameters"}),
           "--gathered-layers is how many layers ZeRO 3 gathers at once");
  }
  void take_types(const Json& all) {
    const bool half = is_on(at(all, "fp16", "enabled"));
    if (half) flags_.emplace_back("--dtype fp16");
    else if (is_on(at(all, "bf16", "enabled")) || is_on(at(all, "bfloat16", "enabled")))
      flags_.emplace_back("--dtype bf16");
    if (half) take_loss_scale(all);
  }
  // DeepSpeed: a loss_scale of 0 is dynamic. A scale that is no power of two is left to the user.
  void take_loss_scale(const Json& all) {
    const auto number = [&](const char* key, std::int64_t otherwise) {
      const auto* value = at(all, "fp16", key);
      return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : otherwise;
    };
    const auto fixed = number("loss_scale", 0), power = number("initial_scale_power", 16);
    if (fixed > 0) {
      const auto below = std::min(std::bit_floor(static_cast<std::uint64_t>(fixed)), std::uint64_t{1} << 32);
      flags_.push_back(fmt::format("--loss-scale static:{}", below));
      if (below != static_cast<std::uint64_t>(fixed))
        remarks_.push_back(fmt::format("a loss scale is a power of two here, at most 2^32: {} for {}", below, fixed));
    } else if (power > 32) {
      remarks_.push_back(fmt::format("initial_scale_power {}: a loss scale ends at 2^32 here", power));
    } else if (power >= 0)
      flags_.push_back(fmt::format("--loss-scale dynamic:{},{},{}", std::int64_t{1} << power,
                                   number("loss_scale_window", 1000), number("hysteresis", 2)));
  }
  void take_optimizer(const Json& all) {
    auto type = lower_case(at(all, "optimizer", "type"));
    if (type == "fusedlamb") type = "lamb";
    const auto* values = at(all, "optimizer", "params");
    const auto* apart = values == nullptr ? nullptr : at(*values, "adam_w_mode");
    // DeepSpeed's Adam is AdamW, unless adam_w_mode is false. Its LAMB has bounds of the ratio, and this one has none.
    const bool is_adamw = type == "adamw" || (type == "adam" && (apart == nullptr || *apart != false));
    if (const auto ours = plan::optimizer_names(); !is_adamw && std::find(ours.begin(), ours.end(), type) != ours.end())
      flags_.push_back("--optimizer " + type);
    else if (!is_adamw && !type.empty()) remarks_.push_back(no_such_optimizer());
    if (values == nullptr) return;
    remark(at(*values, "max_coeff") != nullptr || at(*values, "min_coeff") != nullptr,
           "the trust ratio of --optimizer lamb has no bounds");
    const auto* scheduler = at(all, "scheduler", "type");  // OneCycle has the peak itself
    if (scheduler == nullptr || *scheduler != "OneCycle") flag("--learning-rate", at(*values, "lr"));
    if (const auto* betas = at(*values, "betas"); betas != nullptr && betas->is_array() && betas->size() == 2)
      flag("--beta1", &(*betas)[0]), flag("--beta2", &(*betas)[1]);
    flag("--epsilon", at(*values, "eps"));
    flag("--momentum", at(*values, "momentum"));
    if (is_on(at(*values, "nesterov"))) flags_.emplace_back("--nesterov on");
    flag("--weight-decay", at(*values, "weight_decay"));
  }
  static bool has_rate_of_optimizer(const Json& all) {
    const auto* values = at(all, "optimizer", "params");
    return values != nullptr && at(*values, "lr") != nullptr;
  }
  // A rate that the file gives as a part of the peak.
  void percent(const char* name, const Json* ratio) {
    if (ratio != nullptr && ratio->is_number())
      flags_.push_back(fmt::format("{} {}%", name, percent_text(ratio->get<double>())));
  }
  void take_scheduler(const Json& all) {
    const auto* type = at(all, "scheduler", "type");
    const auto is = [&](const char* name) { return type != nullptr && *type == name; };
    bool known = false;
    for (const auto& [theirs, ours] : {std::pair("WarmupLR", "constant"), std::pair("WarmupDecayLR", "linear"),
                                       std::pair("WarmupCosineLR", "cosine"), std::pair("OneCycle", "linear")})
      if (is(theirs)) flags_.push_back(fmt::format("--lr-schedule {}", ours)), known = true;
    const auto* values = at(all, "scheduler", "params");
    const auto* shape = values == nullptr ? nullptr : at(*values, "warmup_type");
    remark(known && !is("OneCycle") && (shape == nullptr || *shape != "linear"),
           "the warm-up here is linear, not logarithmic");
    remark(is("OneCycle"),
           "OneCycle is a linear warm-up and decay, and --lr-schedule one-cycle the same with half cosines; "
           "momentum stays");
    remark(type != nullptr && !known, "train --help has the values of --lr-schedule");
    if (values == nullptr) return;
    if (is("OneCycle")) {
      flag("--warmup-steps", at(*values, "cycle_first_step_size"));
      const auto* down = at(*values, "cycle_second_step_size");
      flag("--decay-steps", down != nullptr ? down : at(*values, "cycle_first_step_size"));
      flag("--start-learning-rate", at(*values, "cycle_min_lr"));
      flag("--final-learning-rate", at(*values, "cycle_min_lr"));
      flag("--learning-rate", at(*values, "cycle_max_lr"));
      return;
    }
    flag("--warmup-steps", at(*values, "warmup_num_steps"));
    flag("--start-learning-rate", at(*values, "warmup_min_lr"));
    percent("--start-learning-rate", at(*values, "warmup_min_ratio"));
    percent("--final-learning-rate", at(*values, "cos_min_ratio"));
    if (!has_rate_of_optimizer(all)) flag("--learning-rate", at(*values, "warmup_max_lr"));
    flag("--steps", at(*values, "total_num_steps"));
  }
  void take_rest(const Json& all) {
    flag("--tensor-parallel", at(all, "tensor_parallel", "autotp_size"));
    flag("--pipeline-parallel", at(all, "pipeline", "stages"));
    if (at(all, "activation_checkpointing") != nullptr) flags_.emplace_back("--recompute full");
    if (is_on(at(all, "wall_clock_breakdown")) || is_on(at(all, "flops_profiler", "enabled")))
      flags_.emplace_back("--profile-step");
    remark(at(all, "steps_per_print") != nullptr || at(all, "tensorboard") != nullptr || at(all, "wandb") != nullptr,
           "every step is in metrics.jsonl of the run folder");
    remark(at(all, "sparse_attention") != nullptr,
           "sparse attention belongs to a model's file: [attention], as train --help-model says");
  }

  void take_unknown(const Json& all) {
    constexpr std::string_view known[] = {"train_batch_size",
                                          "train_micro_batch_size_per_gpu",
                                          "gradient_accumulation_steps",
                                          "gradient_clipping",
                                          "zero_optimization",
                                          "fp16",
                                          "bf16",
                                          "bfloat16",
                                          "optimizer",
                                          "scheduler",
                                          "tensor_parallel",
                                          "pipeline",
                                          "activation_checkpointing",
                                          "wall_clock_breakdown",
                                          "flops_profiler",
                                          "steps_per_print",
                                          "tensorboard",
                                          "wandb",
                                          "sparse_attention",
                                          "zero_allow_untested_optimizer"};
    std::vector<std::string> unknown;
    for (const auto& item : all.items())
      if (std::find(std::begin(known), std::end(known), item.key()) == std::end(known))
        unknown.push_back(base::one_line(item.key()));
    if (!unknown.empty()) remarks_.push_back(fmt::format("not translated: {}", fmt::join(unknown, ", ")));
    remarks_.emplace_back("what the file leaves out has train's defaults, which differ (train --print-config)");
  }

  std::vector<std::string> flags_, remarks_;
};

// The schedule of transformers' Trainer. Numbers that stand in lr_scheduler_kwargs, or follow from the steps, are words
// that the user replaces.
void take_schedule_of_trainer(const Json& all, std::vector<std::string>& flags) {
  if (const auto ratio = all.find("warmup_ratio"); ratio != all.end() && ratio->is_number() && *ratio > 0)
    flags.push_back(fmt::format("--warmup-steps {}%", percent_text(ratio->get<double>())));
  const auto type = all.contains("lr_scheduler_type") ? lower_case(&all["lr_scheduler_type"]) : std::string();
  const auto more = all.find("lr_scheduler_kwargs");
  const auto number = [&](const char* key) {
    const bool is_there = more != all.end() && more->is_object() && more->contains(key) && (*more)[key].is_number();
    return is_there ? std::optional((*more)[key].get<double>()) : std::nullopt;
  };
  if (type == "cosine_with_restarts") flags.emplace_back("--lr-schedule cosine-restarts:STEPS_OF_A_CYCLE");
  else if (type == "polynomial")
    flags.push_back(fmt::format("--lr-schedule polynomial:{}", number("power").value_or(1)));
  else if (type == "warmup_stable_decay") flags.emplace_back("--lr-schedule wsd");
  else if (type == "constant_with_warmup") flags.emplace_back("--lr-schedule constant");
  else if (type == "inverse_sqrt") flags.emplace_back("--lr-schedule inverse-sqrt");
  else if (type.starts_with("cosine_with_min_lr") || type.starts_with("cosine_warmup_with_min_lr"))
    flags.emplace_back("--lr-schedule cosine");
  else if (!type.empty()) flags.push_back(fmt::format("--lr-schedule {}", base::one_line(type)));
  if (const auto rate = number("min_lr")) flags.push_back(fmt::format("--final-learning-rate {}", *rate));
  if (const auto rate = number("lr_end")) flags.push_back(fmt::format("--final-learning-rate {}", *rate));
  if (const auto ratio = number("min_lr_rate"))
    flags.push_back(fmt::format("--final-learning-rate {}%", percent_text(*ratio)));
  if (const auto steps = number("num_decay_steps")) flags.push_back(fmt::format("--decay-steps {}", *steps));
}

// Arguments of transformers' Trainer, saved as JSON, as flags of train.
std::string trainer_hint(const Json& all) {
  constexpr std::pair<const char*, const char*> names[] = {{"output_dir", "--output"},
                                                           {"max_steps", "--steps"},
                                                           {"learning_rate", "--learning-rate"},
                                                           {"per_device_train_batch_size", "--micro-batch"},
                                                           {"warmup_steps", "--warmup-steps"},
                                                           {"weight_decay", "--weight-decay"},
                                                           {"adam_beta1", "--beta1"},
                                                           {"adam_beta2", "--beta2"},
                                                           {"adam_epsilon", "--epsilon"},
                                                           {"max_grad_norm", "--clip"},
                                                           {"save_steps", "--save-every"},
                                                           {"save_total_limit", "--keep"},
                                                           {"eval_steps", "--validate-every"},
                                                           {"seed", "--seed"}};
  std::vector<std::string> flags;
  for (const auto& [theirs, ours] : names) {
    const auto found = all.find(theirs);
    if (found == all.end() || found->is_null() || *found == -1) continue;  // max_steps is -1 where epochs count
    flags.push_back(
        fmt::format("{} {}", ours, found->is_string() ? base::one_line(found->get<std::string>()) : found->dump()));
  }
  take_schedule_of_trainer(all, flags);
  const auto optimizer = all.contains("optim") ? lower_case(&all["optim"]) : std::string();
  if (optimizer == "sgd") flags.emplace_back("--optimizer sgd --momentum 0");  // as transformers makes it
  if (optimizer == "adafactor") flags.emplace_back("--optimizer adafactor --scale-parameter off");  // likewise
  if (optimizer == "lion_32bit") flags.emplace_back("--optimizer lion");
  const auto is_on = [&](const char* key) { return all.contains(key) && all[key] == true; };
  if (is_on("bf16")) flags.emplace_back("--dtype bf16");
  else if (is_on("fp16")) flags.emplace_back("--dtype fp16");
  if (is_on("gradient_checkpointing")) flags.emplace_back("--recompute full");
  auto text = fmt::format("the same with flags: train {}", fmt::join(flags, " "));
  if (all.contains("per_device_train_batch_size"))
    text += "; --global-batch is per_device_train_batch_size x gradient_accumulation_steps x the data-parallel ranks";
  if (all.contains("num_train_epochs")) text += "; an epoch has tokens / (global batch x sequence) steps";
  if (!optimizer.empty() && optimizer != "sgd" && optimizer != "adafactor" && optimizer != "lion_32bit" &&
      !optimizer.starts_with("adamw"))
    text += "; " + no_such_optimizer();
  return text + "; what the file leaves out has train's defaults, which differ (train --print-config)";
}

bool is_of_trainer(const Json& json) {
  return json.contains("per_device_train_batch_size") || json.contains("num_train_epochs") ||
         (json.contains("output_dir") && json.contains("learning_rate"));
}

bool is_of_deepspeed(const Json& json) {
  constexpr const char* keys[] = {"train_batch_size",
                                  "train_micro_batch_size_per_gpu",
                                  "zero_optimization",
                                  "gradient_accumulation_steps",
                                  "gradient_clipping",
                                  "bf16",
                                  "fp16",
                                  "zero_allow_untested_optimizer",
                                  "activation_checkpointing",
                                  "steps_per_print",
                                  "wall_clock_breakdown"};
  return std::any_of(std::begin(keys), std::end(keys), [&](const char* key) { return json.contains(key); });
}

}  // namespace

void refuse_known_json(const std::string& text, const std::string& path) {
  Json json;
  try {
    json = base::parse_json<Json>(text, path);
  } catch (const base::Error&) {  // it only begins like JSON
  }
  const auto has = [&](const char* key) { return json.is_object() && json.contains(key); };
  if (has("format") && json["format"].is_string() && json["format"].get<std::string>().starts_with("trainyard.plan"))
    throw base::InputError(fmt::format("{} is a plan, where TOML is read", path), fmt::format("train --plan {}", path));
  if (has("model_type") || has("architectures")) {
    const auto way = hugging_face_hint(base::parent_of(path));
    throw base::InputError(fmt::format("{} looks like the config.json of a Hugging Face model, and TOML is read", path),
                           way.empty() ? "train --help-model has the keys of a model's file" : way);
  }
  if (json.is_object() && is_of_trainer(json))
    throw base::InputError(fmt::format("{} looks like arguments of transformers' Trainer, and TOML is read", path),
                           trainer_hint(json));
  if (json.is_object() && is_of_deepspeed(json))
    throw base::InputError(fmt::format("{} looks like DeepSpeed's JSON, and TOML is read", path),
                           DeepSpeed(json).hint());
}

std::string pickled_weights_hint(const std::string& path) {
  std::error_code error;
  auto folder = path;
  if (!std::filesystem::is_directory(path, error)) {
    if (!path.ends_with(".bin") && !path.ends_with(".pt") && !path.ends_with(".pth")) return {};
    folder = base::parent_of(path);
  } else if (std::none_of(std::begin(pickles), std::end(pickles), [&](auto* name) { return has_file(path, name); })) {
    return {};
  }
  return fmt::format(
      "convert-checkpoint reads safetensors, and not PyTorch's pickled weights; transformers writes them beside these: "
      "python3 -c \"from transformers import AutoModelForCausalLM as M; M.from_pretrained('{0}', "
      "torch_dtype='auto').save_pretrained('{0}')\" (AutoModelForMaskedLM for a BERT)",
      folder);
}

std::string hugging_face_hint(const std::string& folder) {
  if (!has_file(folder, "config.json")) return {};
  if (std::any_of(std::begin(safetensors), std::end(safetensors), [&](auto* name) { return has_file(folder, name); }))
    return fmt::format(
        "it looks like a model of Hugging Face: convert-checkpoint {} NEW --from safetensors makes a checkpoint of it, "
        "for generate, and for train --init-from NEW",
        folder);
  const auto pickled = pickled_weights_hint(folder);
  return pickled.empty() ? pickled : "it looks like a model of Hugging Face: " + pickled;
}

}  // namespace trainyard::tools
