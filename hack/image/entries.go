package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// node is one path of a layer, ready to be written: source is a file on this machine, text its content here.
type node struct {
	kind   byte
	mode   int64
	source string
	text   string
	link   string
}

// tree is a layer's paths without their leading slash.
type tree map[string]node

// expand turns a layer's entries into every path it holds: parents, libraries and applets included.
func (b *builder) expand(ctx context.Context, spec image, layer layerSpec) (tree, error) {
	t := tree{}
	for _, e := range layer.Entries {
		mode, err := e.mode()
		if err != nil {
			return nil, err
		}
		n := node{kind: tar.TypeReg, mode: mode, text: e.Text, link: e.Link}
		switch {
		case e.Dir:
			n.kind = tar.TypeDir
		case e.Link != "":
			n.kind = tar.TypeSymlink
		case e.Input != "":
			if n.source, err = b.produce(ctx, spec.Inputs[e.Input]); err != nil {
				return nil, fmt.Errorf("input %s: %w", e.Input, err)
			}
		}
		if err := t.add(e.Path, n); err != nil {
			return nil, err
		}
		if e.Libraries {
			err = t.addLibraries(ctx, n.source)
		}
		if e.Applets && err == nil {
			err = t.addApplets(ctx, e.Path, n.source)
		}
		if err != nil {
			return nil, err
		}
	}
	t.addParents()
	return t, nil
}

func (t tree) add(where string, n node) error {
	key := strings.TrimPrefix(where, "/")
	if old, ok := t[key]; ok && old != n {
		return fmt.Errorf("%s: two entries of one layer put different things there", where)
	}
	t[key] = n
	return nil
}

func (t tree) addParents() {
	for _, key := range slices.Collect(maps.Keys(t)) {
		for dir := path.Dir(key); dir != "."; dir = path.Dir(dir) {
			if _, ok := t[dir]; !ok {
				t[dir] = node{kind: tar.TypeDir, mode: 0o755}
			}
		}
	}
}

func (t tree) addLibraries(ctx context.Context, binary string) error {
	ldd := exec.CommandContext(ctx, "ldd", binary) // #nosec G204 -- an input of the build
	var said bytes.Buffer                          // a shell's warning about its locale, say
	ldd.Stderr = &said
	out, err := ldd.Output()
	if err != nil {
		return fmt.Errorf("ldd %s: %w: %s%s", binary, err, out, said.Bytes())
	}
	libraries, err := parseLdd(string(out))
	if err != nil {
		return fmt.Errorf("ldd %s: %w", binary, err)
	}
	for _, lib := range libraries {
		if err := t.add(lib, node{kind: tar.TypeReg, mode: 0o755, source: lib}); err != nil {
			return err
		}
	}
	return nil
}

// parseLdd returns the files that ldd names, the loader included.
func parseLdd(out string) ([]string, error) {
	var files []string
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		lib, found, arrow := strings.Cut(line, " => ")
		switch {
		case arrow && strings.HasPrefix(found, "not found"):
			return nil, fmt.Errorf("library %s is not on this machine", lib)
		case arrow:
			lib = found
		}
		file, _, _ := strings.Cut(lib, " (")
		if path.IsAbs(file) {
			files = append(files, path.Clean(file))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("expected library paths, got %q", strings.TrimSpace(out))
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func (t tree) addApplets(ctx context.Context, where, busybox string) error {
	out, err := exec.CommandContext(ctx, busybox, "--list").Output() // #nosec G204 -- an input of the build
	if err != nil {
		return fmt.Errorf("%s --list: %w", busybox, err)
	}
	for applet := range strings.FieldsSeq(string(out)) {
		at := path.Join(path.Dir(where), applet)
		if at == where {
			continue
		}
		if err := t.add(at, node{kind: tar.TypeSymlink, mode: 0o777, link: path.Base(where)}); err != nil {
			return err
		}
	}
	return nil
}

// open returns a regular node's content and its size.
func (n node) open() (io.ReadCloser, int64, error) {
	if n.source == "" {
		return io.NopCloser(strings.NewReader(n.text)), int64(len(n.text)), nil
	}
	f, err := os.Open(n.source)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// key is the hash of everything that makes the layer's bytes.
func (t tree) key() (string, error) {
	all := sha256.New()
	for _, where := range slices.Sorted(maps.Keys(t)) {
		n := t[where]
		sum := sha256.New()
		if n.kind == tar.TypeReg {
			content, _, err := n.open()
			if err != nil {
				return "", err
			}
			_, err = io.Copy(sum, content)
			_ = content.Close()
			if err != nil {
				return "", fmt.Errorf("read %s: %w", n.source, err)
			}
		}
		_, _ = fmt.Fprintf(all, "%s %q %c %o %q %x\n", layout, where, n.kind, n.mode, n.link, sum.Sum(nil))
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}
