#!/usr/bin/env bash
# Whole experiments on one GPU, in one sitting or several, in the background, so that each may be watched in short visits:
#
#     bash benchmarks/sitting.sh start             # works in a copy of the project, runs/sitting-run
#     bash benchmarks/sitting.sh watch 500         # shows what is new, at most so many seconds, until it is over
#     bash benchmarks/sitting.sh enough            # begins no further model; measures speed and ends
#     OUT=folder bash benchmarks/sitting.sh bring stage1 1   # the model for the next sitting: its first four parts
#
# Experiments are done one after the other, so that the first is whole whatever becomes of the second. The models of one are
# trained one after the other too, each compiled while the one before is at its end, so that the GPU has always something to
# do. Beside them another process scores what BESIDE says, to see early what goes wrong. The rest is scored when all models
# are there, by several processes, what the claims need first. Speed comes last, alone.
# With OUT=folder, `watch` leaves records, sets and translations there, as an archive in parts: `cat sitting.tgz.* | tar xz`
# in the project. What an earlier sitting has made is taken up: results/ as it is, models from the parts that `bring` left, in
# any number of folders carry/work-*; compiled code from carry/compiled.tgz. Nothing is trained that no step still to do reads.
#
# EXPERIMENTS: their files. MODELS: those to train, in this order; others are left. WORKERS: processes that prepare the text.
# PREPARED=later: the text was prepared elsewhere; each stage waits until what it reads has come (see carry.sh).
# TOGETHER=yes: stages 1 of all experiments come first, then each is trained while the one before it is scored; speed of all
# of them comes last. SCORERS: processes that score when all models are there; 6, or 4 if others may be trained beside them.
# While the file `hold` exists in the copy, nothing is trained: measure other things alone, then delete it.
#
# UNTIL: all is over so many seconds after the start, whatever is left to do; empty, as it is by default: no limit. FOR_SPEED
# of them (130) are kept for measuring speed at the end, FOR_SCORES (330) for scoring before that. Where these begin, no
# further model is begun, as after `enough`. Models in training go on for OVERTIME seconds (60), then they are ended. Where
# the seconds for speed begin, scoring is ended, and the speed of the models that are there is measured. What is asked to end
# has GRACE seconds for it (5). progress.txt says when time is up for something.
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
TOGETHER=${TOGETHER:-no}
SCORERS=${SCORERS:-$([ "$TOGETHER" = yes ] && echo 4 || echo 6)}
PATIENCE=${PATIENCE:-4} # seconds between two looks at what is scored
IDLE=${IDLE:-20}         # seconds after which nothing more is expected of it, when no model is trained any more
UNTIL=${UNTIL:-}
FOR_SPEED=${FOR_SPEED:-130} FOR_SCORES=${FOR_SCORES:-330}
OVERTIME=${OVERTIME:-60} GRACE=${GRACE:-5}
export BEGUN=${BEGUN:-$(date +%s)} # known to what `start` leaves in the background
[[ $UNTIL =~ ^[0-9]*$ ]] || { echo "UNTIL is a whole number of seconds, not $UNTIL" >&2 && exit 2; }

time_is_up() { # for what? It is said once.
    local end
    [ -n "$UNTIL" ] || return 1
    case $1 in
    "further models") end=$((UNTIL - FOR_SPEED - FOR_SCORES)) ;;
    training) end=$((UNTIL - FOR_SPEED - (OVERTIME < FOR_SCORES ? FOR_SCORES - OVERTIME : 0))) ;;
    scoring) end=$((UNTIL - FOR_SPEED)) ;;
    everything) end=$((UNTIL - GRACE - 3)) ;; # ending takes time too
    esac
    [ $(($(date +%s) - BEGUN)) -ge $end ] || return 1
    grep -qs "time is up for $1" progress.txt || tell "time is up for $1"
}

no_further_model() { [ -e enough ] || time_is_up "further models"; }

running() { jobs -rp | grep -xF "$(printf '%s\n' "$@")"; } # processes: those that this shell began and that are not over

wait_at_most() { # for what there is time, processes: waits until they are over, and ends them when time is up
    while running "${@:2}" >/dev/null; do
        ! time_is_up "$1" || { kill_tree $(running "${@:2}") && return; }
        sleep 1
    done
}

kill_tree() { # processes: they and all below them; those that do not end when they are asked to are not asked again
    local all second
    all=$(tree "$@")
    kill -TERM $all 2>/dev/null
    for ((second = 0; second < GRACE; second++)); do
        stays $all || return 0
        sleep 1
    done
    kill -KILL $(tree $all) 2>/dev/null
    sleep 1
}

tree() { # processes: a line for each of them and of all below them
    local process
    for process in "$@"; do
        echo "$process"
        tree $(pgrep -P "$process")
    done
}

stays() { # processes: is any of them still there?
    local process
    for process in "$@"; do ! kill -0 "$process" 2>/dev/null || return 0; done
    return 1
}

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
    local log=log.$TITLE.train.$1.txt
    to_do "train\.$1" && ! no_further_model || return 0
    step "train.$1" --only "train.$1" &
    TRAINERS+=($!)
    while running $! >/dev/null && ! grep -qs "step $2:" "$log" && ! no_further_model; do sleep 1; done
}

wait_for() { # file in the folder of the text, where that comes later
    while [ "$PREPARED" = later ] && ! ls "$FOLDER"/work/encode.*/"$1" >/dev/null 2>&1 && ! no_further_model; do sleep 1; done
}

score() { # name of the log, patterns of steps that need models but train none
    local patterns=() pattern process attempt name=$1
    for pattern in "${@:2}"; do
        ! to_do "$(sed 's/\./\\./g; s/\*/.*/g' <<<"$pattern")" || patterns+=(--only "$pattern")
    done
    [ ${#patterns[@]} -gt 0 ] || return 0
    for attempt in 1 2 3; do # what the GPU has no room for now it may have later
        [ $attempt = 1 ] || sleep "$IDLE"
        step "$name" "${patterns[@]}" --leave prepare --leave 'train.*' &
        process=$!
        while running $process >/dev/null; do
            sleep "$PATIENCE"
            ! waits_in_vain "log.$TITLE.$name.txt" || { kill_tree $process && return; }
        done
        ! wait $process || return 0
    done
}

waits_in_vain() { # log: for models that are not trained any more; it said so some time ago, and nothing since
    [ -e "trained.$TITLE" ] && tail -n 1 "$1" | grep -qE '^(prepare|train\..*): waiting' &&
        [ $(($(date +%s) - $(stat -c %Y "$1"))) -ge "$IDLE" ] && tell "in vain: $(tail -n 1 "$1")"
}

score_the_rest() { # each process has models of its own, so that none is loaded by several
    local number
    for ((number = 0; number < SCORERS; number++)); do
        (
            # First what the claims need, in a run of its own: each run keeps to the order of the plan.
            score "score.$number" $(share $number 'score.NAME.*.hard' 'score.NAME.*.switched' 'calibrate.NAME.*')
            score "rest.$number" $(share $number 'score.NAME.*') $([ $number != 0 ] || echo attention)
        ) &
    done
    wait
}

share() { # number of a process that scores, patterns: the same for each system whose model is its own
    systems | awk -v own="$1" -v count="$SCORERS" -v patterns="${*:2}" '
        !($2 in place) { place[$2] = models++ }
        place[$2] % count == own { line = patterns; gsub("NAME", $1, line); print line }'
}

systems() { # those of the plan whose models are here
    local system model tables
    planned | while read -r system model tables; do
        [ ! -e "$FOLDER/records/train.$model.json" ] || echo "$system $model $tables"
    done
}

planned() { # a line for each system: its name, its model, the tables it is a row of
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
    everything &
    wait_at_most everything $!
}

everything() {
    local experiment teller
    [ -z "${WORKERS:-}" ] || sed -i "s/^workers = .*/workers = $WORKERS/" configs/*.toml
    # Said aloud if it fails: a model that was brought along would be trained again.
    if ls carry/work-*/*.part.* >/dev/null 2>&1; then
        logged restore bash -c 'set -o pipefail; cat carry/work-*/*.part.* | tar xi'
    fi
    while sleep "$PATIENCE"; do told; done &
    teller=$!
    if [ "$TOGETHER" = yes ]; then
        sit $EXPERIMENTS
    else
        for experiment in $EXPERIMENTS; do sit "$experiment"; done
    fi
    kill $teller
}

sit() { # experiments: their stages 1, their other models, their scores, their speed
    local experiment TRAINERS=() JOBS=()
    for experiment in "$@"; do turn_to "$experiment" && first_stage; done
    for experiment in "$@"; do turn_to "$experiment" && second_stage; done
    wait_at_most training "${TRAINERS[@]}"
    wait_at_most scoring "${JOBS[@]}"
    told
    for experiment in "$@"; do turn_to "$experiment" && speed; done
}

first_stage() {
    wait_for encoded
    look
    # The text is prepared now, beside other work, not when the first model of stage 2 asks for it.
    if [ "$PREPARED" = here ] && to_do prepare; then
        step prepare --only prepare &
        JOBS+=($!)
    fi
    while [ -e hold ] && ! no_further_model; do sleep 1; done
    train stage1 "$NEXT_AT_FIRST"
}

second_stage() {
    local model
    wait_for prepared
    look # another stage 1 makes other models
    score beside "$BESIDE" &
    JOBS+=($!)
    for model in $MODELS; do train "$model" "$NEXT_AT"; done
    (
        while stays "${TRAINERS[@]}"; do sleep 1; done
        touch "trained.$TITLE"
        score_the_rest
    ) &
    JOBS+=($!)
}

speed() { # only of models that are here
    local patterns=() system model tables
    to_do 'speed\..*' || return 0
    while read -r system model tables; do
        [[ " $tables " != *" speed "* ]] || patterns+=("speed.$system")
    done < <(systems)
    touch "trained.$TITLE" # where time was up before that
    score speed "${patterns[@]}"
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
