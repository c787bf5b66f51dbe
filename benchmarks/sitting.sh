#!/usr/bin/env bash
# An experiment on one GPU, in two parts and as many sittings as it takes, in the background, so that each may be watched
# in short visits:
#
#     PART=base bash benchmarks/sitting.sh start   # works in a copy of the project, runs/sitting-run
#     bash benchmarks/sitting.sh watch 500         # shows what is new, at most so many seconds, until it is over
#     OUT=folder bash benchmarks/sitting.sh bring stage1 1   # the model for the next sitting: its first four parts
#
# PART: base (all that begins with a stage 1 of six layers; first of all what docs/results/first-run.md reports) or large
# (the baselines of eight layers). First comes the one that has the model `plain` of the experiment: all sets are made with
# it. The next model is compiled while the one before is at its last third; translating goes on beside. When all is
# translated, speed is measured, alone. With OUT=folder, `watch` leaves records, sets and translations there as an archive:
# unpack it in the project, and take results/ with work/set.* along to the next sitting.
# What an earlier sitting has made is taken up: results/ as it is, models from the parts that `bring` left, in any number of
# folders carry/work-*; compiled code from carry/compiled.tgz. Nothing is trained that no step still to do reads.
# MODELS names those to train, if not all of a part. WORKERS: processes that prepare the text.
# While the file `hold` exists in the copy, nothing is trained: measure other things alone, then delete it.
set -u
source "$(dirname "$0")/background.sh"
EXPERIMENT=${EXPERIMENT:-experiments/de-en.toml}
OPTIONS=${OPTIONS:-} # such as --smoke, for a rehearsal
DEVICE=${DEVICE:-auto}
PART=${PART:-base}
NEXT_AT=${NEXT_AT:-2000} # step of a model at which the next one starts

value() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" "$EXPERIMENT" | head -n 1; } # of a key at the top of the experiment
FOLDER=results/$(value name)
[[ $OPTIONS != *--smoke* ]] || FOLDER=$FOLDER-smoke

look() { # what is to do, into steps.txt: a state and a name a line; records that do not hold any more are forgotten
    logged status $PYTHON -m termweave experiment status $EXPERIMENT $OPTIONS
    cp log.status.txt steps.txt
    # A step that is named is not done because its files are gone, only if a step reads them: so its record goes too.
    awk '/^again/ && $NF ~ /^(encode$|prepare$|train\.)/ { print $NF }' steps.txt |
        while read -r name; do rm -f "$FOLDER/records/$name.json"; done
}

step() { # name of the log, patterns of steps; those that the experiment does not have are left out
    local name=$1 only=() known
    shift
    for pattern in "$@"; do
        while read -r known; do
            [[ $known != $pattern ]] || { only+=(--only "$pattern") && break; }
        done < <(awk '{ print $NF }' steps.txt)
    done
    [ ${#only[@]} -gt 0 ] || return 0
    logged "$name" $PYTHON -m termweave experiment run $EXPERIMENT $OPTIONS --device "$DEVICE" "${only[@]}"
    tell "$name: $(grep -E '^[0-9]+/[0-9]+' "log.$name.txt" | tail -n 1 | cut -c1-120)"
}

train() { # models, each started when the one before it has come far enough
    local process processes=()
    for model in "$@"; do
        grep -v '^done' steps.txt | grep -q " train\.$model$" || continue
        step "train.$model" "train.$model" &
        process=$!
        processes+=($process)
        far_enough $process "log.train.$model.txt" "$NEXT_AT"
    done
    [ ${#processes[@]} -eq 0 ] || wait "${processes[@]}"
}

trained() { # model: wait for it, if it is still to come; fails if it never came
    until [ -e "$FOLDER/records/train.$1.json" ] || [ -e trained ]; do sleep 1; done
    [ -e "$FOLDER/records/train.$1.json" ]
}

score() { # model, patterns of steps
    trained "$1" || return
    step "score.$1" "${@:2}"
    $PYTHON - "$FOLDER"/records/score.*.json >>progress.txt <<'END'
import json, pathlib, sys
told = pathlib.Path("told.txt")
before = told.read_text().split() if told.exists() else []
for path in sys.argv[1:]:
    if path not in before and pathlib.Path(path).exists():
        record = json.load(open(path))
        print(record["step"], "BLEU %(bleu).2f CSR %(csr_phrase_level).2f" % record["result"])
told.write_text("\n".join(sys.argv[1:]))
END
}

pack() { # model: itself in bfloat16 and its record, as an archive in parts
    logged "pack.$1" $PYTHON - "$FOLDER" "$1" <<'END'
import pathlib, shutil, sys, torch
from termweave.model.checkpoint import load_settings, load_weights, save_checkpoint
folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
[final] = folder.glob(f"work/train.{name}.*/*/final")
packed = pathlib.Path("packed") / name
save_checkpoint(packed / final, load_weights(final), *load_settings(final), final / "tokenizer.model", torch.bfloat16)
(packed / folder / "records").mkdir(parents=True, exist_ok=True)
shutil.copy(folder / "records" / f"train.{name}.json", packed / folder / "records")
END
    [ -d "packed/$1" ] || return
    tar c -C "packed/$1" results | split -b 15M -d - "packed/$1.part."
    touch "packed/$1.whole"
}

bring() { # model, which time: at most four parts each time
    cd "$PLACE" && [ -e "packed/$1.whole" ] || { echo "packed/$1: not there yet" && return 1; }
    ls packed/"$1".part.* | tail -n +$((4 * $2 - 3)) | head -n 4 | while read -r part; do cp -v "$part" "$OUT/"; done
}

whole_run() {
    local first=stage1
    [ "$PART" != large ] || first=stage1-large
    tell start
    [ -z "${WORKERS:-}" ] || sed -i "s/^workers = .*/workers = $WORKERS/" configs/*.toml
    # The text is prepared now, beside other work, not when the first model asks for it.
    look
    step encode encode
    step prepare prepare &
    while [ -e hold ]; do sleep 1; done
    # Said aloud if it fails: a model that was brought along would be trained again.
    if ls carry/work-*/* >/dev/null 2>&1; then
        logged restore bash -c 'set -o pipefail; cat carry/work-*/* | tar xi'
        look
    fi
    step "train.$first" "train.$first"
    [ ! -d "$(echo "$FOLDER"/work/train.$first.*/stage1/final)" ] || pack $first &
    wait
    look # another stage 1 makes other models
    "$PART"
    touch trained
    wait
    "speed_of_$PART"
}

# [nah]*: constraints none, all and hard, but not code-switched ones
base() {
    (
        trained "$(value plain)" && step sets 'set.*'
        score vanilla-base 'score.vanilla-base.*'
        score copy 'score.copy.*.[nah]*' 'score.copy+vdba.*.[nah]*' 'calibrate.copy*'
        score paper 'score.paper.*.[nah]*' 'score.paper+vdba.*.[nah]*' 'calibrate.paper*' attention
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
        trained "$(value plain)" && step sets 'set.*'
        score vanilla 'score.vanilla.*' 'score.vanilla+vdba.*' 'calibrate.vanilla*'
        score aligned 'score.cdalign.*'
        score replace 'score.replace.*.[nah]*'
        score replace-switched 'score.replace.*.switched'
    ) &
    train ${MODELS:-vanilla aligned replace replace-switched}
}

# Only of models that are here: measuring must not begin with training.
speed_of_base() { speed copy 'speed.copy*'; speed paper 'speed.paper*'; }
speed_of_large() { speed vanilla 'speed.vanilla*'; speed aligned speed.cdalign; speed replace speed.replace; }
speed() { # model, pattern
    [ ! -d "$(echo "$FOLDER"/work/train.$1.*/*/final)" ] || step "speed.$1" "$2"
}

results() { # of all experiments: whoever watches need not know which one it is
    echo results/*/*.json results/*/records $(find results -name log.jsonl)
    ls -d results/*/work/{set,links,greedy,decode}.* 2>/dev/null
}

case ${1:-} in
bring) bring "$2" "$3" ;;
*) main "$@" ;;
esac
