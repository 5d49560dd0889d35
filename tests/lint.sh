#!/bin/bash
# Checks the code without running it, and fails if it finds anything. `bash tests/lint.sh` takes some seconds and checks the layout
# of all C++ (.clang-format) and all Python (pyflakes). `--all` also checks core, console and pyext with clang-tidy (.clang-tidy);
# this needs a build, and takes about nine seconds for each file on each processor. `bash tests/lint.sh FILE...` runs clang-tidy on
# these files.
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
status=0

need() {
  command -v "$1" >/dev/null || { echo "lint: $1 is not installed. It is in Debian's package $2: bash console/setup.sh $3" >&2; exit 2; }
}

# The files that match the patterns: those that git tracks or would add; without git (in an unpacked archive) all but those in build.
files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do [[ ! -e $file ]] || echo "$file"; done
  else
    local pattern
    for pattern; do find . -path ./build -prune -o -path "./$pattern" -type f -print | sed 's|^\./||'; done
  fi
}

layout() {
  need clang-format clang-format ""
  local version; version=$(clang-format --version)
  if [[ $version != *"version 14."* ]]; then  # other versions lay out some lines differently
    echo "lint: the code is laid out by clang-format 14, and here is $version: install version 14" >&2
    status=1
    return
  fi
  files '*.cc' '*.h' | xargs -d '\n' clang-format --dry-run -Werror || status=1
}

python() {
  /usr/bin/python3 -c 'import pyflakes' 2>/dev/null || { echo "lint: pyflakes is not installed. It is in Debian's package python3-pyflakes: bash console/setup.sh" >&2; exit 2; }
  files '*.py' | /usr/bin/python3 tests/lint_python.py || status=1
}

tidy() {
  need clang-tidy-19 clang-tidy-19 --lint
  local compiled=build/release/compile_commands.json
  [[ -e $compiled ]] || { echo "lint: clang-tidy needs $compiled, which does not exist: run cmake --preset release first" >&2; exit 2; }
  # Clang does not have these options of gcc with which the shim is compiled, and without SSE it cannot read the C++ library's headers.
  mkdir -p build/lint
  sed -E 's/ -mmem(cpy|set)-strategy=[^ "]+//g; s/ -mgeneral-regs-only//g' "$compiled" >build/lint/compile_commands.json
  # To standard error clang-tidy writes the number of warnings in system headers, and why it could not read a file.
  if ! printf '%s\n' "$@" | xargs -d '\n' -n 1 -P "$(nproc)" nice clang-tidy-19 -p build/lint --quiet >build/lint/found 2>build/lint/errors; then
    status=1
    cat build/lint/found
    grep -vE '^[0-9]+ warnings?( and [0-9]+ errors?)? generated|^[0-9]+ warnings? treated as errors?' build/lint/errors >&2 || true
  fi
}

case "${1:-}" in
  "") layout; python ;;
  --all)
    layout
    python
    mapfile -t sources < <(files 'core/*.cc' 'console/*.cc' 'pyext/*.cc')
    tidy "${sources[@]}"
    ;;
  -*) echo "usage: tests/lint.sh [--all | FILE...]" >&2; exit 2 ;;
  *) tidy "$@" ;;
esac
((status)) || echo "lint: no problems found"
exit "$status"
