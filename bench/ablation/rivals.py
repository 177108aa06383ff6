import dataclasses
import json
import sys

sys.path.insert(0, ".")
from pathlib import Path

from frugal_alloc import _histories, _replay

from bench import replay_suite

plays = {p.input.name: (p.history, p.input.stream_lag) for p in replay_suite.load()}
for p in sorted(Path("../shared/snapshots").iterdir()):
    if p.name == "README.md":
        continue
    h = _histories.read(p)
    plays["s_" + p.name.split(".")[0]] = (h, h.stream_lag or 32)
r = _replay.Replayer()
out = {}
P = 2 << 20
for n, (h, lag) in plays.items():
    for a in ("expandable", "native"):
        for ratio in (4, 1.25, 1.05, 1.02):
            cap = int(-(-h.peak_live_bytes * ratio // P)) * P
            if ratio != 4 and a == "native":
                continue
            m = r.measure(
                h,
                a,
                cap,
                ratio == 4,
                passes=2 if ratio == 4 else 1,
                stream_lag=lag if ratio < 4 else 0,
                tolerance=0.0005,
            )
            d = dataclasses.asdict(m)
            d = {k: v for k, v in d.items() if not isinstance(v, (list,)) or len(v) < 20}
            out[f"{n}|{a}|{ratio}"] = d
    json.dump(out, open("rivals.json", "w"), default=str)
    print(n, flush=True)
