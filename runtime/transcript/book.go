package transcript

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// keptLine is how big a buffer for lines may be to be kept for the next, and how much waits to be written with what follows.
const keptLine = 64 << 10

// Book is one transcript. Its methods may be called at the same time.
type Book struct {
	store  *Store
	header Header
	number uint64

	mu       sync.Mutex
	parts    []*part // oldest first
	file     file    // of the newest part, while it is open
	index    int     // of the newest part
	line     []byte  // reused
	held     held    // entries of the newest part that are not written yet
	last     uint64
	pending  uint64 // how many of the last entries could not be written, and no Note says so yet
	lost     uint64
	closed   bool
	unsynced []string      // parts that were finished since the last Sync
	news     chan struct{} // closed at the next entry, and at the end, if somebody waits
}

// Header is the transcript's.
func (b *Book) Header() Header { return b.header }

// Last is the number of the last entry, 0 if there is none.
func (b *Book) Last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Lost tells how many entries could not be written.
func (b *Book) Lost() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

// Append adds a frame and returns the entry as it is kept: numbered, redacted, on one line, valid UTF-8. If nothing had to change
// it shares the frame's bytes, which must not be changed any more. It waits for no sync and fails for nobody: an entry that cannot
// be written still has its number, and a Note takes its place as soon as writing works again. A closed book keeps nothing; the
// number is then 0.
func (b *Book) Append(dir Direction, frame []byte) Entry { return b.append(dir, frame, false) }

// Hold is Append for an entry that may wait, to be written at once with those that follow: by the next Append, Flush, Read, Sync or Close,
// when 64 KiB wait, or before another part is begun. Until then a killed harness loses it, so it is shown to nobody before. Only then
// may a Note take its place because it cannot be written, and only then does who is in Wait hear of it.
func (b *Book) Hold(dir Direction, frame []byte) Entry { return b.append(dir, frame, true) }

// Flush writes the entries that wait.
func (b *Book) Flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write()
}

func (b *Book) append(dir Direction, frame []byte, waits bool) Entry {
	e := Entry{Direction: dir, Frame: b.store.redactor.clean(frame)}
	b.mu.Lock()
	e.Time = b.store.cfg.Now().UTC().Truncate(time.Microsecond)
	if b.closed {
		b.mu.Unlock()
		return e
	}
	b.settle(e.Time)
	b.last++
	if e.Seq = b.last; len(e.Frame) > b.store.longest {
		e = remark(TooLong, e.Seq, e.Seq, e.Time)
	}
	before := b.index
	if b.pending > 0 {
		b.miss(1, nil)
	} else if err := b.put(e); err != nil {
		b.miss(1, err)
	} else if !waits || len(b.held.lines) >= keptLine {
		b.write()
	}
	grown := b.index != before
	if b.held.entries == 0 {
		b.tell()
	}
	b.mu.Unlock()
	if grown {
		b.store.prune()
	}
	return e
}

// miss counts the last entries among those that could not be written.
func (b *Book) miss(entries uint64, err error) {
	if b.pending == 0 {
		b.store.cfg.Log.Warn("transcript: entries are lost until it can be written again", "session", b.header.Session, "runUID", b.header.Run.UID, "error", err)
	}
	b.pending += entries
	b.lost += entries
}

// settle writes a Note in place of the entries that could not be written, if that works now.
func (b *Book) settle(now time.Time) {
	if b.pending == 0 || b.put(remark(Lost, b.last-b.pending+1, b.last, now)) != nil {
		return
	}
	if _, err := b.flush(); err == nil {
		b.pending = 0
	}
}

// held are entries that were put and not written yet: lines at the end of a part.
type held struct {
	lines   []byte
	entries uint64
	at      int64 // where they go
}

// write writes what is held, and counts what could not be written. The lock is held.
func (b *Book) write() {
	if b.held.entries == 0 {
		return
	}
	if entries, err := b.flush(); err != nil {
		b.miss(entries, err)
	}
	b.tell()
}

// flush writes what is held, if anything is. If it fails, nothing of those entries is there.
func (b *Book) flush() (entries uint64, err error) {
	h := b.held
	if h.entries == 0 {
		return 0, nil
	}
	b.held = held{lines: h.lines[:0]}
	if cap(h.lines) > keptLine {
		b.held.lines = nil
	}
	p := b.parts[len(b.parts)-1]
	if p.dirty {
		if err := b.file.Truncate(h.at); err != nil {
			p.cut(h.at)
			return h.entries, fmt.Errorf("take back half a line: %w", err)
		}
		p.dirty = false
	}
	if _, err := b.file.WriteAt(h.lines, h.at); err != nil {
		p.dirty = b.file.Truncate(h.at) != nil
		p.cut(h.at)
		return h.entries, fmt.Errorf("write: %w", err)
	}
	return h.entries, nil
}

// put adds an entry to what is held. If it fails, nothing of it is there.
func (b *Book) put(e Entry) error {
	b.line = AppendEntry(b.line[:0], e)
	defer func() {
		if cap(b.line) > keptLine {
			b.line = nil
		}
	}()
	p, err := b.room(e, int64(len(b.line)))
	if err != nil {
		return err
	}
	size := int64(len(b.line))
	if b.held.entries == 0 { // a long line is not kept twice
		b.held.at = p.bytes
		b.held.lines, b.line = b.line, b.held.lines[:0]
	} else {
		b.held.lines = append(b.held.lines, b.line...)
	}
	b.held.entries++
	p.mark(e.Seq)
	p.bytes += size
	return nil
}

// room is the part that an entry of so many bytes goes to: the newest, or a new one.
func (b *Book) room(e Entry, size int64) (*part, error) {
	cfg := &b.store.cfg
	most := cfg.PartBytes * int64(cfg.Parts)
	if n := len(b.parts); n > 0 && (len(b.parts[n-1].marks) == 0 || b.parts[n-1].bytes+size <= cfg.PartBytes) {
		for len(b.parts) > 1 && b.bytes()+size > most {
			b.drop()
		}
		return b.parts[len(b.parts)-1], nil
	}
	if entries, err := b.flush(); err != nil { // into the part before
		b.miss(entries, err)
		return nil, err
	}
	first := e.Seq - e.Stands() + 1
	header, err := AppendHeader(nil, b.header, first)
	if err != nil {
		return nil, err
	}
	size += int64(len(header))
	for len(b.parts) > 0 && (len(b.parts) >= cfg.Parts || b.bytes()+size > most) {
		b.drop()
	}
	name := nameOf(b.number, b.index+1)
	f, err := b.store.create(name)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteAt(header, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("write: %w", err), f.Close(), b.store.root.Remove(name))
	}
	if b.file != nil {
		_ = b.file.Close() // it was only written to; Sync opens it again
	}
	b.file = f
	b.index++
	p := &part{name: name, first: first, bytes: int64(len(header))}
	b.parts = append(b.parts, p)
	b.unsynced = append(b.unsynced, name)
	return p, nil
}

// drop removes the oldest part.
func (b *Book) drop() int64 {
	p := b.parts[0]
	b.parts = slices.Delete(b.parts, 0, 1)
	if err := b.store.root.Remove(p.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.store.cfg.Log.Warn("transcript: a file of it could not be removed", "file", p.name, "error", err)
	}
	return p.bytes
}

func (b *Book) bytes() int64 {
	sum := int64(0)
	for _, p := range b.parts {
		sum += p.bytes
	}
	return sum
}

func (b *Book) size() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes()
}

// remove removes all files of a closed transcript, and nothing of an open one.
func (b *Book) remove() (freed int64, removed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		return 0, false
	}
	for len(b.parts) > 0 {
		freed += b.drop()
	}
	return freed, true
}

// shorten drops the oldest part, but never the newest.
func (b *Book) shorten() (freed int64, dropped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.parts) < 2 {
		return 0, false
	}
	return b.drop(), true
}

// Wait waits until there are more entries than so many, which it tells, or until there will be none, or ctx ends.
func (b *Book) Wait(ctx context.Context, after uint64) bool {
	for {
		b.mu.Lock()
		more, closed := b.last > after, b.closed
		if b.news == nil {
			b.news = make(chan struct{})
		}
		news := b.news
		b.mu.Unlock()
		if more || closed {
			return more
		}
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

// tell wakes those who wait; the lock is held.
func (b *Book) tell() {
	if b.news != nil {
		close(b.news)
		b.news = nil
	}
}

// Sync returns when what was appended before is on the disk. Others go on appending.
func (b *Book) Sync() error {
	b.mu.Lock()
	if !b.closed {
		b.write()
		b.settle(b.store.cfg.Now())
	}
	names := b.unsynced
	b.unsynced = nil
	if n := len(b.parts); n > 0 && !b.closed { // there will be more in it
		b.unsynced = []string{b.parts[n-1].name}
	}
	b.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	var errs []error
	for _, name := range append(names, ".") {
		errs = append(errs, b.store.sync(name))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("transcript: %w", err)
	}
	return nil
}

// Close syncs and closes the transcript, which can still be read, and may be removed when room is needed.
func (b *Book) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.write()
	b.settle(b.store.cfg.Now())
	b.closed = true
	b.tell()
	if b.file != nil {
		_ = b.file.Close()
		b.file = nil
	}
	b.mu.Unlock()
	err := b.Sync()
	b.store.prune()
	return err
}
