package page

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// eventPace and eventTick are the times between two events of a stream, at least and at most. A page is fetched again at each.
	eventPace = time.Second
	eventTick = 15 * time.Second
	// streamTime is how long a stream lasts; a browser opens the next by itself.
	streamTime = 10 * time.Minute
	// streamWrite is the time that a reader has to take an event.
	streamWrite = 5 * time.Second
)

// changes is a stream of events (WHATWG HTML, Server-sent events): "changed" with the count of changes, "tick" when nothing changed for a
// while. It tells no names: a page fetches itself again.
func (s *site) changes(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		w.Header().Set("Retry-After", "30")
		s.plain(w, http.StatusServiceUnavailable, "too many windows are open: close some, or reload by hand")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	if r.Method == http.MethodHead {
		return
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{}) // the request is read; only who hangs up ends the stream
	_ = c.SetWriteDeadline(time.Time{})
	send := func(event string, version uint64) bool {
		stalled := time.AfterFunc(streamWrite, func() { _ = c.SetWriteDeadline(time.Unix(1, 0)) })
		defer stalled.Stop()
		_, err := fmt.Fprintf(w, "event: %s\ndata: %d\n\n", event, version)
		return err == nil && c.Flush() == nil
	}
	end := time.NewTimer(streamTime)
	defer end.Stop()
	told, next := s.index.feed.wait()
	for live := send("changed", told); live; {
		pause := time.NewTimer(s.pace)
		live = s.until(r, end.C, pause.C)
		pause.Stop()
		if !live {
			return
		}
		quiet := time.NewTimer(s.tick)
		select {
		case <-next:
			told, next = s.index.feed.wait()
			live = send("changed", told)
		case <-quiet.C:
			live = send("tick", told)
		case <-r.Context().Done():
			live = false
		case <-s.done:
			live = false
		case <-end.C:
			live = false
		}
		quiet.Stop()
	}
}

// until waits for the pause to be over; false when the stream is.
func (s *site) until(r *http.Request, end, pause <-chan time.Time) bool {
	select {
	case <-pause:
		return true
	case <-r.Context().Done():
	case <-s.done:
	case <-end:
	}
	return false
}
