#!/usr/bin/env bash
# Runs every fuzz target of every module for FUZZTIME (20s unless set), one after the other, and says how long each ran. The first
# input that breaks one ends it with an error; Go keeps that input under testdata/fuzz, to be committed with the fix.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-20s}
targets=$(grep -rE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+\(' . | sed -E 's#^(.*)/[^/]+:func (Fuzz[A-Za-z0-9_]+)\(.*#\1 \2#' | sort)
[ -n "$targets" ] || { echo "no fuzz target was found" >&2; exit 1; }
count=0
while read -r dir target; do
  began=$SECONDS
  if ! out=$(go -C "$dir" test -run '^$' -fuzz "^$target\$" -fuzztime "$time" . </dev/null 2>&1); then
    printf '%s\nFAILED %s %s\n' "$out" "$dir" "$target" >&2
    exit 1
  fi
  case $out in *"no fuzz tests"* | *"no tests to run"*) printf '%s\nFAILED %s %s did not run\n' "$out" "$dir" "$target" >&2; exit 1 ;; esac
  execs=$(grep -oE 'execs: [0-9]+' <<<"$out" | tail -1 || true)
  # A target that skips itself is no failure to the go command.
  case ${execs:-execs: 0} in "execs: 0") printf '%s\nFAILED %s %s ran with no input\n' "$out" "$dir" "$target" >&2; exit 1 ;; esac
  printf 'ok  %-32s %-22s %4ds  %s\n' "$dir" "$target" "$((SECONDS - began))" "$execs"
  count=$((count + 1))
done <<<"$targets"
echo "$count fuzz targets ran for $time each"
