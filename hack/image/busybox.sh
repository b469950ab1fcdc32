#!/usr/bin/env bash
# Prints the path of a static busybox: the system's, or Debian's package unpacked into the cache (not installed).
set -euo pipefail
fail() { echo "busybox: $*" >&2; exit 1; }

for candidate in "$(command -v busybox || true)" /usr/bin/busybox /bin/busybox; do
  # The loader's name is in every executable that is not static.
  if [ -x "$candidate" ] && ! grep -q -a ld-linux "$candidate"; then readlink -f "$candidate"; exit; fi
done

cache="${XDG_CACHE_HOME:-$HOME/.cache}/hearth"
dir="$cache/busybox-static"
binary() { if [ -d "$dir" ]; then find "$dir" -path '*/bin/busybox' -type f -print -quit; fi; }
found=$(binary)
if [ -n "$found" ]; then echo "$found"; exit; fi

command -v apt-get >/dev/null || fail "a static busybox is needed in PATH (here is no apt-get to fetch Debian's busybox-static)"
mkdir -p "$cache"
tmp=$(mktemp -d "$cache/busybox.tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
chmod 755 "$tmp"
fetch() { (cd "$tmp" && apt-get -q -o APT::Sandbox::User=root download busybox-static) >"$tmp/log" 2>&1; }
if ! fetch; then
  [ "$(id -u)" = 0 ] || { cat "$tmp/log" >&2; fail "cannot fetch busybox-static: run apt-get update as root, or install it"; }
  echo "busybox: refreshing the package lists" >&2
  apt-get -q update >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; fail "apt-get update failed"; }
  fetch || { cat "$tmp/log" >&2; fail "cannot fetch busybox-static"; }
fi
dpkg-deb -x "$tmp"/busybox-static_*.deb "$tmp/root"
mv -T "$tmp/root" "$dir" 2>/dev/null || [ -n "$(binary)" ] || fail "cannot move it to $dir"
binary
