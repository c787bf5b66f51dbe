#!/usr/bin/env bash
# The whole first run on one GPU, about 25 minutes, in the background, so that it may be watched in short visits:
#
#     bash benchmarks/first_run.sh start          # works in a copy of the project, runs/first_run-run
#     bash benchmarks/first_run.sh watch 500      # shows what is new, at most so many seconds, until the run is over
#
# Two systems train at the same time: neither fills the GPU by itself. With OUT=folder, `watch` leaves the results
# there as an archive: unpack it in the project and run `python benchmarks/first_run.py render`. While the file `hold`
# exists in that copy, nothing is trained: measure other things alone, then delete it.
set -u
source "$(dirname "$0")/background.sh"
CONFIG=${CONFIG:-configs/de-en.toml}
RUN=${RUN:-5-all-systems}
FIRST_STEPS=${FIRST_STEPS:-8000}
SECOND_STEPS=${SECOND_STEPS:-3000}
WORKERS=${WORKERS:-12}
OPTIONS=${OPTIONS:-} # further --set, for a rehearsal
DRIVER="$PYTHON benchmarks/first_run.py"
if [ -f carry/de-en/tokenizer.model ]; then # from any earlier `termweave prepare`: saves a minute
    OPTIONS="$OPTIONS --set subwords.model=carry/de-en/tokenizer.model"
fi

train() { # system, steps
    logged "$1" $DRIVER train $CONFIG "$1" --steps "$2" --run "$RUN" $OPTIONS
    cp runs/de-en/"$1"/stage?/log.jsonl "docs/results/first-run/$RUN/log.$1.jsonl"
    tell "trained $1: $(tail -n 1 "log.$1.txt" | cut -c1-150)"
}

score() { # system, further options
    local name="score.$(echo "$*" | tr -d ' -')"
    logged "$name" $DRIVER evaluate $CONFIG "$@" --run "$RUN" $OPTIONS
    tail -n 9 "log.$name.txt" >>progress.txt
}

whole_run() {
    tell start
    logged encode $PYTHON -m termweave prepare $CONFIG --until encode --set data.workers=$WORKERS $OPTIONS
    tell encoded
    (
        logged prepare nice $PYTHON -m termweave prepare $CONFIG --set data.workers=$WORKERS $OPTIONS
        logged links nice $DRIVER links $CONFIG $OPTIONS
        tell prepared
    ) &
    while [ -e hold ]; do sleep 1; done
    train stage1 "$FIRST_STEPS"
    wait
    train vanilla "$SECOND_STEPS" &
    train paper "$SECOND_STEPS" &
    wait
    logged sets $DRIVER sets $CONFIG $OPTIONS
    train released "$SECOND_STEPS" &
    train copy "$SECOND_STEPS" &
    score vanilla
    score paper
    wait
    score released &
    score copy
    score copy --search vdba
    wait
}

results() { echo "docs/results/first-run/$RUN" runs/de-en/sets runs/de-en/outputs; }

main "$@"
