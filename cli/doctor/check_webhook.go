package doctor

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// What config/webhook calls its objects.
const (
	webhookConfiguration = "hearth-admission"
	webhookService       = "hearth-webhook"
	webhookSecret        = "hearth-webhook-certificate" //nolint:gosec // a name
	kindMutating         = "MutatingWebhookConfiguration"
	kindValidating       = "ValidatingWebhookConfiguration"
)

// hooks are the webhooks that each configuration has.
var hooks = map[string][]string{
	kindMutating:   {"resolve.agentruns.hearth.dev"},
	kindValidating: {"guard.agentruns.hearth.dev", "guard.agents.hearth.dev"},
}

func (o Observed) webhooks() []Finding {
	var findings []Finding
	for _, c := range o.Webhooks {
		if c.Read.Why != "" {
			findings = append(findings, notChecked(c.Read.Why))
			continue
		}
		found := map[string]Hook{}
		for _, h := range c.Read.Value {
			found[h.Name] = h
		}
		for _, name := range hooks[c.Kind] {
			h, there := found[name]
			switch {
			case !there:
				findings = append(findings, fail(WebhookMissing, "%s %s has no webhook %s: runs are not admitted by anybody", c.Kind, webhookConfiguration, name).do("%s", o.again()))
			case !h.FailClosed:
				findings = append(findings, fail(WebhookOpen, "webhook %s lets everything through while no controller runs", name).saw("failurePolicy: Ignore").do("%s", o.again()))
			case len(h.Bundle) == 0:
				findings = append(findings, fail(WebhookNoBundle, "webhook %s has no caBundle", name).do("kubectl -n %s logs -l app.kubernetes.io/name=hearth --tail=50", o.System))
			}
		}
	}
	if len(findings) == 0 {
		return []Finding{ok("both webhook configurations are there, fail closed and have a caBundle")}
	}
	return findings
}

func (o Observed) certificate() []Finding {
	logs := "kubectl -n " + o.System + " logs -l app.kubernetes.io/name=hearth --tail=50"
	switch {
	case o.Certificate.Why != "":
		return []Finding{notChecked(o.Certificate.Why)}
	case o.Certificate.Absent || len(o.Certificate.Value) == 0:
		return []Finding{fail(CertificateMissing, "Secret %s/%s has no certificate", o.System, webhookSecret).
			do("%s", o.again()).do("%s", logs)}
	}
	certificate, err := parse(o.Certificate.Value)
	if err != nil {
		return []Finding{fail(CertificateMissing, "Secret %s/%s has a certificate that cannot be read", o.System, webhookSecret).saw("%v", err).
			do("kubectl -n %s delete pod -l app.kubernetes.io/name=hearth   # the controller makes another", o.System)}
	}
	if o.Now.After(certificate.NotAfter) {
		return []Finding{fail(CertificateExpired, "the webhooks' certificate ended on %s", certificate.NotAfter.UTC().Format(time.DateOnly)).do("%s", logs).
			do("kubectl -n %s delete pod -l app.kubernetes.io/name=hearth", o.System)}
	}
	vouched := false
	for _, c := range o.Webhooks {
		for _, h := range c.Read.Value {
			if len(h.Bundle) == 0 {
				continue
			}
			if err := vouches(h, certificate, o.Now); err != nil {
				return []Finding{fail(CertificateNotTrusted, "the caBundle of %s does not vouch for the certificate of Secret %s", h.Name, webhookSecret).saw("%v", err).
					do("%s", logs).do("kubectl -n %s delete pod -l app.kubernetes.io/name=hearth", o.System)}
			}
			vouched = true
		}
	}
	if !vouched {
		return []Finding{notChecked("no caBundle was seen to compare the certificate with")}
	}
	return []Finding{ok("the caBundles vouch for the webhooks' certificate, which is good until %s", certificate.NotAfter.UTC().Format(time.DateOnly))}
}

func parse(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("it is not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// vouches: the API server, which believes the bundle, believes the certificate under the Service's name.
func vouches(h Hook, certificate *x509.Certificate, now time.Time) error {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bytes.TrimSpace(h.Bundle)) {
		return errors.New("the caBundle has no certificate")
	}
	namespace, name, _ := strings.Cut(h.Service, "/")
	options := x509.VerifyOptions{Roots: roots, CurrentTime: now}
	if name != "" {
		options.DNSName = name + "." + namespace + ".svc"
	}
	_, err := certificate.Verify(options)
	return err
}

func (o Observed) endpoints() []Finding {
	switch {
	case o.Service.Why != "":
		return []Finding{notChecked(o.Service.Why)}
	case o.Service.Absent:
		return []Finding{fail(WebhookNoService, "there is no Service %s/%s, which the webhooks name", o.System, webhookService).
			do("%s", o.again())}
	case o.Slices.Why != "":
		return []Finding{notChecked(o.Slices.Why)}
	case o.Service.Value.Spec.ExternalName != "":
		return []Finding{notChecked("the Service is the name " + o.Service.Value.Spec.ExternalName + ", which has no endpoints")}
	}
	ready, others := 0, 0
	for _, slice := range o.Slices.Value {
		for _, e := range slice.Endpoints {
			if isReady(e) {
				ready++
			} else {
				others++
			}
		}
	}
	if ready == 0 {
		return []Finding{fail(WebhookNoEndpoints, "no ready Pod is behind Service %s/%s", o.System, webhookService).saw("%s that are not ready", count(others, "endpoint")).
			do("kubectl -n %s get endpointslices -l %s=%s", o.System, discoveryv1.LabelServiceName, webhookService).
			do("kubectl -n %s get pods --show-labels", o.System)}
	}
	return []Finding{ok("Service %s/%s has %s", o.System, webhookService, count(ready, "ready endpoint"))}
}

func isReady(e discoveryv1.Endpoint) bool { return ptr.Deref(e.Conditions.Ready, true) }

// admission is what a dry run of a create came to.
func (o Observed) admission() []Finding {
	switch a := o.Admission; a.Answer {
	case AdmissionAnswers:
		return []Finding{ok("a dry run of a run is answered by admission")}
	case AdmissionNotServed:
		return []Finding{fail(NamespaceNotServed, "admission refuses runs in namespace %s", o.Namespace).saw("%s", a.Words).
			do("kubectl apply --server-side -n %s -k config/namespaced/grant", o.Namespace)}
	case AdmissionLets:
		return []Finding{fail(AdmissionBypassed, "a dry run for an Agent that does not exist was let through: nobody admits runs of yours").
			do("kubectl get mutatingwebhookconfiguration,validatingwebhookconfiguration %s", webhookConfiguration).
			do("%s", o.again())}
	case AdmissionNotCalled:
		return []Finding{fail(AdmissionFails, "the API server cannot call admission").saw("%s", a.Words).
			do("kubectl -n %s get pods,endpointslices -l app.kubernetes.io/name=hearth", o.System)}
	case AdmissionNotReached, AdmissionNotPossible:
		return []Finding{notChecked(a.Words)}
	default:
		return []Finding{notChecked(a.Words)}
	}
}
