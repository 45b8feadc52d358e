// Adds up scores and prints them.
#include "tools/score/summary.h"

#include "libtrain/base/number_text.h"
#include "libtrain/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

namespace trainyard::generate {

namespace {

double share(std::int64_t part, std::int64_t all) { return static_cast<double>(part) / static_cast<double>(all); }

// Of a share of n questions, if they are independent draws: sqrt(p (1 - p) / (n - 1)).
double standard_error(double p, std::int64_t n) {
  return n > 1 ? std::sqrt(p * (1 - p) / static_cast<double>(n - 1)) : 0;
}

}  // namespace

void Summary::add_choice(const std::string& group, bool correct, std::optional<bool> by_character) {
  auto& g = groups_[group];
  ++g.questions, g.correct += correct ? 1 : 0;
  if (by_character) ++g.normalised, g.correct_normalised += *by_character ? 1 : 0;
}

void Summary::add_text(const std::string& group, double log_likelihood, std::int64_t tokens, std::int64_t bytes) {
  auto& g = groups_[group];
  ++g.texts, g.tokens += tokens, g.bytes += bytes, g.log_likelihood += log_likelihood;
  if (bytes == 0) g.all_have_bytes = false;
}

Summary::Group Summary::all() const {
  Group sum;
  for (const auto& [name, g] : groups_) {
    sum.questions += g.questions, sum.correct += g.correct;
    sum.normalised += g.normalised, sum.correct_normalised += g.correct_normalised;
    sum.texts += g.texts, sum.tokens += g.tokens, sum.bytes += g.bytes;
    sum.log_likelihood += g.log_likelihood;
    sum.all_have_bytes = sum.all_have_bytes && g.all_have_bytes;
  }
  return sum;
}

nlohmann::ordered_json Summary::values_of(const Group& g) {
  auto one = nlohmann::ordered_json::object();
  if (g.questions > 0) {
    const auto p = share(g.correct, g.questions);
    one["questions"] = g.questions;
    one["accuracy"] = p;
    one["standard_error"] = standard_error(p, g.questions);
    if (g.normalised == g.questions) one["accuracy_by_character"] = share(g.correct_normalised, g.normalised);
  }
  if (g.texts > 0) {
    one["texts"] = g.texts;
    one["tokens"] = g.tokens;
    one["log_likelihood"] = g.log_likelihood;
    one["perplexity"] = std::exp(-g.log_likelihood / static_cast<double>(g.tokens));
    if (g.bytes > 0 && g.all_have_bytes)
      one["bits_per_byte"] = -g.log_likelihood / std::numbers::ln2 / static_cast<double>(g.bytes);
  }
  return one;
}

nlohmann::ordered_json Summary::json() const {
  auto out = nlohmann::ordered_json::array();
  for (const auto& [name, g] : groups_) {
    nlohmann::ordered_json one{{"group", name}};
    one.update(values_of(g));
    out.push_back(std::move(one));
  }
  return out;
}

std::string Summary::lines_of(const Group& g, const std::string& heading) {
  std::string out;
  if (g.questions > 0) {
    const auto p = share(g.correct, g.questions);
    out += fmt::format("{}{} of {} right, accuracy {:.4f} +- {:.4f}", heading, g.correct,
                       base::counted(g.questions, "question"), p, standard_error(p, g.questions));
    if (g.normalised == g.questions)
      out += fmt::format("; by character {:.4f}", share(g.correct_normalised, g.normalised));
    out += "\n";
  }
  if (g.texts > 0) {
    out += fmt::format("{}{}, {}, perplexity {:.4f}", heading, base::counted(g.texts, "text"),
                       base::counted(g.tokens, "token"), std::exp(-g.log_likelihood / static_cast<double>(g.tokens)));
    if (g.bytes > 0 && g.all_have_bytes)
      out +=
          fmt::format(", {:.4f} bits per byte", -g.log_likelihood / std::numbers::ln2 / static_cast<double>(g.bytes));
    out += "\n";
  }
  return out;
}

std::string Summary::text() const {
  std::string out;
  const bool several = groups_.size() > 1;
  for (const auto& [name, g] : groups_)
    out += lines_of(g, !name.empty() ? base::printable(name) + ": " : several ? "without a group: " : "");
  if (several) out += lines_of(all(), fmt::format("all {} groups: ", groups_.size()));
  if (unanswered_ > 0)
    out +=
        fmt::format("{} without an answer: --json shows what is likeliest\n", base::counted(unanswered_, "question"));
  return out;
}

}  // namespace trainyard::generate
