// From settings to the adapters of a model.
#include "libtrain/plan/model_file/adapter_setting.h"

#include "libtrain/base/error.h"
#include "libtrain/base/json.h"
#include "libtrain/base/setting_text.h"
#include "libtrain/plan/model_file/model_fields.h"
#include "libtrain/plan/spec/conditions.h"

#include <algorithm>

namespace trainyard::plan {

namespace {

constexpr std::string_view form = "lora:";

}  // namespace

std::int64_t adapter_rank_of_text(const std::string& text) {
  ModelConfig m;
  auto fields = fields_of(m);
  const auto wrong = [&](const std::string& why) {
    return base::UsageError(base::text("$adapter {}{}", base::excerpt(text), why),
                            base::text("$adapter lora:16 gives adapters of rank 16; a rank is a multiple of 8"));
  };
  if (!text.starts_with(form)) throw wrong(", expected lora:RANK");
  try {
    base::field_named(fields, "adapter-rank", "a model").set(text.substr(form.size()), "the rank");
  } catch (const base::UsageError& e) {
    throw wrong(fmt::format(": {}", e.what()));
  }
  if (m.adapter.rank == 0 || m.adapter.rank % adapter_rank_multiple != 0)
    throw wrong(fmt::format(": {} is not a multiple of {} above 0", m.adapter.rank, adapter_rank_multiple));
  return m.adapter.rank;
}

void take_adapter(const AdapterSettings& s, ModelConfig& m) {
  if (!s.adapter.empty()) m.adapter.rank = adapter_rank_of_text(s.adapter);
  if (!has_adapter(m) && (!s.on.empty() || s.alpha > 0))
    throw base::UsageError(
        base::text("{} is given, and the model has no adapters",
                   s.on.empty() ? base::setting_name("adapter-alpha") : base::setting_name("adapter-on")),
        base::text("$adapter lora:16"));
  if (s.alpha > 0) m.adapter.alpha = s.alpha;
  if (s.on.empty()) return;
  auto fields = fields_of(m);
  try {
    base::field_named(fields, "adapter-on", "a model").set(s.on, base::setting_name("adapter-on"));
  } catch (const base::UsageError& e) {
    throw base::UsageError(e.what(), e.hint().empty() ? base::text("name layers: $adapter-on q,k,v,o") : e.hint());
  }
  std::ranges::stable_sort(m.adapter.on, {}, [](const std::string& name) {  // the order says nothing
    return std::ranges::find(adapter_targets, name, &AdapterTarget::name) - std::begin(adapter_targets);
  });
}

}  // namespace trainyard::plan
