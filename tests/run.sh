#!/bin/bash
# Sets up, builds and tests Friday: `bash tests/run.sh` runs a sample that takes some 15 minutes on two cores, `--full`
# everything. The last line says how many tests passed, failed and were skipped; the exit code is 0 only if none failed.
# Both begin with what tests/lint.sh finds in seconds; `--lint` runs all of tests/lint.sh, and no test.
set -euo pipefail

full= lint=
case "${1:-}" in
  "") minutes=75 ;;  # of a machine that others use too
  --full) full=yes minutes=240 ;;
  --lint) lint=yes ;;
  *) echo "usage: tests/run.sh [--full | --lint]" >&2; exit 2 ;;
esac
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
exec </dev/null
cores=$(nproc)
started=$SECONDS
# What other settings of the caller could change: the build found by the tests, preloaded code, an alien Python.
export FRIDAY_BUILD="$PWD/build/release" LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
unset LD_PRELOAD PYTHONHOME PYTHONPATH PYTEST_ADDOPTS CTEST_OUTPUT_ON_FAILURE GTEST_FILTER

bash console/setup.sh ${full:+--full} ${lint:+--lint}
mkdir -p build
cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
if [[ -n $lint ]]; then
  exec bash tests/lint.sh --all
fi
status=0
bash tests/lint.sh ${full:+--all} || status=$?
cmake --build --preset release -j "$cores"
echo "== built in $((SECONDS - started)) s"

results=build/test-results
rm -rf "$results" build/failed
mkdir -p "$results"
# Every runner is bounded as a whole, besides the bounds of each test; what is left over is killed with its group.
left() { echo $((minutes * 60 - (SECONDS - started) > 60 ? minutes * 60 - (SECONDS - started) : 60)); }
FRIDAY_RANDOM_PROGRAMS=${full:+1000} timeout -k 20 "$(left)" ctest --test-dir build/release -j "$cores" --timeout 300 --no-tests=error --output-on-failure \
  --output-junit "$PWD/$results/ctest.xml" >"$results/ctest.log" 2>&1 || status=$?
tail -n 4 "$results/ctest.log"

# Two files at a time, as a test often waits for what it has started. More would disturb each other: many use two processors themselves.
select=(-n 2 --dist loadfile)
[[ -n $full ]] || select+=(-m "not full")
for folder in unit predicates apps e2e; do
  [[ -n $(find "tests/$folder" -name 'test_*.py' -print -quit) ]] || continue
  echo "== tests/$folder"
  timeout -k 20 "$(left)" /usr/bin/python3 -m pytest -q -p no:cacheprovider --rootdir tests "${select[@]}" \
    --junitxml "$results/$folder.xml" "tests/$folder" || status=$?
done
echo "== $((SECONDS - started)) s in all"
/usr/bin/python3 tests/summary.py "$status" "$results"/*.xml
