package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// release is what people install who have no clone: the same objects with the names of released images.
type release struct {
	out, controller, version string
}

// semver is what helm takes for a chart's version, without build metadata.
var semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func (r release) write(root string) error {
	if r.out == "" {
		return errors.New("-out: expected a directory")
	}
	if !semver.MatchString(r.version) {
		return fmt.Errorf("-version: expected one such as 0.2.0, got %q", r.version)
	}
	repository, tag, digest, err := reference(r.controller)
	if err != nil {
		return fmt.Errorf("-image-controller: %w", err)
	}
	if err := writeManifest(root, r.controller, filepath.Join(r.out, "install.yaml")); err != nil {
		return err
	}
	chart := filepath.Join(r.out, "hearth")
	if err := os.RemoveAll(chart); err != nil {
		return err
	}
	if err := copyTree(chartDir(root), chart); err != nil {
		return err
	}
	if err := edit(filepath.Join(chart, "Chart.yaml"), map[string]string{
		"version: ": r.version, "appVersion: ": r.version,
	}); err != nil {
		return err
	}
	return edit(filepath.Join(chart, "values.yaml"), map[string]string{
		"  repository: ": repository, "  tag: ": fmt.Sprintf("%q", tag), "  digest: ": fmt.Sprintf("%q", digest),
	})
}

// reference takes an image's name apart.
func reference(image string) (repository, tag, digest string, err error) {
	repository, digest, _ = strings.Cut(image, "@")
	if i := strings.LastIndex(repository, ":"); i > strings.LastIndex(repository, "/") {
		repository, tag = repository[:i], repository[i+1:]
	}
	if repository == "" || strings.ContainsAny(image, " \t\n\"") || tag == "" && digest == "" {
		return "", "", "", fmt.Errorf("expected an image with a tag or a digest, got %q", image)
	}
	return repository, tag, digest, nil
}

func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // the project's own chart
		if err != nil {
			return err
		}
		return write(filepath.Join(to, name), content)
	})
}

// edit gives lines of a file, each named by its beginning and there once, another value. Comments behind them stay.
func edit(file string, values map[string]string) error {
	content, err := os.ReadFile(file) //nolint:gosec // just written
	if err != nil {
		return err
	}
	for key, value := range values {
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + `\S*`)
		if n := len(line.FindAll(content, -1)); n != 1 {
			return fmt.Errorf("%s: expected one line that begins with %q, there are %d", file, key, n)
		}
		content = line.ReplaceAllLiteral(content, bytes.Join([][]byte{[]byte(key), []byte(value)}, nil))
	}
	return write(file, content)
}
