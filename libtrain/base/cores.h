// How many threads a rank should have.
#pragma once

namespace trainyard::base {

// The cores that this process may use, divided among the ranks of its node; at least one.
int default_threads(int ranks_on_node);

}  // namespace trainyard::base
