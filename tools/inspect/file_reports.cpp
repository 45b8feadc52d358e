// Reports on single files: one shard of a set, and the description of a model.
#include "libtrain/base/error.h"
#include "libtrain/base/system_error.h"
#include "libtrain/data/shard_reader.h"
#include "libtrain/io/layout_file.h"
#include "libtrain/plan/attention_text.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/cost/attention_lists.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/model_file/model_problems.h"
#include "libtrain/plan/spec/file_layout.h"
#include "libtrain/plan/spec/layer_model.h"
#include "tools/inspect/layout.h"
#include "tools/inspect/report.h"
#include "tools/inspect/text.h"

#include <algorithm>
#include <filesystem>
#include <optional>

namespace trainyard::inspect {

namespace {

namespace fs = std::filesystem;

// The shard set that a file belongs to: an index in its folder, or in the folder above, names it.
struct Member {
  std::string folder;
  data::SetIndex index;
  data::ShardEntry entry;
  const char* split;
};

std::optional<Member> member_of_set(const std::string& file) {
  std::error_code error;
  const auto path = fs::absolute(file, error).lexically_normal();
  for (const auto& folder : {path.parent_path(), path.parent_path().parent_path()}) {
    if (!fs::exists(folder / "index.json", error)) continue;
    auto index = data::read_index(folder.string());
    for (const auto& [split, entries] :
         {std::pair<const char*, const std::vector<data::ShardEntry>*>{"train", &index.train},
          {"validation", &index.validation}})
      for (const auto& entry : *entries)
        if ((folder / entry.file).lexically_normal() == path) return Member{folder.string(), index, entry, split};
  }
  return std::nullopt;
}

}  // namespace

Report hdf5_report(const std::string& file, const Options& options) {
  const auto parent = fs::path(file).parent_path().empty() ? std::string(".") : fs::path(file).parent_path().string();
  const auto member = member_of_set(file);
  if (!member && io::holds_layout(file)) {
    refuse_verify(options, file, "a layout");
    return layout_report(file, {});
  }
  if (!member)
    throw base::InputError(fmt::format("{} is one file of a checkpoint, or a shard without an index", file),
                           fmt::format("inspect its folder: inspect {}", parent));
  // The reader compares checksums before the HDF5 library sees the file.
  data::ShardReader reader(member->folder, member->index, member->entry);
  if (options.verify == Verify::everything) reader.verify_all();
  const auto documents = static_cast<std::int64_t>(reader.documents().size()) - 1;
  std::int64_t longest = 0;
  for (std::size_t d = 1; d < reader.documents().size(); ++d)
    longest = std::max(longest, static_cast<std::int64_t>(reader.documents()[d] - reader.documents()[d - 1]));
  const auto& index = member->index;
  Report report;
  report.json = {{"kind", "shard"},
                 {"path", file},
                 {"format", data::shard_format},
                 {"set", member->folder},
                 {"split", member->split},
                 {"tokens", reader.tokens()},
                 {"documents", documents},
                 {"longest_document", longest},
                 {"vocabulary", index.vocabulary},
                 {"end_of_document", index.end_of_document},
                 {"tokenizer", index.tokenizer},
                 {"verified", options.verify == Verify::everything}};
  report.text = fmt::format("token shard {}  ({})\n", file, data::shard_format) +
                fmt::format("  set         {}, split {}\n", member->folder, member->split) +
                fmt::format("  tokens      {} in {} documents, the longest of {}\n", human_count(reader.tokens()),
                            human_count(documents), human_count(longest)) +
                fmt::format("  tokenizer   {}, vocabulary {}, end of document {}\n", index.tokenizer,
                            human_count(index.vocabulary), index.end_of_document);
  if (options.verify == Verify::everything) report.text += "\nverified: every token read, every checksum is right\n";
  return report;
}

plan::ModelConfig described_model(const std::string& file) {
  plan::ModelConfig model;
  try {  // not plan::load_model, because contradictions between keys are listed below
    auto fields = plan::fields_of(model);
    base::read_toml(fields, file);
    plan::follow(model, fields);
    plan::take_file_layout(model, fields, file, io::read_layout_file);
  } catch (const base::Unreadable&) {
    throw;
  } catch (const base::InputError& e) {
    const bool says_no_more = e.hint().empty() || e.hint().starts_with("leave it out");
    throw base::InputError(
        fmt::format("{} is not the description of a model: {}", file, e.what()),
        says_no_more ? "a model has keys like layers, hidden and heads; settings of a run are for train --config"
                     : e.hint());
  }
  auto judged = model;
  if (judged.lanes == 0) judged.lanes = 1;
  // The vocabulary may come from the shards. Whether it allows these lanes is checked where it is known.
  if (model.vocabulary == 0) judged.vocabulary = 128 * judged.lanes;
  std::string wrong;
  for (const auto& problem : plan::problems(judged)) wrong += "\n  " + problem;
  if (!wrong.empty())
    throw base::InputError(fmt::format("{} describes no model that can be built:{}", file, wrong), "change the file");
  return model;
}

Report model_report(const std::string& file, const Options& options) {
  refuse_verify(options, file, "the description of a model");
  const auto model = described_model(file);
  auto with_byte_tokens = model;
  if (with_byte_tokens.vocabulary == 0) with_byte_tokens.vocabulary = 257;
  if (with_byte_tokens.lanes == 0) with_byte_tokens.lanes = 1;
  Report report;
  report.json = {{"kind", "model"}, {"path", file}, {"model", nlohmann::json(plan::model_to_json(model))}};
  std::vector<std::vector<std::string>> rows;
  auto described = model;
  for (const auto& f : plan::fields_of(described))
    rows.push_back({f.name, f.name == "vocabulary" && model.vocabulary == 0 ? "from the shards"
                            : f.name == "lanes" && model.lanes == 0         ? "up to 8; 1 on a GPU"
                                                                            : base::shortened(f.get())});
  report.text = fmt::format("model {}\n{}", file, table({"setting", "value"}, rows));
  const bool known = model.vocabulary > 0;
  const auto all = plan::parameter_count(with_byte_tokens), active = plan::active_parameter_count(with_byte_tokens);
  report.json["parameters"] = known ? nlohmann::json(all) : nlohmann::json();
  if (plan::has_experts(model)) report.json["active_parameters"] = known ? nlohmann::json(active) : nlohmann::json();
  report.text +=
      fmt::format("\n{} parameters{}{}{}\n", human_count(all), plan::trained_text(with_byte_tokens),
                  known ? "" : " with byte tokens",
                  active < all ? fmt::format(", of which a token goes through {}", human_count(active)) : "");
  const auto sequence = plan::longest_sequence(model);
  if (const auto attention = plan::attention_text(model, sequence); !attention.empty())
    report.text += fmt::format("attention over {} tokens: {}{}\n", human_count(sequence), attention,
                               plan::attention_list_bytes(model, sequence) > 0 ? "; --layout draws it" : "");
  if (const auto dropped = plan::dropped_text(model); !dropped.empty()) report.text += dropped + "\n";
  return report;
}

}  // namespace trainyard::inspect
