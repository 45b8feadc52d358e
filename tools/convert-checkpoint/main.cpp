// convert-checkpoint: converts models of Hugging Face to checkpoints, and checkpoints to such models.
#include "libtrain/base/atomic_file.h"
#include "libtrain/base/byte_size.h"
#include "libtrain/base/cores.h"
#include "libtrain/base/error.h"
#include "libtrain/base/here_and_now.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/destination.h"
#include "libtrain/checkpoint/export_model.h"
#include "libtrain/checkpoint/import_model.h"
#include "libtrain/checkpoint/named.h"
#include "libtrain/checkpoint/peft.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/data/tokenizer.h"
#include "libtrain/engine/build_info.h"
#include "libtrain/engine/same_settings.h"
#include "libtrain/plan/grid/ranges.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_json.h"
#include "tools/common/checks.h"
#include "tools/common/interrupt.h"
#include "tools/common/program.h"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <unistd.h>

namespace {

using namespace trainyard;
using nlohmann::ordered_json;

constexpr const char* examples =
    "  convert-checkpoint run model --to safetensors\n"
    "  convert-checkpoint run narrow --to safetensors --dtype bf16 --max-shard 30kB\n"
    "  convert-checkpoint model imported --from safetensors --model-file model.toml\n"
    "  convert-checkpoint narrow again --from safetensors --dtype f32 --json\n"
    "  convert-checkpoint adapted adapter --to peft\n"
    "  convert-checkpoint adapter joined --from peft --base again\n";

struct Settings {
  std::string source, destination, from, to, dtype, model_file, base, max_shard = "5GB", progress = "auto";
  std::vector<std::string> ignored_keys;
  int threads = 0;
  bool force = false, json = false;
  base::Existing existing() const { return force ? base::Existing::replace : base::Existing::refuse; }
};

void add_options(CLI::App& app, Settings& s) {
  using tools::in_range, tools::one_of;
  app.add_option("SRC", s.source,
                 "--to: a checkpoint, or a run, for its newest whole checkpoint; --from: a folder with config.json and "
                 "model.safetensors or its index, or the path of one of these two; --from peft: a folder with "
                 "adapter_config.json and adapter_model.safetensors")
      ->required();
  app.add_option("DST", s.destination, "folder that is written")->required();
  app.add_option("--to", s.to,
                 "safetensors: write config.json and tensors that transformers loads; peft: write the adapters alone")
      ->check(one_of({"safetensors", "peft"}))
      ->group("Work");
  app.add_option("--from", s.from,
                 "safetensors: write a checkpoint of the weights alone, for train --init-from, generate, train "
                 "--evaluate; peft: the same, of --base with the adapters of SRC")
      ->check(one_of({"safetensors", "peft"}))
      ->group("Work");
  app.add_option("--base", s.base, "--from peft: the checkpoint, or the run, whose weights the adapters stand beside")
      ->type_name("CHECKPOINT")
      ->group("Work");
  app.add_option("--dtype", s.dtype,
                 "--to: f32, bf16 or f16 [the checkpoint's]; --from: f32 or bf16 [bf16 where all of SRC is, else f32]")
      ->transform(tools::one_of_dtypes({"f32", "bf16", "f16"}))
      ->group("Work");
  app.add_option("--max-shard", s.max_shard,
                 "--to: most bytes of tensors in a file; a larger model becomes several files with an index [5GB]")
      ->group("Work");
  app.add_option(
         "--model-file", s.model_file,
         "--from: also write the model's description into this new TOML file, for partition-model --model [none]")
      ->type_name("FILE")
      ->group("Work");
  app.add_option("--ignore-keys", s.ignored_keys,
                 "--from: keys of config.json, separated by commas, that are unknown here and change nothing [none]")
      ->delimiter(',')
      ->type_name("KEY,...")
      ->group("Work");
  app.add_option("--threads", s.threads, "threads; 0: all cores; DST does not depend on it [0]")
      ->check(in_range(base::Range<int>{0, 4096}))
      ->group("Running");
  app.add_flag("--force", s.force, "replace what this program wrote at DST")->group("Running");
  app.add_flag("--json", s.json, "print JSON")->group("Running");
  app.add_option("--progress", s.progress, "auto, always or never [auto]")
      ->check(one_of({"auto", "always", "never"}))
      ->group("Running");
}

void require_direction(const CLI::App& app, const Settings& s) {
  if (s.to.empty() == s.from.empty())
    throw base::UsageError(
        s.to.empty() ? "neither --to nor --from is given" : "--to and --from do not go together",
        "convert-checkpoint SRC DST --to safetensors, or --from safetensors; or peft in place of it");
  if ((s.from == "peft") == s.base.empty())
    throw base::UsageError(
        s.base.empty() ? "--from peft does not say beside which weights" : "--base is only for --from peft",
        "convert-checkpoint ADAPTER DST --from peft --base CHECKPOINT");
  if (s.to == "peft" && app.count("--max-shard") > 0)
    throw base::UsageError("--max-shard is only for --to safetensors", "leave it out: adapters are one file");
  if (s.from == "peft" && (!s.model_file.empty() || !s.ignored_keys.empty()))
    throw base::UsageError(
        fmt::format("{} is only for --from safetensors", s.model_file.empty() ? "--ignore-keys" : "--model-file"),
        "leave it out: the model is that of --base");
  if (!s.from.empty() && app.count("--max-shard") > 0)
    throw base::UsageError("--max-shard is only for --to",
                           "leave it out: a checkpoint has one file of weights for each rank");
  if (!s.to.empty() && !s.model_file.empty())
    throw base::UsageError("--model-file is only for --from",
                           "leave it out: inspect SRC shows the model of a checkpoint");
  if (!s.to.empty() && !s.ignored_keys.empty())
    throw base::UsageError("--ignore-keys is only for --from", "leave it out: an export reads no config.json");
  if (!s.from.empty() && s.dtype == "f16")
    throw base::UsageError("--dtype f16 is only for --to", "--dtype f32 holds f16 exactly");
}

// Checks the path of the model file before anything is written. The file is written after the checkpoint, and no
// checkpoint shall be made if the model file cannot be.
void require_place_of_model_file(const Settings& s) {
  if (s.model_file.empty()) return;
  constexpr const char* another = "give --model-file another place";
  std::error_code ignored;
  if (std::filesystem::symlink_status(s.model_file, ignored).type() > std::filesystem::file_type::none)
    throw base::UsageError(fmt::format("{} exists already", s.model_file), another);
  for (const auto& folder : {s.destination, base::without_slashes(s.destination) + std::string(base::partial_suffix)})
    if (checkpoint::is_in(s.model_file, folder))
      throw base::UsageError(fmt::format("{} is or lies in {}, where the checkpoint goes", s.model_file, folder),
                             another);
  if (checkpoint::is_in(s.destination, s.model_file))
    throw base::UsageError(fmt::format("{} lies in {}, which is the model's file", s.destination, s.model_file),
                           another);
  if (const auto in = base::parent_of(s.model_file) + "/."; ::access(in.c_str(), W_OK | X_OK) != 0)
    throw base::EnvironmentError(fmt::format("{} cannot be written: {}: {}", s.model_file, in, std::strerror(errno)),
                                 "is the folder there, and yours? nothing was written");
}

void write_model_file(const Settings& s, plan::ModelConfig model) try {
  if (s.model_file.empty()) return;
  plan::ModelConfig usual;
  const auto usual_fields = plan::fields_of(usual);
  auto fields = plan::fields_of(model);
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].get() != usual_fields[i].get()) fields[i].source = "imported";
  base::write_file(s.model_file, base::print_fields(fields), base::Existing::refuse);
} catch (const base::UsageError& e) {  // the file was created meanwhile
  throw base::UsageError(fmt::format("{}; {} is whole", e.what(), s.destination),
                         "make it again with --force and another place for --model-file");
}

// What is reported: the path goes to stdout. Everything else goes to stderr, or into the JSON object.
struct Done {
  ordered_json json;
  std::string sentence;
  std::vector<std::string> notes;
  std::int64_t bytes_read, bytes_written;
};

base::ExitCode report(const Settings& s, Done done, double seconds) {
  const auto rate = static_cast<double>(done.bytes_written) / std::max(seconds, 1e-9);
  for (const auto& note : done.notes) base::log_warning("{}", note);
  if (s.json) {
    done.json["notes"] = done.notes;
    done.json["bytes_read"] = done.bytes_read;
    done.json["bytes_written"] = done.bytes_written;
    done.json["seconds"] = seconds;
    done.json["bytes_per_second"] = rate;
    tools::print(done.json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    return base::ExitCode::done;
  }
  tools::print(s.destination + "\n");
  fmt::print(stderr, "convert-checkpoint: {}: {} written in {} ({})\n", done.sentence,
             base::size_text(done.bytes_written), base::duration_text(seconds), base::rate_text(rate, "B/s"));
  return base::ExitCode::done;
}

std::optional<checkpoint::FileTokens> tokens_in(const std::string& path) try {
  const std::shared_ptr<const data::Tokenizer> tokenizer = data::make_tokenizer(path);
  return checkpoint::FileTokens{tokenizer->mask(), tokenizer->unknown(), tokenizer->before_text(),
                                [tokenizer](std::int32_t id) { return tokenizer->name_of_token(id); },
                                [tokenizer](std::int32_t id) { return tokenizer->is_in_text(id); }};
} catch (const base::InputError&) {  // its names stay unknown
  return {};
}

base::ExitCode write_safetensors(const Settings& s, const std::string& checkpoint) {
  const auto start = base::steady_seconds();
  const checkpoint::Reader source(checkpoint, checkpoint::Reader::Check::all_but_payloads);
  checkpoint::ExportOptions o;
  o.existing = s.existing(), o.threads = base::threads_or_all(s.threads);
  if (!s.dtype.empty()) o.dtype = base::dtype_from_name(s.dtype);
  o.read_tokens = tokens_in;
  o.max_shard = base::parse_bytes(s.max_shard, "--max-shard", {1, base::most_bytes});
  o.watch = tools::progress_watch("convert-checkpoint", s.progress, tools::Progressing::bytes);
  const auto r = checkpoint::export_model(source, s.destination, o);
  const auto* dtype = base::name_of(r.dtype);
  std::vector<std::string> notes;
  for (const auto& note : r.notes)
    notes.push_back(fmt::format("config.json of {} has no {}", r.family->model_type, note));
  notes.insert(notes.end(), r.warnings.begin(), r.warnings.end());
  return report(s,
                {{{"output", base::text_of_path(s.destination)},
                  {"source", base::text_of_path(source.path())},
                  {"step", source.state().step},
                  {"model_type", r.family->model_type},
                  {"dtype", dtype},
                  {"tensors", r.tensors},
                  {"files", r.files},
                  {"companions", r.companions}},
                 fmt::format("step {} as {} in {}, {} in {}", source.state().step, r.family->model_type, dtype,
                             base::counted(static_cast<std::int64_t>(r.tensors), "tensor"),
                             base::counted(static_cast<std::int64_t>(r.files.size()), "file")),
                 notes,
                 r.bytes_read,
                 r.bytes_written},
                base::steady_seconds() - start);
}

checkpoint::PeftOptions peft_options(const Settings& s) {
  checkpoint::PeftOptions o;
  o.existing = s.existing(), o.threads = base::threads_or_all(s.threads);
  if (!s.dtype.empty()) o.dtype = base::dtype_from_name(s.dtype);
  o.watch = tools::progress_watch("convert-checkpoint", s.progress, tools::Progressing::bytes);
  return o;
}

// `checkpoint`: what is written, or what the adapters stand beside.
base::ExitCode convert_peft(const Settings& s, const std::string& checkpoint) {
  const auto start = base::steady_seconds();
  const checkpoint::Reader source(checkpoint, checkpoint::Reader::Check::all_but_payloads);
  const bool writes = !s.to.empty();
  const auto r = writes ? checkpoint::export_peft(source, s.destination, peft_options(s))
                        : checkpoint::import_peft(source, s.source, s.destination, peft_options(s));
  const auto count = base::counted(static_cast<std::int64_t>(r.tensors), "tensor");
  const auto* dtype = base::name_of(r.dtype);
  const auto widened =
      r.rank % plan::adapter_rank_multiple == 0
          ? std::string()
          : fmt::format(", rank {} filled up with zeros to a multiple of {}", r.rank, plan::adapter_rank_multiple);
  return report(s,
                {{{"output", base::text_of_path(s.destination)},
                  {"source", base::text_of_path(writes ? source.path() : s.source)},
                  {"base", writes ? ordered_json() : ordered_json(base::text_of_path(source.path()))},
                  {"step", source.state().step},
                  {"model_type", r.family->model_type},
                  {"dtype", dtype},
                  {"tensors", r.tensors}},
                 writes ? fmt::format("adapters of step {} of a {} model in {}, {}", source.state().step,
                                      r.family->model_type, dtype, count)
                        : fmt::format("adapters of a {} model beside {}, {} in {}{}", r.family->model_type,
                                      source.path(), count, dtype, widened),
                 {},
                 r.bytes_read,
                 r.bytes_written},
                base::steady_seconds() - start);
}

base::ExitCode read_safetensors(const Settings& s) {
  const auto start = base::steady_seconds();
  require_place_of_model_file(s);
  checkpoint::ImportOptions o;
  o.existing = s.existing(), o.threads = base::threads_or_all(s.threads);
  if (!s.dtype.empty()) o.dtype = base::dtype_from_name(s.dtype);
  o.ignored_keys = s.ignored_keys;
  o.versions = engine::build_versions();
  o.isa = engine::instructions_of;
  o.tokenizer_problem = [](const std::string& path) -> std::string {
    try {
      data::make_tokenizer(path);
      return {};
    } catch (const base::InputError& e) {
      return e.what();
    }
  };
  o.watch = tools::progress_watch("convert-checkpoint", s.progress, tools::Progressing::bytes);
  const auto r = checkpoint::import_model(s.source, s.destination, o);
  const auto& state = r.manifest.state;
  write_model_file(s, state.model);
  return report(s,
                {{{"output", base::text_of_path(s.destination)},
                  {"source", base::text_of_path(s.source)},
                  {"model_type", r.family->model_type},
                  {"model", plan::model_to_json(state.model)},
                  {"dtype", base::name_of(state.dtype)},
                  {"tensors", r.manifest.tensors.size()},
                  {"files", r.files}},
                 fmt::format("a {} model, {} in {}", r.family->model_type,
                             base::counted(static_cast<std::int64_t>(r.manifest.tensors.size()), "tensor"),
                             base::name_of(state.dtype)),
                 r.notes,
                 r.bytes_read,
                 r.bytes_written},
                base::steady_seconds() - start);
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("", "convert-checkpoint");
  tools::describe_program(app,
                          "Writes a checkpoint as a model that transformers loads, or such a model as a checkpoint.",
                          examples, "train, generate, reshard-checkpoint; tools/guide/convert.md");
  add_options(app, s);
  return tools::guarded(app, argc, argv, [&] {
    tools::watch_signals();
    base::configure_log("convert-checkpoint", 0, base::LogLevel::info);
    require_direction(app, s);
    try {
      if (s.from == "safetensors") return read_safetensors(s);
      const auto& read = s.from.empty() ? s.source : s.base;
      return checkpoint::looking_again({read}, [&] {
        const auto found = checkpoint::named_checkpoint(read);
        return checkpoint::reading(
            {found}, [&] { return s.to == "safetensors" ? write_safetensors(s, found) : convert_peft(s, found); },
            checkpoint::Seen::listed);
      });
    } catch (const tools::Interrupted&) {
      tools::end_by_signal("convert-checkpoint", base::printable(s.destination) + " is not there");
    }
  });
}
