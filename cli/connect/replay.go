package connect

import (
	"hash/maphash"
	"maps"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/cli/acp"
)

// maxSeen bounds how many updates are remembered of one session, at 8 bytes each. A session that has more is not compared any more.
const maxSeen = 1 << 20

// history is what a client has seen of a session, by sums, and tells what of a replay it has not.
type history struct {
	seed maphash.Seed
	seen []uint64
	// own counts the blocks of prompts that this client sent. The endpoint does not show them to who sent them, and does show them
	// to who loads the session, wherever among the updates they arrived.
	own map[uint64]int
	// others counts the notifications that are no updates, an agent's own. Whether they are replayed, agents differ.
	others map[uint64]int
	lost   bool // too long to be remembered

	// While a replay comes: the updates that came so far, where in seen the first of them stands, if it does, and how far they reach.
	coming    []uint64
	start, at int
	had       int // how many had been seen when it began
	ownLeft   map[uint64]int
	othersNow map[uint64]int // of others, those that the replay has not told yet
	state     replayState
}

const kindUser = "user_message_chunk"

type replayState int

const (
	live    replayState = iota // every update is new
	match                      // updates are compared with what was seen
	beyond                     // all that was seen has come again: from here on they are new
	foreign                    // the agent tells its history in other words: nothing of it can be known again
)

func newHistory() *history {
	return &history{seed: maphash.MakeSeed(), own: map[uint64]int{}, others: map[uint64]int{}}
}

// prompted remembers a prompt that the client sent.
func (h *history) prompted(prompt jsontext.Value) {
	for _, block := range acp.Elements(prompt, maxSeen) {
		if sum := h.sum(kindUser, block); len(h.own) < maxSeen {
			h.own[sum]++
		}
	}
}

// replay begins: the session was loaded again.
func (h *history) replay() {
	h.coming, h.start, h.at, h.had, h.state = nil, 0, 0, len(h.seen), match
	h.ownLeft, h.othersNow = maps.Clone(h.own), maps.Clone(h.others)
	if h.lost {
		h.state = foreign
	}
	if len(h.seen) == 0 && !h.lost {
		h.state = beyond
	}
}

// over is the end of a replay: the session's answer to load. It tells whether the replay could be compared.
func (h *history) over() bool {
	compared := h.state != foreign
	h.coming, h.ownLeft, h.othersNow, h.state = nil, nil, nil, live
	return compared
}

// whole tells of a replay that is at its end whether all came again that was seen. What nothing was seen of cannot be known again.
func (h *history) whole() bool {
	return h.had > 0 && (h.state == beyond || h.state == match && h.at == h.had)
}

// other takes a notification of the session that is no update and tells whether the client is to see it.
func (h *history) other(method string, params jsontext.Value) bool {
	sum := h.sum(method, params)
	if h.othersNow[sum] > 0 {
		h.othersNow[sum]--
		return false
	}
	if _, known := h.others[sum]; known || len(h.others) < maxSeen {
		h.others[sum]++
	}
	return true
}

// update takes one update of the session and tells whether the client is to see it.
func (h *history) update(update jsontext.Value) bool {
	sum := h.of(update)
	expected := h.state == match && h.at < len(h.seen) && h.seen[h.at] == sum // somebody else, or oneself before, said the same
	if h.ownLeft[sum] > 0 && !expected {
		h.ownLeft[sum]--
		return false
	}
	switch h.state {
	case match:
		h.coming = append(h.coming, sum)
		if h.state = h.advance(); h.state == beyond {
			h.remember(sum)
			return true
		}
		return false
	case foreign:
		return false
	default:
		h.remember(sum)
		return true
	}
}

// advance takes the last that came. When it is not what was seen next, it looks for a later place from which on all that has come
// fits: a transcript whose beginning was dropped begins later.
func (h *history) advance() replayState {
	at, state := h.step(h.at, h.coming[len(h.coming)-1])
	for state == foreign && h.start < len(h.seen)-1 {
		h.start++
		at, state = h.from(h.start)
	}
	h.at = at
	return state
}

// from compares all that has come with what was seen from a place on, which must hold the first of it.
func (h *history) from(at int) (int, replayState) {
	if h.seen[at] != h.coming[0] {
		return at, foreign
	}
	state := match
	for _, sum := range h.coming {
		if state == beyond { // only the last may be new
			return at, foreign
		}
		if at, state = h.step(at, sum); state == foreign {
			break
		}
	}
	return at, state
}

// step compares one update with what was seen at a place, and returns the next place.
func (h *history) step(at int, sum uint64) (int, replayState) {
	switch {
	case at == len(h.seen):
		return at, beyond
	case h.seen[at] != sum:
		return at, foreign
	default:
		return at + 1, match
	}
}

func (h *history) remember(sum uint64) {
	if len(h.seen) >= maxSeen {
		h.seen, h.lost = nil, true
	}
	if !h.lost {
		h.seen = append(h.seen, sum)
	}
}

// of is an update's sum. Spaces and the order of members do not count, and of what a user said nothing but the content does.
func (h *history) of(update jsontext.Value) uint64 {
	kind, err := acp.Text(acp.Member(update, "sessionUpdate"))
	if err == nil && kind == kindUser {
		return h.sum(kind, acp.Member(update, "content"))
	}
	return h.sum("", update)
}

func (h *history) sum(kind string, value jsontext.Value) uint64 {
	value = value.Clone()
	_ = value.Canonicalize(acp.Lenient...) // what is no JSON is compared as it is
	var sum maphash.Hash
	sum.SetSeed(h.seed)
	_, _ = sum.WriteString(kind)
	_, _ = sum.Write(value)
	return sum.Sum64()
}
