package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/cli/kube"
)

const (
	// probeLimit bounds each single look.
	probeLimit = 5 * time.Second
	// maxAnswer bounds an answer of the API server that is read by hand; the CRDs hold a whole Pod template each.
	maxAnswer = 16 << 20
)

// Dial connects to a port of a Pod.
type Dial func(ctx context.Context, namespace, pod string, port int) (net.Conn, error)

// Cluster is what is looked at, with one person's rights.
type Cluster struct {
	client client.Client
	http   *http.Client
	base   *url.URL
	dial   Dial
}

// NewCluster is the cluster that a configuration names; dial is a port-forward.
func NewCluster(config *rest.Config, dial Dial) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1             // a few dozen small reads, at most a few at once
	config.Timeout = probeLimit // of each request
	config.WarningHandler = rest.NoWarnings{}
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: kube.Scheme, HTTPClient: h})
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return &Cluster{client: c, http: h, base: base, dial: dial}, nil
}

// get reads a path of the API server as it is. A refusal is the error that a client gives.
func (c *Cluster) get(ctx context.Context, path string, query url.Values) (body []byte, header http.Header, err error) {
	at := c.base.JoinPath(path)
	at.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", "application/json, */*")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, response.Header, err
	case len(body) > maxAnswer:
		return nil, response.Header, fmt.Errorf("%s has more than %d bytes", path, maxAnswer)
	case response.StatusCode != http.StatusOK:
		var status metav1.Status
		if json.Unmarshal(body, &status) != nil || status.Code == 0 {
			status = metav1.Status{Status: metav1.StatusFailure, Code: int32(response.StatusCode), //nolint:gosec // a status
				Reason: reasonOf(response.StatusCode), Message: response.Status}
		}
		return nil, response.Header, &apierrors.StatusError{ErrStatus: status}
	}
	return body, response.Header, nil
}

func reasonOf(code int) metav1.StatusReason {
	switch code {
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	default:
		return metav1.StatusReasonUnknown
	}
}

// read looks at one thing, within its time.
func read[T any](ctx context.Context, look func(context.Context) (T, error)) Read[T] {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	value, err := look(ctx)
	switch {
	case err == nil:
		return Got(value)
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return Read[T]{Absent: true}
	default:
		return Read[T]{Why: because(err)}
	}
}

// object reads one object of the cluster.
func object[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c *Cluster, namespace, name string) Read[T] {
	return read(ctx, func(ctx context.Context) (T, error) {
		var into T
		err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, P(&into))
		return into, err
	})
}
