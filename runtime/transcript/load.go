package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// load takes up what earlier boots left in the directory. Files of other names are none of a store's.
func (s *Store) load() error {
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	s.next = 1
	for _, entry := range entries { // by name, which is by transcript and part
		number, index, ok := parseName(entry.Name())
		if !ok || !entry.Type().IsRegular() {
			continue
		}
		s.next = max(s.next, number+1)
		header, p, err := s.openPart(entry.Name())
		if err != nil {
			s.cfg.Log.Warn("transcript: a file that is none, or of which nothing was written, is removed", "file", entry.Name(), "error", err)
			_ = s.root.Remove(entry.Name())
			continue
		}
		b := &Book{store: s, number: number, closed: true}
		if n := len(s.books); n > 0 && s.books[n-1].number == number {
			b = s.books[n-1]
		} else {
			s.books = append(s.books, b)
		}
		if n := len(b.parts); n > 0 && b.parts[n-1].first >= p.first {
			s.cfg.Log.Warn("transcript: a file out of order is removed", "file", entry.Name())
			_ = s.root.Remove(entry.Name())
			continue
		}
		b.header, b.index = header, index
		b.parts = append(b.parts, p)
	}
	slices.SortFunc(s.books, func(a, b *Book) int { return int(min(max(int64(a.number)-int64(b.number), -1), 1)) }) //nolint:gosec // 19 digits fit
	for _, b := range s.books {
		s.mend(b)
	}
	return nil
}

// openPart reads a part's header.
func (s *Store) openPart(name string) (Header, *part, error) {
	f, err := s.root.Open(name)
	if err != nil {
		return Header{}, nil, fmt.Errorf("open: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return Header{}, nil, fmt.Errorf("open: %w", err)
	}
	line, err := readLine(bufio.NewReader(f), maxHeaderBytes)
	if err != nil {
		return Header{}, nil, err
	}
	header, first, err := parseHeader(line)
	return header, &part{name: name, first: first, bytes: info.Size()}, err
}

// mend finds the last entry of a transcript and replaces what was written of a line that has no end by a Note.
func (s *Store) mend(b *Book) {
	p := b.parts[len(b.parts)-1]
	end := p.bytes
	last, whole, err := s.lastLine(p)
	if err == nil && !whole {
		last, end, err = s.lastWhole(p)
	}
	if err != nil {
		s.cfg.Log.Warn("transcript: its end cannot be read", "file", p.name, "error", err)
		b.last = p.first - 1
		return
	}
	if b.last = last; end == p.bytes {
		return
	}
	p.bytes = end
	b.last++
	s.cfg.Log.Warn("transcript: the harness ended while it wrote an entry, which is dropped", "file", p.name, "session", b.header.Session, "runUID", b.header.Run.UID)
	note := AppendEntry(nil, remark(Torn, b.last, b.last, s.cfg.Now()))
	if err := s.replaceEnd(p.name, end, note); err != nil {
		s.cfg.Log.Warn("transcript: that could not be noted", "file", p.name, "error", err)
		b.pending = 1
		return
	}
	p.bytes += int64(len(note))
}

func (s *Store) replaceEnd(name string, end int64, line []byte) error {
	f, err := s.root.OpenFile(name, os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err = f.Truncate(end); err == nil {
		_, err = f.WriteAt(line, end)
	}
	return errors.Join(err, f.Close())
}

// tailBytes is how much of a file is looked at before all of it is.
const tailBytes = 64 << 10

// lastLine reads the last entry's number from the end of a file; whole tells that there is one and its line has an end.
func (s *Store) lastLine(p *part) (last uint64, whole bool, err error) {
	f, err := s.root.Open(p.name)
	if err != nil {
		return 0, false, fmt.Errorf("open: %w", err)
	}
	defer func() { _ = f.Close() }()
	tail := make([]byte, min(p.bytes, tailBytes))
	if _, err := f.ReadAt(tail, p.bytes-int64(len(tail))); err != nil {
		return 0, false, fmt.Errorf("read: %w", err)
	}
	line, ended := bytes.CutSuffix(tail, []byte("\n"))
	begin := bytes.LastIndexByte(line, '\n')
	if !ended || begin < 0 {
		return 0, false, nil
	}
	e, err := parseEntry(line[begin+1:])
	return e.Seq, err == nil && e.Seq >= p.first, nil
}

// lastWhole reads all of a file and tells its last entry's number and where its line ends.
func (s *Store) lastWhole(p *part) (last uint64, end int64, err error) {
	f, err := s.root.Open(p.name)
	if err != nil {
		return 0, 0, fmt.Errorf("open: %w", err)
	}
	defer func() { _ = f.Close() }()
	at := &counter{r: f}
	lines := bufio.NewReaderSize(at, tailBytes)
	last = p.first - 1
	for {
		line, err := readLine(lines, MaxFrameBytes+lineRoom)
		switch here := at.n - int64(lines.Buffered()); {
		case errors.Is(err, io.EOF), errors.Is(err, ErrTorn):
			return last, end, nil
		case err != nil && !errors.Is(err, ErrMalformed):
			return 0, 0, err
		case end == 0: // the header
			end = here
		case err == nil:
			if e, err := parseEntry(line); err == nil && e.Seq > last {
				last, end = e.Seq, here
			}
		}
	}
}

// counter counts what was read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err //nolint:wrapcheck // a reader's
}
