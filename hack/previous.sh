#!/usr/bin/env bash
# Loads the images of the previous tagged build under its version as tag, and prints the version and the directory of its sources. Exit
# code 3: its commit is not in this clone.
set -euo pipefail
version=v0.1.0 commit=91d38a97c41b8fe7c5715fba3b5e0bbcdc690a55
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
git -C "$root" cat-file -e "$commit^{commit}" 2>/dev/null ||
  { echo "previous: $version ($commit) is not in this clone; git fetch --unshallow brings it" >&2; exit 3; }
dir="${XDG_CACHE_HOME:-$HOME/.cache}/hearth/previous-${commit:0:12}"
if [ ! -d "$dir" ]; then
  mkdir -p "$(dirname "$dir")"
  tmp=$(mktemp -d "$dir.tmp.XXXXXX")
  trap 'rm -rf "$tmp"' EXIT
  git -C "$root" archive --format=tar "$commit" | tar -xf - -C "$tmp"
  chmod 755 "$tmp"
  mv -T "$tmp" "$dir" 2>/dev/null || [ -d "$dir" ]
fi
"$root/hack/image/image" -root "$dir" -tag "$version" load controller agent-goose >&2
echo "$version $dir"
