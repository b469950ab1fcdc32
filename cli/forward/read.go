package forward

import (
	"context"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
)

// Get asks port 4000 of a Pod for a path, with whichever key the person may read. The body is to be closed.
func (k *Cluster) Get(ctx context.Context, p Pod, path string) (*http.Response, error) {
	key, _, err := k.Key(ctx, p.Agent, Watch)
	if apierrors.IsForbidden(err) {
		if better, _, failed := k.Key(ctx, p.Agent, Steer); failed == nil {
			key, err = better, nil
		}
	}
	if err != nil {
		return nil, k.Judge(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL("http", path), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(HeaderKey, key)
	client := k.Through(p)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key is for this Pod
	return client.Do(request)
}

// Log is what the agent container of a Pod printed, as kubectl logs shows it. It is to be closed.
func (k *Cluster) Log(ctx context.Context, p Pod) (io.ReadCloser, error) {
	all, err := kubernetes.NewForConfig(k.Config)
	if err != nil {
		return nil, err
	}
	log, err := all.CoreV1().Pods(k.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: hearthv1.AgentContainer}).Stream(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("Pod %s %w", p.Name, ErrGone) //nolint:staticcheck // a kind's name
	case apierrors.IsForbidden(err):
		return nil, Final{fmt.Errorf("no right to read the log of Pod %s: it takes get on pods/log in namespace %s, which the ClusterRole view has: %w", p.Name, k.Namespace, err)}
	}
	return log, err
}
