package rig

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Effect is one prompt that the scripted agent really started: what may happen at most once.
type Effect struct {
	// RunUID and Attempt are whose it was, PodUID is where; Attempt is 0 and PodUID empty where no transcript tells it.
	RunUID  types.UID
	Attempt int64
	PodUID  types.UID
	Session string
	Goal    string
	At      time.Time
	// Ended is when the work was over, however; zero while it goes on. Cancelled tells that somebody asked for that.
	Ended     time.Time
	Cancelled bool
}

// line is what the scripted agent writes.
type line struct {
	PID       int       `json:"pid"`
	Session   string    `json:"session"`
	Prompt    int       `json:"prompt"` // its number in the session
	Goal      string    `json:"goal"`
	At        time.Time `json:"at"`
	Cancelled bool      `json:"cancelled"`
}

func (l line) key() string { return fmt.Sprintf("%s/%d", l.Session, l.Prompt) }

// lines reads a file of the scripted agent; an unfinished last line is left for the next time.
func lines(name string) ([]line, error) {
	text, err := os.ReadFile(name) //nolint:gosec // of the World
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("effects: %w", err)
	}
	var all []line
	for one := range strings.Lines(string(text)) {
		if !strings.HasSuffix(one, "\n") {
			break
		}
		var l line
		if err := json.Unmarshal([]byte(one), &l); err != nil {
			return nil, fmt.Errorf("effects: %w", err)
		}
		all = append(all, l)
	}
	return all, nil
}

var tokenInGoal = regexp.MustCompile(`\btoken[A-Z2-7]{26}\b`)

// Effects are those of all agents of the World, in the order in which they were started.
func (w *World) Effects() []Effect {
	w.t.Helper()
	effects, err := w.readEffects()
	require.NoError(w.t, err)
	return effects
}

// EffectsOf are the effects of one run.
func (w *World) EffectsOf(run *hearthv1.AgentRun) []Effect {
	w.t.Helper()
	return slices.DeleteFunc(w.Effects(), func(e Effect) bool { return e.RunUID != run.UID })
}

func (w *World) readEffects() ([]Effect, error) {
	ends, err := lines(w.ends)
	if err != nil {
		return nil, err
	}
	ended := map[string]line{}
	for _, l := range ends {
		ended[l.key()] = l
	}
	begun, err := lines(w.effects)
	if err != nil {
		return nil, err
	}
	told := w.transcripts()
	w.mu.Lock()
	defer w.mu.Unlock()
	var effects []Effect
	for _, l := range begun {
		e := Effect{Session: l.Session, Goal: l.Goal, At: l.At, RunUID: w.tokens[tokenInGoal.FindString(l.Goal)]}
		if h, ok := headerOf(told[l.Session], e.RunUID); ok {
			e.RunUID, e.Attempt, e.PodUID = h.Run.UID, h.Attempt, h.pod.UID
			e.Ended = h.pod.endOf(l.PID, l.At)
		}
		if end, ok := ended[l.key()]; ok {
			e.Ended, e.Cancelled = end.At, end.Cancelled
		}
		effects = append(effects, e)
	}
	return effects, nil
}

// header is what a transcript says of whose session it is.
type header struct {
	Session string `json:"session"`
	Run     struct {
		UID types.UID `json:"uid"`
	} `json:"run"`
	Attempt int64 `json:"attempt"`

	pod *Pod
}

// headerOf is the run's among those of one session, which a standing session may have many of.
func headerOf(all []header, run types.UID) (header, bool) {
	if i := slices.IndexFunc(all, func(h header) bool { return h.Run.UID == run }); i >= 0 {
		return all[i], true
	}
	if run != "" || len(all) == 0 {
		return header{}, false
	}
	return all[len(all)-1], true
}

// sessionOfAgent is the id that the scripted agent gave. A harness with several agents puts their numbers before it.
var sessionOfAgent = regexp.MustCompile(`s[0-9]+-[0-9a-z]+-[0-9]+$`)

// transcripts are the headers of all transcripts by session, those of lost data directories too.
func (w *World) transcripts() map[string][]header {
	found := map[string][]header{}
	for _, p := range w.node.all() {
		files, _ := filepath.Glob(filepath.Join(p.dir, "data*", "transcripts", "*")) // the pattern is valid
		for _, name := range files {
			if h, ok := readHeader(name); ok {
				h.pod = p
				session := sessionOfAgent.FindString(h.Session)
				found[session] = append(found[session], h)
			}
		}
	}
	return found
}

func readHeader(name string) (header, bool) {
	var h header
	file, err := os.Open(name) //nolint:gosec // of the World
	if err != nil {
		return h, false
	}
	defer func() { _ = file.Close() }()
	first, err := bufio.NewReader(file).ReadBytes('\n')
	if err != nil || json.Unmarshal(first, &h) != nil {
		return h, false
	}
	return h, h.Run.UID != ""
}
