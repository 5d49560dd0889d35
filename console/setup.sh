#!/bin/bash
# Installs the missing Debian packages that are needed to build and test Friday. It never removes an installed package.
#   --build   only the packages for building and using Friday
#   --full    also the packages for `tests/run.sh --full`: servers that it records, compilers and checkers
#   --infer   also the packages for building friday-infer
#   --cut     also the packages for building `friday cc` and `friday cut`
#   --lint    the packages for building and for `tests/run.sh --lint`
#   --list    prints the names of the packages instead of installing them
# It works as root and as a user with sudo, needs no terminal, and starts no service. docs/dependencies.md explains each package.
set -euo pipefail

installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# Debian has two versions of Boost that cannot be installed together. Either will do: take the installed one, or else the default.
boost=libboost-filesystem-dev
! installed libboost1.81-dev || boost=libboost-filesystem1.81-dev
building=(cmake ninja-build g++ binutils pkg-config python3-dev pybind11-dev "$boost" libreadline-dev libzydis-dev libzycore-dev
  libzstd-dev libxxhash-dev libre2-dev libdw-dev libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev gdb)
# For building and running the tests, and the servers that the default test run records.
testing=(libgtest-dev libgmock-dev libc6-dbg python3-pytest python3-pytest-xdist redis-server redis-tools memcached tmux less iproute2 nftables)
# For tests/lint.sh: what it needs in each test run, and what it needs besides for --lint.
looking=(clang-format python3-pyflakes)
tidying=(clang-tidy-19)
# Servers and other programs that only the full test run records.
servers=(mosquitto mosquitto-clients libzmq3-dev nginx-light apache2 apache2-utils postgresql-15 openssh-server openssh-client musl-tools busybox-static golang-go rustc
  mpich libmpich-dev openmpi-bin libopenmpi-dev)
# For building the fuzz targets, in the full test run.
fuzzing=(clang-19 libclang-rt-19-dev)
# For programs with Clang's library of C++, and with containers of Boost and Abseil, in the full test run.
other_library=(libc++-dev libc++abi-dev libabsl-dev)
# For building friday-infer, and the compilers of `friday cut`.
inferring=(valgrind libz3-dev)
cutting=(llvm-19-dev clang-19 lld-19 zlib1g-dev)
# For checking scripts against the types of the Python package, and the completion of zsh, in the full test run.
checking=(mypy zsh)
# For drawing the figures of the benchmarks. They depend on Boost by way of scipy, so not every Boost goes with them.
drawing=(python3-matplotlib)

wanted=("${building[@]}" "${testing[@]}" "${looking[@]}")
list=
for option; do
  case "$option" in
    --build) wanted=("${building[@]}") ;;
    --lint) wanted=("${building[@]}" "${looking[@]}" "${tidying[@]}") ;;
    --full) wanted+=("${servers[@]}" "${fuzzing[@]}" "${other_library[@]}" "${checking[@]}" "${drawing[@]}" "${inferring[@]}" "${cutting[@]}") ;;
    --infer) wanted+=("${inferring[@]}") ;;
    --cut) wanted+=("${cutting[@]}") ;;
    --list) list=yes ;;
    *) echo "usage: console/setup.sh [--build | --full | --lint] [--infer] [--cut] [--list]" >&2; exit 2 ;;
  esac
done
[[ -z $list ]] || { printf '%s\n' "${wanted[@]}"; exit 0; }

missing=()
for package in "${wanted[@]}"; do
  installed "$package" || missing+=("$package")
done
((${#missing[@]})) || exit 0

root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: these Debian packages are missing: ${missing[*]}. Installing them needs root or sudo: install them as root, or run this as root" >&2
    exit 1
  fi
  root=(sudo)
fi
echo "setup: installing ${missing[*]}"

apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" </dev/null; }
could_install() { apt -s --no-remove install "${missing[@]}" >/dev/null 2>&1; }
# Whether the packages can be installed without those that draw, which no test needs.
can_do_without_drawing() {
  local package others=()
  for package in "${missing[@]}"; do
    [[ " ${drawing[*]} " == *" $package "* ]] || others+=("$package")
  done
  ((${#others[@]} < ${#missing[@]})) || return 1
  missing=("${others[@]}")
  could_install || return 1
  echo "setup: without ${drawing[*]}, which cannot be installed here unless other packages are removed: figures of benchmarks cannot be drawn" >&2
}

# The package lists are fetched only if the packages cannot be installed with the present ones.
if ! could_install; then
  apt update
  if ! could_install && ! can_do_without_drawing; then
    echo "setup: apt-get cannot install these packages; nothing was changed. Its output ends:" >&2
    plan=$(apt -s install "${missing[@]}" 2>&1) || true
    printf '%s\n' "$plan" | tail -n 20 >&2
    removed=$(awk '$1 == "Remv" { print $2 }' <<<"$plan" | paste -s -d ' ')
    [[ -z $removed ]] || echo "setup: apt-get would have to remove these packages: $removed. This script never does: remove them yourself if you can do without them" >&2
    exit 1
  fi
fi

((${#missing[@]})) || exit 0

# Debian starts a server as soon as it is installed, unless this file exists and exits with 101 (invoke-rc.d(8)). If the machine
# already has such a file, it is left as it is.
policy=/usr/sbin/policy-rc.d
own_policy=
clean_up() { [[ -z $own_policy ]] || "${root[@]}" rm -f "$policy"; }
trap clean_up EXIT
if [[ ! -e $policy ]]; then
  own_policy=yes
  printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
  "${root[@]}" chmod 755 "$policy"
fi

# If a package was replaced in the archive since the lists were fetched, the first attempt fails.
install() { apt -y --no-remove -o Dpkg::Options::=--force-confold install "${missing[@]}"; }
if ! install; then
  apt update
  install
fi

# The installed servers shall not start at the next boot either.
if command -v systemctl >/dev/null; then
  for pair in redis-server: memcached: mosquitto: nginx-light:nginx apache2: postgresql-15:postgresql; do
    package=${pair%%:*} service=${pair#*:}
    [[ " ${missing[*]} " != *" $package "* ]] || "${root[@]}" systemctl --quiet disable "${service:-$package}" >/dev/null 2>&1 || true
  done
fi
for package in "${missing[@]}"; do
  installed "$package" || { echo "setup: apt-get ended without an error but did not install $package: try apt-get install $package" >&2; exit 1; }
done
