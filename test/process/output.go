package process

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patience bounds what a test waits for. Nothing that works takes that long.
const Patience = time.Minute

// Output is what somebody writes, a process for example, and waits for what is to come. It is safe for concurrent use.
type Output struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{} // closed by the next Write
}

// NewOutput is one to which nothing was written.
func NewOutput() *Output { return &Output{changed: make(chan struct{})} }

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(p)
}

// String is all that was written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Await waits for a pattern, and returns its last match's last group, or the whole match where the pattern has none.
func (o *Output) Await(t testing.TB, pattern string) string {
	t.Helper()
	return o.AwaitNth(t, pattern, 1)
}

// AwaitNth is Await for a pattern that is to come so many times.
func (o *Output) AwaitNth(t testing.TB, pattern string, n int) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	timeout := time.After(Patience)
	for {
		o.mu.Lock()
		changed := o.changed
		o.mu.Unlock()
		if found := re.FindAllStringSubmatch(o.String(), -1); len(found) >= n {
			last := found[len(found)-1]
			return last[len(last)-1]
		}
		select {
		case <-changed:
		case <-timeout:
			require.Fail(t, "it never said "+pattern, o.String())
		}
	}
}
