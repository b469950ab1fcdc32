package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layout goes into every layer's key; it changes with the way layers are written.
const layout = "1"

// layer is an uncompressed tar in the cache, whose digest was computed when it was written: nothing hashes
// or compresses 300 MB twice.
type layer struct {
	file string
	Hash v1.Hash `json:"diffID"`
	Len  int64   `json:"size"`
}

func (l layer) Digest() (v1.Hash, error)             { return l.Hash, nil }
func (l layer) DiffID() (v1.Hash, error)             { return l.Hash, nil }
func (l layer) Size() (int64, error)                 { return l.Len, nil }
func (l layer) MediaType() (types.MediaType, error)  { return types.OCIUncompressedLayer, nil }
func (l layer) Compressed() (io.ReadCloser, error)   { return os.Open(l.file) }
func (l layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.file) }
func (l layer) files() []string                      { return []string{l.file, l.file + ".json"} }

// layer returns the tree's layer from the cache, written now if it is not there.
func (b *builder) layer(t tree) (layer, error) {
	key, err := t.key()
	if err != nil {
		return layer{}, err
	}
	l := layer{file: filepath.Join(b.cache, "layers", key+".tar")}
	raw, err := os.ReadFile(l.file + ".json")
	if err == nil && json.Unmarshal(raw, &l) == nil {
		return l, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return layer{}, err
	}
	start := time.Now()
	if err := writeLayer(t, &l); err != nil {
		return layer{}, err
	}
	b.say(start, "wrote a layer of %d MB", l.Len>>20)
	return l, nil
}

// writeLayer writes the tar, then the note that makes it count.
func writeLayer(t tree, l *layer) error {
	sum := sha256.New()
	err := publish(l.file, func(f io.Writer) error {
		counted := &counter{w: io.MultiWriter(f, sum)}
		err := t.write(counted)
		l.Len = counted.n
		return err
	})
	if err != nil {
		return err
	}
	l.Hash = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
	return publish(l.file+".json", func(f io.Writer) error { return json.NewEncoder(f).Encode(l) })
}

// write puts the tree into a tar that depends on nothing but the tree: sorted, no times, owned by root.
func (t tree) write(w io.Writer) error {
	archive := tar.NewWriter(w)
	for _, where := range slices.Sorted(maps.Keys(t)) {
		if err := t[where].write(archive, where); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	return archive.Close()
}

func (n node) write(archive *tar.Writer, where string) error {
	header := &tar.Header{Typeflag: n.kind, Name: where, Mode: n.mode, Linkname: n.link, ModTime: time.Unix(0, 0)}
	if n.kind == tar.TypeDir {
		header.Name += "/"
	}
	if n.kind != tar.TypeReg {
		return archive.WriteHeader(header)
	}
	content, size, err := n.open()
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	header.Size = size
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, content)
	return err
}

// publish writes a file under a temporary name and gives it its own when it is complete.
func publish(file string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return os.Rename(f.Name(), file)
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
