// Moves the tensors of a Hugging Face model into a new checkpoint.
#include "libtrain/checkpoint/import_model.h"

#include "libtrain/base/atomic_file.h"
#include "libtrain/base/checksum.h"
#include "libtrain/base/clock.h"
#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/json.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/read_file.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/companions.h"
#include "libtrain/checkpoint/document_tokens.h"
#include "libtrain/checkpoint/parts.h"
#include "libtrain/io/safetensors.h"
#include "libtrain/plan/model_file/model_json.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <unistd.h>

namespace trainyard::checkpoint {

namespace {

using FilePlace = io::SafetensorsModel::Place;

// Adds a line with the first few of many names, so that a message stays short.
void add_names(std::vector<std::string>& lines, const char* title, const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  if (names.empty()) return;
  const auto shown = std::min(most, names.size());
  auto line = fmt::format("{} {}: {}", names.size(), title,
                          fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) line += fmt::format(" and {} more", names.size() - shown);
  lines.push_back(std::move(line));
}

// A source that has exactly the expected tensors; the constructor checks this.
struct Source {
  std::string path;
  io::SafetensorsModel files;
  std::string config;  // the text of config.json
  ForeignModel is;
  std::vector<ParameterEntry> parameters;
  std::vector<ForeignTensor> tensors;
  std::vector<FilePlace> places;    // one for each tensor
  std::vector<std::string> unused;  // tensors that are not imported

  Source(const std::string& path_, const std::vector<std::string>& ignored_keys);
  const WeightTypeName& type(std::size_t tensor) const {
    return *weight_type_in_safetensors(places[tensor].tensor->dtype);
  }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const auto& place : places) sum += place.tensor->bytes;
    return sum;
  }

 private:
  void find_tensors(const std::string& prefix);
  // The name under which a tied model may hold the tensor alone; the same name if there is none.
  std::string name_of_twin(const std::string& tensor, const std::string& prefix) const;
  enum class Twin { of_head, copy };
  void require_equal(const std::string& table, const std::string& twin, Twin kind) const;
};

std::string name_of_model(const std::string& folder) {
  std::error_code error;
  const auto name = std::filesystem::weakly_canonical(folder, error).filename().string();
  return name.empty() || !base::is_utf8(name) || name.size() > 200 ? "imported" : base::one_line(name);
}

Source::Source(const std::string& path_, const std::vector<std::string>& ignored_keys) : path(path_), files(path_) {
  const auto place = files.folder() + "/config.json";
  config = base::read_file(place, base::largest_description);
  is = model_of_config(base::parse_json<nlohmann::json>(config, place), name_of_model(files.folder()), place,
                       ignored_keys);
  parameters = parameters_of(is.model);
  const std::string prefix = is.family->prefix;
  const auto first = files.tensors().lower_bound(prefix);
  const bool prefixed = first != files.tensors().end() && first->first.starts_with(prefix);
  find_tensors(prefixed ? prefix : "");
}

std::string Source::name_of_twin(const std::string& tensor, const std::string& prefix) const {
  const auto one_of = [&](const std::vector<ForeignTwin>& twins) {
    for (const auto& twin : twins)
      if (their_names(twin.of, is.model, prefix).front() == tensor) {
        auto name = their_names(twin.name, is.model, prefix).front();
        if (files.tensors().contains(name)) return name;
      }
    return tensor;
  };
  const auto copy = one_of(is.family->copies);
  return copy != tensor || !is.model.tied ? copy : one_of(is.family->tied);
}

void Source::find_tensors(const std::string& prefix) {
  tensors = foreign_tensors(*is.family, is.model, parameters, prefix);
  const auto& all = files.tensors();
  std::set<std::string> expected;
  std::map<std::string, std::string> names;  // of the tensors of the list, in the file
  std::vector<std::string> missing, unknown, shapes, types;
  for (const auto& t : tensors) {
    auto found = all.find(t.name);
    if (found == all.end()) found = all.find(older_name(*is.family, t.name));
    if (found == all.end()) found = all.find(name_of_twin(t.name, prefix));
    if (found == all.end()) {
      missing.push_back(t.name);
      continue;
    }
    expected.insert(found->first), names[t.name] = found->first;
    const auto& held = *found->second.tensor;
    if (held.shape != t.shape)
      shapes.push_back(
          fmt::format("{} is {}, config.json makes it {}", found->first, shape_text(held.shape), shape_text(t.shape)));
    else if (weight_type_in_safetensors(held.dtype) == nullptr)
      types.push_back(fmt::format("{} is {}", found->first, held.dtype));
    places.push_back(found->second);
  }
  const auto pass_over = [&](const std::vector<const char*>& patterns, auto&& of_one) {
    for (const auto* pattern : patterns)
      for (const auto& name : their_names(pattern, is.model, prefix))
        if (all.contains(name) && expected.insert(name).second) of_one(name);
  };
  pass_over(is.family->ignored, [](const auto&) {});
  pass_over(is.family->unused, [&](const auto& name) { unused.push_back(name); });
  struct Twins {
    std::string name, of;
    Twin kind;
  };
  std::vector<Twins> twins;
  const auto find_twins = [&](const std::vector<ForeignTwin>& of_family, Twin kind) {
    for (const auto& twin : of_family)
      pass_over({twin.name}, [&](const auto& name) {
        const auto of = names.find(their_names(twin.of, is.model, prefix).front());
        if (of != names.end()) twins.push_back({name, of->second, kind});
      });
  };
  find_twins(is.family->copies, Twin::copy);
  if (is.model.tied) find_twins(is.family->tied, Twin::of_head);
  for (const auto& [name, place] : all)
    if (!expected.contains(name)) unknown.push_back(base::excerpt(name));
  std::vector<std::string> lines;
  add_names(lines, "missing", missing);
  add_names(lines, "unknown", unknown);
  add_names(lines, "of another shape", shapes);
  add_names(lines, "of a type that is not read (F32, BF16 and F16 are)", types);
  if (!lines.empty())
    throw base::InputError(
        fmt::format("{}: its tensors do not match the {} model that config.json describes: {}", path,
                    is.family->model_type, fmt::join(lines, "; ")),
        fmt::format("nothing was written; do config.json and the tensors belong to one model, and is it a {}?",
                    is.family->architecture));
  for (const auto& [name, of, kind] : twins) require_equal(of, name, kind);
}

bool may_be_untied(const Family& family) {
  return std::any_of(family.rules.begin(), family.rules.end(),
                     [](const auto& rule) { return rule.ours.front() == std::string_view("head.weight"); });
}

// A tied model has one table for both occurrences; some files hold it twice. Requires that both are equal.
void Source::require_equal(const std::string& table, const std::string& twin, Twin kind) const {
  const auto &a = files.tensors().at(table), &b = files.tensors().at(twin);
  const auto *one = weight_type_in_safetensors(a.tensor->dtype), *other = weight_type_in_safetensors(b.tensor->dtype);
  bool equal = other != nullptr && a.tensor->shape == b.tensor->shape;
  std::vector<char> raw(base::size(slab_elements) * 4);
  std::vector<float> values(base::size(slab_elements)), others(values.size());
  const auto read = [&](const FilePlace& from, const WeightTypeName& type, std::int64_t at, std::int64_t n, float* to) {
    from.file->file.read(from.tensor->offset + at * type.bytes, raw.data(), n * type.bytes);
    base::to_f32(type.type, raw.data(), n, to);
  };
  const auto count = a.tensor->bytes / one->bytes;
  for (std::int64_t at = 0; equal && at < count; at += slab_elements) {
    const auto n = std::min(slab_elements, count - at);
    read(a, *one, at, n, values.data());
    read(b, *other, at, n, others.data());
    equal = std::memcmp(values.data(), others.data(), base::size(n) * 4) == 0;
  }
  if (!equal && kind == Twin::copy)
    throw base::InputError(fmt::format("{}: {} and {} hold other values, and a {} has one table for both", path, table,
                                       twin, is.family->model_type),
                           "remove one of them: the other serves both");
  if (!equal)
    throw base::InputError(fmt::format("{}: config.json ties the head to {} ({}), but {} ({}) holds other values", path,
                                       table, a.tensor->dtype, twin, b.tensor->dtype),
                           may_be_untied(*is.family) ? "remove the second tensor, and the first serves both; or keep "
                                                       "both with \"tie_word_embeddings\": false in config.json"
                                                     : "remove the second tensor, and the first serves both");
}

class Importing {
 public:
  Importing(const Source& source, NewCheckpoint& target, const ImportOptions& options)
      : source_(source), target_(target), options_(options), dtype_(target.state().dtype),
        slabs_(slabs_of(source.tensors)), all_(source.bytes()) {}

  std::map<std::string, std::uint64_t> run() {
    std::vector<Hands> hands(base::size(std::max(1, options_.threads)));
    for_each_part(slabs_.size(), options_.threads,
                  [&](std::size_t i, int thread) { move(slabs_[i], base::at(hands, thread)); });
    std::map<std::string, std::uint64_t> made;
    for (const auto& h : hands) {
      not_finite_.add(h.not_finite);
      for (const auto& [path, fingerprint] : h.made) made[path] += fingerprint;
    }
    return made;
  }
  std::string warning() const { return not_finite_.warning(source_.tensors); }

 private:
  struct Hands {
    WritingHands writing;
    std::vector<char> raw;
    std::vector<float> values, turned;
    std::vector<char> narrow;
    std::map<std::string, std::uint64_t> made;
    NotFinite not_finite;
  };

  void move(const Slab& slab, Hands& h) {
    const auto& t = source_.tensors[slab.tensor];
    const auto& type = source_.type(slab.tensor);
    const auto& place = source_.places[slab.tensor];
    const auto count = slab.count * t.cols;
    auto* raw = at_least(h.raw, count * type.bytes);
    for_each_foreign_run(t, slab, [&](std::int64_t element, std::int64_t at, std::int64_t n) {
      place.file->file.read(place.tensor->offset + element * type.bytes, raw + at * type.bytes, n * type.bytes);
    });
    const float* values = at_least(h.values, count);
    base::to_f32(type.type, raw, count, h.values.data());
    h.not_finite.look(slab.tensor, values, count);
    if (t.transposed) {
      transpose(values, t.cols, slab.count, at_least(h.turned, count));
      values = h.turned.data();
    }
    put(t.parts[slab.part].tensor, slab.first * t.cols, count, rounded(t, values, count, h), h);
    const std::lock_guard lock(mutex_);
    done_ += count * type.bytes;
    if (options_.watch) options_.watch(done_, all_);
  }

  const void* rounded(const ForeignTensor& t, const float* values, std::int64_t count, Hands& h) const {
    if (!base::is_narrow(dtype_)) return values;
    auto* narrow = at_least(h.narrow, count * base::size_of(dtype_));
    if (const auto lost = from_f32_counting(dtype_, values, count, narrow); lost > 0)
      throw base::InputError(fmt::format("{}: {} has {} that {} cannot hold", source_.path, t.name,
                                         base::counted(lost, "weight"), base::name_of(dtype_)),
                             base::text("$dtype f32 can"));
    return narrow;
  }

  void put(std::int32_t tensor, std::int64_t first, std::int64_t count, const void* data, Hands& h) {
    const auto size = base::size_of(dtype_);
    auto& made = h.made[path_of(Kind::model, base::at(source_.parameters, tensor).name)];
    target_.places().for_each(tensor, first, count, [&](int r, std::int64_t at, std::int64_t element, std::int64_t n) {
      const auto* from = static_cast<const char*>(data) + (element - first) * size;
      made += base::fingerprint(from, n, static_cast<int>(size), static_cast<std::uint64_t>(element));
      target_.rank(r).write(Kind::model, at, n, from, h.writing);
    });
  }

  const Source& source_;
  NewCheckpoint& target_;
  const ImportOptions& options_;
  base::DType dtype_;
  std::vector<Slab> slabs_;
  std::mutex mutex_;
  std::int64_t done_ = 0, all_;
  NotFinite not_finite_;
};

// Parses a JSON file beside the weights. Returns an empty object if there is no file, or it holds something else.
nlohmann::json object_beside(const std::string& folder, const char* name) {
  const auto path = folder + "/" + name;
  if (base::file_size(path) < 0) return nlohmann::json::object();
  auto json = nlohmann::json::parse(base::read_file(path, base::largest_description), nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

// Records the first readable tokenizer file that came with the model. generate looks for it, and an evaluation compares
// it with its data. The weights do not depend on it, so files that cannot be read are only a note.
void record_tokenizer(const std::string& folder, const ImportOptions& options, nlohmann::json& provenance,
                      std::vector<std::string>& notes) {
  std::string unread;
  for (const char* name : {"tokenizer.json", "tokenizer.model"}) try {
      std::error_code error;
      const auto path = std::filesystem::absolute(folder, error) / name;
      if (error || !base::is_utf8(path.string()) || base::file_size(path.string()) < 0) continue;
      const auto model = base::read_file(path.string());
      if (const auto why = options.tokenizer_problem ? options.tokenizer_problem(path.string()) : ""; !why.empty()) {
        unread += (unread.empty() ? "" : "; ") + why;
        continue;
      }
      provenance["tokenizer"] = {{"name", name},
                                 {"source", path.lexically_normal().string()},
                                 {"crc32c", base::crc32c(model.data(), model.size())}};
      return;
    } catch (const base::InputError& e) {
      unread += (unread.empty() ? "" : "; ") + std::string(e.what());
    }
  if (!unread.empty()) notes.push_back(fmt::format("the checkpoint does not name its tokenizer: {}", unread));
}

std::int32_t id_in(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return -1;
  const auto& one = found->is_array() && !found->empty() ? found->front() : *found;  // the first of several
  return one.is_number_unsigned() && one.get<std::uint64_t>() < std::uint64_t{1} << 31 ? one.get<std::int32_t>() : -1;
}

// Returns whether the tokenizer puts a token before each text: by the template in tokenizer.json, else by its settings.
// Otherwise, transformers adds one when it reads the SentencePiece model of a Llama.
bool texts_begin_with_a_token(const std::string& folder, const nlohmann::json& config) {
  const auto begins = [](const nlohmann::json& step) {
    if (!step.is_object() || step.value("type", nlohmann::json()) != "TemplateProcessing") return false;
    const auto single = step.find("single");
    return single != step.end() && single->is_array() && !single->empty() && single->front().is_object() &&
           single->front().contains("SpecialToken");
  };
  const auto tokenizer = object_beside(folder, "tokenizer.json");
  const auto found = tokenizer.find("post_processor");
  if (found != tokenizer.end() && found->is_object()) {
    const auto steps = found->find("processors");
    if (begins(*found)) return true;
    if (steps != found->end() && steps->is_array() && std::any_of(steps->begin(), steps->end(), begins)) return true;
  }
  const auto settings = object_beside(folder, "tokenizer_config.json");
  const auto given = settings.find("add_bos_token");
  if (given != settings.end() && given->is_boolean()) return given->get<bool>();
  return tokenizer.empty() && base::file_size(folder + "/tokenizer.model") >= 0 &&
         config.value("model_type", nlohmann::json()) == "llama";
}

// Records the token that ends a document, and the token that begins one if the model was fed it. What a run that begins
// with these weights shall know is in the record of the folder, which its checkpoints keep.
void record_document_tokens(const std::string& folder, nlohmann::json& provenance) try {
  const auto config = object_beside(folder, "config.json");
  DocumentIds ids{id_in(config, "eos_token_id"), id_in(config, "bos_token_id")};
  if (ids.begin >= 0 && !texts_begin_with_a_token(folder, config)) ids.begin = -1;
  if (ids.end >= 0 || ids.begin >= 0) provenance["document_tokens"] = document_ids_to_json(ids);
  keep_token_ids(config, provenance);
  const auto record = provenance.find("hugging_face");
  if (record == provenance.end()) return;
  keep_end_ids(object_beside(folder, "generation_config.json"), *record);
  (*record)["texts_begin_with_a_token"] = ids.begin >= 0 || texts_begin_with_a_token(folder, config);
} catch (const base::InputError&) {  // too long or unreadable: the ids stay unknown
}

constexpr std::size_t most_kept_config = std::size_t{256} << 10;  // every checkpoint of a run that begins here has it

RunState state_of(const Source& source, const ImportOptions& options, std::vector<std::string>& notes) {
  // Kept if all tensors have it and a run can compute in it. A run in a narrow range is asked for by name.
  const auto first = source.type(0).type;
  bool kept = base::traits_of(first).trains && !base::has_narrow_range(first);
  for (std::size_t i = 1; i < source.tensors.size(); ++i) kept = kept && source.type(i).type == first;
  RunState s;
  s.contents = Contents::model;
  s.dtype = options.dtype.value_or(kept ? first : base::DType::f32);
  s.model = source.is.model;
  s.plan = {{"ranks", 1}, {"dtype", base::name_of(s.dtype)}};
  s.versions = options.versions;
  s.provenance = {{"imported_from", base::text_of_path(source.path)}, {"model_type", source.is.family->model_type}};
  record_tokenizer(source.files.folder(), options, s.provenance, notes);
  if (source.config.size() <= most_kept_config && base::is_utf8(source.config))
    s.provenance["hugging_face"] = record_of_model(source.files.folder(), source.config);
  record_document_tokens(source.files.folder(), s.provenance);
  if (options.isa) s.isa = options.isa(s.dtype);
  // Nothing proves that an interrupted start read the same tensors, so the name is unique and each start begins anew.
  s.writer = fmt::format("import {} {}", ::getpid(), base::real_clock().now());
  return s;
}

}  // namespace

ImportResult import_model(const std::string& path, const std::string& destination, const ImportOptions& options) try {
  const Source source(path, options.ignored_keys);
  ImportResult result;
  result.family = source.is.family;
  result.files = source.files.files();
  result.bytes_read = source.bytes();
  if (!source.unused.empty())
    result.notes.push_back(fmt::format("no block here uses these tensors, so they are left out: {}",
                                       base::one_line(fmt::format("{}", fmt::join(source.unused, ", ")))));
  NewCheckpoint target(destination, state_of(source, options, result.notes), {plan::replicas_of(1, 1)},
                       {options.existing, {source.files.folder()}, options.threads, {}, options.free_bytes, [&] {
                          if (options.watch) options.watch(0, result.bytes_read);
                        }});
  result.bytes_written = target.bytes_to_write();
  Importing work(source, target, options);
  const auto made = work.run();
  if (auto warning = work.warning(); !warning.empty()) result.notes.push_back(std::move(warning));
  result.manifest = target.publish([&](const Manifest& written) { target.require_fingerprints(written, made); });
  return result;
} catch (const std::filesystem::filesystem_error& e) {
  throw base::EnvironmentError(e.what());
}

}  // namespace trainyard::checkpoint
