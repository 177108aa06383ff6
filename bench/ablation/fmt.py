import json

R = json.load(open("rivals.json"))
BASE = json.load(open("base.json"))
IDX = json.load(open("hist/index.json"))
M = 1 << 20


def fmt(n, r):
    rec = IDX[n]["kind"] == "recorded"
    e = R[f"{n}|expandable|4"]
    nat = R[f"{n}|native|4"]
    a = r["4"]
    out = [f"{n[:20]:20s}"]
    fails = []
    if not a.get("completed"):
        return f"{n} 4x FAIL {a}", ["4x"]
    live = e["peak_live_bytes"]
    x = a["driver_ms"] / (e["driver_ns"] / 1e6)
    out.append(f"4x {a['driver_ms']:6.0f} x{x:5.2f}")
    if x > (1.0005 if rec else 1.5):
        fails.append("4drv")
    bar = max(e["peak_reserved_bytes"], live * 1.003 + 8 * M)
    over = (a["held"] - bar) / live
    out.append(f"u{live / a['held']:.4f}({live / e['peak_reserved_bytes']:.4f})")
    if over > 0.0005:
        fails.append("4held")
    ub = BASE[n]["4"]
    if not rec and live / a["held"] < live / ub["held"] - 0.03:
        fails.append("4use")
    sw = e["steady"]["driver_ns"] / max(1, e["steady"]["allocations"]) * 1000 / 1e6
    nalloc = IDX[n]["n"] / 2
    w = a["warm_ms"] / nalloc * 1000
    out.append(f"w{w:.2f}({sw:.2f})")
    if w > sw + 0.1:
        fails.append("warm")
    if a["worst_over_ms"] > 1:
        fails.append(f"worst{a['worst_over_ms']:.1f}")
    for k in ("1.25", "1.05", "1.02"):
        y = r[k]
        ee = R.get(f"{n}|expandable|{k}")
        b = BASE[n][k]
        if not y.get("completed"):
            out.append(f"| {k} FAIL{'' if b['completed'] else '(as was)'}")
            if b["completed"]:
                fails.append(k + "fail")
            continue
        u = live / y["held"]
        em = ee["driver_ns"] / 1e6 if ee["completed"] else float("nan")
        out.append(
            f"| {y['driver_ms']:6.0f}({em:4.0f}/{b['driver_ms'] if b['completed'] else float('nan'):5.0f}) u{u:.4f}"
        )
        if y["worst_over_ms"] > 1:
            fails.append(f"{k}worst{y['worst_over_ms']:.1f}")
        if k == "1.25":
            if rec and u < 0.9895:
                fails.append("1.25use")
            if em == em and y["driver_ms"] > 2 * em:
                fails.append("1.25drv")
            if y["waits"]:
                fails.append("1.25wait")
        elif b["completed"] and y["driver_ms"] > b["driver_ms"] / 3:
            fails.append(k + "drv")
        if y["host_syncs"]:
            fails.append(k + "host")
    if "min" in r:
        m = r["min"]
        em = e["min_capacity_bytes"] / live
        nm = nat["min_capacity_bytes"] / live
        out.append(f"| min {m:.4f}({em:.4f},{BASE[n]['min']:.4f})")
        if m > min(em, nm) + 0.0006:
            fails.append("min>riv")
        if m > (1.0055 if rec else 1.0205):
            fails.append("min")
    return " ".join(out), fails


import math


def gm(x):
    x = [v for v in x if v and v == v]
    return math.exp(sum(map(math.log, x)) / len(x)) if x else float("nan")


def agg(out):
    s = ""
    for kind in ("recorded", "generated"):
        N = [n for n in out if IDX[n]["kind"] == kind]
        if not N:
            continue
        e = lambda n, k: R[f"{n}|expandable|{k}"]
        L = lambda n: e(n, 4)["peak_live_bytes"]
        g4 = gm([out[n]["4"]["driver_ms"] / (e(n, 4)["driver_ns"] / 1e6) for n in N if out[n]["4"].get("completed")])
        w4 = sum(out[n]["4"]["warm_ms"] / IDX[n]["n"] * 2000 for n in N if out[n]["4"].get("completed")) / len(N)
        over = sum(
            max(0, (out[n]["4"]["held"] - max(e(n, 4)["peak_reserved_bytes"], L(n) * 1.003 + (8 << 20))) / L(n))
            for n in N
            if out[n]["4"].get("completed")
        ) / len(N)
        g125 = gm(
            [
                out[n]["1.25"]["driver_ms"] / (e(n, 1.25)["driver_ns"] / 1e6)
                for n in N
                if out[n]["1.25"].get("completed") and e(n, 1.25)["completed"]
            ]
        )
        u125 = [L(n) / out[n]["1.25"]["held"] for n in N if out[n]["1.25"].get("completed")]
        b105 = gm(
            [
                out[n]["1.05"]["driver_ms"] / BASE[n]["1.05"]["driver_ms"]
                for n in N
                if out[n]["1.05"].get("completed") and BASE[n]["1.05"]["completed"]
            ]
        )
        mins = [out[n].get("min", float("nan")) for n in N]
        over_min = sum(max(0, m - (1.005 if kind == "recorded" else 1.02)) for m in mins) / len(N)
        s += f"   {kind[:3]} 4x x{g4:.2f} w{w4:.2f} over {over:.4f} | 1.25 x{g125:.2f} u{sum(u125) / len(u125):.4f} worst {min(u125):.4f} | 1.05 /base {b105:.2f} | min {sum(mins) / len(mins):.4f} worst {max(mins):.4f} above bar {over_min:.4f}\n"
    return s
