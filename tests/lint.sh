#!/usr/bin/env bash
# Rules that compilers do not know. Prints every breach as file:line: text under its rule; exit 1 if there is one.
# A check whose tool is missing says "SKIPPED: ...".
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export LC_ALL=C
shopt -s lastpipe # `... | report` runs in this shell and can set failed
failed=0

files() { # FOLDER...: the C and CUDA files below those that exist
    local folder
    for folder in "$@"; do
        [[ ! -d $folder ]] || find "$folder" -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \)
    done | sort
}
report() { # RULE: reads the breaches
    local breaches
    breaches=$(cat)
    if [[ -n $breaches ]]; then
        printf '%s\n  ^ %s\n\n' "$breaches" "$1"
        failed=1
    fi
}
forbid() { # RULE PATTERN FILE...
    local rule=$1 pattern=$2
    shift 2
    (($# == 0)) || grep -nHE -e "$pattern" "$@" | report "$rule"
}

mapfile -t library < <(files spmd collectives kernels models)
mapfile -t programs < <(files cli examples bench)
mapfile -t emulator < <(files emu) # a library of its own; its state is the machine that it stands for
mapfile -t tests < <(files tests)
mapfile -t scripts < <(grep -lsE '^#!.*bash|^# shellcheck shell=bash' scripts/* .ci/* tests/*.sh)
all=("${library[@]}" "${emulator[@]}" "${programs[@]}" "${tests[@]}")
# A header says in its first line that it is private; every other one is installed.
mapfile -t headers < <(printf '%s\n' "${library[@]}" | grep '\.h$')
mapfile -t public < <(for h in "${headers[@]}"; do head -n 1 "$h" | grep -q '^/\* Private' || echo "$h"; done)

check_text() {
    forbid "no tabs, no blanks at the end, no carriage returns" $'\t| $|\r' "${all[@]}" "${scripts[@]}"
    forbid "lines have at most 120 columns" '^.{121}' "${all[@]}" "${scripts[@]}" CMakeLists.txt cmake/*.cmake
    printf '%s\n' "${all[@]}" | sed 's|.*/||' | sort | uniq -d | report "file names are unique in the tree"
}

check_sizes() { # LIMIT FILE...
    local limit=$1
    shift
    (($# == 0)) || wc -l "$@" | awk -v limit="$limit" '$2 != "total" && $1 > limit { print $2 ": " $1 " lines" }' |
        report "at most $limit lines: split the file"
}

check_functions() { # braces of a function's body stand in column 0
    (($# == 0)) || awk 'FNR == 1 { start = 0 } /^\{/ { start = FNR }
        /^\}/ { n = FNR - start - 1; if (start && n > 100) print FILENAME ":" start ": " n " lines"; start = 0 }' "$@" |
        report "functions have at most 100 lines"
}

check_library() {
    forbid "the library never prints, exits or aborts: return a status (spmd/status.h)" \
        '(^|[^a-zA-Z0-9_"])(exit|_exit|abort|printf|puts|assert|perror)\(' "${library[@]}"
    {
        grep -nHE '^ *(static|_Thread_local) [^(]*[;={]' "${library[@]}"
        grep -nHE '^[a-z][a-zA-Z_0-9 *]* [*a-zA-Z_0-9]+(\[[^]]*\])*( =.*|;)$' "${library[@]}"
    } | grep -vE '\bconst(expr)?\b|:(typedef|struct|enum|return|goto|using) ' |
        grep -vE '^spmd/status\.c:[0-9]+:static _Thread_local ' |
        sort -u | report "no mutable static or global state: it belongs to the mesh, the launch or the context"
    grep -nHE '^[a-z][a-z_0-9 ]* \**spmd_[a-z0-9_]*\(' "${public[@]}" | grep -v ':typedef ' |
        report "functions of a public header are exported: SPMD_API"
}

# Each folder stands on those before it.
check_direction() {
    local below='' folder order=(spmd collectives kernels models cli)
    for folder in "${order[@]}"; do
        below+=${below:+|}$folder
        local above
        above=$(printf '%s\n' "${order[@]}" | grep -vE "^($below)\$" | paste -sd '|')
        [[ -z $above ]] || files "$folder" | grep -vxF spmd/spmdkit.h |
            xargs -r grep -nHE "^ *# *include \"($above|tests|bench|examples)/" |
            report "$folder/ includes nothing of the folders above it"
    done
    grep -nHE '^ *# *include "' "${emulator[@]}" | grep -v '"emu/' | report "emu/ includes nothing of the other folders"
}

check_headers() {
    local header compiler=${CC:-cc} cxx=${CXX:-c++} cuda=${CUDA_HOME:-/usr/local/cuda}/include
    local all_headers=("${headers[@]}") emulators here=(-I. -isystem "$cuda")
    mapfile -t emulators < <(printf '%s\n' "${emulator[@]}" | grep '\.h$' | grep -v '/emu_device.h$') # that one is C++
    if [[ -e $cuda/nccl.h ]]; then
        all_headers+=("${emulators[@]}")
    else
        mapfile -t all_headers < <(grep -LE '<cuda_|<cublas|<nccl|"spmd/cuda/' "${headers[@]}")
        echo "SKIPPED: headers that need CUDA's (no $cuda/nccl.h; CUDA_HOME says where the toolkit is)"
    fi
    for header in "${all_headers[@]}"; do
        "$compiler" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror "${here[@]}" -fsyntax-only -x c \
            -include "$header" /dev/null 2>&1 | report "$header compiles alone as C11"
    done
    if command -v "$cxx" >/dev/null; then
        for header in "${public[@]}" emu/emu.h; do
            "$cxx" -std=c++17 -Wall -Wextra -Werror "${here[@]}" -fsyntax-only -x c++ \
                -include "$header" /dev/null 2>&1 |
                report "$header compiles alone as C++17"
        done
    else
        echo "SKIPPED: public headers as C++17 (no $cxx)"
    fi
    diff <(sed -n '/^set(public_headers/,/)/p' cmake/install.cmake | grep -oE '[a-z_/]+\.h' | sort) \
        <(printf '%s\n' "${public[@]}" | sort) | report "cmake/install.cmake lists the headers that are not private"
}

check_with_tools() {
    local formatter=clang-format-14
    command -v $formatter >/dev/null || formatter=clang-format
    if $formatter --version 2>/dev/null | grep -q 'version 14\.'; then
        $formatter --dry-run -Werror "${all[@]}" 2>&1 | grep 'error:' | report "run clang-format -i (version 14)"
    else
        echo "SKIPPED: formatting (clang-format 14 is not installed; other versions differ)"
    fi
    if command -v shellcheck >/dev/null; then
        shellcheck -x "${scripts[@]}" 2>&1 | report "shellcheck"
    else
        echo "SKIPPED: scripts (shellcheck is not installed)"
    fi
}

check_text
check_sizes 500 "${library[@]}" "${emulator[@]}" "${programs[@]}"
check_sizes 300 "${tests[@]}" "${public[@]}"
check_functions "${all[@]}"
check_library
check_direction
check_headers
check_with_tools
((failed)) || echo "lint: ${#all[@]} C files and ${#scripts[@]} scripts are clean"
exit $failed
