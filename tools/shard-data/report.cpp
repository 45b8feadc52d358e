// Findings go to stderr, and the product's name or JSON to stdout.
#include "tools/shard-data/report.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"
#include "tools/common/program.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

namespace trainyard::tools {

namespace {

using Json = nlohmann::ordered_json;

// A path need not be UTF-8.
void print_object(const Json& j) { print(j.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"); }

Json refusals_of(const data::BuildResult& r) {
  auto refusals = Json::array();
  for (const auto& refusal : r.first_refusals)
    refusals.push_back({{"source", refusal.source}, {"line", refusal.line}, {"reason", refusal.reason}});
  return refusals;
}

void print_json(const Settings& s, const data::BuildResult& r, const Json& trained, double seconds) {
  Json j{{"output", s.output},
         {"documents", r.documents},
         {"rejected", r.rejected},
         {"first_refusals", refusals_of(r)},
         {"empty", r.empty},
         {"too_long", r.too_long},
         {"text_bytes", r.text_bytes},
         {"unknown_tokens", r.unknown_tokens},
         {"duplicates", r.duplicates},
         {"packed_sequences", r.sequences},
         {"padding", r.padding},
         {"cut", r.cut},
         {"train", {{"tokens", r.train_tokens}, {"shards", r.train_shards}}},
         {"validation", {{"tokens", r.validation_tokens}, {"shards", r.validation_shards}}},
         {"seconds", seconds}};
  if (!trained.is_null()) j["trained_tokenizer"] = trained;
  print_object(j);
}

void print_refused(const Settings& s, const data::BuildResult& r) {
  const auto list = s.rejects.empty() ? "--rejects FILE lists all"
                                      : fmt::format("{}{} lists all", s.dry_run ? "without --dry-run, " : "",
                                                    data::source_name(s.rejects));
  for (const auto& refusal : r.first_refusals) fmt::print(stderr, "shard-data: refused: {}\n", data::text_of(refusal));
  if (const auto more = r.rejected - static_cast<std::int64_t>(r.first_refusals.size()); more > 0)
    fmt::print(stderr, "shard-data: {} more refused; {}\n", more, list);
}

// Prints what would otherwise surprise later: what was refused and why, and that there is nothing to validate on.
void print_findings(const Settings& s, const data::BuildResult& r) {
  print_refused(s, r);
  const auto tokens = r.train_tokens + r.validation_tokens;
  constexpr double worth_a_warning = 1e-4;
  if (const double share =
          static_cast<double>(r.unknown_tokens) / static_cast<double>(std::max<std::int64_t>(1, tokens));
      share >= worth_a_warning)
    fmt::print(
        stderr,
        "shard-data: warning: {} of {} ({:.2g} %) stand for text that the tokenizer has no token for, which is lost\n"
        "  try: a tokenizer with byte fallback, or one made from such text\n",
        base::count_text(r.unknown_tokens), base::counted(tokens, "token"), 100 * share);
  else if (r.unknown_tokens > 0)
    fmt::print(stderr, "shard-data: {} of {} stand for text that the tokenizer has no token for\n",
               base::count_text(r.unknown_tokens), base::counted(tokens, "token"));
  if (!r.absent_fields.empty())
    fmt::print(stderr, "shard-data: warning: no document has the key {}, which --keep-field names\n",
               base::one_line(fmt::format("{}", fmt::join(r.absent_fields, ", "))));
  if (r.validation_tokens == 0 && s.validation > 0)
    fmt::print(stderr,
               "shard-data: warning: there is no validation split: {} chosen, so train --validate-every has nothing to "
               "read\n  try: {}\n",
               r.documents == 1 ? "the one document was not"
                                : fmt::format("none of {} was", base::counted(r.documents, "document")),
               s.pairs.asked() ? "--validation 0.1 chooses more pairs"
               : r.documents < 100 && !s.split
                   ? "--split paragraphs, or lines, makes more documents of a text; --validation "
                     "0.1 chooses more of them"
               : r.documents < 100 && s.split != "lines"
                   ? "--split lines makes more documents of a text without empty lines; --validation 0.1 chooses more "
                     "of them"
                   : "--validation 0.1 chooses more documents");
}

// A list of numbers as text: "3, 5 to 9 and 12".
std::string list_of(const std::vector<int>& tasks) {
  std::vector<std::string> runs;
  for (std::size_t i = 0, end = 0; i < tasks.size(); i = end) {
    for (end = i + 1; end < tasks.size() && tasks[end] == tasks[end - 1] + 1;) ++end;
    runs.push_back(end == i + 1 ? fmt::format("{}", tasks[i])
                                : fmt::format("{}{}{}", tasks[i], end == i + 2 ? ", " : " to ", tasks[end - 1]));
  }
  return fmt::format("{}", fmt::join(runs, ", "));
}

}  // namespace

void print_summary(const Settings& s, const data::BuildResult& r, const Json& trained, double seconds) {
  print_findings(s, r);
  if (s.json) return print_json(s, r, trained, seconds);
  print(s.output + "\n");
  fmt::print(stderr, "shard-data: {}, {} of text in {} ({}); {}\n", base::counted(r.documents, "document"),
             base::size_text(r.text_bytes), duration_text(seconds),
             base::rate_text(static_cast<double>(r.text_bytes) / std::max(seconds, 1e-9), "B/s"),
             data::left_out_text(r));
  if (r.duplicates > 0)
    fmt::print(stderr, "shard-data: {} left out, equal to an earlier one\n", base::counted(r.duplicates, "document"));
  if (r.sequences > 0)
    fmt::print(stderr, "shard-data: {} of {} tokens, {:.2g} % of them padding\n",
               base::counted(r.sequences, "packed sequence"), base::count_text(s.sequence),
               100 * static_cast<double>(r.padding) / static_cast<double>(r.sequences * s.sequence));
  if (r.cut > 0)
    fmt::print(stderr,
               "shard-data: {}{} of {} are longer than {} tokens and were cut: a larger --sequence keeps them\n",
               s.chat ? "warning: " : "", base::count_text(r.cut), base::counted(r.documents, "document"),
               base::count_text(s.sequence));
  fmt::print(stderr, "shard-data: train {} in {}, validation {} in {}{}\n", base::counted(r.train_tokens, "token"),
             base::counted(r.train_shards, "shard"), base::counted(r.validation_tokens, "token"),
             base::counted(r.validation_shards, "shard"), s.dry_run ? " (nothing was written)" : "");
}

base::ExitCode print_tokenizer(const Settings& s, const data::BuildResult& r, Json report) {
  print_refused(s, r);
  if (s.json) {
    report["rejected"] = r.rejected, report["first_refusals"] = refusals_of(r), report["empty"] = r.empty;
    print_object(report);
    return base::ExitCode::done;
  }
  fmt::print(stderr, "shard-data: {}; {}{}\n", base::counted(r.documents, "document"), data::left_out_text(r),
             s.dry_run ? " (nothing was written)" : "");
  print(s.train.output + "\n");
  return base::ExitCode::done;
}

void print_waiting(const Settings& s, data::Share share, const data::TaskResult& r) {
  if (s.json)
    print_object({{"output", s.output}, {"task", share.task}, {"tasks", share.tasks}, {"missing", r.missing}});
  const auto made = fmt::format("the part of task {} is {}", share.task, r.part_was_there ? "there already" : "done");
  if (r.state == data::TaskResult::State::elsewhere)
    fmt::print(stderr, "shard-data: {}; another task makes {} of all parts, or has made it\n", made, s.output);
  else
    fmt::print(stderr, "shard-data: {}; of {} these are missing: {}; the last one makes {}\n", made,
               base::counted(share.tasks, "task"), list_of(r.missing), s.output);
}

}  // namespace trainyard::tools
