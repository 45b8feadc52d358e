// Adds B A to weights.
#include "libtrain/checkpoint/merge.h"

#include "libtrain/base/error.h"
#include "libtrain/base/index.h"
#include "libtrain/base/text.h"
#include "libtrain/checkpoint/filled_checkpoint.h"
#include "libtrain/plan/blocks/adapter.h"
#include "libtrain/plan/blocks/inventory.h"
#include "libtrain/plan/model_file/model_json.h"
#include "libtrain/plan/spec/conditions.h"

#include <filesystem>

namespace trainyard::checkpoint {

std::map<std::string, AdapterOfWeight> adapters_of_weights(const plan::ModelConfig& model) {
  std::map<std::string, AdapterOfWeight> out;
  for (const auto& flat_group : plan::flat_groups(model)) {
    if (!plan::is_adapter(flat_group)) continue;
    const auto layer = flat_group.name.substr(0, flat_group.name.rfind('.'));
    for (const auto& target : plan::adapter_targets) {
      const std::string name(target.layer);
      if (plan::find_index(flat_group, name + ".adapter_a") < 0) continue;
      out[layer + "." + name + ".weight"] = {flat_group.name + "." + name + ".adapter_a",
                                             flat_group.name + "." + name + ".adapter_b"};
    }
  }
  return out;
}

namespace {

// Adds scale B A to a slice of W, [out, in].
void add_adapter(const AdapterOfWeight& adapter, double scale, std::int64_t rank, const FilledCheckpoint::Slice& slice,
                 Reader& reader, std::vector<float>& values) {
  const auto whole = [&](const std::string& name) {
    const auto count = reader.tensors_of(Kind::model)[reader.number_of(name)].count;
    std::vector<float> out(base::size(count));
    reader.read_tensor(Kind::master, name, 0, count, out.data());
    return out;
  };
  const auto a = whole(adapter.a), b = whole(adapter.b);
  const auto in = std::ssize(a) / rank;
  std::size_t at = 0;
  for (const auto& box : slice.boxes)
    for (std::int64_t row = 0; row < box.count[0]; ++row)
      for (std::int64_t column = 0; column < box.count[1]; ++column, ++at) {
        double sum = 0;
        for (std::int64_t k = 0; k < rank; ++k)
          sum += static_cast<double>(b[base::size((box.start[0] + row) * rank + k)]) *
                 static_cast<double>(a[base::size(k * in + box.start[1] + column)]);
        values[at] = static_cast<float>(static_cast<double>(values[at]) + scale * sum);
      }
}

RunState merged_state(const Reader& source) {
  auto state = source.state();
  state.model.adapter = {};
  state.contents = Contents::model;
  if (state.identity.is_object() && state.identity.contains("model"))
    state.identity["model"] = plan::model_to_json(state.model);
  return state;
}

}  // namespace

ReshardResult merge_adapters(const Reader& source, const std::string& destination, const NewLayout& asked,
                             const ReshardOptions& options) try {
  const auto& model = source.state().model;
  if (!plan::has_adapter(model))
    throw base::UsageError(fmt::format("{} has no adapters to be merged", source.path()),
                           "reshard-checkpoint SRC DST writes it in another layout");
  auto layout = asked;
  layout.contents = Contents::model;
  if (!layout.dtype) layout.dtype = base::DType::f32;
  const auto ranks = ranks_of_layout(source.manifest(), layout);
  auto state = state_of_layout(merged_state(source), layout, ranks);
  NewCheckpointOptions folder{
      options.existing, {source.path()}, options.threads, options.history, options.free_bytes, [&] {
        if (options.watch) options.watch(0, source.bytes());
      }};
  state.provenance["merged_from"] = {{"path", base::text_of_path(source.path())}, {"step", source.state().step}};
  const std::vector<const Reader*> sources{&source};
  state.writer = purpose_of("merge", sources, state, ranks.topology);
  NewCheckpoint target(destination, state, ranks, folder);
  const auto adapters = adapters_of_weights(model);
  return fill_and_publish(sources, target, options, [&](const Kind&, const auto& slice, auto& from, auto& values) {
    auto& reader = from.readers.front();
    from.read(reader, Kind::master, slice, values);
    if (const auto found = adapters.find(slice.name); found != adapters.end())
      add_adapter(found->second, model.adapter.scale(), model.adapter.rank, slice, reader, values);
  });
} catch (const std::filesystem::filesystem_error& e) {
  throw base::EnvironmentError(e.what());
}

}  // namespace trainyard::checkpoint
