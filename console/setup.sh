#!/bin/bash
# Installs the Debian packages that Friday is built from and tested with: those that are missing, and nothing else. Nothing that is
# installed is ever removed. With --build only what building and using Friday needs, with --full also the servers that only
# `tests/run.sh --full` records; with --lint what building and `tests/run.sh --lint` take; --list prints the names instead.
# Works as root and as a user with sudo, without a terminal, and starts no service. docs/dependencies.md says why each is here.
set -euo pipefail

installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

# Debian has two versions of Boost, which exclude each other. Either serves: the one that is there, else the default.
boost=libboost-filesystem-dev
! installed libboost1.81-dev || boost=libboost-filesystem1.81-dev
building=(cmake ninja-build g++ binutils pkg-config python3-dev pybind11-dev "$boost" libreadline-dev libzydis-dev libzycore-dev
  libzstd-dev libxxhash-dev libdw-dev libfmt-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev gdb)
# What the tests are built and run with, and the servers that the sample records.
testing=(libgtest-dev libgmock-dev libc6-dbg python3-pytest python3-pytest-xdist redis-server redis-tools memcached tmux less iproute2 nftables)
# What looks the code over (tests/lint.sh): in each run, and for --lint and the full run.
looking=(clang-format python3-pyflakes)
tidying=(clang-tidy-19)
# Servers, and other programs, that only the full run of the tests records.
servers=(mosquitto mosquitto-clients libzmq3-dev nginx-light apache2 apache2-utils postgresql-15 openssh-server openssh-client musl-tools
  mpich libmpich-dev openmpi-bin libopenmpi-dev)
# What the fuzz targets are built with, also for the full run only.
fuzzing=(clang-19 libclang-rt-19-dev)
# What checks that the package's types serve scripts, for the full run.
checking=(mypy)
# What draws the pictures of the benchmarks.
drawing=(python3-matplotlib)

wanted=("${building[@]}" "${testing[@]}" "${looking[@]}")
list=
for option; do
  case "$option" in
    --build) wanted=("${building[@]}") ;;
    --lint) wanted=("${building[@]}" "${looking[@]}" "${tidying[@]}") ;;
    --full) wanted+=("${tidying[@]}" "${servers[@]}" "${fuzzing[@]}" "${checking[@]}" "${drawing[@]}") ;;
    --list) list=yes ;;
    *) echo "usage: console/setup.sh [--build | --full | --lint] [--list]" >&2; exit 2 ;;
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
    echo "setup: these Debian packages are missing, and there is neither root nor sudo to install them: ${missing[*]}" >&2
    exit 1
  fi
  root=(sudo)
fi
echo "setup: installing ${missing[*]}"

apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" </dev/null; }
could_install() { apt -s --no-remove install "${missing[@]}" >/dev/null 2>&1; }

# The package lists are only fetched when they are absent or too old to be of use.
if ! could_install; then
  apt update
  if ! could_install; then
    echo "setup: apt-get cannot install them, and nothing was changed. What it says:" >&2
    plan=$(apt -s install "${missing[@]}" 2>&1) || true
    printf '%s\n' "$plan" | tail -n 20 >&2
    removed=$(awk '$1 == "Remv" { print $2 }' <<<"$plan" | paste -s -d ' ')
    [[ -z $removed ]] || echo "setup: apt-get would have to remove packages of this machine, which is left to you: $removed" >&2
    exit 1
  fi
fi

# Debian starts a server as soon as it is installed, unless this file says no (invoke-rc.d(8)); one that is already there
# belongs to the machine and stays.
policy=/usr/sbin/policy-rc.d
own_policy=
clean_up() { [[ -z $own_policy ]] || "${root[@]}" rm -f "$policy"; }
trap clean_up EXIT
if [[ ! -e $policy ]]; then
  own_policy=yes
  printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
  "${root[@]}" chmod 755 "$policy"
fi

# A package that the lists name may have been replaced in the archive since they were fetched.
install() { apt -y --no-remove -o Dpkg::Options::=--force-confold install "${missing[@]}"; }
if ! install; then
  apt update
  install
fi

# Nor at the next start of the machine.
if command -v systemctl >/dev/null; then
  for pair in redis-server: memcached: mosquitto: nginx-light:nginx apache2: postgresql-15:postgresql; do
    package=${pair%%:*} service=${pair#*:}
    [[ " ${missing[*]} " != *" $package "* ]] || "${root[@]}" systemctl --quiet disable "${service:-$package}" >/dev/null 2>&1 || true
  done
fi
for package in "${missing[@]}"; do
  installed "$package" || { echo "setup: apt-get did not install $package" >&2; exit 1; }
done
