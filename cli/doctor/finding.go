package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// Status is what a check came to.
type Status string

// The statuses.
const (
	// StatusOK: it was looked at, and nothing is wrong.
	StatusOK Status = "ok"
	// StatusFail: a broken link.
	StatusFail Status = "FAIL"
	// StatusHint: something that may be meant, or may be the cause of what is wrong elsewhere.
	StatusHint Status = "hint"
	// StatusNotChecked: it could not be looked at; Because says why.
	StatusNotChecked Status = "not checked"
	// StatusSkipped: an earlier link is broken that it depends on.
	StatusSkipped Status = "skipped"
)

// Finding is what one check says. It holds no goal, no parameter, no output and no secret.
type Finding struct {
	// Check names the link of the chain.
	Check string `json:"check"`
	// About is the object, as kubectl would name it; empty for the whole cluster.
	About  string `json:"about,omitempty"`
	Status Status `json:"status"`
	// Code is one word for what is wrong or hinted at; docs/doctor.md has them all.
	Code Code `json:"code,omitempty"`
	// Says is the finding in a sentence, or why there is none.
	Says string `json:"says"`
	// Saw is what it was concluded from, in the words of kubelet, the API server or the Pod.
	Saw string `json:"saw,omitempty"`
	// Do are commands to copy, or what to change.
	Do []string `json:"do,omitempty"`
	// See is the section of the documentation.
	See string `json:"see,omitempty"`
}

// Exit codes of hearth doctor.
const (
	ExitOK     = 0 // nothing that was looked at is broken
	ExitBroken = 1 // at least one link is
	ExitBlind  = 2 // the API server, or the Agents and their runs, could not be looked at
)

// Report is all findings, in the order of the chain.
type Report struct {
	Namespace string    `json:"namespace"`
	Findings  []Finding `json:"findings"`
	// Blind tells that what everything else hangs on could not be looked at.
	Blind bool `json:"couldNotLook"`
	// Run is the test goal's run, with --deliver.
	Run *Delivered `json:"run,omitempty"`
}

// ExitCode is what the command ends with.
func (r *Report) ExitCode() int {
	for _, f := range r.Findings {
		if f.Status == StatusFail && f.Code != APIUnreachable {
			return ExitBroken
		}
	}
	if r.Blind {
		return ExitBlind
	}
	return ExitOK
}

// Count is how many findings have a status.
func (r *Report) Count(s Status) (n int) {
	for _, f := range r.Findings {
		if f.Status == s {
			n++
		}
	}
	return n
}

// first is the first broken link, in words: where an Agent is not ready because of one of its Pods, what the Pod lacks.
func (r *Report) first() string {
	for i, f := range r.Findings {
		if f.Status != StatusFail {
			continue
		}
		if f.Code == AgentNotReady || f.Code == StandingMissing {
			f = causeIn(r.Findings[i:])
		}
		return "the first broken link is " + strconv.Quote(f.Check) + ": " + f.Says
	}
	return ""
}

// causeIn is what is broken in the Pods of the Agent that the first finding is about; else the first finding.
func causeIn(findings []Finding) Finding {
	for _, f := range findings {
		if f.About != findings[0].About && !strings.HasPrefix(f.About, "run/") {
			break // another Agent's, or the whole's
		}
		if f.Status == StatusFail && f.About != findings[0].About {
			return f
		}
	}
	return findings[0]
}

func ok(format string, args ...any) Finding {
	return Finding{Status: StatusOK, Says: fmt.Sprintf(format, args...)}
}

func fail(code Code, format string, args ...any) Finding {
	return Finding{Status: StatusFail, Code: code, Says: fmt.Sprintf(format, args...), See: catalogue[code].See}
}

func hint(code Code, format string, args ...any) Finding {
	return Finding{Status: StatusHint, Code: code, Says: fmt.Sprintf(format, args...), See: catalogue[code].See}
}

func notChecked(because string) Finding {
	return Finding{Status: StatusNotChecked, Says: "because " + because}
}

func (f Finding) saw(format string, args ...any) Finding {
	f.Saw = oneLine(fmt.Sprintf(format, args...), maxSaw)
	return f
}

func (f Finding) do(format string, args ...any) Finding {
	f.Do = append(f.Do, fmt.Sprintf(format, args...))
	return f
}

func (f Finding) about(kind, name string) Finding {
	f.About = strings.ToLower(kind) + "/" + name
	return f
}
