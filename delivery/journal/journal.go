// Package journal is what a harness promised and what came of it, durable on disk (R28; SPEC.md, Harness, Journal). Every
// write but a mark is synced before the call returns, so a caller may act on it: 202 after Accept, the prompt after Start, the result
// to anybody after Finish. Writes that arrive during a sync share the next one. It knows the wire contract's types and nothing of HTTP.
package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Limits of a journal.
const (
	// DefaultKeep is how many recorded results keep their envelope.
	DefaultKeep = 1000
	// KeepFor is how long a recorded result keeps its envelope at most.
	KeepFor = 7 * 24 * time.Hour
	// MaxAttempts is how many attempts are remembered in one Pod's life; tombstones are never dropped. More is ErrFull.
	MaxAttempts = 100_000
	// voidReserve is how many more may be voided unseen when the journal is full: a cancel is not to fail for that.
	voidReserve = 10_000
	// ReserveBytes are kept taken on the disk for ends: a result of full size and what bbolt copies along the way.
	ReserveBytes = 4 << 20
	// maxAside is how many damaged files are kept for a person to look at.
	maxAside = 3

	fileName = "journal.db"
	lockName = "journal.lock"
)

// The errors a caller tells apart.
var (
	// ErrLocked: another harness has the directory open.
	ErrLocked = errors.New("the journal is locked")
	// ErrFull: there is no room, on the disk or in the number of attempts remembered. Nothing was journalled.
	ErrFull = errors.New("the journal is full")
	// ErrUnknown: the journal never saw the attempt.
	ErrUnknown = errors.New("no such attempt")
	// ErrState: the attempt is not in a state that allows it, for example Start of a voided one.
	ErrState = errors.New("the attempt's state does not allow it")
	// ErrClosed: the journal was closed, or its file could not be opened again after a failed write.
	ErrClosed = errors.New("the journal is closed")
)

// Config is what Open needs. Dir and Now are required.
type Config struct {
	Dir  string
	Now  func() time.Time
	Log  *slog.Logger // nil: none
	Keep int          // recorded results that keep their envelope; 0: DefaultKeep
	// MaxAttempts and ReserveBytes replace the constants of the same name when above 0.
	MaxAttempts  int
	ReserveBytes int64
	// BeforeWrite and AfterWrite are called around every durable write with its name; an error from BeforeWrite fails the
	// write before it is begun. They are the cut points of crash tests; nil in production. A mark has them too, as "recorded".
	BeforeWrite func(write string) error
	AfterWrite  func(write string)
	// Wrote, unless nil, is told of each durable write how long the commit took that it was part of, the sync included.
	Wrote func(write string, took time.Duration)
}

// Key names one attempt of one run.
type Key struct {
	RunUID  string
	Attempt int64
}

// Entry is one attempt as the journal holds it, without its envelope.
type Entry struct {
	wire.Attempt
	// Contract is the delivery contract that the attempt came by: the apiVersion of the request that brought it.
	Contract string
	// Forgotten: finished, recorded, and the envelope was dropped.
	Forgotten bool
}

// Journal is safe for concurrent use. Reads never wait for the disk.
type Journal struct {
	cfg    Config
	id     string
	own    *Locked // what Open locked, to be given back with the journal; nil after Locked.Open
	closed bool    // for good; under write

	waiting waiting
	write   sync.Mutex // held across a commit
	counts  counts     // under write
	order   int64      // the last stored.Order given; under write

	file sync.RWMutex // held shared by reads of db, alone by its replacement
	db   *bbolt.DB

	feed    feed
	settled []Unfinished
}

// Open is Lock and Locked.Open in one: it opens the journal in a directory, or makes one. The directory is locked until Close.
func Open(cfg Config) (*Journal, error) {
	l, err := Lock(cfg)
	if err != nil {
		return nil, err
	}
	j, err := l.Open()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	j.own = l
	return j, nil
}

// load opens the file, making or replacing it when it has to, then reads and settles it.
func (j *Journal) load() error {
	path := filepath.Join(j.cfg.Dir, fileName)
	contents, err := j.openFile(path)
	if errors.Is(err, errDamaged) {
		aside, moveErr := moveAside(path, j.cfg.Now())
		if moveErr != nil {
			return errors.Join(err, moveErr)
		}
		j.cfg.Log.Error("the journal file was damaged: moved aside, a new journal begins; what it promised is lost",
			"file", path, "aside", aside, "cause", err)
		contents, err = j.openFile(path)
	}
	if err != nil {
		return fmt.Errorf("open journal %s: %w", path, err)
	}
	j.id, j.counts = contents.id, contents.counts
	for _, s := range contents.open {
		j.feed.put(s)
	}
	return j.settle()
}

// ID identifies this journal; another ID means that what the former one promised is lost (SPEC.md, Endpoints).
func (j *Journal) ID() string { return j.id }

// Close releases the file, and the lock if Open took it. It waits for a write that is under way, and writes the marks that wait for one.
func (j *Journal) Close() error {
	j.write.Lock()
	defer j.write.Unlock()
	j.flush()
	j.closed = true
	return errors.Join(j.closeFile(), j.own.Close())
}
