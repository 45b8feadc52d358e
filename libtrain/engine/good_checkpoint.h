// What may be said of a saved checkpoint when the run that wrote it fails.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::engine {

// A checkpoint is called good only after it was read back: every byte has its checksum, every tensor its fingerprint,
// and every norm is finite. Looks for the newest such checkpoint of the folder at or before `newest_step`; one sentence
// that names it, or says what is wrong. Checkpoints beyond `most_bytes` are named unread: the other ranks wait
// meanwhile. Not collective. Throws nothing.
std::string good_checkpoint_sentence(const std::string& checkpoints_folder, std::int64_t newest_step,
                                     std::int64_t most_bytes = std::int64_t{32} << 30);

}  // namespace trainyard::engine
