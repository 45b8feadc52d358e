#!/bin/bash
# TensorBoard itself reads what inspect exports, to the last step, and finds every checksum right. TensorBoard's own
# writer makes the golden file.
# usage: tensorboard.sh BIN_FOLDER SOURCE_FOLDER      (PYTHON: another python3)
PATH=$(realpath "$1"):$PATH
source=$(realpath "$2")
. "$(dirname "$0")/../script.sh"
python=${PYTHON:-python3}
"$python" -c 'import tensorboard' 2>/dev/null || skipped "$python has no tensorboard: pip install tensorboard, in an environment of its own; PYTHON names it"
for step in $(seq 1 2500); do
  printf '{"step":%d,"steps":2500,"loss":%d.125,"tokens_per_second":%d.5,"time":"2026-01-31T%02d:%02d:%02d.500Z"' "$step" $((3000 - step)) "$step" $((step / 3600)) $((step / 60 % 60)) $((step % 60))
  [ $((step % 50)) != 0 ] || printf ',"validation_loss":%d' "$step"
  printf '}\n'
done >metrics.jsonl
expect 0 inspect metrics.jsonl --export tensorboard events
cat >check.py <<'END'
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
a = EventAccumulator("events", size_guidance={"scalars": 0})
a.Reload()
assert set(a.Tags()["scalars"]) == {"loss/train", "loss/validation", "throughput/tokens_per_second", "progress/steps"}, a.Tags()
loss = a.Scalars("loss/train")
assert [e.step for e in loss] == list(range(1, 2501))
assert all(e.value == 3000 - e.step + 0.125 for e in loss)
begin = 1769817600   # 2026-01-31
assert all(e.wall_time == begin + e.step + 0.5 for e in loss), loss[0]
assert [e.step for e in a.Scalars("loss/validation")] == list(range(50, 2501, 50))
assert sum(1 for _ in EventFileLoader("events/events.out.tfevents.trainyard").Load()) == 2501
data = bytearray(open("events/events.out.tfevents.trainyard", "rb").read())
data[5000] ^= 1   # it does look at checksums
open("damaged.tfevents", "wb").write(data)
assert sum(1 for _ in EventFileLoader("damaged.tfevents").Load()) < 2501
END
"$python" check.py >out 2>err || fail "TensorBoard reads something else"
mkdir golden
cp "$source/tests/golden/events.py" golden/
"$python" golden/events.py >out 2>err || fail "the golden file cannot be made"
for name in events.jsonl events.tfevents; do same golden/$name "$source/tests/golden/$name" "the golden file"; done
passed
