// Summary: accuracy and perplexity, by group and of all.
#pragma once

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace trainyard::generate {

class Summary {
 public:
  // A question with an answer: whether the likeliest ending is right, and the one that is likeliest by character.
  void add_choice(const std::string& group, bool correct, std::optional<bool> correct_by_character);
  // bytes: of the text, if every byte is in a scored token; else 0.
  void add_text(const std::string& group, double log_likelihood, std::int64_t tokens, std::int64_t bytes);
  void add_unanswered() { ++unanswered_; }  // a question without an answer
  nlohmann::ordered_json json() const;      // an object for each group
  nlohmann::ordered_json json_of_all() const { return values_of(all()); }
  std::string text() const;  // a table

 private:
  struct Group {
    std::int64_t questions = 0, correct = 0, normalised = 0, correct_normalised = 0;
    std::int64_t texts = 0, tokens = 0, bytes = 0;
    double log_likelihood = 0;   // of texts
    bool all_have_bytes = true;  // the bytes of all scored tokens are known
  };
  static nlohmann::ordered_json values_of(const Group& group);
  static std::string lines_of(const Group& group, const std::string& heading);
  Group all() const;
  std::map<std::string, Group> groups_;
  std::int64_t unanswered_ = 0;
};

}  // namespace trainyard::generate
