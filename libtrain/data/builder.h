// Builder: makes a shard set from documents. Several threads tokenize, and the bytes of the set do not depend on their
// number.
#pragma once

#include "libtrain/data/build_options.h"
#include "libtrain/data/document_source.h"
#include "libtrain/data/tokenizer.h"

#include <cstdint>
#include <functional>

namespace trainyard::data {

// Builds a shard set. Threads read, split and tokenize stretches of the input, and the results are appended in order.
// Memory: the tokens of three shards (one for each split, and one being written), and the memory of tokenize(). The set
// appears whole under options.output, with a copy of the tokenizer's model, or not at all. InputError (exit 3) when
// more than the allowed share was refused, or no document for training is left. Then nothing is published, but the file
// of refusals is. `progress` is called now and then with the number of bytes read so far.
BuildResult build_shards(DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options,
                         const std::function<void(std::int64_t)>& progress);

}  // namespace trainyard::data
