import concurrent.futures as cf
import json
import subprocess
import sys

IDX = json.load(open("hist/index.json"))
PROG = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1].startswith("/") else ".bazel/bin/bench/ablate_program"
P = 2 << 20


def cap(n, r):
    return int(-(-max(IDX[n]["live"] * r, IDX[n]["live"] + 4 * P if r < 1.01 else 0) // P)) * P


def run(n, c, lag, passes, opts=()):
    try:
        o = subprocess.run(
            [PROG, f"hist/{n}.bin", str(c), str(lag), str(passes), *opts], capture_output=True, text=True, timeout=300
        )
        return json.loads(o.stdout)
    except Exception as e:
        return dict(completed=False, failed_at=-2, error=(str(e) + o.stderr)[-200:] if "o" in dir() else str(e))


def minimum(n, opts):
    live = IDX[n]["live"]
    lo = -(-live // P)
    hi = int(live * 1.3 / P)
    tol = max(1, int(live * 0.0005 / P))
    # from small upwards: exponential
    step = tol
    c = lo
    while c < hi and not run(n, c * P, 0, 1, opts)["completed"]:
        lo = c
        c += step
        step *= 2
    if c >= hi:
        return 9.99
    h = c
    while h - lo > tol:
        m = (h + lo) // 2
        if run(n, m * P, 0, 1, opts)["completed"]:
            h = m
        else:
            lo = m
    return h * P / live


def one(n, opts, mini=True):
    r = {"4": run(n, cap(n, 4), 0, 2, opts)}
    for ratio in (1.25, 1.05, 1.02):
        r[str(ratio)] = run(n, cap(n, ratio), IDX[n]["lag"], 1, opts)
    if mini:
        r["min"] = minimum(n, opts)
    return r


sys.path.insert(0, "/tmp")
import fmt as F


def main(names, opts, mini=True, save=None):
    out = {}
    allf = []
    with cf.ThreadPoolExecutor(2) as ex:
        for n, r in zip(names, ex.map(lambda n: one(n, opts, mini), names)):
            out[n] = r
            t, f = F.fmt(n, r)
            allf.extend(f)
            print(t, "  **", " ".join(f), flush=True) if VERB else None
    import collections

    print(F.agg(out), "  ", dict(collections.Counter("worst" if "worst" in x else x for x in allf)))
    if save:
        json.dump(out, open(save, "w"))


if __name__ == "__main__":
    import argparse

    p = argparse.ArgumentParser()
    p.add_argument("prog", nargs="?")
    p.add_argument("--only")
    p.add_argument("--no-min", action="store_true")
    p.add_argument("--save")
    p.add_argument("-v", action="store_true")
    p.add_argument("-o", action="append", default=[])
    a = p.parse_args()
    names = a.only.split(",") if a.only else list(IDX)
    if a.prog:
        PROG = a.prog
    VERB = a.v
    main(names, a.o, not a.no_min, a.save)
