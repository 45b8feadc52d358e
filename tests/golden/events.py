"""Makes events.jsonl and events.tfevents: a few lines of metrics, and the event file that TensorBoard's own protocol
buffers and record writer make of them. Needs the package tensorboard. usage: python3 events.py"""
import io
import json
import pathlib

from datetime import datetime, timezone

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

TAGS = {"loss": "loss/train", "validation_loss": "loss/validation", "learning_rate": "optimizer/learning_rate",
        "gradient_norm": "optimizer/gradient_norm", "steps": "progress/steps"}
LINES = [
    {"step": 1, "steps": 300, "loss": 5.54491925616659, "learning_rate": 1e-3, "gradient_norm": 2.25,
     "time": "2026-01-31T23:59:59.123Z", "host": "n1"},
    {"step": 2, "steps": 300, "loss": 5.25, "validation_loss": 5.125, "time": "2026-02-01T00:00:01.000Z", "host": "n1"},
    {"step": 3, "loss": "nan", "gradient_norm": "inf", "mine": -0.5},
    {"step": 300, "steps": 300, "loss": 1e-30, "time": "2026-02-28T12:00:00.5Z", "list": [1], "none": None},
]


def seconds(text):
    return datetime.fromisoformat(text[:-1]).replace(tzinfo=timezone.utc).timestamp()


class Kept(io.BytesIO):
    def close(self):
        pass


def main():
    here = pathlib.Path(__file__).parent
    out = Kept()
    writer = RecordWriter(out)
    time = seconds(LINES[0]["time"])
    header = event_pb2.Event(wall_time=time, file_version="brain.Event:2",
                             source_metadata=event_pb2.SourceMetadata(writer="trainyard inspect"))
    writer.write(header.SerializeToString())
    for line in LINES:
        time = seconds(line["time"].replace("00.5Z", "00.500Z")) if "time" in line else time
        event = event_pb2.Event(wall_time=time, step=line["step"])
        for key, value in line.items():
            number = isinstance(value, (int, float)) or value in ("nan", "inf")
            if key != "step" and number:
                event.summary.value.add(tag=TAGS.get(key, "other/" + key), simple_value=float(value))
        writer.write(event.SerializeToString())
    writer.flush()
    (here / "events.tfevents").write_bytes(out.getvalue())
    (here / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))


if __name__ == "__main__":
    main()
