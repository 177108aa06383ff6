src = open("abl.py").read().split("if __name__")[0]
import sys

sys.argv = ["x"]
exec(src)
names = [
    "fixed_training",
    "fixed_random",
    "fixed_training_4",
    "fixed_random_4",
    "s_gpt60",
    "gpt60",
    "frcnn60",
    "s_resnet60",
    "many_pools",
]
for prog, opts in (("abl30", []),):
    PROG = prog
    for ratio in (1.25, 1.05, 1.02):
        row = []
        for n in names:
            r = run(n, cap(n, ratio), 0, 3, opts)
            row.append(
                f"{n[:14]} {r.get('driver_ms', -1):.0f}/{r.get('warm_ms', -1):.0f}"
                if r.get("completed")
                else f"{n[:14]} FAIL"
            )
        print(prog[5:], opts, ratio, " | ".join(row), flush=True)
