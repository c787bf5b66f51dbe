#!/usr/bin/env bash
# The whole first run on one GPU, about 25 minutes, in the background, so that it may be watched in short visits:
#
#     bash benchmarks/first_run.sh start          # works in a copy of the project, runs/first-run
#     bash benchmarks/first_run.sh watch 500      # shows what is new, at most so many seconds, until the run is over
#
# Two systems train at the same time: neither fills the GPU by itself. With OUT=folder, `watch` leaves the results
# there as an archive: unpack it in the project and run `python benchmarks/first_run.py render`.
# While the file runs/first-run/hold exists, nothing is trained: measure other things alone, then delete it.
set -u
export PYTHONPATH=src PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore OMP_NUM_THREADS=${OMP_NUM_THREADS:-4}
HOME_OF_RUN=runs/first-run
CONFIG=${CONFIG:-configs/de-en.toml}
RUN=${RUN:-5-all-systems}
FIRST_STEPS=${FIRST_STEPS:-8000}
SECOND_STEPS=${SECOND_STEPS:-3000}
WORKERS=${WORKERS:-12}
OPTIONS=${OPTIONS:-} # further --set, for a rehearsal
DRIVER="python3 benchmarks/first_run.py"
if [ -f carry/de-en/tokenizer.model ]; then # from any earlier `termweave prepare`: saves a minute
    OPTIONS="$OPTIONS --set subwords.model=carry/de-en/tokenizer.model"
fi

tell() { echo "$(date +%T) $*" >>progress.txt; }

train() { # system, steps
    $DRIVER train $CONFIG "$1" --steps "$2" --run "$RUN" $OPTIONS >"log.$1.txt" 2>&1 || tail -n 5 "log.$1.txt" >>progress.txt
    tell "trained $1: $(tail -n 1 "log.$1.txt" | cut -c1-250)"
}

score() { # system, further options
    local name="log.score.$(echo "$*" | tr -d ' -').txt"
    $DRIVER evaluate $CONFIG "$@" --run "$RUN" $OPTIONS >"$name" 2>&1
    tail -n 9 "$name" >>progress.txt
}

whole_run() {
    tell start
    python3 -m termweave prepare $CONFIG --until encode --set data.workers=$WORKERS $OPTIONS >log.prepare.txt 2>&1
    tell encoded
    (
        nice python3 -m termweave prepare $CONFIG --set data.workers=$WORKERS $OPTIONS >>log.prepare.txt 2>&1
        nice $DRIVER links $CONFIG $OPTIONS >log.links.txt 2>&1
        tell "prepared: $(tail -n 1 log.prepare.txt) $(tail -n 1 log.links.txt)"
    ) &
    while [ -e hold ]; do sleep 1; done
    train stage1 "$FIRST_STEPS"
    wait
    train vanilla "$SECOND_STEPS" &
    train paper "$SECOND_STEPS" &
    wait
    $DRIVER sets $CONFIG $OPTIONS >log.sets.txt 2>&1 || tail -n 5 log.sets.txt >>progress.txt
    train released "$SECOND_STEPS" &
    train copy "$SECOND_STEPS" &
    score vanilla
    score paper
    wait
    score released &
    score copy
    score copy --search vdba
    wait
    tell over
    touch over
}

case ${1:-} in
start)
    mkdir -p $HOME_OF_RUN
    cp -r src benchmarks configs pyproject.toml $HOME_OF_RUN/
    ln -sfn "$PWD/carry" $HOME_OF_RUN/carry
    cd $HOME_OF_RUN || exit 1
    setsid bash benchmarks/first_run.sh go >/dev/null 2>&1 </dev/null &
    ;;
go) whole_run ;;
watch)
    cd $HOME_OF_RUN || exit 1
    touch progress.txt seen
    for ((second = 0; second < ${2:-60}; second++)); do
        [ -e over ] && break
        sleep 1
    done
    tail -n +$(($(wc -l <seen) + 1)) progress.txt
    cp progress.txt seen
    tail -qn 1 log.{stage1,vanilla,paper,released,copy}.txt 2>/dev/null | cut -c1-160
    [ -z "${OUT:-}" ] || tar czf "$OUT/first-run.tgz" "docs/results/first-run/$RUN" runs/de-en/*/stage*/log.jsonl \
        runs/de-en/sets runs/de-en/outputs log.*.txt progress.txt 2>/dev/null
    ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0" ;;
esac
