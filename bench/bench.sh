#!/bin/bash
# bench.sh PROGRAM LIBRARY... -- ARGS...: runs the bench of the checkout that Bazel was called in, with the libraries and
# the program just built.
set -euo pipefail
program=$PWD/$1
shift
root=${BUILD_WORKSPACE_DIRECTORY:?start it by: bazel run -c opt //bench}
python=$root/.venv/bin/python
if [ ! -x "$python" ]; then
    echo "bench: there is no $python; run tools/setup" >&2
    exit 2
fi
while [ $# != 0 ] && [ "$1" != -- ]; do
    case $1 in
        simulated_gpu/*) target=$root/simulated_gpu/python/simulated_gpu/_lib ;;
        *) target=$root/bindings/frugal_alloc/_lib ;;
    esac
    mkdir -p "$target"
    # Replaces the file rather than its contents, since a running program may have it loaded.
    install -C -m 755 "$1" "$target/"
    shift
done
[ $# = 0 ] || shift
export PYTHONPATH=$root:$root/bindings:$root/simulated_gpu/python
# Where the user is, so that a path among the arguments is taken from there.
cd "${BUILD_WORKING_DIRECTORY:-$root}"
exec "$python" -m bench --program "$program" "$@"
