package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// copyTree copies what git knows of a tree and what it does not ignore, as it is now. The go command's caches do not depend on the
// directory where files are built with -trimpath.
func copyTree(ctx context.Context, from, to string) error {
	list := exec.CommandContext(ctx, "git", "-C", from, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := list.Output()
	if err != nil {
		return fmt.Errorf("list the tree: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("copy the tree: %w", err) // what was removed and is not committed is not there
		}
	}
	return nil
}

func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err //nolint:wrapcheck // it names the file
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err //nolint:wrapcheck // as above
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(from)
		if err != nil {
			return err //nolint:wrapcheck // as above
		}
		return os.Symlink(target, to) //nolint:wrapcheck // as above
	}
	text, err := os.ReadFile(from) //nolint:gosec // a file of the tree
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	return os.WriteFile(to, text, info.Mode().Perm()) //nolint:wrapcheck // as above
}

// apply applies a patch to a tree that need not be a repository; with -R it is taken back.
func apply(ctx context.Context, dir, file string, flags ...string) error {
	cmd := exec.CommandContext(ctx, "git", append(append([]string{"apply"}, flags...), file)...) //nolint:gosec // our own arguments
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // a copy below somebody's repository is none of its
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("it does not apply: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}
