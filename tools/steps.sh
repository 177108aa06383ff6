# shellcheck shell=bash
# Steps of which one that fails does not stop those that can do without it. For scripts to source.

failed=()
left_out=()
out_of_time=()
ran=()
not_run=()
# No step begins that would likely end later than so many minutes after the start; empty: however long it takes.
most_minutes=

# step NAME [--needs STEP]... [--minutes EXPECTED] COMMAND...: says what is being done and how long it took. Where a step
# that it needs has not passed, it is left out; so it is where it would last too long.
step() {
    local name=$1 start=$SECONDS status=0 expected=0 late=
    shift
    while [[ $1 = --* ]]; do
        case $1 in
            --needs)
                if is_among "$2" "${out_of_time[@]}"; then
                    late=yes
                elif ! passed "$2"; then
                    left_out+=("$name")
                    printf '\n== %s: left out, since it needs what has not passed: %s\n' "$name" "$2"
                    return 0
                fi
                ;;
            --minutes) expected=$2 ;;
        esac
        shift 2
    done
    if [ -n "$most_minutes" ] && [ $((SECONDS + expected * 60)) -gt $((most_minutes * 60)) ]; then late=yes; fi
    if [ -n "$late" ]; then
        printf '\n== %s: not run for want of time\n' "$name"
        nothing_of "$name" "(for want of time)"
        out_of_time+=("$name")
        return 0
    fi
    printf '\n== %s\n' "$name"
    # Not in a condition, where bash would have a function go on after a command that fails.
    set +e
    (
        set -e
        "$@"
    )
    status=$?
    set -e
    ran+=("$(printf '%5d s  %s' $((SECONDS - start)) "$name")")
    if [ "$status" = 0 ]; then
        printf -- '-- %s: %d s\n' "$name" $((SECONDS - start))
    else
        failed+=("$name")
        printf -- '-- %s: FAILED after %d s, status %d\n' "$name" $((SECONDS - start)) "$status"
    fi
}

# is_among WORD WORD...: whether the first is one of the others.
is_among() {
    local other
    for other in "${@:2}"; do
        [ "$other" != "$1" ] || return 0
    done
    return 1
}

# passed STEP: it neither failed nor was left out.
passed() { ! is_among "$1" "${failed[@]}" "${left_out[@]}" "${out_of_time[@]}"; }

# nothing_of WHAT COMMAND: the end will say that this was not run, and what runs it.
nothing_of() { not_run+=("$(printf '%s: %s' "$1" "$2")"); }

# end_of_steps COMMAND: the last lines; its status is 1 if a step failed.
end_of_steps() {
    printf '\n%s ran, in seconds by the clock:\n' "$1"
    printf '%s\n' "${ran[@]}"
    if [ ${#not_run[@]} != 0 ]; then
        printf '%s did not run:\n' "$1"
        printf '  %s\n' "${not_run[@]}"
    fi
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
