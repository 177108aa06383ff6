"""Runs small claims about tracking, which need a process with tensors on a GPU; prints the errors as JSON."""

from __future__ import annotations

import gc
import json
import sys
import traceback

import check_helpers
import checks_of_calls
import checks_of_hooks
import checks_of_reports
import frugal_alloc


def main() -> None:
    frugal_alloc.enable()
    checks = {**vars(checks_of_calls), **vars(checks_of_hooks), **vars(checks_of_reports)}
    results = {}
    for name in sys.argv[1:]:
        gc.collect()
        check_helpers.tracker()
        try:
            checks[name]()
            results[name] = ""
        except BaseException:
            results[name] = traceback.format_exc()
    print("RESULTS" + json.dumps(results))


if __name__ == "__main__":
    main()
