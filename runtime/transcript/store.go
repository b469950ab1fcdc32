package transcript

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// What a store keeps where its configuration says nothing (SPEC.md, Transcripts).
const (
	DefaultPartBytes = 16 << 20
	DefaultParts     = 8
	DefaultMaxBytes  = 1 << 30
	DefaultMaxBooks  = 1000
)

const dirMode, fileMode = 0o700, 0o600

// Config is a store's configuration.
type Config struct {
	Dir     string
	Secrets []string // never written; those of fewer than 8 bytes are not looked for
	Now     func() time.Time
	Log     *slog.Logger

	PartBytes int64 // a file of a transcript; a longer entry has one to itself; 0: DefaultPartBytes
	Parts     int   // files of a transcript, and Parts × PartBytes all its bytes: beyond, the oldest file is dropped; 0: DefaultParts
	MaxBytes  int64 // of all transcripts, but for the newest file of each open one; 0: DefaultMaxBytes
	MaxBooks  int   // transcripts; an open one is never removed; 0: DefaultMaxBooks
}

// Store is a directory of transcripts. Its methods may be called at the same time.
type Store struct {
	cfg      Config
	redactor redactor
	root     *os.Root
	create   func(name string) (file, error) // tests put failing files here
	longest  int                             // frame; tests have less patience than MaxFrameBytes

	mu    sync.Mutex // before a book's own, never after it
	books []*Book    // oldest first
	next  uint64
}

// Open opens the directory, makes it if need be, and takes up the transcripts that earlier boots left there: closed ones, readable
// but for the line that the last boot did not finish.
func Open(cfg Config) (*Store, error) {
	cfg.PartBytes = cmp.Or(cfg.PartBytes, DefaultPartBytes)
	cfg.Parts = cmp.Or(cfg.Parts, DefaultParts)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, DefaultMaxBytes)
	cfg.MaxBooks = cmp.Or(cfg.MaxBooks, DefaultMaxBooks)
	if err := os.MkdirAll(cfg.Dir, dirMode); err != nil {
		return nil, fmt.Errorf("transcripts: %w", err)
	}
	root, err := os.OpenRoot(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("transcripts: %w", err)
	}
	s := &Store{cfg: cfg, redactor: newRedactor(cfg.Secrets), root: root, longest: MaxFrameBytes}
	s.create = s.createFile
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("transcripts: %w", err), root.Close())
	}
	s.prune()
	return s, nil
}

// Begin begins a transcript. It fails only if the header is too long to be one; a disk that takes nothing is Lost's business.
func (s *Store) Begin(h Header) (*Book, error) {
	h.Begun = s.cfg.Now().UTC().Truncate(time.Millisecond)
	h.Session, h.Agent = wire.CleanText(h.Session), wire.CleanText(h.Agent)
	if _, err := AppendHeader(nil, h, 1); err != nil {
		return nil, err
	}
	s.mu.Lock()
	b := &Book{store: s, header: h, number: s.next}
	s.next++
	s.books = append(s.books, b)
	s.mu.Unlock()
	s.prune()
	return b, nil
}

// Find returns the transcript of the newest attempt of a run.
func (s *Store) Find(runUID string) (*Book, bool) {
	var newest *Book
	for _, b := range s.List() {
		if runUID != "" && b.header.Run.UID == runUID && (newest == nil || b.header.Attempt >= newest.header.Attempt) {
			newest = b
		}
	}
	return newest, newest != nil
}

// List returns all transcripts, oldest first.
func (s *Store) List() []*Book {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.books)
}

// Close closes all transcripts and the directory.
func (s *Store) Close() error {
	var errs []error
	for _, b := range s.List() {
		errs = append(errs, b.Close())
	}
	return errors.Join(append(errs, s.root.Close())...)
}

// prune removes the oldest closed transcripts until the store is within its bounds; if that is not enough, the oldest files of open
// ones.
func (s *Store) prune() {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := int64(0)
	for _, b := range s.books {
		total += b.size()
	}
	excess := len(s.books) - s.cfg.MaxBooks
	s.books = slices.DeleteFunc(s.books, func(b *Book) bool {
		if excess <= 0 && total <= s.cfg.MaxBytes {
			return false
		}
		freed, removed := b.remove()
		if total -= freed; removed {
			excess--
		}
		return removed
	})
	for _, b := range s.books {
		for total > s.cfg.MaxBytes {
			freed, dropped := b.shorten()
			if !dropped {
				break
			}
			total -= freed
		}
	}
}
