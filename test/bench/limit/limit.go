// Package limit prepares what the machine can do at most of what a delivered run needs of an API server: the same objects, with the same
// number of writes, by a client that knows beforehand what to write. They are of a CRD of their own, that no controller looks at, and
// created through a webhook that allows everything, and that takes their managedFields away as our admission does: with them each later
// write would be dearer than ours.
package limit

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/test/apiserver"
	"github.com/hearthdev/hearth/test/bench/bare"
)

const (
	// Group and APIVersion are those of the limit's objects.
	Group      = "limit.hearth.dev"
	APIVersion = Group + "/v1alpha1"

	crdFile   = "hearth.dev_agentruns.yaml"
	path      = "/limit"
	patience  = time.Minute
	tick      = 20 * time.Millisecond
	maxReview = 8 << 20
	// untold is the patch of each object, as our admission has it. One without managedFields would be refused, and be seen by that.
	untold = `[{"op": "remove", "path": "/metadata/managedFields"}]`
)

// Webhook is what the API server asks when an object of the limit is created.
type Webhook struct {
	server *http.Server
	calls  atomic.Int64
}

// Install makes the CRD, from that of AgentRuns in the repository at root, and returns when the API server calls a webhook of this process.
func Install(ctx context.Context, config *rest.Config, root string) (*Webhook, error) {
	api, err := bare.New(config)
	if err != nil {
		return nil, err
	}
	if err := installCRD(ctx, config, api, root); err != nil {
		return nil, fmt.Errorf("the limit's CRD: %w", err)
	}
	w := &Webhook{}
	if err := w.start(ctx, config, api); err != nil {
		w.Stop()
		return nil, fmt.Errorf("the limit's webhook: %w", err)
	}
	return w, nil
}

// Calls is how often it was asked: as often as an object was created, or what was measured is no limit of the same.
func (w *Webhook) Calls() int64 { return w.calls.Load() }

// Stop stops answering.
func (w *Webhook) Stop() {
	if w.server != nil {
		_ = w.server.Close()
	}
}

func installCRD(ctx context.Context, config *rest.Config, api *bare.Client, root string) error {
	text, err := os.ReadFile(filepath.Join(root, "config", "crd", crdFile))
	if err != nil {
		return err
	}
	ours, err := os.MkdirTemp("", "limit-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(ours) }()
	file := filepath.Join(ours, "crd.yaml")
	if err := os.WriteFile(file, renamed(text), 0o600); err != nil {
		return err
	}
	if err := apiserver.Apply(ctx, config, file); err != nil {
		return err
	}
	return until(ctx, func() error {
		_, err := api.Version(ctx, "/apis/"+APIVersion+"/agentruns")
		return err
	})
}

// renamed is the CRD of AgentRuns in the limit's group, and without the short names, which are taken. All else is the same: the API server
// does the same work for it.
func renamed(crd []byte) []byte {
	text := strings.NewReplacer("group: "+hearthv1.GroupVersion.Group, "group: "+Group, "name: agentruns."+hearthv1.GroupVersion.Group, "name: agentruns."+Group,
		"    shortNames:\n    - arun\n", "", "    categories:\n    - hearth\n", "").Replace(string(crd))
	return []byte(text)
}

// start answers the webhook, tells the API server where, and waits until that asks.
func (w *Webhook) start(ctx context.Context, config *rest.Config, api *bare.Client) error {
	authority, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(authority, key)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, w.allow)
	w.server = &http.Server{Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}, ReadHeaderTimeout: patience}
	go func() { _ = w.server.ServeTLS(listener, "", "") }() // ends with Close
	if err := register(ctx, config, "https://"+listener.Addr().String()+path, authority); err != nil {
		return err
	}
	trial := []byte(`{"apiVersion":"` + APIVersion + `","kind":"AgentRun","metadata":{"name":"trial"},"spec":{}}`)
	return until(ctx, func() error {
		_, err := api.Do(ctx, http.MethodPost, "/apis/"+APIVersion+"/namespaces/default/agentruns?dryRun=All", trial)
		if w.calls.Swap(0) == 0 {
			return errors.Join(errors.New("it is not called"), err)
		}
		return nil
	})
}

// allow reads no more of a question than its name.
func (w *Webhook) allow(rw http.ResponseWriter, r *http.Request) {
	var review struct{ Request struct{ UID string } }
	if err := json.NewDecoder(http.MaxBytesReader(rw, r.Body, maxReview)).Decode(&review); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	w.calls.Add(1)
	rw.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(rw, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true,"patchType":"JSONPatch","patch":%q}}`,
		review.Request.UID, base64.StdEncoding.EncodeToString([]byte(untold)))
}

func register(ctx context.Context, config *rest.Config, url string, authority []byte) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "limit"},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "limit.hearth.dev", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{Group}, APIVersions: []string{"v1alpha1"}, Resources: []string{"agentruns"}}}},
		}},
	}
	return c.Create(ctx, webhook)
}

// until waits until there is no error any more, and gives the last one when it has waited long enough.
func until(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-ticker.C:
		}
	}
}

// Writes are what the limit writes of a run.
type Writes struct {
	// Spec is that of a complete run. Reserved, Running and Ended are statuses in the order in which a controller writes them.
	Spec, Reserved, Running, Ended json.RawMessage
}

// Same makes sure that an object of the limit, as the API server gives it, has no more to it than one of ours.
func Same(object []byte) error {
	var stored struct {
		Metadata struct{ ManagedFields []json.RawMessage }
	}
	if err := json.Unmarshal(object, &stored); err != nil {
		return fmt.Errorf("an object of the limit: %w", err)
	}
	if len(stored.Metadata.ManagedFields) > 0 {
		return errors.New("an object of the limit: expected no managedFields, as ours have none: it costs more to write than ours")
	}
	return nil
}

// Of takes them from a run of ours that has ended, as the API server gives it: what a controller wrote last, and before that what was
// known of it by then.
func Of(run []byte) (Writes, error) {
	var stored struct {
		Spec   json.RawMessage
		Status hearthv1.AgentRunStatus
	}
	if err := json.Unmarshal(run, &stored); err != nil {
		return Writes{}, fmt.Errorf("a run to write again: %w", err)
	}
	if stored.Status.CompletionTime == nil || stored.Status.Delivery == nil || len(bytes.TrimSpace(stored.Spec)) == 0 {
		return Writes{}, errors.New("a run to write again: expected a delivered one that has ended")
	}
	w := Writes{Spec: stored.Spec}
	status := stored.Status
	var errs [3]error
	w.Ended, errs[0] = json.Marshal(status)
	status.CompletionTime, status.RecordedAt, status.DurationSeconds = nil, nil, nil
	status.Outcome, status.Reason, status.Message, status.Output, status.Usage = "", "", "", nil, nil
	status.Phase = hearthv1.PhaseRunning
	w.Running, errs[1] = json.Marshal(status)
	status.Phase, status.StartTime = hearthv1.PhasePending, nil
	w.Reserved, errs[2] = json.Marshal(status)
	return w, errors.Join(errs[:]...)
}
