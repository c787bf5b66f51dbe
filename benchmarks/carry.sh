#!/usr/bin/env bash
# Prepared text for `sitting.sh` on a machine that has no copy of it, as small as can be, in two parts:
#
#     bash benchmarks/carry.sh pack    # here, after `termweave experiment run EXPERIMENT --only prepare --only 'set.*.all'`
#     bash benchmarks/carry.sh ids     # there, before `PREPARED=later bash benchmarks/sitting.sh start`: all that stage 1 reads
#     bash benchmarks/carry.sh links   # there, any time after it: all that stage 2 reads
#
# `pack` leaves carry/ids and carry/links, some 57 and 52 MB for 900,000 pairs of sentences; it takes six minutes then.
# RESULTS: folder of the experiment. TEXT: the folder of its test sets, which are needed as text, here and there.
# PARTS: where ids and links go, instead of carry/, if there are several experiments. SAME: the folder of one that is carried
# before: what is the same in both, such as all ids if only the direction differs, is copied there.
set -eu
RESULTS=${RESULTS:-results/de-en}
TEXT=${TEXT:-carry/de-en}
PARTS=${PARTS:-carry}
SAME=${SAME:-}
PLACE=${PLACE:-runs/sitting-run}
PYTHON=${PYTHON:-python3}

pack() {
    local encoded pair file
    encoded=$(echo "$RESULTS"/work/encode.*)
    rm -rf "$PARTS"/ids "$PARTS"/links
    mkdir -p "$PARTS"/ids/text "$PARTS"/links
    for file in "$TEXT"/dev.* "$TEXT"/test.* "$TEXT"/gold.*; do [ ! -e "$file" ] || cp -L "$file" "$PARTS"/ids/text/; done
    tar czf "$PARTS"/ids/small.tgz "$encoded"/{prepare.json,tokenizer.model,encoded} \
        $(ls -d "$RESULTS"/work/{links,set}.* 2>/dev/null)
    for pair in "$encoded"/*/; do
        for file in "$pair"{source,target}.ids.*; do squeeze "$file" "$PARTS"/ids; done
        for file in "$pair"*.phrases.* "$pair"links.* "$pair"{source,target}.spans.*; do squeeze "$file" "$PARTS"/links; done
    done
    du -sh "$PARTS"/ids "$PARTS"/links
}

squeeze() { # file, folder; the name says where it belongs
    local same
    same=$(echo "${SAME:-.}"/work/encode.*/"$(basename "$(dirname "$1")")/$(basename "$1")")
    if cmp -s "$same" "$1"; then
        echo "$same $1" >>"$2/same.txt"
        return
    fi
    xz -6 -T0 -k -c "$1" >"$2/$(echo "$1" | sed 's|/|__|g').xz"
}

unpack() { # folder: each file stands under its name only when it is whole
    local file same
    if [ -e "$PARTS/$1/same.txt" ]; then
        while read -r same file; do
            while [ ! -e "$PLACE/$same" ]; do sleep 1; done
            mkdir -p "$PLACE/$(dirname "$file")"
            cp "$PLACE/$same" "$PLACE/$file.part"
            mv "$PLACE/$file.part" "$PLACE/$file"
        done <"$PARTS/$1/same.txt"
    fi
    for file in "$PARTS/$1"/*.xz; do
        [ -e "$file" ] || continue # all of them were the same
        (
            target=$PLACE/$(basename "$file" .xz | sed 's|__|/|g')
            mkdir -p "$(dirname "$target")"
            $PYTHON -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"), 1 << 22)' \
                "$file" "$target.part"
            mv "$target.part" "$target"
        ) &
    done
    wait
}

case ${1:-} in
pack) pack ;;
ids)
    mkdir -p "$PLACE" "$TEXT"
    cp "$PARTS"/ids/text/* "$TEXT/"
    unpack ids
    tar xzf "$PARTS"/ids/small.tgz -C "$PLACE" # last: it has the mark that is waited for
    ;;
links)
    unpack links
    for folder in "$PLACE/$RESULTS"/work/encode.*; do echo everything >"$folder/prepared"; done # last: it is waited for
    ;;
*) sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//p}' "$0" ;;
esac
