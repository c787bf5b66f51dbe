# For scripts with long work on a GPU machine: it goes on in the background, in a copy of the project, and may be watched
# in short visits. The script sources this, defines `whole_run` and `results` (what to take home), and ends with `main "$@"`.
export PYTHONPATH=src PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}
PYTHON=${PYTHON:-python3}
NAME=$(basename "$0" .sh)
PLACE=runs/$NAME-run
export TORCHINDUCTOR_CACHE_DIR=${TORCHINDUCTOR_CACHE_DIR:-$PWD/runs/compiled}

tell() { echo "$(date +%T) $*" >>progress.txt; }

logged() { # name, command: its output goes to log.NAME.txt, and the end of it to progress.txt if it fails
    local log="log.$1.txt"
    shift
    "$@" >"$log" 2>&1 && return
    tell "failed: $*"
    tail -n 8 "$log" | cut -c1-300 >>progress.txt
    return 1
}

far_enough() { # process, its log, step: wait until one trainer is there, so that the next may start and compile
    while kill -0 "$1" 2>/dev/null && ! grep -qs "step $3:" "$2"; do sleep 1; done
}

start() {
    mkdir -p "$PLACE"
    rm -f "$PLACE"/{over,trained*,enough,progress.txt,seen.txt,told.txt} "$PLACE"/{log,steps}.*.txt # of an earlier start
    for part in src benchmarks configs experiments pyproject.toml; do
        [ ! -e $part ] || cp -r $part "$PLACE/"
    done
    # What an earlier start has found is newer than what was brought along.
    [ ! -e results ] || cp -rn results "$PLACE/"
    # What torch compiles takes minutes; with what an earlier run left (`tar czf compiled.tgz -C runs compiled`), seconds.
    [ -e runs/compiled ] || [ ! -e carry/compiled.tgz ] || tar xzf carry/compiled.tgz -C runs
    ln -sfn "$PWD/carry" "$PLACE/carry"
    cd "$PLACE" || exit 1
    setsid bash "benchmarks/$NAME.sh" go >/dev/null 2>&1 </dev/null &
}

watch() { # seconds
    cd "$PLACE" || exit 1
    touch progress.txt seen.txt
    for ((second = 0; second < $1; second++)); do
        [ -e over ] && break
        sleep 1
    done
    tail -n +$(($(wc -l <seen.txt) + 1)) progress.txt
    cp progress.txt seen.txt
    tail -qn 1 log.*.txt 2>/dev/null | cut -c1-160
    [ -z "${OUT:-}" ] || tar cz progress.txt log.*.txt $(results) 2>/dev/null | split -b 15M -d - "$OUT/$NAME.tgz."
}

main() {
    case ${1:-} in
    start) start ;;
    go)
        whole_run
        tell over && touch over # also where its last step failed: nobody should wait for more
        ;;
    watch) watch "${2:-60}" ;;
    *) sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//p}' "$0" ;;
    esac
}
