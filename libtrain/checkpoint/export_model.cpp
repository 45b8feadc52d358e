// Moves the tensors of a checkpoint into safetensors files.
#include "libtrain/checkpoint/export_model.h"

#include "libtrain/base/checksum.h"
#include "libtrain/base/error.h"
#include "libtrain/base/folder_lock.h"
#include "libtrain/base/index.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/checkpoint/companions.h"
#include "libtrain/checkpoint/destination.h"
#include "libtrain/checkpoint/document_tokens.h"
#include "libtrain/checkpoint/parts.h"
#include "libtrain/checkpoint/read_sums.h"
#include "libtrain/checkpoint/scattered_rank.h"
#include "libtrain/io/safetensors.h"
#include "libtrain/plan/spec/conditions.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

namespace trainyard::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr const char* config_name = "config.json";

// Metadata in the header of every file: transformers requires the format, and written_by marks the file as ours.
std::map<std::string, std::string> metadata() { return {{"format", "pt"}, {"written_by", "trainyard"}}; }

// The beginning of such a header, which is the same whatever follows and however much of the file was written.
std::string beginning_of_ours() {
  io::SafetensorsHeader nothing{{}, metadata()};
  const auto text = io::make_safetensors_header(nothing).substr(8);
  return text.substr(0, text.rfind('}'));
}

// Folders that hold nothing but a model, whole or unfinished, whose tensor files are marked as ours.
base::Owned own_models() {
  const auto is_our_tensor_file = [](const std::string& path) {
    const auto sign = beginning_of_ours();
    std::string found(sign.size(), '\0');
    try {
      const io::BulkFile file(path, io::BulkFile::Mode::read);
      if (file.size() == 0) return true;  // just created
      file.read(8, found.data(), static_cast<std::int64_t>(found.size()));
    } catch (const base::InputError&) {
      return false;
    }
    return found == sign;
  };
  const auto foreign = [is_our_tensor_file](const std::string& path) -> std::string {
    std::error_code error;
    if (!fs::is_directory(path, error)) return "is no folder";
    bool described = false, has_tensors = false;
    const auto unknown = base::first_unknown(path, [&](const std::string& given, base::EntryKind kind) {
      auto name = given;
      if (name.ends_with(base::partial_suffix)) name.resize(name.size() - base::partial_suffix.size());
      if (kind != base::EntryKind::file) return false;
      if (name == base::lock_name) return true;
      if (is_companion(name)) return true;
      if (name == config_name || name == io::safetensors_index_name) return described = true;
      if (name != io::safetensors_name && !io::is_safetensors_shard_name(name)) return false;
      return has_tensors = is_our_tensor_file(path + "/" + given);
    });
    if (!unknown.empty()) return fmt::format("holds {}, which is of no model that this program wrote", unknown);
    return described && !has_tensors ? "holds a model's config.json without tensors that this program wrote" : "";
  };
  return {"a model in safetensors", foreign};
}

// Where a tensor lies: the file and the byte offset in it.
struct Target {
  std::size_t file = 0;
  std::int64_t offset = 0;
};

class Exporting {
 public:
  Exporting(const Reader& source, const Family& family, base::DType dtype, const ExportOptions& options)
      : source_(source), type_(weight_type(dtype)), options_(options),
        tensors_(foreign_tensors(family, source.state().model, source.manifest().parameters, family.prefix)) {
    lay_out();
    for (const auto& t : tensors_) bytes_ += t.rows * t.cols * type_.bytes;
    for (const auto& header : headers_) file_bytes_ += static_cast<std::int64_t>(header.size());
    file_bytes_ += bytes_;
  }

  std::int64_t bytes() const { return bytes_; }
  std::int64_t file_bytes() const { return file_bytes_; }
  std::size_t tensors() const { return tensors_.size(); }
  const std::vector<std::string>& files() const { return names_; }
  void write(const std::string& folder);
  nlohmann::ordered_json index() const;
  std::string warning() const { return not_finite_.warning(tensors_); }  // after write

 private:
  struct Hands {
    std::optional<Reader> reader;
    std::optional<ReadSums> read;
    OpenFiles files{io::BulkFile::Mode::update};
    std::vector<float> values, turned;
    std::vector<char> raw;
    std::vector<std::uint64_t> made;  // fingerprints, by tensor
    NotFinite not_finite;
  };
  using AllHands = std::vector<Hands>;

  void lay_out();
  AllHands make_hands() const;
  void move(const Slab& slab, Hands& h);
  void read_back(std::size_t tensor, std::int64_t first, std::int64_t count, Hands& h);
  std::string path_of_file(std::size_t file) const { return folder_ + "/" + names_[file]; }
  void report(std::int64_t bytes);
  static std::vector<std::uint64_t> sum(const AllHands& all, std::size_t tensors);

  const Reader& source_;
  const WeightTypeName& type_;
  const ExportOptions& options_;
  std::vector<ForeignTensor> tensors_;
  std::vector<Target> targets_;  // one for each tensor
  std::vector<std::string> names_, headers_;
  std::string folder_;
  NotFinite not_finite_;
  std::int64_t bytes_ = 0, file_bytes_ = 0, done_ = 0;
  std::mutex mutex_;
};

// Assigns tensors to files in their order. A new file begins where the next tensor would exceed max_shard.
void Exporting::lay_out() {
  std::vector<std::vector<std::size_t>> shards(1);
  std::int64_t in_shard = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto bytes = tensors_[i].rows * tensors_[i].cols * type_.bytes;
    if (!shards.back().empty() && in_shard + bytes > options_.max_shard) {
      shards.emplace_back();
      in_shard = 0;
    }
    shards.back().push_back(i);
    in_shard += bytes;
  }
  targets_.resize(tensors_.size());
  for (std::size_t s = 0; s < shards.size(); ++s) {
    names_.push_back(shards.size() == 1 ? io::safetensors_name : io::safetensors_shard_name(s, shards.size()));
    io::SafetensorsHeader header{{}, metadata()};
    for (const auto i : shards[s])
      header.tensors.push_back({tensors_[i].name, type_.in_safetensors, tensors_[i].shape, 0, 0});
    headers_.push_back(io::make_safetensors_header(header));
    for (std::size_t k = 0; k < shards[s].size(); ++k) targets_[shards[s][k]] = {s, header.tensors[k].offset};
  }
}

nlohmann::ordered_json Exporting::index() const {
  auto map = nlohmann::json::object();  // sorted, as transformers writes it
  for (std::size_t i = 0; i < tensors_.size(); ++i) map[tensors_[i].name] = names_[targets_[i].file];
  return {{"metadata", {{"total_size", bytes_}}}, {"weight_map", map}};
}

Exporting::AllHands Exporting::make_hands() const {
  AllHands all(base::size(std::max(1, options_.threads)));
  for (auto& h : all) h.made.resize(tensors_.size());
  return all;
}

std::vector<std::uint64_t> Exporting::sum(const AllHands& all, std::size_t tensors) {
  std::vector<std::uint64_t> made(tensors);
  for (const auto& h : all)
    for (std::size_t i = 0; i < tensors; ++i) made[i] += h.made[i];
  return made;
}

void Exporting::write(const std::string& folder) {
  folder_ = folder;
  for (std::size_t f = 0; f < names_.size(); ++f) {
    io::BulkFile file(path_of_file(f), io::BulkFile::Mode::create);
    file.write(0, headers_[f].data(), static_cast<std::int64_t>(headers_[f].size()));
  }
  const auto slabs = slabs_of(tensors_);
  auto hands = make_hands();
  for_each_part(slabs.size(), options_.threads,
                [&](std::size_t i, int thread) { move(slabs[i], base::at(hands, thread)); });
  ReadSums read(source_);
  for (const auto& h : hands) {
    not_finite_.add(h.not_finite);
    if (h.read) read.add(*h.read);
  }
  read.require();
  const auto sent = sum(hands, tensors_.size());
  struct Range {
    std::size_t tensor;
    std::int64_t first, count;
  };
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    for (std::int64_t first = 0, n = tensors_[i].rows * tensors_[i].cols; first < n; first += slab_elements)
      ranges.push_back({i, first, std::min(slab_elements, n - first)});
  hands = make_hands();
  for_each_part(ranges.size(), options_.threads, [&](std::size_t i, int thread) {
    read_back(ranges[i].tensor, ranges[i].first, ranges[i].count, base::at(hands, thread));
  });
  const auto found = sum(hands, tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (sent[i] != found[i])
      throw base::InputError(
          fmt::format("{}: {} reads back with fingerprint {}, expected {}", path_of_file(targets_[i].file),
                      tensors_[i].name, hex64(found[i]), hex64(sent[i])),
          "memory or a disk of this machine is at fault");
  for (std::size_t f = 0; f < names_.size(); ++f) {
    io::BulkFile file(path_of_file(f), io::BulkFile::Mode::update);
    file.sync();
    file.close();
  }
}

void Exporting::move(const Slab& slab, Hands& h) {
  if (!h.reader) h.reader.emplace(source_.another()), h.read.emplace(source_);
  const auto& t = tensors_[slab.tensor];
  const auto& target = targets_[slab.tensor];
  const auto& parameter = base::at(source_.manifest().parameters, t.parts[slab.part].tensor);
  const auto count = slab.count * t.cols;
  const float* values = at_least(h.values, count);
  auto* raw = at_least(h.raw, count * type_.bytes);
  h.reader->read_tensor(Kind::master, parameter.name, slab.first * t.cols, count, h.values.data());
  h.read->add(Kind::master, parameter.name, slab.first * t.cols, count, h.values.data());
  h.not_finite.look(slab.tensor, values, count);
  if (t.transposed) {
    transpose(values, slab.count, t.cols, at_least(h.turned, count));
    values = h.turned.data();
  }
  if (const auto lost = from_f32_counting(type_.type, values, count, raw); lost > 0)
    throw base::InputError(
        fmt::format("{}: {} has {} that {} cannot hold", source_.path(), parameter.name, base::counted(lost, "weight"),
                    type_.ours),
        type_.type == base::DType::f16 ? base::text("$dtype bf16 or f32 can") : base::text("$dtype f32 can"));
  auto& file = h.files.at(path_of_file(target.file));
  for_each_foreign_run(t, slab, [&](std::int64_t element, std::int64_t at, std::int64_t n) {
    const auto* from = raw + at * type_.bytes;
    h.made[slab.tensor] += base::fingerprint(from, n, type_.bytes, static_cast<std::uint64_t>(element));
    file.write(target.offset + element * type_.bytes, from, n * type_.bytes);
  });
  report(count * type_.bytes);
}

void Exporting::read_back(std::size_t tensor, std::int64_t first, std::int64_t count, Hands& h) {
  auto* raw = at_least(h.raw, count * type_.bytes);
  auto& file = h.files.at(path_of_file(targets_[tensor].file));
  const auto offset = targets_[tensor].offset + first * type_.bytes;
  file.read(offset, raw, count * type_.bytes);
  file.begin_sync(offset, count * type_.bytes);
  h.made[tensor] += base::fingerprint(raw, count, type_.bytes, static_cast<std::uint64_t>(first));
  report(count * type_.bytes);
}

void Exporting::report(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  done_ += bytes;
  if (options_.watch) options_.watch(done_, 2 * bytes_);
}

std::string type_in(const nlohmann::ordered_json& config) {
  const auto type =
      config.is_object() ? config.value("model_type", nlohmann::ordered_json()) : nlohmann::ordered_json();
  return type.is_string() ? type.get<std::string>() : std::string();
}

// The recorded config.json of the imported model with today's dtype and token ids, if it still describes the model;
// else empty. So a config.json comes out as it came in.
std::string kept_config(const nlohmann::json& provenance, const ExportResult& result, const plan::ModelConfig& model) {
  const auto text = recorded_config(provenance);
  auto config = nlohmann::ordered_json::parse(text, nullptr, false);
  if (type_in(config) != result.family->model_type) return {};
  std::vector<std::string> objections, unknown;
  try {
    const auto read = result.family->model(nlohmann::json(config), "config.json", objections, unknown);
    if (!objections.empty() || !computes_same(read, model)) return {};
  } catch (const base::InputError&) {
    return {};
  }
  const auto before = config;
  const std::string dtype = weight_type(result.dtype).in_config;
  bool named = false;
  for (const char* key : {"torch_dtype", "dtype"})
    if (const auto found = config.find(key); found != config.end()) named = true, *found = dtype;
  if (!named && result.dtype != base::DType::f32) config["torch_dtype"] = dtype;
  use_ids_of_run(provenance, config);
  if (model.position_offset > 0 && before.contains("pad_token_id")) config["pad_token_id"] = before["pad_token_id"];
  return config == before ? text : config.dump(2) + "\n";
}

// The model with the token that begins a decoder's inputs: of the run's data, if the model does not name it.
plan::ModelConfig with_start(plan::ModelConfig m, const DocumentIds& ids) {
  if (plan::has_encoder(m) && m.decoder_start < 0 && ids.end >= 0 && ids.end < m.vocabulary) m.decoder_start = ids.end;
  return m;
}

}  // namespace

ExportResult export_model(const Reader& source, const std::string& destination, const ExportOptions& options) try {
  const auto& state = source.state();
  if (plan::has_adapter(state.model))
    throw base::UsageError(
        fmt::format("{} has adapters beside its weights, which such a model has no place for", source.path()),
        "reshard-checkpoint --merge adds them to the weights; convert-checkpoint --to peft writes them alone");
  ExportResult result;
  const auto& record = state.provenance;
  const auto ids = document_ids_of(record);
  const auto model = with_start(state.model, ids);
  result.family = &family_of(model, recorded_model_type(record));
  result.dtype = options.dtype.value_or(state.dtype);
  auto config = config_of(*result.family, model, weight_type(result.dtype).in_config, result.notes);
  if (ids.end >= 0) config["eos_token_id"] = ids.end;
  if (ids.begin >= 0) config["bos_token_id"] = ids.begin;
  if (!has_other_tokenizer(record)) give_token_ids(record, config);
  const ExportedTokens tokens(source, options.read_tokens);
  tokens.require_padding(result.family->model_type, result.warnings);
  Exporting work(source, *result.family, result.dtype, options);
  require_name_of_something_whole(destination);
  require_outside(destination, {source.path()});
  require_outside_of_runs(destination);
  auto own = own_models();
  own.precious = {source.path()};
  base::AtomicFolder folder(destination, options.existing, own);
  require_room(folder.path(), folder.final_path(), work.file_bytes() + tokens.bytes() + (std::int64_t{512} << 10),
               options.free_bytes);
  work.write(folder.path());
  if (auto warning = work.warning(); !warning.empty()) result.warnings.push_back(std::move(warning));
  if (work.files().size() > 1)
    base::write_file(folder.path() + "/" + io::safetensors_index_name, work.index().dump(2) + "\n");
  const auto kept = kept_config(record, result, model);
  base::write_file(folder.path() + "/" + config_name, kept.empty() ? config.dump(2) + "\n" : kept);
  result.companions = tokens.write(folder.path(), result.warnings);
  folder.publish();
  result.files = work.files();
  result.tensors = work.tensors();
  result.bytes_written = work.bytes();
  for (const auto& p : source.manifest().parameters)
    result.bytes_read += p.count * base::size_of(dtype_of(exact_weights(state), state));
  return result;
} catch (const fs::filesystem_error& e) {
  throw base::EnvironmentError(e.what());
}

}  // namespace trainyard::checkpoint
