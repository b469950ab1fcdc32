package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/hearthdev/hearth/runtime/turn"
)

// Words of flags.
const (
	watchOnly, steer          = "WatchOnly", "Steer"
	freshSession, oneSession  = "Fresh", "Standing"
	plainText, jsonOutput     = string(turn.Text), string(turn.JSON)
	defaultAskTimeout         = 5 * time.Minute
	minAskTimeout             = time.Second
	maxAskTimeout             = 24 * time.Hour
	flagSteering, flagSession = "steering", "session"
	flagAsk, flagOutput       = "ask-timeout", "output"
)

// manners are what flags and environment say of people, and of what is theirs or a run's (SPEC.md, Permissions; Outcome).
type manners struct {
	askTimeout time.Duration // how long a permission question waits for people, with the policy Ask
	steering   string        // WatchOnly or Steer
	output     string        // the media type of what a goal is answered with
}

func (m *manners) flags(fs *pflag.FlagSet) {
	fs.DurationVar(&m.askTimeout, flagAsk, defaultAskTimeout, "how long a permission question waits for people where --permissions is Ask; then it is denied")
	fs.StringVar(&m.steering, flagSteering, watchOnly, "what the steer key may do with sessions of delivered runs: WatchOnly, or Steer to prompt and cancel them")
	fs.StringVar(&m.output, flagOutput, plainText, "what goals are answered with: "+plainText+", or "+jsonOutput+", which is asked for again once where it is none")
}

func (m *manners) check() (err error) {
	if m.askTimeout < minAskTimeout || m.askTimeout > maxAskTimeout {
		return fmt.Errorf("--%s (%s): expected a duration from %s to %s, got %s", flagAsk, variable(flagAsk), minAskTimeout, maxAskTimeout, m.askTimeout)
	}
	if m.steering, err = word(flagSteering, m.steering, watchOnly, steer); err != nil {
		return err
	}
	m.output, err = word(flagOutput, m.output, plainText, jsonOutput)
	return err
}

// word is one of a flag's words, which may be written in any case.
func word(flag, given string, words ...string) (string, error) {
	i := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, given) })
	if i < 0 {
		return "", fmt.Errorf("--%s (%s): expected %s, got %.32q", flag, variable(flag), strings.Join(words, " or "), given)
	}
	return words[i], nil
}
