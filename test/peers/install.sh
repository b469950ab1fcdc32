#!/usr/bin/env bash
# Installs clients that others wrote from npm into the cache and prints the directory; a second call only prints. With the argument
# opencode it installs that agent.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
what=${1:-peers}
case $what in
peers) from=$here ;;
opencode) from=$here/opencode ;;
*) echo "usage: install.sh [peers|opencode]" >&2; exit 2 ;;
esac
fail() { echo "$what: $*" >&2; exit 1; }

hash=$(cat "$from/package.json" "$from/package-lock.json" | sha256sum | cut -c1-16)
dir="${XDG_CACHE_HOME:-$HOME/.cache}/hearth/$what-$hash"
if [ -d "$dir" ]; then echo "$dir"; exit; fi

command -v npm >/dev/null || fail "npm is needed to install it (Debian: apt-get install npm)"
mkdir -p "$(dirname "$dir")"
tmp=$(mktemp -d "$dir.tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
cp "$from/package.json" "$from/package-lock.json" "$tmp"
echo "$what: installing from npm" >&2
start=$SECONDS
(cd "$tmp" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) >"$tmp/npm.log" 2>&1 || { cat "$tmp/npm.log" >&2; fail "npm ci failed after $((SECONDS - start)) s, its messages are above"; }
chmod 755 "$tmp"

# Another install may have been quicker; its result is as good.
mv -T "$tmp" "$dir" 2>/dev/null || [ -d "$dir" ] || fail "cannot move $tmp to $dir"
echo "$what: installed in $((SECONDS - start)) s" >&2
echo "$dir"
