package apiserver

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/controller/sandbox"
)

// ControllerUser is the controller's service account; GarbageCollector is the cluster's.
const (
	ControllerUser   = "system:serviceaccount:hearth-system:hearth-controller"
	GarbageCollector = "system:serviceaccount:kube-system:generic-garbage-collector"
)

// Scheme has the built-in types, ours, and Sandboxes.
func Scheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	require.NoError(t, sandbox.AddToScheme(scheme))
	return scheme
}

// Client is an uncached client of the administrator.
func (s *Server) Client(t testing.TB) client.Client {
	t.Helper()
	return s.clientOf(t, s.Admin(t))
}

// As is the configuration of a user, by impersonation, with no more rights than RBAC gives that user.
func (s *Server) As(t testing.TB, user string, groups ...string) *rest.Config {
	t.Helper()
	config := s.Admin(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// Controller is the configuration of the controller's service account, with the rights of config/rbac and no others.
func (s *Server) Controller(t testing.TB) *rest.Config {
	t.Helper()
	return s.As(t, ControllerUser, "system:serviceaccounts", "system:serviceaccounts:hearth-system")
}

// ClientAs is an uncached client of a user.
func (s *Server) ClientAs(t testing.TB, user string) client.Client {
	t.Helper()
	return s.clientOf(t, s.As(t, user))
}

func (s *Server) clientOf(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: Scheme(t)})
	require.NoError(t, err)
	return c
}

// Namespace makes a namespace of the test's own and returns its name.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	require.NoError(t, s.Client(t).Create(t.Context(), namespace))
	return namespace.Name
}

// ControllerClient is an uncached client of the controller's service account.
func (s *Server) ControllerClient(t testing.TB) client.Client {
	t.Helper()
	return s.clientOf(t, s.Controller(t))
}

// ClientAsGroup is an uncached client of a user with a group.
func (s *Server) ClientAsGroup(t testing.TB, user, group string) client.Client {
	t.Helper()
	return s.clientOf(t, s.As(t, user, group))
}
