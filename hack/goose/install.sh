#!/usr/bin/env bash
# Installs goose's native binary from npm into the cache and prints its path; a second call only prints.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
fail() { echo "goose: $*" >&2; exit 1; }

arch=$(uname -sm)
[ "$arch" = "Linux x86_64" ] || fail "there is a native binary for Linux x86_64 only, this is $arch"

hash=$(cat "$here/package.json" "$here/package-lock.json" | sha256sum | cut -c1-16)
dir="${XDG_CACHE_HOME:-$HOME/.cache}/hearth/goose-$hash"
binary="$dir/node_modules/@aaif/goose-binary-linux-x64/bin/goose"
if [ -x "$binary" ]; then echo "$binary"; exit; fi

command -v npm >/dev/null || fail "npm is needed to install it (Debian: apt-get install npm)"
mkdir -p "$(dirname "$dir")"
tmp=$(mktemp -d "$dir.tmp.XXXXXX")
npm_pid=
trap 'if [ -n "$npm_pid" ]; then kill "$npm_pid" 2>/dev/null || true; fi; rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
cp "$here/package.json" "$here/package-lock.json" "$tmp"

start=$SECONDS
(cd "$tmp" && exec npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) >"$tmp/npm.log" 2>&1 &
npm_pid=$!
while kill -0 "$npm_pid" 2>/dev/null; do
  [ $(((SECONDS - start) % 5)) -ne 0 ] || echo "goose: installing from npm, 300 MB ($((SECONDS - start)) s)" >&2
  sleep 1
done
wait "$npm_pid" || { cat "$tmp/npm.log" >&2; fail "npm ci failed after $((SECONDS - start)) s, its messages are above"; }
npm_pid=
version=$("$tmp/${binary#"$dir"/}" --version) || fail "the binary does not start; it needs glibc 2.28 or newer, libstdc++ and libgcc_s (Debian: apt-get install libstdc++6)"
chmod 755 "$tmp"

# Another install may have been quicker; its result is as good.
mv -T "$tmp" "$dir" 2>/dev/null || [ -x "$binary" ] || fail "cannot move $tmp to $dir"
echo "goose: installed${version} in $((SECONDS - start)) s" >&2
echo "$binary"
