#!/usr/bin/env bash
# The part of experiments/de-en.toml that docs/results/first-run.md reports, on one GPU, about 25 minutes, in the
# background, so that it may be watched in short visits:
#
#     WORKERS=14 bash benchmarks/first_run.sh start   # works in a copy of the project, runs/first_run-run
#     bash benchmarks/first_run.sh watch 500          # shows what is new, at most so many seconds, until the run is over
#
# Some systems train at the same time: neither fills the GPU by itself. With OUT=folder, `watch` leaves the records
# there as an archive: unpack it in the project, run `python benchmarks/first_run.py collect --run NAME`, then `render`.
# While the file `hold` exists in that copy, nothing is trained: measure other things alone, then delete it.
set -u
source "$(dirname "$0")/background.sh"
EXPERIMENT=${EXPERIMENT:-experiments/de-en.toml}
OPTIONS=${OPTIONS:-} # such as --smoke, for a rehearsal
DEVICE=${DEVICE:-auto}

step() { # name of the log, patterns of steps
    local name=$1 only=()
    shift
    for pattern in "$@"; do only+=(--only "$pattern"); done
    logged "$name" $PYTHON -m termweave experiment run $EXPERIMENT $OPTIONS --device "$DEVICE" "${only[@]}"
    tell "$name: $(grep -E '^[0-9]+/[0-9]+' "log.$name.txt" | tail -n 1 | cut -c1-120)"
}

score() { # system; kinds of constraints
    step "score.$1" $(printf "score.$1.*.%s " $2)
    $PYTHON -c 'import json, sys
for path in sys.argv[1:]:
    record = json.load(open(path))
    print(record["step"], "BLEU %(bleu).2f CSR %(csr_phrase_level).2f" % record["result"])
' results/*/records/score."$1".*.json >>progress.txt
}

whole_run() {
    tell start
    [ -z "${WORKERS:-}" ] || sed -i "1i settings = [\"data.workers=$WORKERS\"]" $EXPERIMENT
    step encode encode
    step prepare prepare &
    while [ -e hold ]; do sleep 1; done
    step stage1 train.stage1
    wait
    step copy train.copy & # most of it alone, for its speed; the next one is being compiled at its end
    copy=$!
    sleep "${AHEAD:-190}"
    step vanilla train.vanilla-base &
    vanilla=$!
    wait $copy
    step paper train.paper &
    wait $vanilla
    step released train.released &
    step sets 'set.*.all' 'set.*.hard'
    score vanilla-base "none all hard"
    score copy "none all hard"
    score copy+vdba "all hard"
    wait
    score paper "none all hard"
    score released "none all hard"
}

results() { echo results/*/*.json results/*/records $(find results -name log.jsonl); }

main "$@"
