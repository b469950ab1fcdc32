package attach

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/hearthdev/hearth/runtime/transcript"
)

// Bounds of what waits for a client.
const (
	maxOutbox     = 16 << 20 // bytes, beyond what is being written
	maxAnswers    = 1 << 20  // beside them, of answers and replays that the harness owes: more than a thousand that whoever asked did not come to
	waitingBytes  = 64 << 10 // of a notification that is shown with those that come with it
	itemBytes     = 256      // what a waiting message takes beside its bytes and its session's id, room to grow included
	replayBytes   = 1 << 20  // read of a transcript at once, and one entry more
	replayEntries = 1 << 10  // entries read of it at once
	keptItems     = 1 << 8   // places for messages that are kept when nothing waits
)

// Why a client's connection ends.
var (
	ErrSlow   = errors.New("the client does not read what is sent to it")
	ErrClosed = errors.New("the connection is closed")
)

// item is a message that waits, or what it is made of when its turn comes.
type item struct {
	message Message
	own     bool          // the harness owes it: the client asked, and no agent answers
	result  func() []byte // unless nil, of the answer to the request whose id is the message's data
	replay  *replay       // unless nil, in place of a message
}

// cost is what an item counts while it waits, in bytes: all that is kept for it alone.
func (i *item) cost() int { return len(i.message.Session) + len(i.message.Data) + itemBytes }

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
	size      int // of what waits and is not owed
	answers   int // of what is
	err       error

	pump  sync.Mutex // held by Next, also while it reads a replay or makes an answer, for which it takes locks of the hub's
	ready []Message  // of the replay that is first
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1), over: make(chan struct{})} }

// push adds a message and has all be sent that waits. One of any size is taken when no other waits.
func (o *outbox) push(m Message) { o.put(item{message: m}) }

// answer adds an answer that the harness owes.
func (o *outbox) answer(m Message) { o.put(item{message: m, own: true}) }

// answerLater adds the answer to the request with this id. Its result is made when its turn comes: however long it is, it costs nothing
// until then.
func (o *outbox) answerLater(id []byte, result func() []byte) {
	o.put(item{message: Message{Data: bytes.Clone(id)}, own: true, result: result}) // of the message no more is kept
}

// replay adds what there is of a session's transcripts so far. However many there are, it costs the same: the slice is the session's, of
// which no element changes, and all but the last are finished.
func (o *outbox) replay(books []*transcript.Book, session string) {
	if len(books) > 0 {
		r := &replay{books: books, next: 1, to: books[len(books)-1].Last()}
		o.put(item{message: Message{Session: session}, own: true, replay: r})
	}
}

func (o *outbox) put(i item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(i)
	o.show()
}

// hold adds a message that is held in this transcript; flush has it sent.
func (o *outbox) hold(m Message, in *transcript.Book) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.add(item{message: m}) {
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

// add adds what waits, unless the connection is over. The lock is held.
func (o *outbox) add(i item) bool {
	waits, most := o.account(&i)
	if o.err == nil && *waits > 0 && *waits+i.cost() > most {
		o.shut(ErrSlow)
	}
	if o.err != nil {
		return false
	}
	*waits += i.cost()
	o.items = append(o.items, i)
	return true
}

// account is where an item is counted, and how much that may be.
func (o *outbox) account(i *item) (waits *int, most int) {
	if i.own {
		return &o.answers, maxAnswers
	}
	return &o.size, maxOutbox
}

func (o *outbox) close(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.shut(why)
}

func (o *outbox) shut(why error) {
	if o.err == nil {
		o.err, o.items, o.first, o.size, o.answers, o.hidden, o.unwritten = why, nil, 0, 0, 0, 0, nil
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
			o.ready = next.replay.read(next.message.Session)
			continue
		case found && next.result != nil:
			next.message.Data = answer(next.message.Data, "result", next.result())
			return next.message, nil
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
		if next.replay != nil && len(next.replay.books) > 0 {
			return next, true, nil
		}
		o.advance()
		waits, _ := o.account(&next)
		*waits -= next.cost()
		if next.replay == nil {
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

// replay is what there was of a session's transcripts when a client asked, and it was not shown yet.
type replay struct {
	books []*transcript.Book // the first from next on, the last up to to
	next  uint64
	to    uint64
}

// read takes some of the first book. There may be no message in that.
func (r *replay) read(session string) (messages []Message) {
	book, size, from, last := r.books[0], 0, r.next, r.to
	if len(r.books) > 1 {
		last = book.Last()
	}
	to := min(last, from+replayEntries-1)
	_ = book.Read(from, to, func(e transcript.Entry) error { // what cannot be read is a Note
		r.next = e.Seq + 1
		for _, data := range view(session, e) {
			messages = append(messages, Message{Session: session, Data: data})
		}
		if size += len(e.Frame); size >= replayBytes {
			return errEnough
		}
		return nil
	})
	if r.next == from {
		r.next = to + 1 // nothing is there that could be told
	}
	if r.next > last {
		r.books, r.next = r.books[1:], 1
	}
	return messages
}
