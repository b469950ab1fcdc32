package router

import "time"

// What an agent says in quick succession is taken in together: each read wakes a thread, and so does each message that clients are shown.
const (
	gatherFor   = time.Millisecond // between two reads
	gatherAfter = 16               // reads in a row that came as quickly as that: a short exchange waits for nothing
	gatherBytes = 16 << 10         // of one read; with more there is enough to do
	toldAtOnce  = 64               // messages until Watcher.Heard, if there is no end of them
)

// listener reads the agent. It notes every sign of life, half a line included.
type listener struct {
	c     *Conn
	last  time.Time // when it read something
	quick int       // reads in a row, each within 2 × gatherFor of the one before
	much  bool      // the last one brought much
}

func (l *listener) Read(p []byte) (int, error) {
	if l.quick >= gatherAfter && !l.much {
		if rest := gatherFor - l.c.cfg.Now().Sub(l.last); rest > 0 {
			l.c.cfg.pause(min(rest, gatherFor)) // a clock that was set back makes it no longer
		}
	}
	n, err := l.c.cfg.In.Read(p)
	if n > 0 {
		l.heard(l.c.touch(), n)
	}
	return n, err
}

func (l *listener) heard(now time.Time, bytes int) {
	if now.Sub(l.last) > 2*gatherFor {
		l.quick = 0
	}
	l.quick++
	l.last, l.much = now, bytes > gatherBytes
}
