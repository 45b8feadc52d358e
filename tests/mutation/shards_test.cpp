// Damaged indexes of shards: refused, or the same tokens, or a set that a run's identity tells apart.
#include "tests/data/sample.h"
#include "tests/mutation/harness.h"

#include "libtrain/base/error.h"
#include "libtrain/data/shard_reader.h"
#include "tools/inspect/report.h"

using namespace sample;
namespace inspect = trainyard::inspect;

TEST(Shards, Indexes) {
  Scratch scratch;
  const auto bytes = data::make_tokenizer("bytes");
  const auto index = write_set(scratch.path, *bytes, documents(*bytes, 40, 30), 200);
  const auto path = scratch.path + "/index.json", original = slurp(path);
  const auto tokens = [&](const data::SetIndex& set) {
    std::vector<std::int32_t> out;
    for (const auto* split : {&set.train, &set.validation})
      for (const auto& entry : *split) {
        data::ShardReader reader(scratch.path, set, entry);
        reader.verify_all();
        const auto at = out.size();
        out.resize(at + static_cast<std::size_t>(reader.tokens()));
        reader.read(0, reader.tokens(), out.data() + at);
      }
    return out;
  };
  const auto expected = tokens(index);
  mutation::run({"shard index", [&](mutation::Random& random) { return mutation::mutate_json(original, random); },
                 [&](const std::string& content) -> std::string {
                   spit(path, content);
                   const auto set = data::read_index(scratch.path);
                   inspect::report_on(scratch.path, {inspect::Verify::yes, {}, {}});
                   if (set.vocabulary != index.vocabulary) return "another vocabulary";
                   // Fewer shards, or their order, are what somebody may want; a run tells that by its identity.
                   return tokens(set) == expected || data::identity_of(set) != data::identity_of(index) ? "" : "other tokens";
                 }});
}
