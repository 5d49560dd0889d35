#!/bin/bash
# Looks the code over without running it, and fails at whatever it finds: `bash tests/lint.sh` in some seconds at the layout of
# all C++ (.clang-format) and at all Python (pyflakes); `--all` also, after a build, at core, console and pyext with clang-tidy
# (.clang-tidy), some nine seconds a file, a file a processor. `bash tests/lint.sh FILE...` shows what clang-tidy says of these.
set -euo pipefail
cd "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/.."
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
status=0

need() {
  command -v "$1" >/dev/null || { echo "lint: there is no $1, which is in Debian's package $2: bash console/setup.sh $3" >&2; exit 2; }
}

# What git holds or would take up; without git (an unpacked archive) what is there but for the builds.
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
  if [[ $version != *"version 14."* ]]; then  # each version lays out some lines in its own way
    echo "lint: the layout is that of clang-format 14, and here is $version" >&2
    status=1
    return
  fi
  files '*.cc' '*.h' | xargs -d '\n' clang-format --dry-run -Werror || status=1
}

python() {
  /usr/bin/python3 -c 'import pyflakes' 2>/dev/null || { echo "lint: there is no pyflakes, which is in Debian's package python3-pyflakes: bash console/setup.sh" >&2; exit 2; }
  files '*.py' | /usr/bin/python3 tests/lint_python.py || status=1
}

tidy() {
  need clang-tidy-19 clang-tidy-19 --lint
  local compiled=build/release/compile_commands.json
  [[ -e $compiled ]] || { echo "lint: clang-tidy needs $compiled: cmake --preset release" >&2; exit 2; }
  # Clang does not know these options of gcc's for the shim, and without SSE not the C++ library's own headers.
  mkdir -p build/lint
  sed -E 's/ -mmem(cpy|set)-strategy=[^ "]+//g; s/ -mgeneral-regs-only//g' "$compiled" >build/lint/compile_commands.json
  # Its count of warnings that are in headers of the system goes to standard error, with what kept it from reading a file.
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
((status)) || echo "lint: nothing found"
exit "$status"
