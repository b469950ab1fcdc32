package doctor

import (
	"cmp"
	"strconv"
	"strings"
)

// The links of the chain.
const (
	linkAPI              = "api server"
	linkKinds            = "kinds"
	linkFields           = "crd fields"
	linkController       = "controller"
	linkLeader           = "leader"
	linkServed           = "namespace"
	linkWebhooks         = "webhooks"
	linkCertificate      = "certificate"
	linkEndpoints        = "webhook service"
	linkAdmission        = "admission"
	linkControllerRights = "its rights"
	linkYourRights       = "your rights"
	linkAgent            = "agent"
	linkShard            = "shard"
	linkTemplate         = "template"
	linkBackend          = "backend"
	linkReady            = "ready"
	linkStanding         = "standing"
	linkPolicy           = "policies"
	linkKeys             = "keys"
	linkPod              = "pod"
	linkLabels           = "labels"
	linkSecret           = "secret"
	linkListening        = "listening"
	linkChallenge        = "challenge"
	linkContact          = "contact"
	linkACP              = "acp"
	linkRuns             = "runs"
	linkDeliver          = "test run"
)

// order is the order of the links.
var order = []string{linkAPI, linkKinds, linkFields, linkController, linkLeader, linkServed, linkWebhooks, linkCertificate, linkEndpoints, linkAdmission,
	linkControllerRights, linkYourRights, linkAgent, linkShard, linkTemplate, linkBackend, linkReady, linkStanding, linkPolicy, linkKeys, linkPod, linkLabels,
	linkSecret, linkListening, linkChallenge, linkContact, linkACP, linkRuns, linkDeliver}

// link is one check: what it depends on, and what it says of what was observed.
type link struct {
	name  string
	needs []string
	look  func() []Finding
}

// walk collects findings, and knows which links are broken: of the whole, and of the object that is looked at.
type walk struct {
	findings []Finding
	broken   map[string]string // what is broken, or hangs on what is, and what that is
}

// Diagnose looks at what was observed. It is pure.
func Diagnose(o Observed) *Report {
	w := &walk{broken: map[string]string{}}
	w.chain("", o.system())
	r := &Report{Namespace: o.Namespace}
	for _, a := range o.Agents.Value {
		about := "agent/" + a.Name
		w.chain(about, o.ofAgent(a))
		for _, p := range a.Pods {
			w.inherit("run/"+p.Run.Name, about)
			w.chain("run/"+p.Run.Name, o.ofPod(a, p))
		}
	}
	w.chain("", []link{{linkRuns, []string{linkAPI, linkKinds}, o.runs}})
	r.Findings = w.findings
	r.Blind = o.API.Why != "" || o.Kinds.There() && (o.Agents.Why != "" || o.Runs.Why != "")
	return r
}

// chain looks at the links one after the other. One that depends on a broken one is skipped, and counts as broken for those after it.
func (w *walk) chain(about string, links []link) {
	for _, l := range links {
		if cause := w.cause(about, l.needs); cause != "" {
			w.mark(about, l.name, cause)
			w.add(l.name, about, Finding{Status: StatusSkipped, Says: "because " + strconv.Quote(cause) + " is broken"})
			continue
		}
		for _, f := range l.look() {
			if f.Status == StatusFail {
				w.mark(about, l.name, l.name)
			}
			w.add(l.name, about, f)
		}
	}
}

func (w *walk) add(check, about string, f Finding) {
	f.Check = check
	if f.About == "" {
		f.About = about
	}
	w.findings = append(w.findings, f)
}

// cause is the broken link that one of the needed ones is, or hangs on.
func (w *walk) cause(about string, needs []string) string {
	for _, need := range needs {
		if cause := cmp.Or(w.broken[need], w.broken[about+" "+need]); cause != "" {
			return cause
		}
	}
	return ""
}

func (w *walk) mark(about, name, cause string) {
	w.broken[strings.TrimSpace(about+" "+name)] = cause
}

// inherit makes what is broken of the one broken of the other.
func (w *walk) inherit(to, from string) {
	for _, name := range order {
		if cause := w.broken[from+" "+name]; cause != "" {
			w.mark(to, name, cause)
		}
	}
}

func itoa(n int32) string { return strconv.Itoa(int(n)) }
