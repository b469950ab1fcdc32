// Package transcript keeps what was said between a harness and its agent, as lines of JSON on disk: what late viewers, people and
// records read (R51; SPEC.md, Transcripts).
package transcript

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
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
	Seq       uint64         `json:"seq"` // from 1, without a gap within one transcript
	Time      time.Time      `json:"time"`
	Direction Direction      `json:"dir"`
	Frame     jsontext.Value `json:"frame"` // the message as it was but for redacted secrets and bytes that are no UTF-8
}
