package turn

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"strings"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
	"github.com/hearthdev/hearth/runtime/router"
)

const (
	keptText     = wire.MaxEnvelopeBytes // more cannot leave anyway
	keptHead     = 2 << 10               // of the last message, enough to recognise how it begins …
	keptTail     = 512                   // … and ends
	knownTools   = 1 << 16               // tool calls told apart by id
	messageBreak = "\n"
)

// collector gathers what the agent does in one turn. It is the session's sink, so it never blocks.
type collector struct {
	asksIn []string
	wants  MediaType
	lost   chan struct{} // has one token once a message was lost
	broke  chan struct{} // has one token once the budget is exceeded

	mu       sync.Mutex
	asked    questions
	text     strings.Builder
	size     int64
	sum      hash.Hash
	message  string // id of the message being said
	saying   bool   // the last thing the agent did was to say something
	head     string
	tail     string
	last     message
	activity bool
	meter    meter
	mode     string
	late     map[[sha256.Size]byte]bool // the tool calls of the turn before
	calls    map[[sha256.Size]byte]bool // digest of a tool call's id → failed
	tools    wire.Tools
	spans    *spans // nil: nobody is told
	warnings []string
}

func newCollector(asked questions, p profile, wants MediaType, limits Limits) *collector {
	c := &collector{
		asked: asked, asksIn: p.asksIn, wants: wants, lost: make(chan struct{}, 1), broke: make(chan struct{}, 1), meter: newMeter(limits),
		sum: sha256.New(), calls: map[[sha256.Size]byte]bool{},
	}
	c.asked.note = c.note
	return c
}

// trace makes tool calls spans of the turn's.
func (c *collector) trace(s *spans) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = s
}

// remember takes what is known of the session before the turn.
func (c *collector) remember(account Account, mode string, late map[[sha256.Size]byte]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meter.before, c.meter.account, c.late = account, account, late
	c.checkMode(mode)
}

// memorable is what is known of it after the turn.
func (c *collector) memorable() (account Account, mode string, calls map[[sha256.Size]byte]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.meter.account, c.mode, c.calls
}

// update is what is understood of a session/update; the rest is not looked at.
type update struct {
	SessionUpdate string         `json:"sessionUpdate"`
	Content       jsontext.Value `json:"content"`
	MessageID     string         `json:"messageId"`
	ToolCallID    string         `json:"toolCallId"`
	Status        string         `json:"status"`
	Kind          string         `json:"kind"`
	CurrentModeID string         `json:"currentModeId"`
	Used          int64          `json:"used"`
	Cost          *struct {
		Amount   jsontext.Value `json:"amount"`
		Currency string         `json:"currency"`
	} `json:"cost"`
	AccumulatedInput  int64 `json:"accumulatedInputTokens"` // of gooseUpdate only
	AccumulatedOutput int64 `json:"accumulatedOutputTokens"`
}

// Notified implements router.Sink.
func (c *collector) Notified(n router.Notification) {
	if n.Method != acp.ClientMethodSessionUpdate && n.Method != gooseUpdate {
		return
	}
	var p struct {
		Update update `json:"update"`
	}
	if err := json.Unmarshal(n.Params, &p, router.Lenient); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.warn("an update of the agent could not be understood")
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.Method == acp.ClientMethodSessionUpdate {
		c.take(p.Update)
	} else if p.Update.SessionUpdate == usageUpdate {
		c.meter.accumulated(p.Update.AccumulatedInput, p.Update.AccumulatedOutput)
	}
	if c.meter.over() != "" {
		signal(c.broke)
	}
}

const usageUpdate = "usage_update"

// signal leaves one token.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take counts one update. The echo of the goal and news about the session are no sign of a model call.
func (c *collector) take(u update) {
	switch u.SessionUpdate {
	case "user_message_chunk", "available_commands_update", "config_option_update", "session_info_update":
	case "current_mode_update":
		c.checkMode(u.CurrentModeID)
	case usageUpdate:
		news := c.meter.full(u.Used)
		c.activity = c.activity || news
		if u.Cost != nil && !c.meter.paid(u.Cost.Amount, u.Cost.Currency) {
			c.warn("the agent told of a cost that is no amount of money; it was not counted")
		}
	case "agent_message_chunk":
		c.say(u)
	case "tool_call":
		c.tool(u)
	case "tool_call_update":
		id := sha256.Sum256([]byte(u.ToolCallID))
		_, before := c.late[id]
		if _, now := c.calls[id]; now || !before { // not the last word of a call that the turn before made
			c.tool(u)
		}
	default: // a thought, a plan, or a kind that is newer than this code
		c.activity, c.saying = true, false
	}
}

func (c *collector) say(u update) {
	var content struct {
		Type string         `json:"type"`
		Text jsontext.Value `json:"text"`
	}
	raw := ""
	err := json.Unmarshal(u.Content, &content, router.Lenient)
	if err == nil {
		err = json.Unmarshal(content.Text, &raw, router.Lenient)
	}
	if err != nil || content.Type != "text" {
		c.warn("the agent said something that is not text; it is left out of the output")
		return
	}
	text := wire.CleanText(raw)
	if text == "" {
		return
	}
	c.activity = true
	if !c.saying || u.MessageID != c.message {
		if c.size > 0 && !strings.HasSuffix(c.tail, messageBreak) {
			c.write(messageBreak)
		}
		c.silent()
		c.saying, c.message = true, u.MessageID
	}
	c.write(text)
	if c.wants == JSON {
		c.last.add(raw, content.Text)
	}
	if room := keptHead - len(c.head); room > 0 {
		c.head += wire.CutText(text, room)
	}
	c.tail = lastOf(c.tail + lastOf(text))
}

// silent forgets the last message, so that the next one is all there is.
func (c *collector) silent() {
	c.saying, c.message, c.head, c.tail = false, "", "", ""
	c.last = message{}
}

// lastOf keeps the last bytes of a text, beginning at a whole rune.
func lastOf(text string) string {
	if over := len(text) - keptTail; over > 0 {
		return strings.ToValidUTF8(text[over:], "")
	}
	return text
}

func (c *collector) write(text string) {
	c.size += int64(len(text))
	_, _ = c.sum.Write([]byte(text))
	if room := keptText - c.text.Len(); room > 0 {
		c.text.WriteString(wire.CutText(text, room))
	}
}

func (c *collector) tool(u update) {
	c.activity, c.saying = true, false
	id := sha256.Sum256([]byte(u.ToolCallID)) // an id may be as long as a message
	failed, known := c.calls[id]
	if !known {
		if len(c.calls) >= knownTools {
			return
		}
		c.calls[id] = false
		c.tools.Calls++
		c.spans.called(id, u.Kind)
	}
	c.spans.went(id, u.Status)
	if u.Status == string(acp.ToolCallStatusFailed) && !failed {
		c.calls[id] = true
		c.tools.Failed++
	}
}

// checkMode warns when the agent does not ask for permission in this mode, so that the policy decides nothing.
func (c *collector) checkMode(mode string) {
	c.mode = mode
	if mode == "" || len(c.asksIn) == 0 {
		return
	}
	for _, m := range c.asksIn {
		if m == mode {
			return
		}
	}
	decided := fmt.Sprintf("the policy %s decided nothing", c.asked.policy)
	if c.asked.policy == Ask {
		decided = "nobody was asked"
	}
	c.warn(fmt.Sprintf("the agent's mode %.32q asks for no permission, so %s", wire.CleanText(mode), decided))
}

func (c *collector) warn(text string) {
	for _, w := range c.warnings {
		if w == text {
			return
		}
	}
	if len(c.warnings) < maxWarnings {
		c.warnings = append(c.warnings, wire.CutText(text, maxWarning))
	}
}

// Asked implements router.Sink: the policy answers at once, or people do when they have made up their mind; while the turn is
// being stopped every answer is "cancelled".
func (c *collector) Asked(r *router.Request) {
	c.mu.Lock()
	rest := c.asked.take(r)
	c.mu.Unlock()
	rest()
}

// Lost implements router.Sink.
func (c *collector) Lost(error) { signal(c.lost) }

// stop ends every permission question, open or still to come, as "cancelled".
func (c *collector) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked.stop()
}

// quiet is for how long the agent, which last wrote at that time, has kept to itself: while it waits for people it has not.
func (c *collector) quiet(heard, now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered, waits := c.asked.waiting()
	switch {
	case waits:
		return 0
	case answered.After(heard):
		return now.Sub(answered)
	}
	return now.Sub(heard)
}

// fill writes what was gathered into the envelope: all that was said or, where an answer was found in it, that.
func (c *collector) fill(e *wire.Envelope, answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.Tools = c.tools
	e.Warnings = append(e.Warnings, c.warnings...)
	e.Usage = c.meter.told()
	switch {
	case answer != "":
		e.Output = &wire.Output{MediaType: string(JSON), Value: answer}
		return
	case c.size == 0:
		return
	}
	value := fit(c.text.String(), outputRoom)
	e.Output = &wire.Output{MediaType: string(Text), Value: value}
	if int64(len(value)) < c.size {
		e.Truncation = wire.Whole(c.size, c.sum.Sum(nil))
	}
}

// fit cuts the text so that its JSON encoding has at most limit bytes.
func fit(text string, limit int) string {
	for {
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil || len(quoted) <= limit {
			return text
		}
		keep := int(float64(len(text)) * float64(limit) / float64(len(quoted)))
		text = wire.CutText(text, min(keep, len(text)-1))
	}
}
