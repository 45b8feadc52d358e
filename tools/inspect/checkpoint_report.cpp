// The report on a checkpoint, and on a folder of them.
#include "libtrain/base/error.h"
#include "libtrain/base/log.h"
#include "libtrain/base/number_text.h"
#include "libtrain/base/statistics.h"
#include "libtrain/base/system_error.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/file_names.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/manifest_checks.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/engine/parameter_groups.h"
#include "libtrain/engine/report.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/spec/conditions.h"
#include "tools/inspect/report.h"
#include "tools/inspect/text.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace trainyard::inspect {

using nlohmann::json;

namespace {

json tensors_json(const checkpoint::Reader& reader) {
  json out = json::array();
  for (const auto& t : reader.tensors()) {
    json entry{{"path", t.path},
               {"shape", t.shape},
               {"dtype", base::name_of(t.dtype)},
               {"fingerprint", checkpoint::hex64(t.fingerprint)}};
    entry["norm"] = std::isfinite(t.norm) ? json(t.norm) : json(nullptr);
    if (!t.aliases.empty()) entry["aliases"] = t.aliases;
    if (t.kind == checkpoint::Kind::model && reader.manifest().parameters[reader.number_of(t.name)].frozen)
      entry["frozen"] = true;
    out.push_back(std::move(entry));
  }
  return out;
}

// The grid of ranks, such as " (data 2 x tensor 4)" or " (data 6, experts over 2)"; "" for one rank.
std::string grid_text(const checkpoint::Manifest& m) {
  std::string text;
  for (const auto& a : m.axes)
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", base::one_line(a.axis), a.size);
  if (const auto parts = checkpoint::expert_parts_of(m); parts > 1) text += fmt::format(", experts over {}", parts);
  return m.ranks == 1 ? "" : fmt::format(" ({})", text);
}

// The names of the states, such as "m" and "row_var of rows".
std::vector<std::string> names_of_states(const checkpoint::StoredOptimizer& optimizer) {
  auto names = optimizer.states;
  for (auto& name : names)
    if (const auto shape = optimizer.shapes.find(name); shape != optimizer.shapes.end())
      name += fmt::format(" of {}", checkpoint::name_of(shape->second));
  return names;
}

// The parameter groups of the run, and how many parameters each matches. A text that no run wrote has none.
std::vector<engine::MatchedParameters> groups_of(const checkpoint::RunState& s) {
  const auto text = s.identity.is_object() ? s.identity.value("group", json()) : json();
  if (!text.is_string()) return {};
  try {
    return engine::matched_parameters({engine::parameter_groups(text.get<std::string>()), 1}, s.model);
  } catch (const base::UsageError&) {
    return {};
  }
}

std::string heading(const checkpoint::Reader& reader, const Options& options) {
  const auto& s = reader.state();
  const auto& m = s.model;
  std::int64_t parameters = 0;
  for (const auto& p : reader.manifest().parameters) parameters += p.count;
  std::string out =
      fmt::format("checkpoint {}  ({}/{})\n", reader.path(), checkpoint::format_name, reader.manifest().major);
  out += fmt::format("  step        {}, {} samples and {} tokens seen{}\n", s.step, human_count(s.samples_seen),
                     human_count(s.tokens_seen),
                     s.skipped_steps == 0 ? "" : fmt::format(", {} skipped", base::counted(s.skipped_steps, "step")));
  out += fmt::format(
      "  model       {}: {} parameters{}, {} layers, hidden {}, heads {} ({} kv), ffn {}, vocabulary {}, context {}\n",
      base::one_line(m.name), human_count(parameters), plan::trained_text(m), plan::layers_text(m), m.hidden, m.heads,
      m.kv_heads, m.ffn, m.vocabulary, m.context);
  const char* kept = s.contents == checkpoint::Contents::model ? "; the weights alone, no run can go on from it"
                     : !base::is_narrow(s.dtype)               ? " (the model is its own master)"
                                                               : ", f32 master";
  out += fmt::format("  dtype       {}{}\n", base::name_of(s.dtype), kept);
  if (s.optimizer != checkpoint::StoredOptimizer())
    out +=
        fmt::format("  optimizer   {}: {}{}\n", s.optimizer.name, fmt::join(names_of_states(s.optimizer), ", "),
                    base::is_narrow(s.optimizer.dtype) ? fmt::format(" in {}", base::name_of(s.optimizer.dtype)) : "");
  if (s.loss_scale)
    out += fmt::format("  loss scale  {}, {} since it changed or overflowed, {} until a dynamic scale is halved{}\n",
                       s.loss_scale->scale, base::counted(s.loss_scale->clean_steps, "step"),
                       base::counted(s.loss_scale->hysteresis, "overflow"),
                       s.loss_scale->skips_in_a_row == 0
                           ? ""
                           : fmt::format(", {} skipped just now", base::counted(s.loss_scale->skips_in_a_row, "step")));
  if (s.outlier_window) {
    const auto& window = *s.outlier_window;
    out += fmt::format("  outliers    judged by the last {}{}{}\n",
                       base::counted(std::ssize(window.losses), "step") + " that changed the weights",
                       window.losses.empty() ? ""
                                             : fmt::format(": median gradient norm {}, median loss {}",
                                                           number_text(base::median(window.gradient_norms)),
                                                           number_text(base::median(window.losses))),
                       window.skips_in_a_row == 0
                           ? ""
                           : fmt::format(", {} skipped just now", base::counted(window.skips_in_a_row, "step")));
  }
  for (const auto& matched : groups_of(s))
    out += fmt::format("  group       {}\n", base::one_line(engine::text_of(matched)));
  if (const auto decay = s.identity.is_object() ? s.identity.value("layer_decay", json()) : json(); decay.is_number())
    out += fmt::format("  layer decay {} from layer to layer\n", decay.get<double>());
  out += fmt::format("  seed        {}\n", s.seed);
  out +=
      fmt::format("  written by  {} {}{}, on {} ({})\n", reader.manifest().ranks,
                  reader.manifest().ranks == 1 ? "rank" : "ranks", grid_text(reader.manifest()), s.device_kind, s.isa);
  out += fmt::format(
      "  size        {} in {} files{}\n", size_phrase(reader.bytes(), options.sizes),
      reader.manifest().files.size() + 1,
      reader.manifest().files.contains(checkpoint::view_name) ? "" : "; no virtual view (make it with --make-view)");
  if (!reader.view_problem().empty())
    out += fmt::format("  view        {}: make it anew with --make-view\n", reader.view_problem());
  auto plan = s.plan;
  plan.erase("model");  // the identity has the model
  for (const auto& [title, part] : {std::pair<const char*, const json&>{"identity", s.identity},
                                    {"plan", plan},
                                    {"versions", s.versions},
                                    {"provenance", s.provenance}})
    if (!part.empty()) out += fmt::format("{}\n{}", title, leaves(part, 2));
  return out;
}

Report report_of(const std::string& folder, const Options& options) {
  checkpoint::Reader reader(folder);
  if (options.verify == Verify::everything) reader.verify_all(options.watch);
  Report report;
  auto& j = report.json;
  j = checkpoint::state_to_json(reader.state());
  j["kind"] = "checkpoint";
  j["path"] = reader.path();
  j["format"] = fmt::format("{}/{}", checkpoint::format_name, reader.manifest().major);
  j["ranks"] = reader.manifest().ranks;
  j["axes"] = json::array();
  for (const auto& a : reader.manifest().axes) j["axes"].push_back({{"axis", a.axis}, {"size", a.size}});
  j["bytes"] = reader.bytes();
  for (const auto& [name, file] : reader.manifest().files)
    j["files"][name] = {{"bytes", file.bytes}, {"crc32c", checkpoint::hex32(file.crc)}};
  j["tensors"] = tensors_json(reader);
  j["verified"] = options.verify == Verify::everything;
  if (!reader.view_problem().empty()) j["view_problem"] = reader.view_problem();

  report.text = heading(reader, options) + "\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& t : reader.tensors())
    rows.push_back(
        {t.path, shape_text(t.shape), base::name_of(t.dtype), number_text(t.norm), checkpoint::hex64(t.fingerprint)});
  auto columns = std::vector<std::string>{"tensor", ">shape", "dtype", ">norm", "fingerprint"};
  if (plan::has_adapter(reader.state().model)) {
    columns.emplace_back("");
    for (std::size_t i = 0; const auto& t : reader.tensors())
      rows[i++].emplace_back(reader.manifest().parameters[reader.number_of(t.name)].frozen ? "frozen" : "");
  }
  report.text += table(columns, rows);
  if (options.verify == Verify::everything)
    report.text += fmt::format("\nverified: {} read, every checksum and fingerprint is right\n",
                               size_phrase(reader.bytes(), options.sizes));
  return report;
}

}  // namespace

Report checkpoint_report(const std::string& folder, const Options& options) {
  return checkpoint::reading({folder}, [&] { return report_of(folder, options); });
}

namespace {

// One checkpoint of a folder, as a row of a table and in JSON.
struct Row {
  std::int64_t step = 0;
  bool abandoned = false;
  std::vector<std::string> cells;
  json entry;
};

struct Damage {
  std::string text, hint;
  bool of_content = false;  // at least one checkpoint is damaged; if false, none is known to be
  base::ExitCode code = base::ExitCode::environment;  // of checkpoints that cannot be read
};

// The row of a checkpoint. Throws Removed if the checkpoint is removed meanwhile.
Row row_of(const checkpoint::Found& found, bool abandoned, const Options& options, Damage& damage) {
  const auto state = [&](std::string_view word) {
    return fmt::format("{}{}{}", abandoned ? "abandoned" : "", abandoned && !word.empty() ? ", " : "", word);
  };
  json entry{{"step", found.step}, {"path", found.path}};
  if (abandoned) entry["abandoned"] = true;
  const auto read = [&]() -> Row {
    checkpoint::Reader reader(found.path);
    if (options.verify == Verify::everything) reader.verify_all(options.watch);
    const auto& s = reader.state();
    entry["bytes"] = reader.bytes();
    entry["ranks"] = reader.manifest().ranks;
    entry["dtype"] = base::name_of(s.dtype);
    entry["layout"] = entry["cut"] = engine::checkpoint_layout(s);  // cut: the former name of layout
    return {found.step,
            abandoned,
            {std::to_string(found.step), human_count(s.tokens_seen), std::to_string(reader.manifest().ranks),
             engine::checkpoint_layout(s), base::name_of(s.dtype), base::size_text(reader.bytes(), options.sizes),
             state(options.verify == Verify::everything ? "verified" : ""), found.path},
            entry};
  };
  const auto fault = [&](const base::InputError& e, const char* key, const char* word) -> Row {
    entry[key] = e.what();
    if (!abandoned) {  // the run goes on without abandoned checkpoints, so damage in one is no error
      if (!damage.text.empty()) damage.text += '\n';
      damage.text += e.what();
      damage.hint = e.hint();
    }
    return {found.step, abandoned, {std::to_string(found.step), "", "", "", "", "", state(word), found.path}, entry};
  };
  try {
    return checkpoint::reading({found.path}, read, checkpoint::Seen::listed);
  } catch (const checkpoint::Removed&) {
    throw;
  } catch (const base::Unreadable& e) {
    if (!abandoned) damage.code = e.code();
    return fault(e, "unreadable", "cannot be read");
  } catch (const base::InputError& e) {
    if (!abandoned) damage.of_content = true;
    return fault(e, "damaged", "damaged");
  }
}

}  // namespace

// A run may save while its folder is read. Checkpoints that are removed meanwhile are left out, and new ones are added.
Report checkpoints_report(const std::string& folder, const Options& options) {
  constexpr int most_looks = 20;
  std::set<std::string> looked_at;
  std::vector<Row> rows;
  Damage damage;
  bool again = true;
  for (int looks = 0; again && looks < most_looks; ++looks) {
    again = false;
    for (const bool abandoned : {false, true})
      for (const auto& found : abandoned ? checkpoint::list_abandoned(folder) : checkpoint::list(folder)) {
        if (!looked_at.insert(found.path).second) continue;
        try {
          rows.push_back(row_of(found, abandoned, options, damage));
        } catch (const checkpoint::Removed& e) {
          base::log_info("{}: looking again", e.what());
          again = true;
        }
      }
  }
  if (options.verify == Verify::everything && !damage.text.empty()) {
    if (damage.of_content) throw base::InputError(damage.text, damage.hint);
    throw base::Unreadable(damage.text, damage.hint, damage.code);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return a.abandoned != b.abandoned ? b.abandoned : a.step > b.step;
  });
  Report report;
  report.json = {{"kind", "checkpoints"}, {"path", folder}, {"checkpoints", json::array()}};
  std::vector<std::vector<std::string>> cells;
  for (auto& row : rows) {
    cells.push_back(std::move(row.cells));
    report.json["checkpoints"].push_back(std::move(row.entry));
  }
  report.text = cells.empty()
                    ? "no checkpoints\n"
                    : table({">step", ">tokens seen", ">ranks", "layout", "dtype", ">size", "state", "path"}, cells);
  return report;
}

}  // namespace trainyard::inspect
