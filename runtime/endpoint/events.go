package endpoint

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
)

// events writes a stream of server-sent events (HTML, section 9.2): a message an event.
type events struct {
	w    http.ResponseWriter
	flow *http.ResponseController
	now  func() time.Time
	pace pace
}

// serve writes what waits in a stream until the client leaves or the connection ends.
func (e *events) serve(ctx context.Context, c *connection, st *stream) {
	_ = e.flow.SetReadDeadline(time.Time{}) // nothing more is read; its end would look like the client's
	e.w.Header().Set("Content-Type", mediaEvents)
	e.w.Header().Set("Cache-Control", "no-store")
	e.w.Header().Set("X-Accel-Buffering", "no") // a proxy that buffers makes a stream a download
	e.w.WriteHeader(http.StatusOK)
	if e.flush() != nil {
		return
	}
	alive := time.NewTicker(e.pace.ping)
	defer alive.Stop()
	for {
		data := c.pop(st)
		if data != nil {
			if e.event(data) != nil {
				return
			}
			continue
		}
		var err error
		select {
		case <-st.wake:
		case <-alive.C:
			err = e.write([]byte(":\n\n"))
		case <-ctx.Done():
			return
		case <-c.over:
			if data = c.pop(st); data == nil {
				_ = e.write(fmt.Appendf(nil, ": %s\n\n", oneLine([]byte(c.why().text))))
				return
			}
			err = e.event(data)
		}
		if err != nil {
			return
		}
	}
}

func (e *events) event(data []byte) error {
	if err := writeAll(e.w, e.flow, e.now, e.pace.stall, []byte("data: ")); err != nil {
		return err
	}
	if err := writeAll(e.w, e.flow, e.now, e.pace.stall, oneLine(data)); err != nil {
		return err
	}
	return e.write([]byte("\n\n"))
}

// oneLine is a message without what would end its line: between the parts of a JSON text a carriage return is as good as a blank.
func oneLine(data []byte) []byte {
	if !bytes.ContainsAny(data, "\r\n") {
		return data
	}
	return bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r"), []byte(" ")), []byte("\n"), []byte(" "))
}

func (e *events) write(data []byte) error {
	if err := writeAll(e.w, e.flow, e.now, e.pace.stall, data); err != nil {
		return err
	}
	return e.flush()
}

func (e *events) flush() error {
	if err := e.flow.Flush(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}
