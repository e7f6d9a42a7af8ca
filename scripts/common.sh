# SPDX-FileCopyrightText: 2026 The EMLIO Authors
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the scripts beside it: the repository root as working directory, compiler settings.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

say() { printf '\n== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# CMake takes these from the environment, and so does the wheel build. Called again by who has
# installed ccache.
use_ccache() {
  command -v ccache >/dev/null || return 0
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  # A clone in another folder finds what this one has compiled.
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
}
use_ccache

# Sets EMLIO_CLANG_SUFFIX, which the sanitizer presets read, unless it is set: clang 19 where there
# is one, else the newest from 16 on (earlier ones cannot compile libstdc++'s ranges). False when
# there is none.
find_clang() {
  local version
  if [[ -z ${EMLIO_CLANG_SUFFIX-} ]]; then
    for version in 19 {30..16}; do
      command -v "clang++-$version" >/dev/null || continue
      export EMLIO_CLANG_SUFFIX=-$version
      break
    done
  fi
  [[ -n ${EMLIO_CLANG_SUFFIX-} ]]
}
