#!/usr/bin/env bash
# Fails when a generated file or a go.mod is not what its source yields, when something that is shipped is under a licence that is
# not on the list, or when what is linked has a known vulnerability. Works on a copy, so it changes nothing here.
set -euo pipefail
root=$(git rev-parse --show-toplevel)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git -C "$root" ls-files -z --cached --others --exclude-standard | (cd "$root" && xargs -0 tar cf - --ignore-failed-read 2>/dev/null) | tar xf - -C "$copy"
cd "$copy" && git init -q . && git add -A && git -c user.name=x -c user.email=x@x commit -qm before
make generate
for m in . hack/cluster hack/cluster/kube hack/cluster/coredns hack/image hack/licences hack/promcheck hack/release; do
  [ ! -f "$m/go.mod" ] || (cd "$m" && go mod tidy)
done
if ! git diff --exit-code --stat; then
  echo "verify: the files above are not what their sources yield; run make generate, and go mod tidy in the module" >&2
  exit 1
fi

go -C hack/licences run . ../..=./cmd/harness,./cmd/controller ../image=. ../release=. ../cluster=. ../cluster/kube=. ../cluster/coredns=.

hack/vulnerabilities.sh
