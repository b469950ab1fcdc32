package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Options say where to look.
type Options struct {
	Namespace string
	// System is the controller's namespace.
	System string
	// Agent is the one to look at; empty for all of the namespace.
	Agent string
	// Version is this program's.
	Version string
	// Now is this machine's clock, for where the API server says no time.
	Now func() time.Time
}

// Gather looks at everything once. What cannot be read says so in its place.
func Gather(ctx context.Context, c *Cluster, o Options) Observed {
	seen := Observed{Namespace: o.Namespace, System: o.System, Wanted: o.Agent, CLI: o.Version, Now: o.Now(), Tails: map[string]string{}}
	c.server(ctx, &seen)
	if seen.API.Why != "" {
		return seen
	}
	c.schemas(ctx, &seen)
	c.system(ctx, &seen)
	c.webhooks(ctx, &seen)
	c.rights(ctx, &seen)
	if seen.Kinds.Why != "" || len(seen.Kinds.Value) > 0 {
		c.agents(ctx, &seen)
	}
	return seen
}

// server asks who is there, and what time it is.
func (c *Cluster) server(ctx context.Context, seen *Observed) {
	seen.API.Host = c.base.Scheme + "://" + c.base.Host
	answer := read(ctx, func(ctx context.Context) (http.Header, error) {
		body, header, err := c.get(ctx, "version", nil)
		var version struct{ Major, Minor, GitVersion string }
		if err == nil {
			err = json.Unmarshal(body, &version)
		}
		seen.API.Version = version.GitVersion
		seen.API.Major, _ = strconv.Atoi(version.Major)
		seen.API.Minor, _ = strconv.Atoi(strings.TrimRight(version.Minor, "+")) // as some providers have it
		return header, err
	})
	if seen.API.Why = answer.Why; answer.Absent {
		seen.API.Why = "it is no API server of Kubernetes: it has no /version"
	}
	if now, err := http.ParseTime(answer.Value.Get("Date")); err == nil {
		seen.Now = now
	}
}

// schemas are which kinds there are, and their fields.
func (c *Cluster) schemas(ctx context.Context, seen *Observed) {
	seen.Kinds = read(ctx, func(ctx context.Context) (names []string, err error) {
		body, _, err := c.get(ctx, "apis/"+hearthv1.GroupVersion.String(), nil)
		var found metav1.APIResourceList
		if err == nil {
			err = json.Unmarshal(body, &found)
		}
		for _, r := range found.APIResources {
			names = append(names, r.Name)
		}
		return names, err
	})
	seen.CRDs, seen.Fields = map[string]Read[CRD]{}, map[string]Read[Schema]{}
	var open Read[map[string]any] // what everybody may read, where the CRDs may not be
	for _, k := range kinds {
		stored := read(ctx, func(ctx context.Context) (crd map[string]any, err error) {
			body, _, err := c.get(ctx, "apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+k.resource+"."+group, nil)
			if err == nil {
				err = json.Unmarshal(body, &crd)
			}
			return crd, err
		})
		if stored.There() {
			seen.CRDs[k.resource], seen.Fields[k.kind] = Got(stateOf(stored.Value)), Got(schemaOf(stored.Value))
			continue
		}
		seen.CRDs[k.resource] = Read[CRD]{Absent: stored.Absent, Why: stored.Why}
		if open.Value == nil && open.Why == "" {
			open = read(ctx, func(ctx context.Context) (document map[string]any, err error) {
				body, _, err := c.get(ctx, "openapi/v3/apis/"+hearthv1.GroupVersion.String(), nil)
				if err == nil {
					err = json.Unmarshal(body, &document)
				}
				return document, err
			})
		}
		if open.Why != "" {
			seen.Fields[k.kind] = Read[Schema]{Why: open.Why}
			continue
		}
		seen.Fields[k.kind] = openSchema(open.Value, k.kind)
	}
}

func stateOf(crd map[string]any) CRD {
	var stored struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	text, _ := json.Marshal(crd)
	_ = json.Unmarshal(text, &stored) // what is not there is not established
	state := CRD{Says: "it has no conditions yet"}
	for _, c := range stored.Status.Conditions {
		if good := c.Type == "Established" || c.Type == "NamesAccepted"; good && c.Status != metav1.ConditionTrue || c.Type == "Terminating" && c.Status == metav1.ConditionTrue {
			return CRD{Says: c.Type + " is " + string(c.Status) + ": " + told(c.Reason, c.Message)}
		}
		state.Established = state.Established || c.Type == "Established"
	}
	return state
}

func schemaOf(crd map[string]any) Schema {
	versions, _ := below(crd, "spec")["versions"].([]any)
	for _, v := range versions {
		if version, isMap := v.(map[string]any); isMap && version["name"] == apiVersion {
			return below(below(version, "schema"), "openAPIV3Schema")
		}
	}
	return nil
}

// openSchema is a kind's schema in the document that the API server publishes.
func openSchema(document map[string]any, kind string) Read[Schema] {
	for _, s := range below(below(document, "components"), "schemas") {
		schema, _ := s.(map[string]any)
		kinds, _ := schema["x-kubernetes-group-version-kind"].([]any)
		if slices.ContainsFunc(kinds, func(k any) bool { is, _ := k.(map[string]any); return is["kind"] == kind && is["group"] == group }) {
			return Got(Schema(schema))
		}
	}
	return Read[Schema]{Why: "the API server publishes no schema of it"}
}

// system is the controller's Deployment and its lease.
func (c *Cluster) system(ctx context.Context, seen *Observed) {
	in := client.InNamespace(seen.System)
	seen.Deployments = read(ctx, func(ctx context.Context) ([]appsv1.Deployment, error) {
		var found appsv1.DeploymentList
		err := c.client.List(ctx, &found, in, client.MatchingLabels(ControllerLabels()))
		return found.Items, err
	})
	if len(seen.Deployments.Value) > 0 {
		selector, err := metav1.LabelSelectorAsSelector(seen.Deployments.Value[0].Spec.Selector)
		seen.SystemPods = read(ctx, func(ctx context.Context) ([]corev1.Pod, error) {
			var found corev1.PodList
			if err == nil {
				err = c.client.List(ctx, &found, in, client.MatchingLabelsSelector{Selector: selector}, client.Limit(maxPods))
			}
			return found.Items, err
		})
		for i := range seen.SystemPods.Value {
			p := &seen.SystemPods.Value[i]
			seen.Tails[p.Name] = c.tail(ctx, p)
		}
	}
	seen.Lease = object[coordinationv1.Lease](ctx, c, seen.System, leaseName)
	seen.Leases = read(ctx, func(ctx context.Context) ([]coordinationv1.Lease, error) {
		var found coordinationv1.LeaseList
		err := c.client.List(ctx, &found, in)
		return found.Items, err
	})
	seen.ControllerUser = "system:serviceaccount:" + seen.System + ":hearth-controller"
	if len(seen.Deployments.Value) > 0 {
		if account := seen.Deployments.Value[0].Spec.Template.Spec.ServiceAccountName; account != "" {
			seen.ControllerUser = "system:serviceaccount:" + seen.System + ":" + account
		}
	}
}

// webhooks are their configurations, their certificate and who serves them, and what a run would be answered.
func (c *Cluster) webhooks(ctx context.Context, seen *Observed) {
	mutating := object[admissionregistrationv1.MutatingWebhookConfiguration](ctx, c, "", webhookConfiguration)
	m := Webhooks{Kind: kindMutating, Read: Read[[]Hook]{Why: mutating.Why}}
	for _, w := range mutating.Value.Webhooks {
		m.Read.Value = append(m.Read.Value, hookOf(w.Name, w.FailurePolicy, w.ClientConfig))
	}
	validating := object[admissionregistrationv1.ValidatingWebhookConfiguration](ctx, c, "", webhookConfiguration)
	v := Webhooks{Kind: kindValidating, Read: Read[[]Hook]{Why: validating.Why}}
	for _, w := range validating.Value.Webhooks {
		v.Read.Value = append(v.Read.Value, hookOf(w.Name, w.FailurePolicy, w.ClientConfig))
	}
	seen.Webhooks = []Webhooks{m, v}
	secret := object[corev1.Secret](ctx, c, seen.System, webhookSecret)
	seen.Certificate = Read[[]byte]{Value: secret.Value.Data[corev1.TLSCertKey], Absent: secret.Absent, Why: secret.Why}
	seen.Service = object[corev1.Service](ctx, c, seen.System, webhookService)
	seen.Slices = read(ctx, func(ctx context.Context) ([]discoveryv1.EndpointSlice, error) {
		var found discoveryv1.EndpointSliceList
		err := c.client.List(ctx, &found, client.InNamespace(seen.System), client.MatchingLabels{discoveryv1.LabelServiceName: webhookService})
		return found.Items, err
	})
	seen.Admission = c.admission(ctx, seen.Namespace)
}

func hookOf(name string, policy *admissionregistrationv1.FailurePolicyType, at admissionregistrationv1.WebhookClientConfig) Hook {
	h := Hook{Name: name, Bundle: at.CABundle, FailClosed: ptr.Deref(policy, admissionregistrationv1.Fail) == admissionregistrationv1.Fail}
	if at.Service != nil {
		h.Service = at.Service.Namespace + "/" + at.Service.Name
	}
	return h
}

// admission asks for a run of an Agent that cannot be, which only admission refuses, and stores nothing.
func (c *Cluster) admission(ctx context.Context, namespace string) Admission {
	ctx, cancel := context.WithTimeout(ctx, 2*probeLimit) // the API server waits for a webhook as long as for us
	defer cancel()
	err := c.client.Create(ctx, &hearthv1.AgentRun{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "doctor-", Namespace: namespace},
		Spec:       hearthv1.AgentRunSpec{AgentRef: hearthv1.AgentRef{Name: noSuchAgent}},
	}, client.DryRunAll)
	return answered(err)
}

// noSuchAgent is longer than an Agent's name may be.
var noSuchAgent = "hearth-doctor-" + strings.Repeat("x", hearthv1.MaxAgentName)

// answered reads what a dry run came to.
func answered(err error) Admission {
	if err == nil {
		return Admission{Answer: AdmissionLets}
	}
	text := err.Error()
	var words = oneLine(text, maxSaw)
	switch {
	case strings.Contains(text, "["+string(hearthv1.RefusalNamespaceNotServed)+"]"):
		return Admission{AdmissionNotServed, words}
	case strings.Contains(text, "["+string(hearthv1.RefusalMissingAgent)+"]"):
		return Admission{AdmissionAnswers, words}
	case strings.Contains(text, "failed calling webhook"):
		return Admission{AdmissionNotCalled, words}
	case apierrors.IsForbidden(err) && strings.Contains(text, " cannot create "):
		return Admission{AdmissionNotPossible, because(err)}
	default:
		return Admission{AdmissionNotReached, "the dry run was refused by somebody else: " + words}
	}
}
