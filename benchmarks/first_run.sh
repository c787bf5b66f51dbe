#!/usr/bin/env bash
# The whole first run on one GPU, in four sittings of at most ten minutes each:
#
#     bash benchmarks/first_run.sh 1 && bash benchmarks/first_run.sh 2 && …
#
# Training stops cleanly at the seconds given and goes on in the next sitting. Nothing runs beside the
# training of `copy`, so that its speed is its own. With OUT=folder, each part leaves its results there as an archive.
set -u
export PYTHONPATH=src PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore
CONFIG=configs/de-en.toml
RUN=${RUN:-4-all-systems}
TOKENIZER="--set subwords.model=carry/de-en/tokenizer.model" # from any earlier `termweave prepare`: saves a minute
DRIVER="python3 benchmarks/first_run.py"

train() { # system, further options
    local system=$1
    shift
    $DRIVER train $CONFIG "$system" --run "$RUN" $TOKENIZER "$@" >"log.$system.txt" 2>&1 || tail -n 20 "log.$system.txt"
    tail -n 1 "log.$system.txt" | cut -c1-250
    date +%T
}

score() { # system, further options
    local system=$1
    shift
    timeout 150 $DRIVER evaluate $CONFIG "$system" --run "$RUN" $TOKENIZER "$@" 2>&1 | tail -n 9
    date +%T
}

pack() {
    [ -z "${OUT:-}" ] || tar czf "$OUT/results.tgz" "docs/results/first-run/$RUN" runs/de-en/*/stage*/log.jsonl \
        runs/de-en/sets runs/de-en/outputs log.*.txt 2>/dev/null
}

case $1 in
1)
    python3 -m termweave prepare $CONFIG --until encode --set data.workers=16 $TOKENIZER 2>&1 | tail -n 1
    (
        nice python3 -m termweave prepare $CONFIG --set data.workers=12 $TOKENIZER >log.prepare.txt 2>&1
        nice $DRIVER links $CONFIG $TOKENIZER >log.links.txt 2>&1
        tail -n 1 log.links.txt
    ) &
    train stage1 --steps 8000 --seconds 480
    wait
    # The first minute of copy: if something is wrong with it, that shows now.
    [ -d runs/de-en/stage1/stage1/final ] && train copy --steps 3000 --seconds 50
    grep -E "step [0-9]*000:" log.stage1.txt
    ;;
2)
    [ -d runs/de-en/stage1/stage1/final ] || train stage1 --steps 8000 --seconds 200
    train copy --steps 3000 --seconds 320
    pack
    train vanilla --steps 3000 --seconds 130
    ;;
3)
    train copy --steps 3000 --seconds 200 # whatever is left of them
    train vanilla --steps 3000 --seconds 200
    timeout 60 $DRIVER sets $CONFIG $TOKENIZER 2>&1 | tail -n 2
    score copy
    score vanilla
    pack
    # Scoring beside training costs `paper` a little speed; that of `copy` was measured alone.
    (score copy --search vdba; score vanilla --search vdba) &
    train paper --steps 3000 --seconds 230
    wait
    ;;
4)
    train paper --steps 3000 --seconds 250
    score paper &
    train released --steps 3000 --seconds 320
    wait
    score released
    ;;
esac
pack
