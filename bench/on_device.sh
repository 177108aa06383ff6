#!/bin/bash
# on_device.sh PROGRAM ARGS...: runs a C++ benchmark on the GPU, or on the simulated GPU where there is none.
set -euo pipefail
program=$PWD/$1
shift
if [ -e /dev/nvidiactl ]; then
    # The runtime that torch itself would load.
    LD_PRELOAD=$(LD_LIBRARY_PATH='' ldd "$program" | awk '/libc10_cuda.so/ {print $3}' | xargs ldd | awk '/libcudart/ {print $3}')
    export LD_PRELOAD
else
    echo "No GPU here: on the simulated GPU." >&2
    simulated=$PWD/simulated_gpu/exports
    export LD_LIBRARY_PATH=$simulated${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_PRELOAD=$simulated/libcudart.so.13
    export FRUGAL_SIM_BACKING=none FRUGAL_SIM_MEMORY=$((64 << 30))
fi
exec "$program" "$@"
