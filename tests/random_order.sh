#!/usr/bin/env bash
# Runs a test whose emulated devices work in an order by a seed: another one every time, unless EMU_SEED gives it. Says
# it before all else, since a test that hangs ends without a word.
# usage: random_order.sh TEST PROGRAM [ARGUMENT...]
#   TEST   its name for ctest
export EMU_SEED=${EMU_SEED:-$((RANDOM * 32768 + RANDOM))}
echo "The order of emulated devices is that of seed $EMU_SEED. To have it again:" \
    "EMU_SEED=$EMU_SEED ctest --preset emu -R '^$1\$'"
exec "${@:2}"
