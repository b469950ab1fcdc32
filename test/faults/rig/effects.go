package rig

import (
	"bufio"
	"encoding/json"
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
	// RunUID and Attempt are whose it was; Attempt is 0 where no transcript tells it any more.
	RunUID  types.UID
	Attempt int64
	Session string
	Goal    string
	At      time.Time
}

var tokenInGoal = regexp.MustCompile(`\btoken[A-Z2-7]{26}\b`)

// Effects are those of all agents of the World, in the order in which they were started.
func (w *World) Effects() []Effect {
	w.t.Helper()
	text, err := os.ReadFile(w.effects)
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(w.t, err)
	told := w.transcripts()
	w.mu.Lock()
	defer w.mu.Unlock()
	var effects []Effect
	for line := range strings.Lines(string(text)) {
		var e Effect
		require.NoError(w.t, json.Unmarshal([]byte(line), &e))
		if t, ok := told[e.Session]; ok {
			e.RunUID, e.Attempt = t.Run.UID, t.Attempt
		}
		if uid, ok := w.tokens[tokenInGoal.FindString(e.Goal)]; ok {
			e.RunUID = uid
		}
		effects = append(effects, e)
	}
	return effects
}

// EffectsOf are the effects of one run.
func (w *World) EffectsOf(run *hearthv1.AgentRun) []Effect {
	w.t.Helper()
	return slices.DeleteFunc(w.Effects(), func(e Effect) bool { return e.RunUID != run.UID })
}

// header is what a transcript says of whose session it is.
type header struct {
	Session string `json:"session"`
	Run     struct {
		UID types.UID `json:"uid"`
	} `json:"run"`
	Attempt int64 `json:"attempt"`
}

// transcripts are the headers of all transcripts, of lost directories too, by session.
func (w *World) transcripts() map[string]header {
	found := map[string]header{}
	files, _ := filepath.Glob(filepath.Join(w.dir, "*", "data*", "transcripts", "*")) // the pattern is valid
	for _, name := range files {
		if h, ok := readHeader(name); ok {
			found[h.Session] = h
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
	line, err := bufio.NewReader(file).ReadBytes('\n')
	if err != nil || json.Unmarshal(line, &h) != nil {
		return h, false
	}
	return h, h.Run.UID != ""
}
