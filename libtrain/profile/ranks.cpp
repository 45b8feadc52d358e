// Reductions, texts and agreement over the control communicator.
#include "libtrain/profile/ranks.h"

namespace trainyard::profile {

namespace {

void reduce(Ranks& ranks, std::vector<double>& values, comm::Reduction op) {
  if (ranks.size == 1 || values.empty()) return;
  ranks.control->all_reduce(*ranks.caller, base::View::of(values.data(), {static_cast<std::int64_t>(values.size())}),
                            op);
}

}  // namespace

void largest(Ranks& ranks, std::vector<double>& values) { reduce(ranks, values, comm::Reduction::max); }
void sums(Ranks& ranks, std::vector<double>& values) { reduce(ranks, values, comm::Reduction::sum); }

std::vector<std::string> from_all(Ranks& ranks, const std::string& text) {
  return comm::texts_of_all(*ranks.control, *ranks.caller, text);
}
std::string from_rank_zero(Ranks& ranks, const std::function<std::string()>& work) {
  return comm::on_rank_zero(*ranks.control, *ranks.caller, work);
}
void on_all(Ranks& ranks, const std::function<void()>& body) {
  comm::on_every_rank(*ranks.control, *ranks.caller, body);
}

}  // namespace trainyard::profile
