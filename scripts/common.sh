# Sourced by the scripts: strict mode, the tree's root as working directory, and how to speak.
# shellcheck shell=bash
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() {
    printf '\n== %s\n' "$*"
}

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# usage_error TEXT: a wrong option; the scripts' usage stands in the comment at their top.
usage_error() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

# build PRESET [TARGET...]
build() {
    local preset=$1
    shift
    say "build $preset"
    cmake --preset "$preset" >"build-$preset.log" 2>&1 || {
        cat "build-$preset.log" >&2
        rm -f "build-$preset.log"
        die "cmake --preset $preset failed"
    }
    rm -f "build-$preset.log"
    cmake --build --preset "$preset" -j "$(nproc)" ${1:+--target "$@"}
}

# Data sets lying beside the tree, if their checksums are right and $SPMD_DATA does not already say where they are.
use_data_beside_tree() {
    local data=../shared/data
    if [[ -z ${SPMD_DATA-} && -f $data/SHA256SUMS ]] && (cd "$data" && sha256sum -c --quiet SHA256SUMS); then
        SPMD_DATA=$(cd "$data" && pwd)
        export SPMD_DATA
    fi
}
