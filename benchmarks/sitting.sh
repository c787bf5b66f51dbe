#!/usr/bin/env bash
# A whole experiment on one GPU, in one sitting or several, in the background, so that each may be watched in short visits:
#
#     bash benchmarks/sitting.sh start             # works in a copy of the project, runs/sitting-run
#     bash benchmarks/sitting.sh watch 500         # shows what is new, at most so many seconds, until it is over
#     bash benchmarks/sitting.sh enough            # begins no further model; measures speed and ends
#     OUT=folder bash benchmarks/sitting.sh bring stage1 1   # the model for the next sitting: its first four parts
#
# Models are trained one after the other, each compiled while the one before is at its end. Beside them another process
# translates and scores with every model that is done. When all is scored, speed is measured, alone. With OUT=folder,
# `watch` leaves records, sets and translations there, as an archive in parts: `cat sitting.tgz.* | tar xz` in the project.
# What an earlier sitting has made is taken up: results/ as it is, models from the parts that `bring` left, in any number of
# folders carry/work-*; compiled code from carry/compiled.tgz. Nothing is trained that no step still to do reads.
#
# EXPERIMENT: its file. MODELS: those to train, in this order; others are left. WORKERS: processes that prepare the text.
# PREPARED=later: the text was prepared elsewhere; stage 2 waits until it has come, that is until the file `prepared` is there.
# While the file `hold` exists in the copy, nothing is trained: measure other things alone, then delete it.
set -u
source "$(dirname "$0")/background.sh"
EXPERIMENT=${EXPERIMENT:-experiments/de-en.toml}
OPTIONS=${OPTIONS:-} # such as --smoke, for a rehearsal
DEVICE=${DEVICE:-auto}
MODELS=${MODELS:-vanilla copy paper replace aligned paper-attention paper-output released paper-switched replace-switched copy-switched}
NEXT_AT=${NEXT_AT:-600} # step of a model at which the next one starts
PREPARED=${PREPARED:-here}
PATIENCE=${PATIENCE:-4} # seconds between two looks at what is scored
IDLE=${IDLE:-20}         # seconds after which nothing more is expected of it, when no model is trained any more

value() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" "$EXPERIMENT" | head -n 1; } # of a key at the top of the experiment
FOLDER=results/$(value name)
[[ $OPTIONS != *--smoke* ]] || FOLDER=$FOLDER-smoke

look() { # what is to do, into steps.txt: a state and a name a line; records that do not hold any more are forgotten
    logged status $PYTHON -m termweave experiment status $EXPERIMENT $OPTIONS
    cp log.status.txt steps.txt
    # A step that is named is not done because its files are gone, only if a step reads them: so its record goes too.
    awk '/^again/ && $NF ~ /^(encode$|prepare$|train\.)/ { print $NF }' steps.txt | while read -r name; do
        [ "$name $PREPARED" = "prepare later" ] || rm -f "$FOLDER/records/$name.json"
    done
}

to_do() { grep -v '^done' steps.txt | grep -q " $1$"; } # step

step() { # name of the log, further arguments
    logged "$1" $PYTHON -m termweave experiment run $EXPERIMENT $OPTIONS --device "$DEVICE" "${@:2}"
    tell "$1: $(grep -E '^[0-9]+/[0-9]+' "log.$1.txt" | tail -n 1 | cut -c1-120)"
}

train() { # models, each started when the one before it has come far enough
    local process processes=()
    for model in "$@"; do
        [ ! -e enough ] || break
        to_do "train\.$model" || continue
        step "train.$model" --only "train.$model" &
        process=$!
        processes+=($process)
        far_enough $process "log.train.$model.txt" "$NEXT_AT"
    done
    [ ${#processes[@]} -eq 0 ] || wait "${processes[@]}"
}

score() { # all that needs no more than the models that are done, as they come; until nothing else comes
    local patterns=() pattern process
    for pattern in 'score\.' 'calibrate\.' attention; do
        ! to_do "$pattern.*" || patterns+=(--only "${pattern/\\./.*}")
    done
    [ ${#patterns[@]} -gt 0 ] || return 0
    step score "${patterns[@]}" --leave 'train.*' &
    process=$!
    while kill -0 $process 2>/dev/null; do
        sleep "$PATIENCE"
        told
        [ ! -e trained ] || ! waits_in_vain || kill_tree $process
    done
    told
}

waits_in_vain() { # for models that are not trained any more: it said so some time ago, and nothing since
    tail -n 1 log.score.txt | grep -q waiting && [ $(($(date +%s) - $(stat -c %Y log.score.txt))) -ge "$IDLE" ]
}

kill_tree() { pkill -TERM -P "$1" && sleep 1; }

told() { # scores that are new
    $PYTHON - "$FOLDER"/records/score.*.json >>progress.txt <<'END'
import json, pathlib, sys
seen = pathlib.Path("told.txt")
before = seen.read_text().split() if seen.exists() else []
for path in sys.argv[1:]:
    if path not in before and pathlib.Path(path).exists():
        record = json.load(open(path))
        print(record["step"], "BLEU %(bleu).2f CSR %(csr_phrase_level).2f" % record["result"])
seen.write_text("\n".join(sys.argv[1:]))
END
}

bring() { # model, which time: itself in bfloat16 and its record, as an archive in parts; at most four of them each time
    cd "$PLACE" || exit 1
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
    look
    # The text is prepared now, beside other work, not when the first model of stage 2 asks for it.
    if [ "$PREPARED" = here ] && to_do prepare; then step prepare --only prepare & fi
    while [ -e hold ]; do sleep 1; done
    ! to_do 'train\.stage1' || step train.stage1 --only train.stage1
    while [ "$PREPARED" = later ] && ! ls "$FOLDER"/work/encode.*/prepared >/dev/null 2>&1; do sleep 1; done
    wait
    look # another stage 1 makes other models
    score &
    train $MODELS
    touch trained
    wait
    ! to_do 'speed\..*' || speed
}

speed() { # only of models that are here: measuring must not begin with training
    local patterns=() model system
    while read -r system model; do
        [ ! -e "$FOLDER/records/train.$model.json" ] || patterns+=(--only "speed.$system")
    done < <($PYTHON - "$FOLDER/experiment.json" <<'END'
import json, sys
for system in json.load(open(sys.argv[1]))["plan"]["systems"]:
    if "speed" in system["tables"]:
        print(system["name"], system["model"])
END
    )
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
