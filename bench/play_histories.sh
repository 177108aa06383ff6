#!/bin/bash
# play_histories.sh MODULE PROGRAM LIBRARY... -- ARGS...: runs bench/MODULE.py of the checkout that Bazel was called in,
# with the libraries and the program just built.
set -euo pipefail
module=$1
program=$PWD/$2
shift 2
root=${BUILD_WORKSPACE_DIRECTORY:?start it by: bazel run -c opt //bench:$module}
python=$root/.venv/bin/python
if [ ! -x "$python" ]; then
    echo "$module: there is no $python; run tools/setup" >&2
    exit 2
fi
libraries=$root/bindings/frugal_alloc/_lib
while [ $# != 0 ] && [ "$1" != -- ]; do
    case $1 in
        simulated_gpu/*) target=$libraries/simulated_gpu ;;
        *) target=$libraries ;;
    esac
    mkdir -p "$target"
    # Replaces the file rather than its contents, since a running program may have it loaded.
    install -C -m 755 "$1" "$target/"
    shift
done
[ $# = 0 ] || shift
export PYTHONPATH=$root:$root/bindings
# Where the user is, so that a path among the arguments is taken from there.
cd "${BUILD_WORKING_DIRECTORY:-$root}"
exec "$python" -m "bench.$module" --program "$program" "$@"
