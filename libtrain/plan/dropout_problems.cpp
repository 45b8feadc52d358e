// Where random numbers of dropout would repeat, or ranks could not count them.
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/spec/limits.h"

#include <fmt/format.h>

#include <string>

namespace trainyard::plan {

bool drops_rows(const ModelConfig& m) {
  return m.dropout_embedding > 0 || m.dropout_attention_residual > 0 || m.dropout_ffn_residual > 0 ||
         m.dropout_ffn > 0 || m.dropout_final_norm > 0;
}

// Elements with equal counters drop together (kernels/dropout/dropout.h). Attention probabilities have larger counters.
void dropout_problems(const Plan& p, std::vector<Problem>& out) {
  if (!drops_rows(p.model)) return;
  const auto beyond = [&](const std::string& what, std::int64_t value, std::int64_t most) {
    if (value > most)
      out.push_back({fmt::format("{} {} with dropout: its random numbers are counted up to {} and would repeat", what,
                                 value, most),
                     "set all dropout of the model to 0 but dropout-attention"});
  };
  beyond("a hidden of", p.model.hidden, most_hidden_with_dropout);
  if (p.model.dropout_ffn > 0) beyond("dropout-ffn, and an ffn of", p.model.ffn, most_hidden_with_dropout);
  beyond(base::setting_name("sequence"), p.sequence, most_sequence_with_dropout);
  beyond(base::setting_name("source-sequence"), p.source_sequence, most_sequence_with_dropout);
  if (p.model.dropout_ffn > 0 && p.tensor > 1 && p.model.ffn % (4 * p.tensor) != 0)
    out.push_back({base::text("$tensor-parallel {} with dropout-ffn does not divide ffn {} into multiples of 4, which "
                              "share a random number",
                              p.tensor, p.model.ffn),
                   base::text("dropout-ffn 0, or a lower $tensor-parallel")});
}

}  // namespace trainyard::plan
