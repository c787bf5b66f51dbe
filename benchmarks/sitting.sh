#!/usr/bin/env bash
# experiments/de-en.toml on one GPU, in two parts and as many sittings as it takes, in the background, so that each may be
# watched in short visits:
#
#     PART=base bash benchmarks/sitting.sh start   # works in a copy of the project, runs/sitting-run
#     bash benchmarks/sitting.sh watch 500         # shows what is new, at most so many seconds, until it is over
#
# PART: base (all that begins with a stage 1 of six layers; first of all what docs/results/first-run.md reports) or large
# (the baselines of eight layers). The next model is compiled while the one before is at its last third; translating goes
# on beside. With OUT=folder, `watch` leaves records and translations there as an archive: unpack it in the project.
# What an earlier sitting has made is taken up: results/ as it is, models from an archive in parts, carry/work-*/*, made
# by `tar c results/*/{records,work}/train.NAME.* | split -b 58M`; compiled code from carry/compiled.tgz.
# MODELS names those to train, if not all of a part.
# While the file `hold` exists in the copy, nothing is trained: measure other things alone, then delete it.
set -u
source "$(dirname "$0")/background.sh"
EXPERIMENT=${EXPERIMENT:-experiments/de-en.toml}
OPTIONS=${OPTIONS:-} # such as --smoke, for a rehearsal
DEVICE=${DEVICE:-auto}
PART=${PART:-base}
NEXT_AT=${NEXT_AT:-2000} # step of a model at which the next one starts

step() { # name of the log, patterns of steps
    local name=$1 only=()
    shift
    for pattern in "$@"; do only+=(--only "$pattern"); done
    logged "$name" $PYTHON -m termweave experiment run $EXPERIMENT $OPTIONS --device "$DEVICE" "${only[@]}"
    tell "$name: $(grep -E '^[0-9]+/[0-9]+' "log.$name.txt" | tail -n 1 | cut -c1-120)"
}

train() { # models, each started when the one before it has come far enough
    local process processes=()
    for model in "$@"; do
        step "train.$model" "train.$model" &
        process=$!
        processes+=($process)
        far_enough $process "log.train.$model.txt" "$NEXT_AT"
    done
    wait "${processes[@]}"
}

trained() { # model: wait for it, if it is still to come; fails if it never came
    until [ -e "$(echo results/*/records/train.$1.json)" ] || [ -e trained ]; do sleep 1; done
    [ -e "$(echo results/*/records/train.$1.json)" ]
}

score() { # model, patterns of steps
    trained "$1" || return
    step "score.$1" "${@:2}"
    $PYTHON - results/*/records/score.*.json >>progress.txt <<'END'
import json, pathlib, sys
told = pathlib.Path("told.txt")
before = told.read_text().split() if told.exists() else []
for path in sys.argv[1:]:
    if path not in before:
        record = json.load(open(path))
        print(record["step"], "BLEU %(bleu).2f CSR %(csr_phrase_level).2f" % record["result"])
told.write_text("\n".join(sys.argv[1:]))
END
}

whole_run() {
    tell start
    [ -z "${WORKERS:-}" ] || sed -i "1i settings = [\"data.workers=$WORKERS\"]" $EXPERIMENT
    # The text is prepared now, beside other work, not when the first model asks for it.
    ls -d results/*/work/encode.* >/dev/null 2>&1 || rm -f results/*/records/{encode,prepare}.json
    step encode encode
    step prepare prepare &
    while [ -e hold ]; do sleep 1; done
    # Said aloud if it fails: a model that was brought along would be trained again.
    ! ls carry/work-*/* >/dev/null 2>&1 || logged restore bash -c 'set -o pipefail; cat carry/work-*/* | tar x'
    [ "$PART" != base ] || step train.stage1 train.stage1
    [ "$PART" != large ] || step train.stage1-large train.stage1-large
    wait
    "$PART"
    touch trained
    wait
}

# [nah]*: constraints none, all and hard, but not code-switched ones
base() {
    (
        trained vanilla-base
        step sets 'set.*'
        score vanilla-base 'score.vanilla-base.*'
        score copy 'score.copy.*.[nah]*' 'score.copy+vdba.*.[nah]*' 'calibrate.copy*'
        score paper 'score.paper.*.[nah]*' 'score.paper+vdba.*.[nah]*' 'calibrate.paper*'
        score released 'score.released*'
        score paper-attention 'score.attention-only*'
        score paper-output 'score.output-only*'
        score copy-switched 'score.copy*.switched'
        score paper-switched 'score.paper*.switched'
    ) &
    train ${MODELS:-vanilla-base copy paper released paper-attention paper-output copy-switched paper-switched}
}

large() {
    (
        step sets 'set.*'
        score vanilla 'score.vanilla.*' 'score.vanilla+vdba.*' 'calibrate.vanilla*'
        score replace 'score.replace.*.[nah]*'
        score aligned 'score.cdalign.*'
        score replace-switched 'score.replace.*.switched'
    ) &
    train ${MODELS:-vanilla replace aligned replace-switched}
}

results() {
    echo results/*/*.json results/*/records $(find results -name log.jsonl)
    ls -d results/*/work/{set,links,greedy,decode}.* 2>/dev/null
}

main "$@"
