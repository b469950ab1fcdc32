package process

import (
	"sync"
	"unicode/utf8"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// TailBytes is how much of an agent's stderr is kept.
const TailBytes = 4 << 10

// tail keeps the last bytes written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - TailBytes; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
		t.cut = true
	}
	return len(p), nil
}

// String is the tail as valid UTF-8 without NUL, beginning at a whole rune.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.buf
	for t.cut && len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return wire.CleanText(string(b))
}
