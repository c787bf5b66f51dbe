#!/usr/bin/env bash
# The ready model on one GPU, about 20 minutes, in the background, so that it may be watched in short visits:
#
#     bash benchmarks/ready.sh start
#     bash benchmarks/ready.sh watch 500
#
# First several depths and widths of about the same size are trained for a while, then the one with the highest mean BLEU
# in full: put it into configs/ready.toml. PHASE=shapes does the former alone, PHASE=model the latter, with the shape of
# configs/ready.toml. With OUT=folder, `watch` leaves the results there as an archive, and the packed model as soon as it
# is there, in parts of at most 15 MiB: cat them together and unpack them as src/termweave/ready. What MODEL_CARD.md says
# of the model is measured later, on a CPU, with `benchmarks/ready.py`; here is only a first look at it.
# SECONDS_TO_STAGE2: as many steps of stage 1 as fit into so many seconds from the start on, by the speed its shape had,
# instead of those of configs/ready.toml.
# While the file `hold` exists in the copy, nothing is trained: measure other things alone, then delete it.
set -u
source "$(dirname "$0")/background.sh"
CONFIG=${CONFIG:-configs/ready.toml}
WORKERS=${WORKERS:-14}
OPTIONS=${OPTIONS:-} # further --set, for a rehearsal
if [ -f carry/ready/tokenizer.model ]; then # from any earlier `termweave prepare`: saves a minute
    OPTIONS="$OPTIONS --set subwords.model=carry/ready/tokenizer.model"
fi

PHASE=${PHASE:-both}
SHAPE_STEPS=${SHAPE_STEPS:-1500} SHAPE_SENTENCES=${SHAPE_SENTENCES:-500}
# To choose depth and width by.
SHAPES=(
    "middle model.dimension=384 model.heads=6 model.feed_forward=1536 model.encoder_layers=6 model.decoder_layers=3"
    "wide model.dimension=512 model.heads=8 model.feed_forward=2048 model.encoder_layers=3 model.decoder_layers=1"
    "deep model.dimension=320 model.heads=5 model.feed_forward=1280 model.encoder_layers=10 model.decoder_layers=4"
)

look_at() { # name, model, folder for the figures
    logged "look.$1" $PYTHON benchmarks/ready.py shape --name "$1" --model "$2" --results "$3" --text carry/ready \
        --sentences $SHAPE_SENTENCES --batch-tokens 16384
    sed -n "s/^.*BLEU/$1: &/p" "log.look.$1.txt" >>progress.txt
}

train_shape() { # name, settings
    local settings=(--set training.stage1.steps=$SHAPE_STEPS --set "training.folder=runs/ready/$1")
    settings+=(--set training.stage1.warmup=$((SHAPE_STEPS * 3 / 10)))
    for setting in "${@:2}"; do settings+=(--set "$setting"); done
    logged "shape.$1" $PYTHON -m termweave train $CONFIG --stage 1 $OPTIONS "${settings[@]}"
    look_at "$1" "runs/ready/$1/stage1/final" docs/results/ready
}

shapes() { # each started when the one before it has come far enough
    local processes=()
    for own in "${SHAPES[@]}"; do
        train_shape $own &
        processes+=($!)
        far_enough $! "log.shape.${own%% *}.txt" $((SHAPE_STEPS * 2 / 300 * 100))
    done
    wait "${processes[@]}"
}

both() {
    shapes
    local best=$($PYTHON - docs/results/ready/shape.*.json <<'END'
import json, sys
reports = [json.load(open(path)) for path in sys.argv[1:]]
print(max(reports, key=lambda report: report["mean_bleu"])["name"])
END
    )
    tell "best shape: $best"
    for own in "${SHAPES[@]}"; do
        [ "${own%% *}" != "$best" ] || for setting in ${own#* }; do OPTIONS="$OPTIONS --set $setting"; done
    done
    local steps=$([ -z "${SECONDS_TO_STAGE2:-}" ] || steps_that_fit "runs/ready/$best")
    [ -z "$steps" ] || OPTIONS="$OPTIONS --set training.stage1.steps=$steps"
    compile_stage2 "runs/ready/$best/stage1/final" &
    model
}

STARTING=20 # seconds until the first step
steps_that_fit() { # a shape: so many steps at the speed it had while it was alone, in hundreds
    $PYTHON - "$1/stage1/log.jsonl" $((SECONDS_TO_STAGE2 - SECONDS - STARTING)) <<'END'
import json, sys
speed = max(json.loads(line)["steps_per_second"] for line in open(sys.argv[1]))
print(max(int(speed * float(sys.argv[2])) // 100 * 100, 100))
END
}

compile_stage2() { # a model: three steps from it, beside stage 1, so that stage 2 finds its code compiled
    while kill -0 $PREPARING 2>/dev/null; do sleep 1; done
    logged compile nice $PYTHON -m termweave train $CONFIG --stage 2 $OPTIONS --set "training.start_from=$1" \
        --set training.stage2.steps=3 --set training.folder=runs/ready/compile
    tell "stage 2 compiled"
}

model() {
    logged stage1 $PYTHON -m termweave train $CONFIG --stage 1 $OPTIONS
    tell "stage 1: $(tail -n 1 log.stage1.txt | cut -c1-150)"
    wait # for phrases
    logged stage2 $PYTHON -m termweave train $CONFIG --stage 2 $OPTIONS
    tell "stage 2: $(tail -n 1 log.stage2.txt | cut -c1-150)"
    logged pack $PYTHON -m termweave pack runs/ready/model/stage2/final runs/ready/packed --gate-shift=-2
    tar cf - -C runs/ready packed | split -b 15M -d - runs/ready/packed.tar.
    tell "packed: $(du -sk runs/ready/packed | cut -f1) KiB"
    look_at packed runs/ready/packed look
}

whole_run() {
    tell start
    logged encode nice $PYTHON -m termweave prepare $CONFIG --until encode --set data.workers=$WORKERS $OPTIONS
    tell encoded
    logged prepare nice $PYTHON -m termweave prepare $CONFIG --set data.workers=$WORKERS $OPTIONS &
    PREPARING=$!
    while [ -e hold ]; do sleep 1; done
    "$PHASE"
    wait
}

results() {
    [ -e runs/ready/packed.tar.00 ] && cp runs/ready/packed.tar.* "$OUT/"
    cp runs/ready/model/stage1/log.jsonl docs/results/ready/log.stage1.jsonl 2>/dev/null
    cp runs/ready/model/stage2/log.jsonl docs/results/ready/log.stage2.jsonl 2>/dev/null
    echo docs/results/ready
}

main "$@"
