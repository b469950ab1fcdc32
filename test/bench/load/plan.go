// Package load makes runs and watches how they end, in a process of its own: the calling program again, whose main begins with Asked and
// Main. The same plan with statuses of its own to write is the limit, which needs no controller.
package load

import (
	"encoding/json"
	"fmt"
	"time"
)

// Plan is what one process does.
type Plan struct {
	Kubeconfig string `json:"kubeconfig"`
	// APIVersion and Namespace are those of the AgentRuns.
	APIVersion string `json:"apiVersion"`
	Namespace  string `json:"namespace"`
	// Spec is that of each.
	Spec json.RawMessage `json:"spec"`
	// Agent is the one that the spec names.
	Agent string `json:"agent"`
	// Name is what their names begin with; a number follows.
	Name string `json:"name"`
	Runs int    `json:"runs"`
	// Workers make runs one after the other, as fast as they can; where Rate is set, a run begins every 1/Rate seconds, whatever became
	// of the ones before.
	Workers int     `json:"workers,omitempty"`
	Rate    float64 `json:"rate,omitempty"`
	// Statuses are written to each run one after the other once it was created. The last must have a completionTime.
	Statuses []json.RawMessage `json:"statuses,omitempty"`
	// Leave says that nobody waits for the end of the runs.
	Leave bool `json:"leave,omitempty"`
	// Limit bounds all of it.
	Limit time.Duration `json:"limit"`
}

// Run is what became of one, by this machine's clock. A time that is zero did not come.
type Run struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Sent is before the request that creates it, Created after its answer, Written after that of the last status of the plan.
	Sent    time.Time `json:"sent"`
	Created time.Time `json:"created,omitzero"`
	Written time.Time `json:"written,omitzero"`
	// Ended is when its record was seen by watching.
	Ended   time.Time `json:"ended,omitzero"`
	Phase   string    `json:"phase,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	Attempt int64     `json:"attempt,omitempty"`
	// Records is how often its record came to be; again is a defect.
	Records int `json:"records,omitempty"`
}

// Done is what the process did.
type Done struct {
	Runs []Run `json:"runs"`
	// CPU is the processor time of the process.
	CPU time.Duration `json:"cpu"`
}

// Wall is from the first request to the last record; of runs that were left, to the last answer.
func (d Done) Wall() time.Duration {
	var first, last time.Time
	for i, r := range d.Runs {
		if i == 0 || r.Sent.Before(first) {
			first = r.Sent
		}
		for _, t := range []time.Time{r.Created, r.Written, r.Ended} {
			if t.After(last) {
				last = t
			}
		}
	}
	return last.Sub(first)
}

// Check says what is wrong with what was done: a benchmark whose runs failed, were lost or ended twice has measured nothing.
func (p Plan) Check(d Done) error {
	if len(d.Runs) != p.Runs {
		return fmt.Errorf("expected %d runs, there are %d", p.Runs, len(d.Runs))
	}
	uids := map[string]string{}
	for _, r := range d.Runs {
		other, twice := uids[r.UID]
		uids[r.UID] = r.Name
		switch {
		case r.UID == "" || r.Created.IsZero():
			return fmt.Errorf("run %s was not created", r.Name)
		case twice:
			return fmt.Errorf("runs %s and %s have the same UID", other, r.Name)
		case p.Leave:
		case r.Ended.IsZero():
			return fmt.Errorf("run %s never ended", r.Name)
		case r.Phase != "Succeeded":
			return fmt.Errorf("run %s ended %s/%s", r.Name, r.Phase, r.Reason)
		case r.Attempt != 1:
			return fmt.Errorf("run %s needed %d attempts", r.Name, r.Attempt)
		case r.Records != 1:
			return fmt.Errorf("run %s has %d records", r.Name, r.Records)
		}
	}
	return nil
}
