package endpoint

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/hearthdev/hearth/runtime/attach"
)

// What clients' messages may hold in memory until they have arrived and were taken, all clients together.
const (
	maxSteerBytes = 256 << 20
	maxViewBytes  = 8 << 20
)

// rooms are apart, so that who may only watch takes nothing from who may steer.
type rooms struct{ view, steer room }

func newRooms() *rooms {
	return &rooms{view: room{limit: maxViewBytes}, steer: room{limit: maxSteerBytes}}
}

func (r *rooms) of(access attach.Access) *room {
	if access == attach.Steer {
		return &r.steer
	}
	return &r.view
}

// room is memory for messages that are arriving, or being taken.
type room struct {
	limit int64
	held  atomic.Int64
}

const firstBytes = 4 << 10

// readAll reads a message whole; taken is called, in any case, when nobody needs its room any more. It makes room as the message
// comes, not as it was announced: errCrowded when there is none.
func (r *room) readAll(from io.Reader) (message []byte, taken func(), err error) {
	held := int64(0)
	taken = func() { r.held.Add(-held) }
	for {
		if len(message) == cap(message) {
			before, grown := int64(cap(message)), max(firstBytes, 2*cap(message))
			held += int64(grown)
			if r.held.Add(int64(grown)) > r.limit {
				return nil, taken, errCrowded
			}
			message = append(make([]byte, 0, grown), message...)
			held -= before
			r.held.Add(-before)
		}
		n, err := from.Read(message[len(message):cap(message)])
		message = message[:len(message)+n]
		if errors.Is(err, io.EOF) {
			return message, taken, nil
		}
		if err != nil {
			return nil, taken, err //nolint:wrapcheck // a connection's own error
		}
	}
}
