#!/usr/bin/env bash
# The decoding engine on one GPU:
#
#     bash benchmarks/engine.sh look     # do the kernels agree, the bars at batch 128, where the time goes: 3 minutes
#     bash benchmarks/engine.sh bars     # all batch sizes, beside transformers: 4 minutes; nothing else must run
#     bash benchmarks/engine.sh growth   # against batch, beam, constraints and length; the card's limits: 3 minutes
#
# docs/results/decoding.md reports `bars` and `growth`: results go to OUT (default: docs/results/decoding), and
# `python benchmarks/render_decode.py` makes the page of them.
set -u
export PYTHONPATH=src PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore
OUT=${OUT:-docs/results/decoding}
PEER=${PEER:-python3} # an interpreter with transformers 5.17
DEVICE=${DEVICE:-cuda}
TINY=${TINY:-} # --tiny, for a rehearsal

decode() { # output, seconds, further options
    local output=$1 seconds=$2
    shift 2
    timeout "$seconds" python3 benchmarks/decode.py --device "$DEVICE" --hf "$PEER" --length 30 --output "$OUT/$output" $TINY "$@"
    date +%T
}

limits() { # output, seconds, further options
    local output=$1 seconds=$2
    shift 2
    timeout "$seconds" python3 benchmarks/decode_limits.py --device "$DEVICE" --output "$OUT/$output" $TINY "$@"
    date +%T
}

case ${1:-} in
look)
    timeout 120 python3 benchmarks/decode_agree.py --device "$DEVICE"
    decode look.json 150 --precisions float32 --batches 128 --rounds 3
    limits look-limits.json 60 --precisions float32 --batches 128
    ;;
bars) decode gpu.json 240 --batches 128 32 1 8 256 --rounds 5 ;;
growth)
    timeout 100 python3 benchmarks/decode_growth.py --device "$DEVICE" --output "$OUT/growth-gpu.json" $TINY
    date +%T
    limits limits.json 90
    ;;
*) sed -n '2,10s/^# \{0,1\}//p' "$0" ;;
esac
