package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one file of an archive.
type file struct {
	name   string // with slashes
	mode   int64
	source string // a file here, or
	text   string // its content
}

// writeArchive writes a tar that depends on nothing but the files and the time: sorted, owned by root.
func writeArchive(w io.Writer, files []file, when time.Time) error {
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b file) int { return strings.Compare(a.name, b.name) })
	archive := tar.NewWriter(w)
	for _, f := range sorted {
		if err := f.write(archive, when); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (f file) write(archive *tar.Writer, when time.Time) error {
	content, size := io.Reader(strings.NewReader(f.text)), int64(len(f.text))
	if f.source != "" {
		opened, err := os.Open(f.source)
		if err != nil {
			return err
		}
		defer func() { _ = opened.Close() }()
		info, err := opened.Stat()
		if err != nil {
			return err
		}
		content, size = opened, info.Size()
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: size, ModTime: when, Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}

// writeFile writes a file that others may read, and makes the directory it is in.
func writeFile(name string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // what is released is public
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644) //nolint:gosec // likewise
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// writeGzip is writeArchive, compressed; the compressed stream holds no time and no name.
func writeGzip(name string, files []file, when time.Time) error {
	return writeFile(name, func(w io.Writer) error {
		compressed, err := gzip.NewWriterLevel(w, gzip.DefaultCompression)
		if err != nil {
			return err
		}
		return errors.Join(writeArchive(compressed, files, when), compressed.Close())
	})
}

// under are the files below a directory, as an archive has them below prefix.
func under(dir, prefix string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, file{name: prefix + filepath.ToSlash(name), mode: 0o644, source: path})
		return err
	})
	return files, err
}
