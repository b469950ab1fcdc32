// Package version tells which build of Hearth a program is.
package version

import (
	"runtime/debug"
	"sync"
)

// release and revision are what `make release` links in (-X): the version as in v0.2.0, and the commit it was built from, in full.
// Any other build has neither.
var release, revision string

// build is read once: it is text that has to be taken apart.
var build = sync.OnceValues(debug.ReadBuildInfo)

// shortRevision is how many digits of a commit name a build that has no version.
const shortRevision = 12

// Of is the release, else the module's version, else the revision that this program was built from.
func Of() string {
	if release != "" {
		return release
	}
	info, ok := build()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if r := Revision(); r != "" {
		return "devel-" + r[:min(shortRevision, len(r))]
	}
	return "devel"
}

// Revision is the commit that this program was built from, in full; empty when the build did not record it.
func Revision() string {
	if revision != "" {
		return revision
	}
	info, ok := build()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
