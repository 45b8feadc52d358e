// Takes the model from a checkpoint.
#include "libtrain/engine/model_of_weights.h"

#include "libtrain/base/setting_text.h"
#include "libtrain/checkpoint/finder.h"
#include "libtrain/checkpoint/reader.h"
#include "libtrain/checkpoint/removed.h"
#include "libtrain/engine/run_folder.h"
#include "libtrain/engine/start_path.h"

#include <string>

namespace trainyard::engine {

void read_model_of_weights(const std::vector<base::Field>& fields, RunConfig& c) {
  if (!has_model_of_weights(fields, c)) return;
  or_stop_unread(c, [&] {
    // A run that continues no longer needs the weights that it began with, so they may be gone. Which of its own
    // checkpoints is taken is decided later (choose_start); all are of one model.
    std::vector<std::string> own;
    if (c.resume == "auto" && !c.output.empty())
      for (const auto& held : checkpoint::list(checkpoints_folder(c.output))) own.push_back(held.path);
    auto lanes = plan::Lanes::of_the_run;
    auto found = model_of_newest(own);
    if (!found) {
      const char* setting = resumes_named(c) ? "resume" : "init-from";
      const auto& path = resumes_named(c) ? c.resume : c.init_from;
      if (!resumes_named(c)) lanes = plan::Lanes::open;
      found = checkpoint::looking_again({path}, [&] {
        const auto named = checkpoints_named(base::setting_name(setting), path);
        return checkpoint::reading(named, [&] {
          auto newest = model_of_newest(named);
          if (!newest) checkpoint::read_state(named.front());  // throws what is wrong with it
          return newest;
        });
      });
    }
    if (!found) return;
    c.from_checkpoint.model = found->model;
    c.from_checkpoint.lanes_of = {lanes, found->checkpoint};
  });
}

}  // namespace trainyard::engine
