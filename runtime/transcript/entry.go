// Package transcript keeps what was said between a harness and its agent, as lines of JSON on disk: what late viewers, people and
// records read (R51; SPEC.md, Transcripts).
package transcript

import (
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// Direction is whose message an entry holds.
type Direction string

// The directions.
const (
	ToAgent   Direction = "in"
	FromAgent Direction = "out"
	// Note marks what the harness says of the transcript itself, for example that its beginning was dropped.
	Note Direction = "note"
)

// Entry is one line.
type Entry struct {
	Seq       uint64         `json:"seq"` // from 1, without a gap within one transcript but for those that a Note accounts for
	Time      time.Time      `json:"time"`
	Direction Direction      `json:"dir"`
	Frame     jsontext.Value `json:"frame"` // the message as it was but for redacted secrets and bytes that are no UTF-8
}

// Format is what the first line of a transcript calls itself.
const Format = "transcript/v1"

// Header is a transcript's first line: whose it is.
type Header struct {
	Run     wire.RunRef `json:"run,omitzero"`     // zero where it is a client's own session
	Attempt int64       `json:"attempt,omitzero"` // of the run
	Session string      `json:"session"`          // the ACP session's ID
	Agent   string      `json:"agent,omitzero"`   // the agent's name
	Begun   time.Time   `json:"begun"`            // Store.Begin sets it
}

// Remark is the frame of a Note about entries that are missing: as many as Entries says, the last of which has the Note's own number.
type Remark struct {
	Note    Missing `json:"note"`
	Entries uint64  `json:"entries"`
}

// Missing is why entries are missing.
type Missing string

// The reasons.
const (
	Dropped Missing = "dropped"  // the oldest ones made room for newer ones
	Lost    Missing = "lost"     // they could not be written, or not be read again
	Torn    Missing = "torn"     // the harness ended while it wrote
	TooLong Missing = "too long" // a frame of more than MaxFrameBytes
)

// Stands tells how many entries this one stands for: 1, but for a Note about missing ones.
func (e Entry) Stands() uint64 {
	return min(max(e.remark().Entries, 1), max(e.Seq, 1))
}

// remark is a Note's frame; zero where the entry is no Note about missing ones.
func (e Entry) remark() Remark {
	var r Remark
	if e.Direction != Note || json.Unmarshal(e.Frame, &r) != nil || !slices.Contains([]Missing{Dropped, Lost, Torn, TooLong}, r.Note) {
		return Remark{}
	}
	return r
}

// remark is the Note for the entries from the first to the last.
func remark(why Missing, first, last uint64, at time.Time) Entry {
	frame, err := json.Marshal(Remark{Note: why, Entries: last - first + 1})
	if err != nil { // a word and a number
		panic(err)
	}
	return Entry{Seq: last, Time: at, Direction: Note, Frame: frame}
}
