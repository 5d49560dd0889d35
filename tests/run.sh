#!/bin/bash
# Installs what is missing, builds Friday and tests it. `bash tests/run.sh` runs the tests without those marked `full`, which takes
# some half an hour on two cores; `--full` runs all tests; `--lint` runs all checks of tests/lint.sh, which take half an hour,
# and no test. Without `--lint` the quick ones of these checks run first. The last line says how many tests passed, failed and
# were skipped. The exit code is 0 only if nothing failed.
set -euo pipefail

full= lint=
case "${1:-}" in
  "") minutes=75 ;;  # the time limit; long, since the machine may be shared
  --full) full=yes minutes=240 ;;
  --lint) lint=yes ;;
  *) echo "usage: tests/run.sh [--full | --lint]" >&2; exit 2 ;;
esac
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
exec </dev/null
cores=$(nproc)
started=$SECONDS
# Makes the tests independent of the caller's environment: which build they use, preloaded libraries, and which Python modules.
export FRIDAY_BUILD="$PWD/build/release" LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
unset LD_PRELOAD PYTHONHOME PYTHONPATH PYTHONUNBUFFERED PYTEST_ADDOPTS CTEST_OUTPUT_ON_FAILURE GTEST_FILTER

bash console/setup.sh ${full:+--full} ${lint:+--lint}
mkdir -p build
# A build from nothing compiles several sources of a folder as one, which takes half the time. One that is there stays what it is.
unity=ON
[[ ! -f build/release/CMakeCache.txt ]] || unity=$(sed -n 's/^CMAKE_UNITY_BUILD:[A-Z]*=//p' build/release/CMakeCache.txt)
[[ -z $lint ]] || unity=OFF  # clang-tidy reads the command of each source
cmake --preset release -DCMAKE_UNITY_BUILD="$unity" -DCMAKE_UNITY_BUILD_BATCH_SIZE=6 >build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
if [[ -n $lint ]]; then
  exec bash tests/lint.sh --all
fi
status=0
bash tests/lint.sh || status=$?
cmake --build --preset release -j "$cores"
echo "== built in $((SECONDS - started)) s"

results=build/test-results
rm -rf "$results" build/failed
mkdir -p "$results"
# On a slow machine the sample ends after an hour: tests that have not begun by then are skipped, and it is said how many.
[[ -n $full ]] || export FRIDAY_TESTS_UNTIL=$(($(date +%s) - (SECONDS - started) + 3600))
# left() is the time in seconds until the limit for the whole run, at least 60. Each test runner is killed then, with its process
# group; each test has limits of its own, too.
left() { echo $((minutes * 60 - (SECONDS - started) > 60 ? minutes * 60 - (SECONDS - started) : 60)); }
FRIDAY_RANDOM_PROGRAMS=${full:+250} timeout -k 20 "$(left)" ctest --test-dir build/release -j "$cores" --timeout 900 --no-tests=error --output-on-failure \
  --output-junit "$PWD/$results/ctest.xml" >"$results/ctest.log" 2>&1 || status=$?
tail -n 4 "$results/ctest.log"

# Two test files run at a time, since a test often only waits. With more they would disturb each other: many tests use two processors.
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
