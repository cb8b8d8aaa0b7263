#!/bin/sh
# Runs every test program given (fuzzers briefly; a script gets the binary); one closing line.
# Logs are in $BUILD/tests/*.log; a failure prints its log.
failed=0 passed=0 skipped=0
export VITRINE_SHARED_DATA="${VITRINE_SHARED_DATA:-../shared/data}"
export FUZZ_ROUNDS="${FUZZ_ROUNDS:-2000}"
run() {
    name=$1
    shift
    log=$BUILD/tests/$name.log
    start=$(date +%s)
    if "$@" >"$log" 2>&1; then status=0; else status=$?; fi
    # cmocka prints "[  PASSED  ] N test(s)." and "[  SKIPPED ] N test(s)"; cli.sh closes with "N passed, N failed, N skipped".
    p=$(sed -n -e 's/.*\[  PASSED  \] \([0-9]*\) test.*/\1/p' -e 's/^\([0-9]*\) passed, .*/\1/p' "$log" | tail -n 1)
    f=$(sed -n -e 's/.*\[  FAILED  \] [^0-9]*\([0-9]*\) test.*/\1/p' -e 's/^[0-9]* passed, \([0-9]*\) failed.*/\1/p' "$log" | tail -n 1)
    s=$(sed -n -e 's/.*\[  SKIPPED \] \([0-9]*\) test.*/\1/p' -e 's/^.* failed, \([0-9]*\) skipped/\1/p' "$log" | tail -n 1)
    p=${p:-0} f=${f:-0} s=${s:-0}
    if [ $status != 0 ] && [ "$f" = 0 ]; then f=1; fi
    if [ $status = 0 ] && [ "$p" = 0 ] && [ "$s" = 0 ]; then p=1; fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    printf '%-24s %4d passed %3d failed %3d skipped  %3d s\n' "$name" "$p" "$f" "$s" $(($(date +%s) - start))
    grep -i '^skip' "$log" | sort -u | sed 's/^/    /'
    if [ "$f" != 0 ]; then
        echo "---- $log (last 60 lines)"
        tail -n 60 "$log"
        echo "----"
    fi
}
for program in "$@"; do
    case $program in
    *.sh) run "$(basename "$program")" bash "$program" "$BUILD/vitrine" ;;
    *) run "$(basename "$program")" "$program" ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
