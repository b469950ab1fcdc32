package connect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// play is what is shown of a replay. Lower case is an update, upper case a prompt of one's own, which a replay shows as the user's.
func play(seen, replayed, after string) string {
	h := newHistory()
	update := func(r rune) jsontext.Value {
		kind := "agent_message_chunk"
		if strings.ToUpper(string(r)) == string(r) {
			kind = "user_message_chunk"
		}
		return fmt.Appendf(nil, `{"sessionUpdate":%q,"content":{"type":"text","text":%q}}`, kind, string(r))
	}
	for _, r := range seen {
		if strings.ToUpper(string(r)) == string(r) {
			h.prompted(fmt.Appendf(nil, `[{"type":"text","text":%q}]`, string(r)))
		} else {
			h.update(update(r))
		}
	}
	var shown strings.Builder
	show := func(text string) {
		for _, r := range text {
			if h.update(update(r)) {
				shown.WriteRune(r)
			}
		}
	}
	h.replay()
	show(replayed)
	if !h.over() {
		shown.WriteString("?")
	}
	show(after)
	return shown.String()
}

// R51: no gap and no double after a reconnection.
func TestOfAReplayOnlyWhatIsNewIsShown(t *testing.T) {
	for _, c := range []struct{ seen, replayed, after, want string }{
		{"abc", "abc", "d", "d"},
		{"abc", "abcde", "f", "def"},
		{"", "ab", "c", "abc"},
		{"aaa", "aaaa", "", "a"},
		{"aPbc", "aPbcd", "", "d"},
		{"aPbcQ", "aPbcd", "", "d"},    // Q never arrived
		{"aPbcQ", "aPbcQd", "", "d"},   // it did
		{"aPbcQ", "aPbcRd", "", "Rd"},  // and another's did
		{"aPbc", "abPcd", "", "d"},     // it arrived later than it was sent
		{"abcde", "cdef", "", "f"},     // the transcript's beginning was dropped
		{"ababc", "abcd", "", "d"},     // the first place that looks right is not
		{"abc", "xyz", "d", "?d"},      // another agent's words
		{"aPbc", "axyz", "d", "?d"},    // of which the first is the same
		{"abc", "", "d", "d"},          // nothing is replayed
		{"abc", "ab", "d", "d"},        // less than was seen
		{"aPPb", "aPPbPPc", "", "PPc"}, // another client says the same
	} {
		assert.Equal(t, c.want, play(c.seen, c.replayed, c.after), "%+v", c)
	}
}

// Whatever was said and whenever the connection is lost.
func TestAReplayOfWhatWasSeenAndMoreShowsTheMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.StringMatching(`[abAB]{1,30}`).Draw(t, "all")
		cut := rapid.IntRange(1, len(all)).Draw(t, "cut")
		assert.Equal(t, all[cut:], play(all[:cut], all, ""))
	})
}

// A session beyond what is remembered is not compared, and its memory is given back.
func TestALongSessionIsNotRememberedWithoutEnd(t *testing.T) {
	h := newHistory()
	for range maxSeen + 1 {
		h.remember(1)
	}
	assert.True(t, h.lost)
	assert.Empty(t, h.seen)
	h.replay()
	assert.False(t, h.update(jsontext.Value(`{}`)))
	assert.False(t, h.over())
	assert.True(t, h.update(jsontext.Value(`{}`)))
}

func FuzzScan(f *testing.F) {
	for _, seed := range []string{initialize, initialized, `{"id":"a", "id" : 1e9}`, "{\"id\":\"\xff\"}", `{}`, `[`, chunk("x"), prompt(1, "y")} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := newMemory()
		m.fromServer(data)
		m.fromClient(data)
		m.disconnected()
		m.fromServer(data)
		parsed, err := scan(data)
		if err != nil || parsed.id == nil {
			return
		}
		assert.Equal(t, data, parsed.withID(parsed.id))
		again, err := scan(parsed.withID(jsontext.Value(`"other"`)))
		assert.NoError(t, err)
		assert.Equal(t, `"other"`, string(again.id))
	})
}

// An agent, or the endpoint, may write the same update otherwise.
func TestSpacesAndTheOrderOfMembersDoNotCount(t *testing.T) {
	h := newHistory()
	assert.True(t, h.update([]byte(`{"sessionUpdate":"plan","entries":[1,2]}`)))
	h.replay()
	assert.False(t, h.update([]byte(`{ "entries": [1, 2], "sessionUpdate": "plan" }`)))
	assert.True(t, h.over())
}
