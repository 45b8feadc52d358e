// What gates and the slots of experts do not go with.
#include "libtrain/base/number_text.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/base/text.h"
#include "libtrain/plan/decision_problems.h"
#include "libtrain/plan/spec/expert_config.h"
#include "libtrain/plan/spec/layer_model.h"
#include "libtrain/plan/spec/limits.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::plan {

namespace {

// Ranks that divide experts have slots for as many tokens for each expert. Their rows are counted in 32 bits, too.
void slot_problems(const Plan& p, std::vector<Problem>& out) {
  if (p.tensor * std::int64_t{p.expert_parallel} == 1) return;
  const auto tokens = p.micro_batch * p.sequence;
  for (const auto count : p.model.experts.count)
    for (const auto pass : {Pass::train, Pass::evaluate}) {
      const auto places = expert_capacity(p.model.experts, count, tokens, pass);
      if (places == 0 && p.tensor == 1) continue;  // in dispatch rounds
      if (const auto rows = static_cast<double>(count) * static_cast<double>(places == 0 ? tokens : places);
          rows > 0x7fffffff)
        return out.push_back({fmt::format("{} with {} places each for a micro-batch of {} tokens have more than "
                                          "2147483647 places, the most that can be counted",
                                          base::counted(count, "expert"), places == 0 ? tokens : places, tokens),
                              base::text("a smaller $micro-batch or $sequence")});
    }
}

}  // namespace

// Gates count rows in 32 bits, and key random numbers by position and expert or channel (kernels/gate/gate.h).
void gate_problems(const Plan& p, std::vector<Problem>& out) {
  if (!has_experts(p.model)) return;
  const auto& e = p.model.experts;
  if (const auto rows = static_cast<double>(p.micro_batch) * static_cast<double>(p.sequence);
      rows * static_cast<double>(e.top_k) > 0x7fffffff)
    out.push_back({fmt::format("a micro-batch of {:.0f} tokens, each of which goes to {}, makes more than 2147483647 "
                               "copies, the most that can be counted",
                               rows, base::counted(e.top_k, "expert")),
                   base::text("a smaller $micro-batch or $sequence")});
  else slot_problems(p, out);
  if (draws_for_gates(p.model) && p.sequence > most_sequence_of_gates)
    out.push_back({base::text("$sequence {} with experts: the random numbers of their gates are counted up to {} and "
                              "would repeat",
                              p.sequence, most_sequence_of_gates),
                   base::text("$sequence {} at most, or experts-overflow position and experts-noise none",
                              most_sequence_of_gates)});
  if (e.noise == GateNoise::jitter && p.model.hidden > most_hidden_with_jitter)
    out.push_back({fmt::format("a hidden of {} with experts-noise jitter: its random numbers are counted up to {} and "
                               "would repeat",
                               p.model.hidden, most_hidden_with_jitter),
                   "experts-noise gumbel or none"});
}

}  // namespace trainyard::plan
