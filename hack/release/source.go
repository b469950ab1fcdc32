package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// source is what a release is made of: a commit, and the names it gets.
type source struct {
	root, version, registry string
	revision                string    // the commit, in full
	created                 time.Time // every time in a release is this one
}

// semver is a version as tags have it; helm takes it without the v, and wants no build metadata.
var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

// sourceOf reads the commit that is checked out. SOURCE_DATE_EPOCH takes the place of its date.
func sourceOf(ctx context.Context, root, version, registry string, getenv func(string) string) (source, error) {
	if !semver.MatchString(version) {
		return source{}, fmt.Errorf("-version: expected one such as v0.2.0, got %q", version)
	}
	if registry == "" || strings.ContainsAny(registry, " \t\n\"@") || strings.HasSuffix(registry, "/") {
		return source{}, fmt.Errorf("-registry: expected a registry and path without a slash at its end, got %q", registry)
	}
	s := source{version: version, registry: registry}
	var err error
	if s.root, err = filepath.Abs(root); err != nil {
		return source{}, err
	}
	changed, err := git(ctx, s.root, "status", "--porcelain")
	if err != nil {
		return source{}, err
	}
	if changed != "" {
		return source{}, fmt.Errorf("expected a work tree as it was committed, these differ:\n%s", changed)
	}
	head, err := git(ctx, s.root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return source{}, err
	}
	revision, date, _ := strings.Cut(head, " ")
	s.revision = revision
	if tagged, err := git(ctx, s.root, "rev-parse", "--verify", "--quiet", "refs/tags/"+version+"^{commit}"); err == nil && tagged != revision {
		return source{}, fmt.Errorf("-version: tag %s is on %.12s, not on %.12s, which is checked out", version, tagged, revision)
	}
	if given := getenv("SOURCE_DATE_EPOCH"); given != "" {
		date = given
	}
	seconds, err := strconv.ParseInt(date, 10, 64)
	if err != nil || seconds <= 0 {
		return source{}, fmt.Errorf("SOURCE_DATE_EPOCH: expected seconds since 1970, got %q", date)
	}
	s.created = time.Unix(seconds, 0).UTC()
	return s, nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output() //nolint:gosec // no shell
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
