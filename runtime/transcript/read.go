package transcript

import (
	"bufio"
	"errors"
	"io"
	"os"
)

// Read yields the entries from one number to another, both included, in order; 0 as from means the first, and what comes after the
// last is left out. For entries that are missing there is a Note, so that after an entry or Note of number n the next begins at
// n+1. Others may append meanwhile; the files may even be dropped. The error is yield's. Entries may be kept, but not changed.
func (b *Book) Read(from, to uint64, yield func(Entry) error) error {
	r := reading{book: b, next: max(from, 1), to: min(to, b.lastWritten()), yield: yield}
	for r.next <= r.to {
		if err := r.step(); err != nil {
			return err
		}
	}
	return nil
}

// lastWritten is Last, of which nothing waits any more.
func (b *Book) lastWritten() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write()
	return b.last
}

// reading is one call of Read.
type reading struct {
	book     *Book
	next, to uint64
	yield    func(Entry) error
}

// stretch is a part of the transcript that is in one file, or in none.
type stretch struct {
	file     *os.File
	at, size int64
	last     uint64  // its last entry's number
	missing  Missing // why there is no file
}

// step reads on to the end of one file, or to the end of a gap.
func (r *reading) step() error {
	s := r.book.find(r.next)
	s.last = min(s.last, r.to)
	if s.file != nil {
		err := r.scan(s)
		_ = s.file.Close()
		if err != nil {
			return err
		}
	}
	return r.gap(s.missing, s.last)
}

// gap accounts for what is missing up to an entry.
func (r *reading) gap(why Missing, last uint64) error {
	if r.next > last {
		return nil
	}
	first := r.next
	r.next = last + 1
	return r.yield(remark(why, first, last, r.book.header.Begun))
}

// scan reads one file. What cannot be read of it is left to gap.
func (r *reading) scan(s stretch) error {
	lines := bufio.NewReaderSize(io.NewSectionReader(s.file, s.at, s.size-s.at), 64<<10)
	for r.next <= s.last {
		line, err := readLine(lines, MaxFrameBytes+lineRoom)
		if err != nil && !errors.Is(err, ErrMalformed) {
			return nil
		}
		seq, ok := seqOf(line)
		if !ok || seq < r.next {
			continue
		}
		if seq > s.last {
			return nil
		}
		e, err := parseEntry(line)
		if err != nil || e.Seq != seq {
			continue
		}
		switch stands := e.Stands(); {
		case seq-r.next >= stands:
			if err := r.gap(Lost, seq-stands); err != nil {
				return err
			}
		case seq-r.next < stands-1: // a Note about earlier ones, too, which were not asked for
			e = remark(e.remark().Note, r.next, seq, e.Time)
		}
		r.next = seq + 1
		if err := r.yield(e); err != nil {
			return err
		}
	}
	return nil
}

// find tells where an entry is, which there is or was.
func (b *Book) find(seq uint64) stretch {
	b.mu.Lock()
	defer b.mu.Unlock()
	written := b.last - b.pending
	switch {
	case seq > written:
		return stretch{missing: Lost, last: b.last}
	case len(b.parts) == 0:
		return stretch{missing: Dropped, last: written}
	case seq < b.parts[0].first:
		return stretch{missing: Dropped, last: min(b.parts[0].first-1, written)}
	}
	i := len(b.parts) - 1
	for b.parts[i].first > seq {
		i--
	}
	p := b.parts[i]
	s := stretch{missing: Lost, last: written, at: p.seek(seq), size: p.bytes}
	if i+1 < len(b.parts) {
		s.last = b.parts[i+1].first - 1
	}
	if f, err := b.store.root.Open(p.name); err == nil {
		s.file = f
	}
	return s
}
