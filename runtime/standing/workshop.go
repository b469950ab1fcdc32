package standing

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// keptWork is how many directories of earlier sessions are kept for people who want to look.
const keptWork = 100

const dirMode = 0o700

// workshop hands out directories below the data directory.
type workshop struct {
	dir string

	mu    sync.Mutex
	inUse map[string]int // by how many sessions
}

func newWorkshop(dir string) *workshop { return &workshop{dir: dir, inUse: map[string]int{}} }

// home is the HOME of a slot; it lives as long as the data directory.
func (w *workshop) home(slot int) (string, error) {
	dir := filepath.Join(w.dir, "slots", strconv.Itoa(slot), "home")
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return "", fmt.Errorf("agent's home: %w", err)
	}
	return dir, nil
}

// open makes a fresh directory for a session and removes the oldest of those that are over.
func (w *workshop) open() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	base := filepath.Join(w.dir, "work")
	if err := os.MkdirAll(base, dirMode); err != nil {
		return "", fmt.Errorf("session's directory: %w", err)
	}
	if err := w.prune(base); err != nil {
		return "", fmt.Errorf("remove old session directories: %w", err)
	}
	dir, err := os.MkdirTemp(base, "session-")
	if err != nil {
		return "", fmt.Errorf("session's directory: %w", err)
	}
	w.inUse[dir]++
	return dir, nil
}

// hold keeps a directory for one session more.
func (w *workshop) hold(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inUse[dir]++
}

// reopen takes up the directory of an earlier session, made again where it is gone.
func (w *workshop) reopen(dir string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if filepath.Dir(dir) != filepath.Join(w.dir, "work") || dir != filepath.Clean(dir) {
		return "", fmt.Errorf("session's directory %.128q: expected one of this harness", dir)
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return "", fmt.Errorf("session's directory: %w", err)
	}
	w.inUse[dir] = max(w.inUse[dir], 1) // the agent before had it for the same session
	return dir, nil
}

// close says that one session in the directory is over; where it was the last the directory is kept for a while.
func (w *workshop) close(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inUse[dir]--; w.inUse[dir] <= 0 {
		delete(w.inUse, dir)
	}
}

// discard removes the directory of a session that was never used.
func (w *workshop) discard(dir string) {
	w.close(dir)
	_ = os.Remove(dir) // only if nothing is in it
}

func (w *workshop) prune(base string) error {
	entries, err := os.ReadDir(base)
	if err != nil {
		return err
	}
	var over []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && w.inUse[filepath.Join(base, e.Name())] == 0 {
			over = append(over, info)
		}
	}
	if len(over) < keptWork {
		return nil
	}
	slices.SortFunc(over, func(a, b os.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, info := range over[:len(over)-keptWork+1] {
		if err := os.RemoveAll(filepath.Join(base, info.Name())); err != nil {
			return err
		}
	}
	return nil
}
