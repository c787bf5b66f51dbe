#!/usr/bin/env bash
# Whole experiments on one GPU, in one sitting or several, in the background, so that each may be watched in short visits:
#
#     bash benchmarks/sitting.sh start             # works in a copy of the project, runs/sitting-run
#     bash benchmarks/sitting.sh watch 500         # shows what is new, at most so many seconds, until it is over
#     bash benchmarks/sitting.sh enough            # begins no further model; measures speed and ends
#     OUT=folder bash benchmarks/sitting.sh bring stage1 1   # the model for the next sitting: its first four parts
#
# Models are trained one after the other, stages 1 of all experiments first, each compiled while the one before is at its
# end, so that the GPU has always something to do. Beside them another process scores what BESIDE says, to see early what
# goes wrong. The rest is scored when all models of an experiment are there, by several processes. Speed comes last, alone.
# With OUT=folder, `watch` leaves records, sets and translations there, as an archive in parts: `cat sitting.tgz.* | tar xz`
# in the project. What an earlier sitting has made is taken up: results/ as it is, models from the parts that `bring` left, in
# any number of folders carry/work-*; compiled code from carry/compiled.tgz. Nothing is trained that no step still to do reads.
#
# EXPERIMENTS: their files. MODELS: those to train, in this order; others are left. WORKERS: processes that prepare the text.
# PREPARED=later: the text was prepared elsewhere; each stage waits until what it reads has come (see carry.sh).
# While the file `hold` exists in the copy, nothing is trained: measure other things alone, then delete it.
set -u
source "$(dirname "$0")/background.sh"
EXPERIMENTS=${EXPERIMENTS:-experiments/de-en.toml}
OPTIONS=${OPTIONS:-} # such as --smoke, for a rehearsal
DEVICE=${DEVICE:-auto}
MODELS=${MODELS:-vanilla replace aligned copy paper paper-even paper-attention paper-output released paper-switched replace-switched copy-switched}
NEXT_AT=${NEXT_AT:-100} # step of a model at which the next one starts: some take a minute to be compiled
NEXT_AT_FIRST=${NEXT_AT_FIRST:-2700} # the same in stage 1
PREPARED=${PREPARED:-here}
BESIDE=${BESIDE:-score.*.rwth508.hard}
SCORERS=${SCORERS:-4}
PATIENCE=${PATIENCE:-4} # seconds between two looks at what is scored
IDLE=${IDLE:-20}         # seconds after which nothing more is expected of it, when no model is trained any more

value() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" "$EXPERIMENT" | head -n 1; } # of a key at the top of the experiment

turn_to() { # experiment: all that follows is about it
    EXPERIMENT=$1
    TITLE=$(value name)
    FOLDER=results/$TITLE
    [[ $OPTIONS != *--smoke* ]] || FOLDER=$FOLDER-smoke
}

look() { # what is to do, into steps.TITLE.txt: a state and a name a line; records that do not hold any more are forgotten
    logged "$TITLE.status" $PYTHON -m termweave experiment status $EXPERIMENT $OPTIONS
    cp "log.$TITLE.status.txt" "steps.$TITLE.txt"
    # A step that is named is not done because its files are gone, only if a step reads them: so its record goes too.
    awk '/^again/ && $NF ~ /^(encode$|prepare$|train\.)/ { print $NF }' "steps.$TITLE.txt" | while read -r name; do
        [ "$name $PREPARED" = "prepare later" ] || rm -f "$FOLDER/records/$name.json"
    done
}

to_do() { grep -v '^done' "steps.$TITLE.txt" | grep -q " $1$"; } # step

step() { # name of the log, further arguments
    local status=0
    logged "$TITLE.$1" $PYTHON -m termweave experiment run $EXPERIMENT $OPTIONS --device "$DEVICE" "${@:2}" || status=1
    tell "$TITLE.$1: $(grep -E '^[0-9]+/[0-9]+' "log.$TITLE.$1.txt" | tail -n 1 | cut -c1-120)"
    return $status
}

train() { # model, the step at which this returns and the next may start
    to_do "train\.$1" || return 0
    [ ! -e enough ] || return 0
    step "train.$1" --only "train.$1" &
    TRAINERS+=($!)
    far_enough $! "log.$TITLE.train.$1.txt" "$2"
}

wait_for() { # file in the folder of the text, where that comes later
    while [ "$PREPARED" = later ] && ! ls "$FOLDER"/work/encode.*/"$1" >/dev/null 2>&1; do sleep 1; done
}

score() { # name of the log, the file that says when all is trained, patterns of steps
    local patterns=() process attempt name=$1 trained=$2
    for pattern in "${@:3}"; do
        ! to_do "$(sed 's/\./\\./g; s/\*/.*/g' <<<"$pattern")" || patterns+=(--only "$pattern")
    done
    [ ${#patterns[@]} -gt 0 ] || return 0
    for attempt in 1 2 3; do # what the GPU has no room for now it may have later
        [ $attempt = 1 ] || sleep "$IDLE"
        step "$name" "${patterns[@]}" --leave 'train.*' &
        process=$!
        while kill -0 $process 2>/dev/null; do
            sleep "$PATIENCE"
            [ ! -e "$trained" ] || ! waits_in_vain "log.$TITLE.$name.txt" || { kill_tree $process && return; }
        done
        ! wait $process || return 0
    done
}

waits_in_vain() { # log: for models that are not trained any more: it said so some time ago, and nothing since
    tail -n 1 "$1" | grep -q waiting && [ $(($(date +%s) - $(stat -c %Y "$1"))) -ge "$IDLE" ]
}

kill_tree() { pkill -TERM -P "$1" && sleep 1; }

score_the_rest() { # each process has models of its own, so that none is loaded by several
    local number
    for ((number = 0; number < SCORERS; number++)); do
        score "score.$number" "trained.$TITLE" $(systems | awk -v own=$number -v count="$SCORERS" '
            !($2 in place) { place[$2] = models++ }
            place[$2] % count == own { print "score." $1 ".*"; print "calibrate." $1 ".*" }
            END { if (own == 0) print "attention" }') &
    done
    wait
}

systems() { # a line each: its name, its model, the tables it is a row of
    $PYTHON - "$FOLDER/experiment.json" <<'END'
import json, sys
for system in json.load(open(sys.argv[1]))["plan"]["systems"]:
    print(system["name"], system["model"], *system["tables"])
END
}

told() { # scores that are new
    $PYTHON - results/*/records/score.*.json >>progress.txt <<'END'
import json, pathlib, sys
seen = pathlib.Path("told.txt")
before = seen.read_text().split() if seen.exists() else []
for path in sys.argv[1:]:
    if path not in before and pathlib.Path(path).exists():
        record = json.load(open(path))
        print(path.split("/")[1], record["step"], "BLEU %(bleu).2f CSR %(csr_phrase_level).2f" % record["result"])
seen.write_text("\n".join(sys.argv[1:]))
END
}

bring() { # model, which time: itself in bfloat16 and its record, as an archive in parts; at most four of them each time
    cd "$PLACE" || exit 1
    turn_to "${EXPERIMENTS%% *}"
    [ -e "packed/$1.whole" ] || pack "$1"
    [ -e "packed/$1.whole" ] || { echo "$1 could not be packed: see $PLACE/log.pack.$1.txt" && return 1; }
    ls packed/"$1".part.* | tail -n +$((4 * $2 - 3)) | head -n 4 | while read -r part; do cp -v "$part" "$OUT/"; done
}

pack() {
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

whole_run() {
    tell start
    [ -z "${WORKERS:-}" ] || sed -i "s/^workers = .*/workers = $WORKERS/" configs/*.toml
    # Said aloud if it fails: a model that was brought along would be trained again.
    if ls carry/work-*/*.part.* >/dev/null 2>&1; then
        logged restore bash -c 'set -o pipefail; cat carry/work-*/*.part.* | tar xi'
    fi
    while sleep "$PATIENCE"; do told; done &
    local teller=$! jobs=() TRAINERS=()
    first_stages
    second_stages
    wait "${jobs[@]}"
    told
    for experiment in $EXPERIMENTS; do
        turn_to "$experiment"
        ! to_do 'speed\..*' || speed
    done
    kill $teller
}

first_stages() {
    local experiment
    for experiment in $EXPERIMENTS; do
        turn_to "$experiment"
        wait_for encoded
        look
        # The text is prepared now, beside other work, not when the first model of stage 2 asks for it.
        if [ "$PREPARED" = here ] && to_do prepare; then
            step prepare --only prepare &
            jobs+=($!)
        fi
        while [ -e hold ]; do sleep 1; done
        train stage1 "$NEXT_AT_FIRST"
    done
}

second_stages() {
    local experiment model
    for experiment in $EXPERIMENTS; do
        turn_to "$experiment"
        wait_for prepared
        look # another stage 1 makes other models
        score beside "trained.$TITLE" "$BESIDE" &
        jobs+=($!)
        for model in $MODELS; do train "$model" "$NEXT_AT"; done
        (
            while stays "${TRAINERS[@]}"; do sleep 1; done
            touch "trained.$TITLE"
            score_the_rest
        ) &
        jobs+=($!)
    done
}

stays() { # processes: is any of them still there?
    local process
    for process in "$@"; do ! kill -0 "$process" 2>/dev/null || return 0; done
    return 1
}

speed() { # only of models that are here: measuring must not begin with training
    local patterns=() model system tables
    while read -r system model tables; do
        [[ " $tables " != *" speed "* ]] || [ ! -e "$FOLDER/records/train.$model.json" ] || patterns+=(--only "speed.$system")
    done < <(systems)
    [ ${#patterns[@]} -eq 0 ] || step speed "${patterns[@]}"
}

results() { # of all experiments: whoever watches need not know which one it is
    echo results/*/*.json results/*/records $(find results -name log.jsonl)
    ls -d results/*/work/{set,links,greedy,decode}.* 2>/dev/null
}

case ${1:-} in
bring) bring "$2" "$3" ;;
enough) touch "$PLACE/enough" ;;
*) main "$@" ;;
esac
