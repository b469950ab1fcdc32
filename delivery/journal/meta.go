package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"syscall"
)

// Where bbolt keeps its two meta pages' contents: after a page header, in the machine's byte order, checksummed with FNV-1a.
const (
	pageHeaderBytes = 16
	metaBytes       = 64
	metaPageSizeAt  = 8
	metaTxAt        = 48
	metaSumAt       = 56
)

// checkMeta requires both meta pages to be whole and of consecutive writes. bbolt itself is content with one: it would read
// the state before the last write, silently and under the same ID, when the newer page was damaged (row 18).
func checkMeta(path string) error {
	f, err := os.Open(path) //nolint:gosec // the data directory is configuration
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	first, err := readMeta(f, 0)
	if err != nil {
		return err
	}
	pageSize := int64(binary.NativeEndian.Uint32(first[metaPageSizeAt:]))
	second, err := readMeta(f, pageSize)
	if err != nil {
		return err
	}
	a, b := binary.NativeEndian.Uint64(first[metaTxAt:]), binary.NativeEndian.Uint64(second[metaTxAt:])
	if a != b+1 && b != a+1 {
		return fmt.Errorf("%w: its meta pages are of writes %d and %d, expected consecutive ones", errDamaged, a, b)
	}
	return nil
}

func readMeta(f io.ReaderAt, at int64) ([]byte, error) {
	meta := make([]byte, metaBytes)
	var errno syscall.Errno
	if _, err := f.ReadAt(meta, at+pageHeaderBytes); errors.As(err, &errno) {
		return nil, fmt.Errorf("journal: %w", err)
	} else if err != nil {
		return nil, fmt.Errorf("%w: meta page at %d: %w", errDamaged, at, err)
	}
	h := fnv.New64a()
	_, _ = h.Write(meta[:metaSumAt]) // a hash never fails to take bytes
	if binary.NativeEndian.Uint64(meta[metaSumAt:]) != h.Sum64() {
		return nil, fmt.Errorf("%w: meta page at %d does not match its checksum", errDamaged, at)
	}
	return meta, nil
}
