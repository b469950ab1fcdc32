package attach

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/hearthdev/hearth/runtime/transcript"
)

// Bounds of what waits for a client.
const (
	maxOutbox     = 16 << 20 // bytes, beyond what is being written
	maxAnswers    = 1 << 20  // of them, of what the harness itself answers: whoever asks on and reads nothing would have it keep all of that
	waitingBytes  = 64 << 10 // of a notification that is shown with those that come with it
	itemBytes     = 256      // what a waiting message takes beside its bytes, room to grow included
	replayBytes   = 1 << 20  // read of a transcript at once, and one entry more
	replayEntries = 1 << 10  // entries read of it at once
	keptItems     = 1 << 8   // places for messages that are kept when nothing waits
)

// Why a client's connection ends.
var (
	ErrSlow   = errors.New("the client does not read what is sent to it")
	ErrClosed = errors.New("the connection is closed")
)

// item is a message that waits, or a stretch of a transcript that is read when its turn comes: until then it costs nothing.
type item struct {
	message Message
	own     bool // an answer of the harness's

	replay   *transcript.Book
	next, to uint64
}

// outbox is what waits for one client, in order. Whoever fills it never waits.
type outbox struct {
	wake chan struct{}
	over chan struct{} // closed with err

	mu    sync.Mutex
	items []item // from first on; what is before that was taken
	first int
	// hidden are the last items, which are not sent before the transcripts that they are in have them.
	hidden    int
	unwritten []*transcript.Book
	size      int
	answers   int // of size
	err       error

	pump  sync.Mutex // held by Next
	ready []Message  // of the replay that is first
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1), over: make(chan struct{})} }

// push adds a message and has all be sent that waits. One of any size is taken when nothing waits.
func (o *outbox) push(m Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(m)
	o.show()
}

// answer adds an answer of the harness's own, as push does.
func (o *outbox) answer(m Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	cost := len(m.Data) + itemBytes
	if o.answers > 0 && o.answers+cost > maxAnswers {
		o.shut(ErrSlow)
	}
	if o.add(m) {
		o.answers += cost
		o.items[len(o.items)-1].own = true
	}
	o.show()
}

// hold adds a message that is held in this transcript; flush has it sent.
func (o *outbox) hold(m Message, in *transcript.Book) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.add(m) {
		return
	}
	if o.hidden++; !slices.Contains(o.unwritten, in) {
		o.unwritten = append(o.unwritten, in)
	}
}

// flush has what is hidden be sent. All else was shown before.
func (o *outbox) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hidden > 0 {
		o.show()
	}
}

// show has what is hidden written down, and everything be sent. The lock is held.
func (o *outbox) show() {
	for _, book := range o.unwritten {
		book.Flush()
	}
	clear(o.unwritten)
	o.unwritten, o.hidden = o.unwritten[:0], 0
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// add adds a message, unless the connection is over. The lock is held.
func (o *outbox) add(m Message) bool {
	cost := len(m.Data) + itemBytes
	if o.err == nil && o.size > 0 && o.size+cost > maxOutbox {
		o.shut(ErrSlow)
	}
	if o.err != nil {
		return false
	}
	o.size += cost
	o.items = append(o.items, item{message: m})
	return true
}

// replay adds what there is of a transcript so far.
func (o *outbox) replay(book *transcript.Book, session string) {
	to := book.Last()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil && to > 0 {
		o.items = append(o.items, item{message: Message{Session: session}, replay: book, next: 1, to: to})
		o.show()
	}
}

func (o *outbox) close(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut(why)
}

func (o *outbox) shut(why error) {
	if o.err == nil {
		o.err, o.items, o.first, o.size, o.hidden, o.unwritten = why, nil, 0, 0, 0, nil
		o.answers = 0
		close(o.over)
	}
}

// next waits for the next message.
func (o *outbox) next(ctx context.Context) (Message, error) {
	o.pump.Lock()
	defer o.pump.Unlock()
	for {
		if len(o.ready) > 0 {
			m := o.ready[0]
			o.ready[0] = Message{}
			o.ready = o.ready[1:]
			return m, nil
		}
		next, found, err := o.pop()
		switch {
		case err != nil:
			o.ready = nil
			return Message{}, err
		case found && next.replay != nil:
			o.read(next)
			continue
		case found:
			return next.message, nil
		}
		select {
		case <-o.wake:
		case <-o.over:
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
}

// more tells whether next has a message at once. That of a replay which is to be read first does not count.
func (o *outbox) more() bool {
	o.pump.Lock()
	defer o.pump.Unlock()
	if len(o.ready) > 0 {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err == nil && o.first < len(o.items)-o.hidden && o.items[o.first].replay == nil
}

// pop takes the first message. A replay stays first until it was read whole.
func (o *outbox) pop() (next item, found bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return item{}, false, o.err
	}
	for o.first < len(o.items)-o.hidden {
		next = o.items[o.first]
		if next.replay != nil && next.next <= next.to {
			return next, true, nil
		}
		o.advance()
		if next.replay == nil {
			cost := len(next.message.Data) + itemBytes
			o.size -= cost
			if next.own {
				o.answers -= cost
			}
			return next, true, nil
		}
	}
	return item{}, false, nil
}

// advance takes the first item out. The room is used again, so that a viewer who keeps up costs no allocation for a message; much more
// room than waits is given back.
func (o *outbox) advance() {
	o.items[o.first] = item{}
	o.first++
	switch left := len(o.items) - o.first; {
	case left == 0 && cap(o.items) > keptItems:
		o.items, o.first = nil, 0
	case left == 0:
		o.items, o.first = o.items[:0], 0
	case o.first > keptItems && o.first > left:
		o.items, o.first = append([]item(nil), o.items[o.first:]...), 0
	}
}

// errEnough ends reading for now.
var errEnough = errors.New("enough for now")

// read expands some of the replay that is first.
func (o *outbox) read(part item) {
	bytes, next := 0, part.next
	to := min(part.to, part.next+replayEntries-1)
	_ = part.replay.Read(part.next, to, func(e transcript.Entry) error { // what cannot be read is a Note
		next = e.Seq + 1
		for _, data := range view(part.message.Session, e) {
			o.ready = append(o.ready, Message{Session: part.message.Session, Data: data})
		}
		if bytes += len(e.Frame); bytes >= replayBytes {
			return errEnough
		}
		return nil
	})
	if next == part.next {
		next = to + 1 // nothing is there that could be told
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first < len(o.items) {
		o.items[o.first].next = next
	}
}
