import json
import sys

sys.path.insert(0, ".")
import os

from bench import replay_suite

os.makedirs("hist", exist_ok=True)
index = {}
for play in replay_suite.load():
    h = play.history
    open(f"hist/{play.input.name}.bin", "wb").write(h.events)
    index[play.input.name] = dict(
        live=h.peak_live_bytes,
        lag=play.input.stream_lag,
        kind=play.input.kind,
        streams=h.stream_count,
        n=h.event_count,
        warm=h.warm_up_end,
        turns=list(h.turn_ends),
    )
from pathlib import Path

from frugal_alloc import _histories

for p in sorted(Path("../shared/snapshots").iterdir()):
    if p.name == "README.md":
        continue
    try:
        h = _histories.read(p)
    except Exception as e:
        print(p, e)
        continue
    n = "s_" + p.name.split(".")[0]
    open(f"hist/{n}.bin", "wb").write(h.events)
    index[n] = dict(
        live=h.peak_live_bytes, lag=h.stream_lag or 32, kind="recorded", streams=h.stream_count, n=h.event_count
    )
json.dump(index, open("hist/index.json", "w"))
for k, v in index.items():
    print(k, v["kind"], v["streams"], v["n"], round(v["live"] / 2**30, 3), v["lag"])
