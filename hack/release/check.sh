#!/usr/bin/env bash
# Makes a release of what is committed twice, from two clones at paths of different lengths, under different umasks, time zones and
# languages, and compares every file. With an argument the second has an empty compile cache, so that nothing is taken over.
set -euo pipefail
root=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
one=$work/a two=$work/elsewhere/at-a-longer-path/hearth
for clone in "$one" "$two"; do git clone -q --shared --no-tags "$root" "$clone"; done
version=v0.0.0-check
start=$SECONDS
(umask 022 && cd "$one" && TZ=UTC LC_ALL=C hack/release/release -version $version >/dev/null)
echo "release-check: the first took $((SECONDS - start)) s"
start=$SECONDS
if [ -n "${1:-}" ]; then export GOCACHE=$work/cache; fi
(umask 077 && cd "$two" && TZ=Pacific/Kiritimati LC_ALL=de_DE.UTF-8 LANG=de_DE.UTF-8 GOFLAGS=-buildvcs=true hack/release/release -version $version >/dev/null)
echo "release-check: the second took $((SECONDS - start)) s"
cd "$one/dist/release/$version"
sha256sum --check --strict --quiet SHA256SUMS
if ! diff -rq . "$two/dist/release/$version"; then
  echo "release-check: the files above differ between two releases of the same commit" >&2
  exit 1
fi
echo "release-check: $(find . -type f | wc -l) files, $(du -sm . | cut -f1) MB, the same bytes twice"
