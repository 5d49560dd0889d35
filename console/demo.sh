#!/bin/bash
# Records a ring of eight nodes, one of which is made to break the ring (the seed determines which), replays it with the ring
# predicate, and prints which node broke it, when, after which message and where in the code. Exits non-zero if the result
# differs from the truth file that the faulty node wrote.
# usage: bash console/demo.sh [SEED]
set -euo pipefail

seed="${1:-3}"
if ! [[ $seed =~ ^[0-9]+$ ]]; then
  echo "usage: console/demo.sh [SEED], where SEED is a number" >&2
  exit 2
fi
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."

bash console/setup.sh --build
mkdir -p build
# An existing build is used. A new build uses the preset demo, which compiles several sources at once and takes half the time.
[[ -e build/release/build.ninja ]] || cmake --preset demo >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
cmake --build --preset demo

work=build/demo/seed-$seed
rm -rf "$work"
mkdir -p "$work"
export FRIDAY_APPS="$PWD/build/release/apps"
/usr/bin/python3 tests/apps/chord/ring.py --nodes 8 --seconds 12 --seed "$seed" --fault --truth "$PWD/$work/truth.json" \
  -o "$work/ring.toml"

echo "== recording eight nodes for 12 seconds"
build/release/bin/friday record -q -o "$work/recording" --group "$work/ring.toml"
grep -e miss "$work/recording/client.out" | sed 's/^client [0-9.]* /the client saw: /' || true
echo "== replaying all nodes together in the recorded order"
build/release/bin/friday verify "$work/recording"
echo "== replaying again and checking the ring at every change of a link"
status=0
build/release/bin/friday run predicates/ring.py "$work/recording" --json "$work/found.json" >"$work/run.log" 2>&1 || status=$?
if [[ $status -gt 1 ]]; then
  cat "$work/run.log"
  exit "$status"
fi
/usr/bin/python3 console/demo_report.py "$work/found.json" "$work/truth.json"
echo
echo "The recording is in $work/recording. To debug it: build/release/bin/friday replay $work/recording"
echo "docs/tutorial.md shows step by step how to find this kind of fault, starting from what the client saw."
