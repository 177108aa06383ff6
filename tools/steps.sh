# shellcheck shell=bash
# Steps of which one that fails does not stop those that can do without it. For scripts to source.

failed=()
left_out=()

# step NAME [--needs STEP]... COMMAND...: says what is being done and how long it took. Where a step that it needs has
# not passed, it is left out.
step() {
    local name=$1 start=$SECONDS status=0
    shift
    while [ "$1" = --needs ]; do
        if ! passed "$2"; then
            left_out+=("$name")
            printf '\n== %s: left out, since it needs what has not passed: %s\n' "$name" "$2"
            return 0
        fi
        shift 2
    done
    printf '\n== %s\n' "$name"
    # Not in a condition, where bash would have a function go on after a command that fails.
    set +e
    (
        set -e
        "$@"
    )
    status=$?
    set -e
    if [ "$status" = 0 ]; then
        printf -- '-- %s: %d s\n' "$name" $((SECONDS - start))
    else
        failed+=("$name")
        printf -- '-- %s: FAILED after %d s, status %d\n' "$name" $((SECONDS - start)) "$status"
    fi
}

# passed STEP: neither failed nor was left out.
passed() {
    local other
    for other in "${failed[@]}" "${left_out[@]}"; do
        [ "$other" != "$1" ] || return 1
    done
}

# end_of_steps COMMAND: the last lines; its status is 1 if a step failed.
end_of_steps() {
    [ ${#left_out[@]} = 0 ] || printf '\n%s: left out: %s\n' "$1" "$(in_a_line "${left_out[@]}")" >&2
    if [ ${#failed[@]} != 0 ]; then
        printf '\n%s: FAILED: %s\n' "$1" "$(in_a_line "${failed[@]}")" >&2
        return 1
    fi
    printf '\n%s: all %spassed in %d s\n' "$1" "${left_out[0]:+others }" "$SECONDS"
}

in_a_line() {
    printf '%s' "$1"
    shift
    [ $# = 0 ] || printf '; %s' "$@"
}

# Else a command that ends well when it is interrupted would have the next step follow.
trap 'exit 130' INT
