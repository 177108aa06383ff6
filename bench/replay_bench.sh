#!/bin/bash
# replay_bench.sh LIBRARY... -- ARGS...: runs bench/replay_bench.py of the checkout that Bazel was called in, with
# the libraries just built.
set -euo pipefail
root=${BUILD_WORKSPACE_DIRECTORY:?start it by: bazel run -c opt //bench:replay_bench}
python=$root/.venv/bin/python
if [ ! -x "$python" ]; then
    echo "replay_bench: there is no $python; run tools/setup" >&2
    exit 2
fi
libraries=$root/bindings/frugal_alloc/_lib
while [ $# != 0 ] && [ "$1" != -- ]; do
    case $1 in
        cuda/simulated/*) target=$libraries/simulated_gpu ;;
        *) target=$libraries ;;
    esac
    mkdir -p "$target"
    # Replaces the file rather than its contents, since a running program may have it loaded.
    install -C -m 755 "$1" "$target/"
    shift
done
[ $# = 0 ] || shift
export PYTHONPATH=$root:$root/bindings
# Where the user is, so that --json takes a path from there.
cd "${BUILD_WORKING_DIRECTORY:-$root}"
exec "$python" -m bench.replay_bench "$@"
