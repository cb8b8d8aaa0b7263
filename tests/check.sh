# What the test scripts share. A script begins with
#
#   . "$(dirname "$0")/check.sh"
#
# and ends with `finish`; between them are `check`s. The program is $bin, this folder $tests; the script is in a folder of
# its own, $work, that goes with it. It may define `cleanup`, called before that, and `explain` for cases that fail.
export LC_ALL=C
bin=$(realpath "${1:-build/vitrine}") || exit 1
[ -x "$bin" ] || { echo "not ok - no program at $bin"; exit 1; }
tests=$(realpath "$(dirname "$0")") || exit 1
work=$(mktemp -d "/tmp/vitrine-$(basename "$0" .sh)-XXXXXX") || exit 1
cleanup() { :; }
trap 'cleanup; chmod -R u+rwx "$work"; rm -r "$work"' EXIT
cd "$work" || exit 1
# A report of the sanitizers must not pass for an error that was expected.
export ASAN_OPTIONS=exitcode=99 UBSAN_OPTIONS=exitcode=99
passed=0 failed=0 skipped=0

# check NAME COMMAND...: passes when the command succeeds.
check() {
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
        echo "ok - $name"
    else
        failed=$((failed + 1))
        echo "not ok - $name"
        explain
    fi
}
# The last run: what it was in `last`, its exit status in rc, what it wrote in the files out and err.
explain() {
    echo "  last run: $last -> exit $rc"
    sed 's/^/  stdout: /' "$work/out" | head -n 12
    sed 's/^/  stderr: /' "$work/err" | head -n 12
}
skip() { # NAME REASON
    skipped=$((skipped + 1))
    echo "skip - $1: $2"
}
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    exit $((failed > 0))
}
skip_all() { # NAME REASON: nothing of the script can be run here
    skip "$1" "$2"
    finish
}

exits() { [ "$rc" = "$1" ]; }
err_has() { grep -qF -- "$1" "$work/err"; }
differ() { ! cmp -s "$1" "$2"; }
empty() { [ ! -s "$1" ]; }
