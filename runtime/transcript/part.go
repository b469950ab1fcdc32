package transcript

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"sort"
	"strconv"
	"sync"
)

// markEvery is how far apart the places are that an open transcript remembers, so that reading its end does not begin at its start.
const markEvery = 16 << 10

// part is one file of a transcript.
type part struct {
	name  string
	first uint64 // the number of its first entry
	bytes int64  // as far as it is written
	dirty bool   // there may be more, which means nothing
	marks []mark // ascending
}

// mark is where an entry begins.
type mark struct {
	seq uint64
	at  int64
}

// seek tells where to begin to read for an entry.
func (p *part) seek(seq uint64) int64 {
	i := sort.Search(len(p.marks), func(i int) bool { return p.marks[i].seq > seq })
	if i == 0 {
		return 0
	}
	return p.marks[i-1].at
}

func (p *part) mark(seq uint64) {
	if n := len(p.marks); n == 0 || p.bytes-p.marks[n-1].at >= markEvery {
		p.marks = append(p.marks, mark{seq, p.bytes})
	}
}

// cut takes back the marks of what was not written.
func (p *part) cut(at int64) {
	p.bytes = at
	for n := len(p.marks); n > 0 && p.marks[n-1].at >= at; n-- {
		p.marks = p.marks[:n-1]
	}
}

// file is what a part is written to.
type file interface {
	io.WriterAt
	Truncate(size int64) error
	Close() error
}

func (s *Store) createFile(name string) (file, error) {
	f, err := s.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	return f, nil
}

// sync waits until a file is on the disk, or the directory, which is ".". One that was dropped needs no sync.
func (s *Store) sync(name string) error {
	f, err := s.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}

var partName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d{8,19})\.(\d{4,9})\.jsonl$`) })

func nameOf(number uint64, index int) string { return fmt.Sprintf("%08d.%04d.jsonl", number, index) }

// parseName takes a part's name apart.
func parseName(name string) (number uint64, index int, ok bool) {
	m := partName().FindStringSubmatch(name)
	if m == nil {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(m[1], 10, 64)
	index, err2 := strconv.Atoi(m[2])
	return number, index, err == nil && err2 == nil && name == nameOf(number, index)
}
