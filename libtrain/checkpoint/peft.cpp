// Writes and reads adapters of peft.
#include "libtrain/checkpoint/peft.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/companions.h"
#include "libtrain/checkpoint/destination.h"
#include "libtrain/checkpoint/filled_checkpoint.h"
#include "libtrain/checkpoint/peft_names.h"
#include "libtrain/io/safetensors.h"
#include "libtrain/plan/model_file/adapter_problems.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/spec/conditions.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

namespace trainyard::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr const char *peft_config_name = "adapter_config.json", *peft_tensors_name = "adapter_model.safetensors";
constexpr std::int64_t largest_config = std::int64_t{1} << 20;

// The family of the model that was imported, or one that describes the model.
const Family& family_without_adapters(const RunState& state) {
  auto base = state.model;
  base.adapter = {};
  return family_of(base, recorded_model_type(state.provenance));
}

// Folders that hold no more than an adapter whose tensors are marked as ours.
base::Owned own_adapters(const std::string& source) {
  const auto foreign = [](const std::string& path) -> std::string {
    bool ours = true;
    const auto unknown = base::first_unknown(path, [&](const std::string& name, base::EntryKind kind) {
      if (kind == base::EntryKind::file && name == peft_tensors_name) try {
          const io::SafetensorsFile file(path + "/" + name);
          const auto& written = file.header.metadata;
          ours = written.contains("written_by") && written.at("written_by") == "trainyard";
        } catch (const base::InputError&) {
          ours = false;
        }
      return kind == base::EntryKind::file && (name == peft_config_name || name == peft_tensors_name);
    });
    if (!unknown.empty()) return fmt::format("holds {}, which is of no adapter that this program wrote", unknown);
    return ours ? "" : "holds an adapter that this program did not write";
  };
  return {"an adapter of peft", foreign, {source}};
}

std::vector<float> whole_tensor(Reader& reader, const std::string& name) {
  const auto count = reader.tensors_of(Kind::model)[reader.number_of(name)].count;
  std::vector<float> out(base::size(count));
  reader.read_tensor(Kind::master, name, 0, count, out.data());
  return out;
}

nlohmann::ordered_json config_of_adapter(const plan::ModelConfig& model, const PeftModules& modules,
                                         const std::string& base_folder) {
  const auto& a = model.adapter;
  const auto alpha = a.alpha > 0 ? a.alpha : static_cast<double>(a.rank);
  nlohmann::ordered_json j{{"peft_type", "LORA"},
                           {"task_type", model.attention.causal ? "CAUSAL_LM" : "FEATURE_EXTRACTION"},
                           {"base_model_name_or_path", nullptr},
                           {"inference_mode", true},
                           {"r", a.rank}};
  if (alpha == std::floor(alpha)) j["lora_alpha"] = static_cast<std::int64_t>(alpha);
  else j["lora_alpha"] = alpha;
  if (!base_folder.empty()) j["base_model_name_or_path"] = base_folder;
  j.update({{"lora_dropout", 0.0},
            {"bias", "none"},
            {"fan_in_fan_out", modules.transposed},
            {"init_lora_weights", true},
            {"target_modules", modules.targets},
            {"modules_to_save", nullptr},
            {"rank_pattern", nlohmann::json::object()},
            {"alpha_pattern", nlohmann::json::object()},
            {"use_rslora", false},
            {"use_dora", false}});
  return j;
}

}  // namespace

PeftResult export_peft(const Reader& source, const std::string& destination, const PeftOptions& options) try {
  const auto& state = source.state();
  if (!plan::has_adapter(state.model))
    throw base::UsageError(fmt::format("{} has no adapters", source.path()),
                           "convert-checkpoint --to safetensors writes its weights");
  PeftResult result;
  result.family = &family_without_adapters(state);
  result.dtype = options.dtype.value_or(state.dtype);
  const auto modules = peft_modules(*result.family, state.model, source.path());
  auto reader = source.another();
  const auto& type = weight_type(result.dtype);
  io::SafetensorsHeader header{{}, {{"format", "pt"}, {"written_by", "trainyard"}}};
  std::vector<std::string> ours;  // of the tensors of the header
  const auto add = [&](const std::string& name, const std::string& parameter) {
    ours.push_back(parameter);
    header.tensors.push_back(
        {name, type.in_safetensors, source.tensors_of(Kind::model)[source.number_of(parameter)].shape, 0, 0});
  };
  for (const auto& m : modules.modules) add(m.name_of_a(), m.a), add(m.name_of_b(), m.b);
  require_name_of_something_whole(destination);
  require_outside(destination, {source.path()});
  require_outside_of_runs(destination);
  const auto text = io::make_safetensors_header(header);
  std::int64_t bytes = 0;
  for (const auto& t : header.tensors) bytes += t.bytes;
  base::AtomicFolder folder(destination, options.existing, own_adapters(source.path()));
  require_room(folder.path(), folder.final_path(), bytes + (std::int64_t{64} << 10), options.free_bytes);
  {
    io::BulkFile file(folder.path() + "/" + peft_tensors_name, io::BulkFile::Mode::create);
    file.write(0, text.data(), static_cast<std::int64_t>(text.size()));
    std::vector<char> raw;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const auto values = whole_tensor(reader, ours[i]);
      raw.resize(values.size() * base::size(type.bytes));
      if (const auto lost = from_f32_counting(result.dtype, values.data(), std::ssize(values), raw.data()); lost > 0)
        throw base::InputError(fmt::format("{}: {} values of {} are too large for {}", source.path(), lost, ours[i],
                                           base::name_of(result.dtype)),
                               "convert-checkpoint --dtype f32 holds them");
      file.write(header.tensors[i].offset, raw.data(), std::ssize(raw));
      result.bytes_written += std::ssize(raw);
      result.bytes_read += std::ssize(values) * 4;
      if (options.watch) options.watch(result.bytes_written, bytes);
    }
    file.sync();
  }
  base::write_file(folder.path() + "/" + peft_config_name,
                   config_of_adapter(state.model, modules, recorded_folder(state.provenance)).dump(2) + "\n");
  folder.publish();
  result.tensors = ours.size();
  return result;
} catch (const fs::filesystem_error& e) {
  throw base::EnvironmentError(e.what());
}

namespace {

// The adapters that a folder has, by the names of our parameters, with columns or rows of zeros up to the rank of the
// model.
class PeftFolder {
 public:
  PeftFolder(const std::string& folder, const plan::ModelConfig& base, const Family& family)
      : folder_(folder), config_(config(folder)), file_(folder + "/" + peft_tensors_name), model_(base) {
    auto& a = model_.adapter;
    a.rank =
        (config_.rank + plan::adapter_rank_multiple - 1) / plan::adapter_rank_multiple * plan::adapter_rank_multiple;
    a.alpha = config_.alpha_of(a.rank);
    find_targets(family);
    if (const auto wrong = plan::problems(model_); !wrong.empty())
      throw base::InputError(fmt::format("{}: {}", folder, fmt::join(wrong, "; ")),
                             "the adapter belongs to another model");
    for (const auto& m : peft_modules(family, model_, folder).modules) {
      require_selected(m.module);
      values_[m.a] = read(m.name_of_a(), Side::a);
      values_[m.b] = read(m.name_of_b(), Side::b);
    }
    for (const auto& t : file_.header.tensors)
      if (!read_.contains(t.name))
        throw base::InputError(fmt::format("{}: tensor {} belongs to no layer that can have an adapter here", folder,
                                           base::excerpt(t.name)),
                               "merge the adapter with peft (merge_and_unload), and import the model");
  }
  const plan::ModelConfig& model() const { return model_; }
  const std::map<std::string, std::vector<float>>& values() const { return values_; }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t rank() const { return config_.rank; }
  bool is_all(base::DType type) const { return types_ == std::set{type}; }

 private:
  enum class Side { a, b };
  static PeftConfig config(const std::string& folder) {
    const auto path = folder + "/" + peft_config_name;
    const auto text = base::read_file(path, largest_config);
    return peft_config(base::parse_json<nlohmann::json>(text, path), path);
  }
  const io::SafeTensor* find(const std::string& name) const {
    for (const auto& t : file_.header.tensors)
      if (t.name == name) return &t;
    return nullptr;
  }
  // The targets of which some layer has an adapter.
  void find_targets(const Family& family) {
    std::vector<std::string> on;
    for (const auto& target : plan::adapter_targets) {
      if (!plan::can_have_adapter(model_, target)) continue;
      auto one = model_;
      one.adapter.on = {std::string(target.name)};
      if (const auto wrong = plan::problems(one); !wrong.empty())
        throw base::InputError(fmt::format("{}: {}", folder_, fmt::join(wrong, "; ")),
                               "merge the adapter with peft (merge_and_unload), and import the model");
      try {
        const auto modules = peft_modules(family, one, folder_).modules;
        if (std::any_of(modules.begin(), modules.end(), [&](const auto& m) { return find(m.name_of_a()) != nullptr; }))
          on.emplace_back(target.name);
      } catch (const base::InputError&) {  // it is joined with others; its tensor is refused as unknown
      }
    }
    if (on.empty())
      throw base::InputError(fmt::format("{}/{}: no tensor belongs to a layer of the model, as a {} names them",
                                         folder_, peft_tensors_name, family.model_type),
                             "the adapter belongs to another model, or is joined with others: merge it with peft");
    model_.adapter.on = std::move(on);
  }
  void require_selected(const std::string& module) const {
    const auto where = folder_ + "/" + peft_config_name;
    const auto by = config_.selection.left_out_by(module, where);
    if (!by.empty())
      throw base::InputError(fmt::format("{}: {} leaves out {}, of which {} has an adapter: peft would ignore it",
                                         where, by, module, peft_tensors_name),
                             "adapter_config.json belongs to another file; or name the module there");
  }
  std::vector<float> read(const std::string& name, Side side) {
    const auto* t = find(name);
    if (t == nullptr)
      throw base::InputError(fmt::format("{}/{}: tensor {} is missing: all layers need the same adapters", folder_,
                                         peft_tensors_name, name),
                             "merge the adapter with peft (merge_and_unload), and import the model");
    const auto* type = weight_type_in_safetensors(t->dtype);
    if (type == nullptr)
      throw base::InputError(fmt::format("{}/{}: {} has dtype {}, expected F32, BF16 or F16", folder_,
                                         peft_tensors_name, name, base::excerpt(t->dtype)),
                             "save the adapter in another dtype");
    if (t->shape.size() != 2 || t->shape[side == Side::a ? 0 : 1] != config_.rank)
      throw base::InputError(fmt::format("{}/{}: {} has shape [{}], and r is {}", folder_, peft_tensors_name, name,
                                         fmt::join(t->shape, ", "), config_.rank),
                             "adapter_config.json belongs to another file");
    std::vector<char> raw(base::size(t->bytes));
    file_.file.read(t->offset, raw.data(), t->bytes);
    bytes_ += t->bytes;
    types_.insert(type->type);
    const auto rows = t->shape[0], cols = t->shape[1], rank = model_.adapter.rank;
    std::vector<float> given(base::size(rows * cols));
    base::to_f32(type->type, raw.data(), rows * cols, given.data());
    read_.insert({name, true});
    if (!std::ranges::all_of(given, [](float x) { return std::isfinite(x); }))
      throw base::InputError(fmt::format("{}/{}: {} has numbers that are not finite", folder_, peft_tensors_name, name),
                             "take an adapter from before its training failed");
    const auto wide = side == Side::a ? cols : rank, tall = side == Side::a ? rank : rows;
    std::vector<float> out(base::size(tall * wide), 0.0f);
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(given.begin() + r * cols, cols, out.begin() + r * wide);
    return out;
  }
  std::string folder_;
  PeftConfig config_;
  io::SafetensorsFile file_;
  plan::ModelConfig model_;
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, bool> read_;
  std::int64_t bytes_ = 0;
  std::set<base::DType> types_;
};

}  // namespace

PeftResult import_peft(const Reader& source, const std::string& folder, const std::string& destination,
                       const PeftOptions& options) try {
  if (plan::has_adapter(source.state().model))
    throw base::UsageError(fmt::format("{} has adapters already", source.path()),
                           "take the checkpoint that it began with, or reshard-checkpoint --merge");
  PeftResult result;
  result.family = &family_without_adapters(source.state());
  const PeftFolder adapter(base::without_slashes(folder), source.state().model, *result.family);
  for (const auto& p : parameters_of(adapter.model()))
    if (const auto found = adapter.values().find(p.name);
        found != adapter.values().end() && std::ssize(found->second) != p.count)
      throw base::InputError(fmt::format("{}: the adapter of {} has {} numbers, the model's has {}", folder, p.name,
                                         found->second.size(), p.count),
                             "the adapter belongs to another model");
  NewLayout layout;
  layout.data = layout.tensor = layout.pipeline = layout.experts = 1;
  layout.contents = Contents::model;
  const auto of_base = source.state().dtype;
  layout.dtype = result.dtype = options.dtype.value_or(adapter.is_all(of_base) ? of_base : base::DType::f32);
  result.rank = adapter.rank();
  const auto ranks = ranks_of_layout(source.manifest(), layout);
  auto state = state_of_layout(source.state(), layout, ranks);
  state.model = adapter.model();
  if (state.identity.is_object() && state.identity.contains("model"))
    state.identity["model"] = plan::model_to_json(state.model);
  state.provenance["peft"] = base::text_of_path(folder);
  const std::vector<const Reader*> sources{&source};
  ReshardOptions work_options;
  work_options.existing = options.existing, work_options.threads = options.threads, work_options.watch = options.watch;
  work_options.free_bytes = options.free_bytes;
  std::uint32_t sum = 0;  // of what is imported: an interrupted start goes on only with the same adapter
  for (const auto& [name, values] : adapter.values())
    sum = base::crc32c(values.data(), values.size() * sizeof(float), base::crc32c(name.data(), name.size(), sum));
  state.writer =
      purpose_of(fmt::format("peft {} {}", base::text_of_path(folder), hex32(sum)), sources, state, ranks.topology);
  NewCheckpoint target(destination, state, ranks,
                       {options.existing, {source.path()}, options.threads, {}, options.free_bytes, {}});
  result.bytes_written = target.bytes_to_write();
  std::map<std::string, std::int64_t> columns;  // of the adapters' matrices
  for (const auto& p : parameters_of(adapter.model()))
    if (adapter.values().contains(p.name)) columns[p.name] = p.shape.at(1);
  FilledCheckpoint work(sources, target, work_options, [&](const Kind&, const auto& slice, auto& from, auto& values) {
    const auto found = adapter.values().find(slice.name);
    if (found == adapter.values().end()) return from.read(from.readers.front(), Kind::master, slice, values);
    const auto in = columns.at(slice.name);
    std::size_t at = 0;
    for (const auto& box : slice.boxes)
      for (std::int64_t row = 0; row < box.count[0]; ++row)
        for (std::int64_t column = 0; column < box.count[1]; ++column)
          values[at++] = found->second[base::size((box.start[0] + row) * in + box.start[1] + column)];
  });
  const auto made = work.run();
  result.bytes_read = work.bytes_read() + adapter.bytes();
  result.tensors = adapter.values().size();
  target.publish([&](const Manifest& written) { target.require_fingerprints(written, made); });
  return result;
} catch (const fs::filesystem_error& e) {
  throw base::EnvironmentError(e.what());
}

}  // namespace trainyard::checkpoint
