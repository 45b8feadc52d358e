// What a failing run reports about its saved checkpoints.
#pragma once

#include <cstdint>
#include <string>

namespace trainyard::engine {

// Returns one sentence that names the newest good checkpoint of the folder at or before `newest_step`, or says what is
// wrong. A checkpoint is called good only after it was read back: every byte matches its checksum, every tensor its
// fingerprint, and every norm is finite. Checkpoints beyond `most_bytes` are named unread, because the other ranks wait
// meanwhile. Not collective. Throws nothing.
std::string good_checkpoint_sentence(const std::string& checkpoints_folder, std::int64_t newest_step,
                                     std::int64_t most_bytes = std::int64_t{32} << 30);

}  // namespace trainyard::engine
